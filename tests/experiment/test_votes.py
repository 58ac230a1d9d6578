"""Votes of a described table from doctor to report: sources and network are learned together."""

from pathlib import Path

import numpy as np
import pytest

from glws.cli import run

ABOUT = """
data: rows.csv
features: "x*"
classes: [ham, spam]
kind: votes
weak: {votes: "rule_*"}
label: truth
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four sources that vote on half of 400 rows each; the last one is a copy of the first."""
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 400)
    features = random.normal(size=(400, 2)) + 1.2 * truth[:, None]
    said = [np.where(random.random(400) < accuracy, truth, 1 - truth) for accuracy in (0.8, 0.7, 0.75)]
    said = [np.where(random.random(400) < 0.5, one, -1) for one in said]
    names = np.array(["ham", "spam", ""])
    columns = [*features.T.round(4).astype(str), *(names[one] for one in (*said, said[0])), names[truth]]
    lines = ["x1,x2,rule_a,rule_b,rule_c,rule_d,truth", *map(",".join, zip(*columns, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "rows.yaml").write_text(ABOUT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_votes_are_examined_trained_on_and_reported(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "rows.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "votes: 400 groups of 1 instance" in printed
    assert "rule_a, rule_d agree more often than independent sources would" in printed
    options = ["training.epochs=10", "training.device=cpu", "model.name=linear", "training.learning_rate=0.05"]
    assert run(["train", "--data", "rows.yaml", "--out", "trained", *options]) == 0
    page = (rows / "trained" / "report.html").read_text()
    assert "Sources" in page
    assert "Learned noise" in page
    assert "The sources are worth 3." in page
    assert page.index("accuracy of rule_a") < page.index("accuracy of rule_b")
    assert run(["label", "trained", "--out", "labels.csv"]) == 0
