"""`glws train`: what it prints, what it leaves, and what does not depend on what is installed."""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from cli.small_run import QUICK, train, write_table

from glws.cli import run
from glws.training import RunFolder

pytestmark = pytest.mark.slow
NAMES = ("test", "matched")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return write_table(tmp_path).name


def test_it_says_what_it_learned_from_how_well_and_where_the_report_is(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "--data", table, *QUICK]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "training on 11 bags (0 labeled rows); 1 group held out; 2 classes"
    assert lines[1] == "GLWS trains Linear (6 weights) on cpu for 2 epochs of 3 steps"
    assert lines[-4].startswith("test accuracy ")
    assert lines[-4].endswith(" on 3 instances, last epoch")
    assert lines[-2] == "report: runs/bags-1/report.html"
    assert lines[-1] == "next: glws label runs/bags-1 --out labels.parquet"
    assert Path("runs/bags-1/report.html").is_file()
    assert said.err == ""


def test_the_next_run_takes_the_next_free_folder_and_gives_the_same(table: str) -> None:
    for _ in range(2):
        assert run(["train", "--data", table, *QUICK]) == 0
    first, second = (RunFolder.open(Path(f"runs/bags-{number}")) for number in (1, 2))
    assert first.result() == second.result()
    assert first.rows() == second.rows()


def test_without_true_labels_it_says_that_the_accuracy_is_not_known(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(table).write_text(Path(table).read_text().replace("label: truth\n", ""))
    assert run(["train", "--data", table, *QUICK]) == 0
    assert "test accuracy not known: there are no true labels to test on" in capsys.readouterr().out


@pytest.mark.usefixtures("table")
def test_classes_without_names_are_judged_after_matching_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    note = (
        "note: these weak labels do not identify the class names; predicted classes may be permuted. "
        "A few labels fix this"
    )
    words = ["train", "--data", "breast_cancer", "training.epochs=1", "model.name=linear"]
    assert run([*words, "--kind", "pair_similarity"]) == 0
    nameless = capsys.readouterr().out
    assert re.search(r"^epoch 1: loss \S+  test matched accuracy 0\.", nameless, re.MULTILINE)
    exact, matched = (float(re.search(rf"^{name} accuracy ([\d.]+)%", nameless, re.MULTILINE)[1]) for name in NAMES)  # type: ignore[index]
    assert matched >= max(exact, 50)
    assert note in nameless.splitlines()
    for others in (
        ["--kind", "proportions"],
        ["--kind", "pair_similarity", "--method", "risk_sd", "method.prior=0.37"],
    ):
        assert run([*words, *others]) == 0
        named = capsys.readouterr().out
        assert "matched" not in named
        assert note not in named


@pytest.mark.usefixtures("table")
def test_held_out_bags_tell_the_accuracy_where_they_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--data", "breast_cancer", "--kind", "proportions", "training.epochs=3", "data.held_out=0.5"]
    assert run(words) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("held-out groups: ")]
    assert re.fullmatch(r".*; by them \d+\.\d% of instances are right, give or take \d+\.\d%", said[0])


def test_a_dry_run_prints_a_configuration_that_reads_back(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--data", table, *QUICK, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["training"]["epochs"] == 2
    Path("job.yaml").write_text(text)
    assert run(["train", "job.yaml", "training.epochs=3", "--dry-run"]) == 0
    assert capsys.readouterr().out == text.replace("epochs: 2", "epochs: 3")
    assert not Path("runs").exists()


def test_nothing_depends_on_tensorboard_being_installed(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror is one folder more; everything else is the same, byte for byte."""
    with_it = train(Path("a/run"), "--data", table)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    without_it = train(Path("b/run"), "--data", table)
    assert not (without_it / "tensorboard").exists()
    assert _content(with_it) == _content(without_it)


def _content(folder: Path) -> dict[str, str]:
    """A checksum of each file, but of those that hold times and commands, and of the mirror."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
        and path.relative_to(folder).parts[0]
        not in ("tensorboard", "run.json", "times.jsonl", "report.html", "content.json")
    }


def test_runs_are_compared_on_one_page(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(Path("first"), "--data", table)
    train(Path("second"), "--data", table, "training.seed=1")
    capsys.readouterr()
    assert run(["report", "first", "second", "--out", "both.html"]) == 0
    assert capsys.readouterr().out == "wrote both.html\n"
    page = Path("both.html").read_text()
    assert "Comparison of 2 runs" in page
    assert "training.seed" in page


def test_a_report_is_made_again_as_it_was(table: str) -> None:
    folder = train(Path("run"), "--data", table)
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    assert run(["report", "run"]) == 0
    assert (folder / "report.html").read_bytes() == before


def test_labels_can_be_had_as_csv(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(Path("run"), "--data", table)
    capsys.readouterr()
    assert run(["label", "run", table, "--out", "labels.csv"]) == 0
    assert capsys.readouterr().out == (
        "wrote 36 rows to labels.csv: row, kind, group, prediction, label, joint_label, entropy, log_likelihood, "
        "approximation_error, p(benign), p(malignant)\n"
    )
    assert len(Path("labels.csv").read_text().splitlines()) == 37


def test_without_data_those_of_the_run_are_labeled(table: str) -> None:
    train(Path("run"), "--data", table)
    assert run(["label", "run", table, "--out", "given.csv"]) == 0
    assert run(["label", "run", "--out", "own.csv"]) == 0
    assert Path("own.csv").read_bytes() == Path("given.csv").read_bytes()


def test_an_older_checkpoint_is_used_with_a_warning_where_the_last_is_damaged(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train(Path("run"), "--data", table, "training.save_every=0")
    newest = max((folder / "checkpoints").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-9])
    capsys.readouterr()
    assert run(["predict", "run", "--out", "predictions.csv"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"glws: warning: {newest}: damaged")
    assert line.endswith("this checkpoint is not used")
