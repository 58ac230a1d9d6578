"""The data of a job: read, scaled, split, with names as the user's file has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glws.data import ShardInstances, scaled
from glws.errors import ConfigError, DataError
from glws.experiment import DataConfig, ExperimentData, experiment_data
from glws.experiment._data import own_part
from glws.training import World

DESCRIPTION = """
data: {name}
features: [a, b, c]
classes: [down, up]
group: bag
kind: proportions
weak: {{count: n}}
label: side
"""


def columns(num_bags: int = 20, seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    bags = np.repeat(np.arange(num_bags), draw.integers(1, 6, num_bags))
    a, b = draw.normal(3, 2, len(bags)), draw.normal(size=len(bags))
    up = a > 3
    counts = np.bincount(bags, up).astype(int)
    return {"bag": bags, "a": a, "b": b, "c": np.full(len(bags), 7.0), "n": counts[bags],
            "side": np.where(up, "up", "down")}  # fmt: skip


def table(folder: Path, name: str = "bags.csv", **options: Any) -> str:
    """A table on disk, by the path of its description."""
    content = columns(**options)
    if name.endswith(".csv"):
        rows = zip(*content.values(), strict=True)
        (folder / name).write_text("\n".join([",".join(content), *(",".join(map(str, row)) for row in rows)]) + "\n")
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table(content), folder / name, row_group_size=7)
    path = folder / f"{name}.yaml"
    path.write_text(DESCRIPTION.format(name=name))
    return str(path)


def from_table(path: str, **options: Any) -> DataConfig:
    return DataConfig(table=path, source=None, **options)


def features(data: ExperimentData) -> torch.Tensor:
    return data.whole.instances.take(torch.arange(len(data.whole.instances)))


def test_features_are_standardized_and_a_constant_one_is_centered(tmp_path: Path) -> None:
    data = experiment_data(from_table(table(tmp_path)), seed=0)
    raw = np.column_stack([columns()[name] for name in "abc"])
    assert data.scaling is not None
    expected = (raw - raw.mean(0)) / np.where(raw.std(0) > 0, raw.std(0), 1)
    assert np.allclose(features(data).numpy(), expected, atol=1e-5)
    plain = experiment_data(from_table(table(tmp_path), standardize=False), seed=0)
    assert plain.scaling is None
    assert np.allclose(features(plain).numpy(), raw)


def test_the_scaling_of_an_earlier_run_is_kept(tmp_path: Path) -> None:
    first = experiment_data(from_table(table(tmp_path)), 0)
    second = experiment_data(from_table(table(tmp_path, "other.csv", seed=1)), 0, first.scaling)
    assert second.scaling is first.scaling
    assert abs(float(features(second)[:, 0].mean())) > 1e-3
    with pytest.raises(DataError, match=r"^the network was trained on 3 features, found 2$"):
        scaled(np.zeros((4, 2)), first.scaling or {})


def test_groups_are_held_out_and_their_labeled_instances_tested_on(tmp_path: Path) -> None:
    data = experiment_data(from_table(table(tmp_path), held_out=0.3), seed=0)
    assert data.held_out is not None
    assert data.test is not None
    assert data.labels is not None
    assert (len(data.train), len(data.held_out), len(data.whole)) == (14, 6, 20)
    members = data.held_out.groups[0].indices.unique()
    assert torch.equal(data.test.labels, data.labels[members])
    assert torch.equal(data.test.instances.take(torch.arange(len(members))), data.whole.instances.take(members))
    assert not set(members.tolist()) & set(data.train.groups[0].indices.tolist())
    assert experiment_data(from_table(table(tmp_path), held_out=0.0), seed=0).held_out is None


def test_a_table_to_test_on_is_scaled_like_the_other_and_has_the_same_classes(tmp_path: Path) -> None:
    test = table(tmp_path, "test.csv", seed=2)
    data = experiment_data(from_table(table(tmp_path), test=test), seed=0)
    assert data.test is not None
    assert data.scaling is not None
    raw = torch.tensor(np.column_stack([columns(seed=2)[name] for name in "abc"]))
    assert torch.equal(data.test.instances.take(torch.arange(len(raw))), scaled(raw, data.scaling))
    Path(test).write_text(Path(test).read_text().replace("label: side", ""))
    with pytest.raises(DataError, match="a table to test on needs a column of true labels"):
        experiment_data(from_table(table(tmp_path), test=test), seed=0)


def test_names_are_those_of_the_file(tmp_path: Path) -> None:
    data = experiment_data(from_table(table(tmp_path)), seed=0)
    assert data.classes == ("down", "up")
    assert data.feature_names == ("a", "b", "c")
    assert data.group_names[0].tolist() == [str(number) for number in range(20)]
    assert data.row_numbers[0] == 2  # the line in the file
    assert data.input_shape == (3,)


def test_a_source_is_weakened_by_its_seed_and_tested_on_its_own_test_part() -> None:
    config = DataConfig(options={"num_bags": 30})
    first, second, third = (experiment_data(config, seed) for seed in (0, 0, 1))
    groups = [data.whole.groups[0].indices for data in (first, second, third)]
    assert torch.equal(groups[0], groups[1])
    assert not torch.equal(groups[0][:50], groups[2][:50])
    assert first.test is not None
    assert len(first.test.labels) == 355
    assert (len(first.train), len(first.whole)) == (27, 30)


POSITIVES = """
data: known.csv
features: [a]
classes: [genuine, fraud]
blocks:
  - {kind: labels, weak: {label: known}, missing: skip}
  - {kind: unlabeled, group: set, weak: {prior: share}, missing: skip}
"""


def positives(folder: Path, number: int = 40, unlabeled: int = 400) -> str:
    """A table of positives and one unlabeled set, by the path of its description."""
    values = np.random.default_rng(0).normal(size=number + unlabeled)
    rows = [f"{value:.4f},fraud,," for value in values[:number]]
    rows += [f"{value:.4f},,heap,0.3" for value in values[number:]]
    (folder / "known.csv").write_text("\n".join(["a,known,set,share", *rows]) + "\n")
    (folder / "known.yaml").write_text(POSITIVES)
    return str(folder / "known.yaml")


def test_whatever_the_seed_the_only_unlabeled_set_is_trained_on(tmp_path: Path) -> None:
    path = positives(tmp_path)
    for seed in range(100):
        data = experiment_data(from_table(path), seed)
        assert data.held_out is not None
        assert ([len(part) for part in data.train.groups], data.train.groups[1].lengths.tolist()) == ([36, 1], [360])
        assert data.held_out.groups[1].lengths.tolist() == [40]


def test_the_only_bag_of_a_table_is_trained_on_and_a_note_says_so(tmp_path: Path) -> None:
    data = experiment_data(from_table(table(tmp_path, num_bags=1)), seed=0)
    assert (len(data.train), data.held_out) == (1, None)
    assert data.notes == ("no held-out part for 1 bag: too few to split",)


@pytest.mark.parametrize(("options", "found"), [({"table": "x"}, "both"), ({"source": None}, "neither")])
def test_data_are_a_table_or_a_source(options: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=rf"^`data` must name a table or a source\. Got {found}\.$"):
        experiment_data(DataConfig(**options), 0)


def spread(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[ExperimentData, list[ExperimentData]]:
    """All of it, and what each of three processes has of it; sums over processes are made by hand."""
    path = table(folder, "bags.parquet")
    whole = experiment_data(from_table(path, **options), 0)
    monkeypatch.setattr(World, "summed", lambda self, own: own)
    return whole, [experiment_data(from_table(path, **options), 0, whole.scaling, World(rank, 3)) for rank in range(3)]


def test_each_of_several_processes_has_its_part_and_the_same_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = spread(tmp_path, monkeypatch, held_out=0.3)
    assert whole.held_out is not None
    assert whole.test is not None
    values, tested = [], []
    for part in parts:
        instances = part.whole.instances
        assert isinstance(instances, ShardInstances)
        assert part.held_out is not None
        assert part.test is not None
        assert isinstance(part.test.instances, ShardInstances)
        assert torch.equal(part.held_out.groups[0].indices, whole.held_out.groups[0].indices)
        assert torch.equal(part.test.labels, whole.test.labels)
        values.append(instances.values)
        tested.append(part.test.instances.values)
    assert torch.equal(torch.cat(values), features(whole))
    assert torch.equal(torch.cat(tested), whole.test.instances.take(torch.arange(len(whole.test.labels))))
    assert parts[0].bounds == parts[2].bounds
    assert whole.bounds is None


@pytest.mark.parametrize("held_out", [0.3, 0.0])
def test_a_report_shows_what_the_first_process_has(
    held_out: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = spread(tmp_path, monkeypatch, held_out=held_out)
    shown = whole.held_out or whole.train
    total = 0
    for part in parts:
        mine = own_part(part)
        assert mine.held_out is not None
        members = mine.held_out.groups[0].indices
        assert len(part.whole.instances.take(members)) == len(members)
        assert mine.train is part.train
        total += len(mine.held_out)
    assert total == len(shown)  # no bag is cut, so each is shown by somebody
    assert own_part(whole) is whole


def test_where_parts_cannot_be_had_a_note_says_so(tmp_path: Path) -> None:
    data = experiment_data(from_table(table(tmp_path)), 0, None, World(0, 2))
    assert len(data.notes) == 1
    assert "every process reads all of it" in data.notes[0]
    assert data.bounds is None
