"""The way of somebody new: the commands of the README and of the getting-started page, as they are written there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glws.cli import run
from glws.kinds import KINDS

ROOT = Path(__file__).parent.parent.parent


def commands(page: str) -> list[list[str]]:
    """The lines of the shell blocks of a page, without their comments."""
    blocks = re.findall(r"^```shell\n(.*?)^```", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_the_documented_commands_run_from_the_example_to_the_labels(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    written = commands(page)
    assert [words[1] for words in written if words[0] == "glws"][:3] == ["doctor", "train", "label"]
    for program, *arguments in written:
        if program == "glws":
            assert run(arguments) == 0
        else:
            assert program == "python"
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    said = capsys.readouterr()
    assert said.err == ""
    assert "71 groups of 8 to 9 instances" in said.out
    assert "(0 labeled rows)" in said.out
    assert _accuracy(said.out) > 0.9
    assert (tmp_path / "runs" / "bags-1" / "report.html").is_file()
    _check_labels(tmp_path / "labels.parquet", tmp_path / "bags.csv")


def _accuracy(text: str) -> float:
    (found,) = re.findall(r"^test accuracy ([\d.]+)%", text, flags=re.MULTILINE)
    return float(found) / 100


def _check_labels(path: Path, table: Path) -> None:
    """Every bag has the count that was known, and nearly every label is right."""
    from pyarrow import parquet

    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    labels = parquet.read_table(path).to_pylist()
    assert sorted(label["row"] for label in labels) == list(range(len(rows)))
    found: dict[str, float] = {}
    for label in labels:
        found[label["group"]] = found.get(label["group"], 0) + (label["joint_label"] == "malignant")
    assert found == {row[0]: float(row[-2]) for row in rows}
    assert sum(label["joint_label"] == rows[label["row"]][-1] for label in labels) > 0.95 * len(rows)


@pytest.mark.slow
def test_without_arguments_it_learns_digits_from_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("training on 130 bags (0 labeled rows); 14 groups held out; 10 classes\n")
    assert _accuracy(said) > 0.95
    assert said.endswith("report: runs/digits-class_proportions-1/report.html\n")


def test_make_run_is_the_first_job() -> None:
    assert "\nrun: $(READY)\n\t$(BIN)/glws train\n" in (ROOT / "Makefile").read_text()


def test_the_page_of_kinds_names_every_kind_and_every_weak_value() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| (`[^|]+) \| (.+) \|$", (ROOT / "docs/choosing-a-kind.md").read_text(), re.MULTILINE
    )
    named: dict[str, set[str]] = {}
    for kind, weak in rows[1:]:
        named.setdefault(kind.split("`")[1], set()).update(re.findall(r"`(\w+)`", weak))
    assert named == {name: {key for columns in kind.columns for key in columns} for name, kind in KINDS.items()}
