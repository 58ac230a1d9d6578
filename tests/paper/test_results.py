"""Our runs, read from their files: as they were written, or with the mistake named."""

import json
from pathlib import Path
from typing import Any

import pytest
from paper.made_up import RUN, run

from glws.errors import DataError
from glws.paper import read_results


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_runs_come_back_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, "b.json", run(seed=1))
    write(tmp_path, "a.json", {**RUN, "host": "left out"})
    write(tmp_path, "notes.txt", "not a run")
    assert read_results(tmp_path) == [RUN, run(seed=1)]


def test_fields_of_older_files_may_be_missing(tmp_path: Path) -> None:
    write(tmp_path, "a.json", {name: RUN[name] for name in RUN if name not in ("options", "device", "curve")})
    assert read_results(tmp_path) == [run(options={}, device="", curve=[])]


def test_times_beside_the_runs_are_no_run(tmp_path: Path) -> None:
    write(tmp_path, "runtime.json", {"machine": "", "rows": []})
    assert read_results(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"setting": ', "is no result of a run: Expecting value: line 1 column 13"),
        ("[1]", "must hold one JSON object, found list"),
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
def test_broken_file_is_named_with_its_mistake(tmp_path: Path, content: Any, message: str) -> None:
    write(tmp_path, "a.json", run())
    broken = write(tmp_path, "broken.json", content)
    with pytest.raises(DataError, match=r"^[^\n]*; run it again or remove the file$") as caught:
        read_results(tmp_path)
    assert str(caught.value).startswith(str(broken))
    assert message in str(caught.value)


def test_file_of_bytes_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"bytes\.json is no result of a run"):
        read_results(tmp_path)


def test_same_run_twice_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.json", run())
    write(tmp_path, "b.json", run(accuracy=0.5))
    with pytest.raises(DataError, match=r"b\.json and a\.json hold the same run; remove one of them"):
        read_results(tmp_path)


def test_runs_with_other_options_or_epochs_are_other_runs(tmp_path: Path) -> None:
    write(tmp_path, "a.json", run())
    write(tmp_path, "b.json", run(options={"m_step": "weak"}))
    write(tmp_path, "c.json", run(epochs=24))
    assert len(read_results(tmp_path)) == 3
    write(tmp_path, "d.json", run(options={"m_step": "weak"}, accuracy=0.5))
    with pytest.raises(DataError, match=r"d\.json and b\.json hold the same run"):
        read_results(tmp_path)


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is no folder of results"):
        read_results(tmp_path / "nowhere")
