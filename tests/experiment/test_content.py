"""What a report is fed: groups by the names of the user's file, examples, surprises, a picture, and back from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.small_run import CLASSES, train, write_table
from experiment.test_finished_run import by_row

from glws.data import Groups, WeakDataset
from glws.data.augment import views
from glws.experiment import ExperimentData, FinishedRun
from glws.experiment._content import ExplainedGroup, _command, _drawn, _number, _own_name, from_plain, to_plain
from glws.kinds import ClassCounts, PresentClasses, Proportions, Unlabeled
from glws.training import RunFolder

TEN = tuple(f"class-{number}" for number in range(10))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("content")
    table = write_table(folder)
    return train(folder / "run", "--data", str(table), "data.held_out=0.5"), table


def test_surprises_are_the_least_likely_held_out_groups_by_their_own_names(made: tuple[Path, Path]) -> None:
    folder, table = made
    content, columns = FinishedRun.open(folder).report(), FinishedRun.open(folder).label(table)
    likelihood = dict(zip(columns["group"].tolist(), columns["log_likelihood"].tolist(), strict=True))
    assert len(content.surprising) == 6  # half of twelve bags, all of three instances
    assert [one.log_likelihood for one in content.surprising] == sorted(
        one.log_likelihood for one in content.surprising
    )
    for one in content.surprising:
        assert one.log_likelihood == pytest.approx(likelihood[one.group], abs=1e-5)
        rows = sorted(columns["row"][columns["group"] == one.group].tolist())
        assert sorted(instance.name for instance in one.instances) == sorted(f"row {row}" for row in rows)
        assert one.known.endswith("of class malignant")


def test_examples_show_what_the_file_holds(made: tuple[Path, Path]) -> None:
    folder, table = made
    content = FinishedRun.open(folder).report()
    lines = (table.parent / "bags.csv").read_text().splitlines()[1:]
    used = FinishedRun.open(folder)
    probs, posterior = (by_row(columns, CLASSES) for columns in (used.predict(table), used.label(table)))
    assert content.examples
    for example in content.examples:
        row = int(example.instance.name.removeprefix("row "))
        bag, first, second, count, truth = lines[row].split(",")
        assert example.known == f"{bag}: exactly {count} of class malignant"
        assert example.instance.label == CLASSES.index(truth)
        assert example.instance.features == pytest.approx({"f1": float(first), "f2": float(second)}, abs=1e-4)
        assert example.instance.prediction == pytest.approx(probs[row], abs=1e-5)
        assert example.instance.posterior == pytest.approx(posterior[row], abs=1e-5)


def test_scores_are_those_of_the_result(made: tuple[Path, Path]) -> None:
    run = RunFolder.open(made[0])
    content, result = FinishedRun.open(made[0]).report(), run.result()
    assert content.scores is not None
    assert content.scores["accuracy"] == result["accuracy"]
    assert "best_on_test" not in content.scores
    assert content.weak_scores == result["held_out"]
    assert content.confusion is not None
    assert content.confusion.trace() / content.confusion.sum() == pytest.approx(result["accuracy"])
    assert content.learned_from == "6 bags (0 labeled rows)"
    assert len(content.metrics) == len(run.rows())


def test_a_group_is_found_among_all() -> None:
    groups = Groups.of([[3, 1], [0], [1, 3], [3, 1, 2], [2, 0]])
    data = WeakDataset(torch.zeros(4, 1), groups, Proportions.of([1, 0, 1, 2, 0]))
    nothing = torch.zeros(0)
    for number in range(5):
        members = groups.indices[groups.offsets[number] : groups.offsets[number + 1]]
        assert _number(data, ExplainedGroup(0, members, 0.0, nothing, nothing, "")) == number


def test_small_automata_are_drawn_whole_and_large_ones_in_part() -> None:
    def drawn(weak: Any, length: int, classes: tuple[str, ...]) -> tuple[str | None, str]:
        return _drawn(WeakDataset(torch.zeros(length, 1), [list(range(length))], weak), 0, classes)

    picture, of = drawn(Proportions.of([2]), 3, CLASSES)
    assert picture is not None
    assert of == "exactly 2 of class malignant"
    counts = [[1, 1, 1, 3, 1, 1, 0, 1, 1, 1]]
    picture, of = drawn(ClassCounts.of(counts), 11, TEN)
    assert picture is not None
    assert of.startswith("exactly 3 of class class-3, one part of exactly 1 × class-0, 1 × class-1")
    picture, of = drawn(PresentClasses.of([[1] * 10]), 12, TEN)
    assert picture is not None
    assert of.startswith("at least one of class class-0, one part of")
    assert drawn(Unlabeled.of([0.3]), 4, CLASSES) == (None, "")


def test_the_command_is_shown_without_its_folder() -> None:
    assert _command([]) == ""
    assert _command(["/a/b/site-packages/glws/__main__.py", "train"]) == "python -m glws train"
    assert _command(["/a/b/glws", "train", "model.hidden=[3, 4]"]) == "glws train 'model.hidden=[3, 4]'"


def test_plain_values_come_back_as_they_were() -> None:
    value = {"an array": np.arange(6, dtype=np.float32).reshape(2, 3), "a": (1, "two", None), "b": {"c": float("-inf")}}
    back = from_plain(json.loads(json.dumps(to_plain(value))))
    assert back["a"] == value["a"]
    assert back["b"] == value["b"]
    assert back["an array"].dtype == np.float32
    assert (back["an array"] == value["an array"]).all()


def test_held_out_instances_of_an_unlabeled_set_are_called_part_of_it() -> None:
    sets = [Groups.of([[0, 1, 2, 3], [4, 5, 6, 7]])]
    whole = WeakDataset(torch.zeros(8, 1), sets, [Unlabeled.of([0.5, 0.5])])
    data = ExperimentData(whole, whole, ("a", "b"), views("tables"), (1,), group_names=(np.array(["north", "south"]),))
    nothing = torch.zeros(2, 2)

    def called(*members: int) -> str:
        return _own_name(data, ExplainedGroup(0, torch.tensor(members), 0.0, nothing, nothing, ""))

    assert called(4, 5, 6, 7) == "south"
    assert called(5, 6) == "part of south"
    assert called(2, 5) == "part of north and others"
