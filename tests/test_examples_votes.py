"""The example of votes runs on the comments that it generates."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "votes.py"


def test_the_example_of_votes_beats_majority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = dict(line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert float(printed["with the classifier"]) > float(printed["majority"])
    assert (tmp_path / "votes.csv").read_text().startswith("subscribe,check,free,song,love\n")
