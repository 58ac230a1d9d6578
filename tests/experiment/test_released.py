"""R19: runs and configurations of the released format still load. The fixture was written by glws 0.1.0."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from glws.cli import run

RELEASED = Path(__file__).parent.parent / "fixtures" / "released"


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the released run, its table, its configuration, and what was written from it then."""
    shutil.copytree(RELEASED, tmp_path / "released")
    monkeypatch.chdir(tmp_path / "released")
    return tmp_path / "released"


def same_table(first: Path, second: Path) -> bool:
    """Whether the first table has the columns of the second: equal words, and numbers equal up to float32."""
    tables = [list(csv.DictReader(path.read_text().splitlines())) for path in (first, second)]
    return len(tables[0]) == len(tables[1]) and all(
        one.keys() >= other.keys() and all(_alike(one[name], other[name]) for name in other)
        for one, other in zip(*tables, strict=True)
    )


def _alike(one: str, other: str) -> bool:
    if "." not in one:
        return one == other
    return float(one) == pytest.approx(float(other), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("command", ["label", "predict"])
def test_a_released_run_answers_as_it_did(
    command: str, released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "now.csv"
    assert run([command, "run", "--out", str(out)]) == 0
    assert same_table(out, released / ("labels.csv" if command == "label" else "predictions.csv"))
    assert capsys.readouterr().err == ""


def test_a_released_run_has_a_report(released: Path) -> None:
    assert run(["report", "run"]) == 0
    assert "75.0" in (released / "run" / "report.html").read_text()


def test_a_released_run_that_was_cut_off_goes_on(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("result.json", "content.json"):
        (released / "run" / name).unlink()
    assert run(["train", "--resume", "run"]) == 0
    told = capsys.readouterr()
    assert "was begun without a hash of its data" in told.err
    assert "test accuracy 75.0% (balanced 75.0%) on 8 instances" in told.out


def test_a_released_configuration_trains_and_the_new_name_is_said(
    released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "config.yaml", "--out", "again"]) == 0
    assert "`data.standardise` is now called `data.standardize`" in capsys.readouterr().err
    assert (released / "again" / "report.html").is_file()
