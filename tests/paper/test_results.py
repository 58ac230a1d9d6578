"""Our runs, read from their file: as they were stored, or with the mistake named."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from paper.made_up import RUN, run

from glws.errors import DataError
from reproduction import read_results
from reproduction.results import RUNS, find_run, read_choices, run_names, store_run

CHOICE = {**{name: RUN[name] for name in ("setting", "dataset", "cell", "method", "seed", "epochs")}}
CHOICE["held_out_log_likelihood"] = -1.5


def write(folder: Path, *contents: Any) -> Path:
    path = folder / RUNS
    lines = [content if isinstance(content, str) else json.dumps(content) for content in contents]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_runs_come_back_by_name_however_they_were_stored(tmp_path: Path) -> None:
    store_run(tmp_path, "b", run(seed=1))
    store_run(tmp_path, "a", {**RUN, "host": "left out"})
    assert read_results(tmp_path) == [RUN, run(seed=1)]
    assert run_names(tmp_path) == {"a", "b"}
    assert find_run(tmp_path, "b") == {"name": "b", **run(seed=1)}
    assert find_run(tmp_path, "c") is None


def test_a_run_that_is_stored_again_replaces_the_old_one(tmp_path: Path) -> None:
    for accuracy in (0.5, 0.75):
        store_run(tmp_path, "a", run(accuracy=accuracy))
    assert [record["accuracy"] for record in read_results(tmp_path)] == [0.75]


def test_processes_that_store_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")

    def store_many(first: int) -> None:
        for seed in range(first, first + 10):
            store_run(tmp_path, f"seed{seed:02d}", run(seed=seed))

    processes = [context.Process(target=store_many, args=(10 * number,)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [record["seed"] for record in read_results(tmp_path)] == list(range(30))


def test_runs_that_held_groups_out_are_apart(tmp_path: Path) -> None:
    store_run(tmp_path, "a", run())
    store_run(tmp_path, "b", CHOICE)
    assert read_results(tmp_path) == [RUN]
    (choice,) = read_choices(tmp_path)
    assert choice["held_out_log_likelihood"] == -1.5


def test_fields_of_older_runs_may_be_missing(tmp_path: Path) -> None:
    write(tmp_path, {name: RUN[name] for name in RUN if name not in ("options", "device", "curve")})
    assert read_results(tmp_path) == [run(options={}, device="", curve=[])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"setting": ', "it is no JSON: Expecting value: line 1 column 13"),
        ("[1]", "expected a JSON object, found list"),
        ({**RUN, "seed": 1.5}, "'seed' must be a whole number of at least 0, found 1.5"),
        ({**RUN, "epochs": True}, "'epochs' must be a whole number of at least 0, found True"),
        ({**RUN, "accuracy": 97.5}, "'accuracy' must be a number from 0 to 1, found 97.5"),
        ({**RUN, "best_on_test": None}, "'best_on_test' must be a number from 0 to 1, found None"),
        ({**RUN, "balanced_accuracy": float("nan")}, "'balanced_accuracy' must be a number from 0 to 1, found nan"),
        ({**RUN, "seconds": -1}, "'seconds' must be a number of at least 0, found -1"),
        ({**RUN, "method": 3}, "'method' must be a word, found 3"),
        ({**RUN, "options": "m_step=weak"}, "'options' must be an object of options, found 'm_step=weak'"),
        ({**RUN, "curve": [0.5, 50.0]}, "'curve' must be a list of numbers from 0 to 1, found [0.5, 50.0]"),
        ({**RUN, "device": None}, "'device' must be a word, found None"),
        ({name: RUN[name] for name in RUN if name != "cell"}, "the field 'cell' is missing"),
    ],
)
def test_a_broken_line_is_named_with_its_mistake(tmp_path: Path, content: Any, message: str) -> None:
    path = write(tmp_path, run(seed=7), content)
    with pytest.raises(DataError, match=r"^[^\n]*; remove the line, and run it again$") as caught:
        read_results(tmp_path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert message in str(caught.value)


def test_a_file_of_bytes_is_named(tmp_path: Path) -> None:
    (tmp_path / RUNS).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"runs\.jsonl cannot be read"):
        read_results(tmp_path)


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, run(), run(accuracy=0.5))
    with pytest.raises(DataError, match=r"runs\.jsonl, line 2: line 1 holds the same run; remove one of them"):
        read_results(tmp_path)


def test_runs_with_other_options_or_epochs_are_other_runs(tmp_path: Path) -> None:
    records = [run(), run(options={"m_step": "weak"}), run(epochs=24)]
    write(tmp_path, *records)
    assert len(read_results(tmp_path)) == 3
    write(tmp_path, *records, run(options={"m_step": "weak"}, accuracy=0.5))
    with pytest.raises(DataError, match="line 4: line 2 holds the same run"):
        read_results(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is no folder of results"):
        read_results(tmp_path / "nowhere")
