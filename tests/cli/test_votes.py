"""`glws votes`: a ranking on the terminal, labels in a file, mistakes in one line."""

import csv
from pathlib import Path

import numpy as np
import pytest

from glws.cli import run


def long_table(path: Path) -> np.ndarray:
    """Six sources, the last one a joker, on 120 items; the true classes."""
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 120)
    rows = ["question,worker,answer"]
    for source, accuracy in enumerate([0.9, 0.8, 0.85, 0.75, 0.8, 0.1]):
        said = np.where(random.random(120) < accuracy, truth, 1 - truth)
        rows += [f"q{item},w{source},{'yes' if vote else 'no'}" for item, vote in enumerate(said)]
    path.write_text("\n".join(rows) + "\n")
    return truth


def test_a_long_table_becomes_labels_and_a_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    truth = long_table(Path("answers.csv"))
    assert run(["votes", "answers.csv", "--out", "labels.csv", "--ask", "2"]) == 0
    printed = capsys.readouterr().out
    assert "answers.csv: 720 votes of 6 sources on 120 items, 2 classes" in printed
    assert "log-likelihood of a held-out vote: " in printed
    assert printed.index(" w0 ") < printed.index(" w3 ") < printed.index(" w5 ")
    assert "warning: 1 source worse than chance, read as evidence against what they say: w5" in printed
    assert "ask about next: q" in printed
    with open("labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["item", "label", "p(no)", "p(yes)", "votes", "entropy", "information_gain"]
    assert np.mean([(row["label"] == "yes") == truth[int(row["item"][1:])] for row in rows]) > 0.95


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long_table(tmp_path / "answers.csv")
    for arguments, message in (
        (["none.csv"], "there is no such file"),
        ([str(tmp_path / "answers.csv"), "--out", "labels.txt"], "--out must end in .parquet or .csv"),
        ([str(tmp_path / "answers.csv"), "--item", "quest"], "there is no column 'quest'"),
    ):
        assert run(["votes", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
