"""A run knows its data: `--resume` refuses what has changed, `label` and `predict` warn, the report shows the hash."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.small_run import train, unfinished, write_table

from glws.cli import run
from glws.data import read_table
from glws.experiment._provenance import stored_hashes
from glws.training import RunFolder
from glws.training._run_folder import RUN
from glws.training._stored import read_checksummed, write_checksummed

Capture = pytest.CaptureFixture[str]
RESUME = ["train", "--resume", "half"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, another to test on, a finished run of both, and one that was cut off."""
    folder = tmp_path_factory.mktemp("trained")
    write_table(folder)
    (folder / "test").mkdir()
    write_table(folder / "test", 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        unfinished(train(Path("done"), "--data", "bags.yaml", "data.test=test/bags.yaml"), Path("half"))
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """A copy of it to work in."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    capsys.readouterr()
    return tmp_path / "here"


def drop_rows(table: Path) -> None:
    """Without the last bag that is named in it."""
    lines = table.read_text().splitlines()
    last = lines[-1].split(",")[0]
    table.write_text("\n".join(line for line in lines if line.split(",")[0] != last) + "\n")


def invert_counts(table: Path) -> None:
    """Every count of 3 becomes what is left of 3."""
    lines = [line.split(",") for line in table.read_text().splitlines()]
    rows = [[bag, x, y, str(3 - int(count)), label] for bag, x, y, count, label in lines[1:]]
    table.write_text("\n".join(",".join(row) for row in [lines[0], *rows]) + "\n")


def change_a_cell(table: Path) -> None:
    """The last digit of one feature."""
    lines = table.read_text().splitlines()
    bag, x, *rest = lines[5].split(",")
    lines[5] = ",".join([bag, f"{x[:-1]}{(int(x[-1]) + 1) % 10}", *rest])
    table.write_text("\n".join(lines) + "\n")


def describe_otherwise(table: Path) -> None:
    """The true labels are left out."""
    about = table.with_suffix(".yaml")
    about.write_text(about.read_text().replace("label: truth\n", ""))


def files(folder: Path) -> dict[Path, bytes]:
    """All that a run holds but the times at which it was taken up."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in found if path.name not in ("times.jsonl", ".lock")}


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (drop_rows, "36 rows then, 33 now"),
    (invert_counts, "its columns have other values"),
    (change_a_cell, "its columns have other values"),
    (describe_otherwise, "its description is another one"),
]


@pytest.mark.parametrize(("change", "what"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_resume_refuses_data_that_changed_in_one_line_and_writes_nothing(
    change: Callable[[Path], None], what: str, here: Path, capsys: Capture
) -> None:
    change(here / "bags.csv")
    before = files(here / "half")
    assert run(RESUME) == 2
    assert capsys.readouterr().err == (
        f"glws: error: bags.yaml: the data has changed since half was begun ({what}); restore the data, or continue "
        "with the data as it is now by --changed-data\n"
    )
    assert files(here / "half") == before


@pytest.mark.parametrize(("change", "what"), CHANGES[:3], ids=[change.__name__ for change, _ in CHANGES[:3]])
def test_changed_data_goes_on_with_a_warning_and_is_the_data_of_the_run_from_then_on(
    change: Callable[[Path], None], what: str, here: Path, capsys: Capture
) -> None:
    shutil.copytree("half", "again")
    change(here / "bags.csv")
    assert run([*RESUME, "--changed-data"]) == 0
    assert capsys.readouterr().err == (
        f"glws: warning: bags.yaml: the data has changed since half was trained on it ({what}); training continues "
        "with the data as it is now\n"
    )
    now = read_table(here / "bags.yaml").data_hash()
    stored = RunFolder.open(here / "half")
    assert stored_hashes(stored)["table"] == now
    first = json.loads(json.dumps(stored.facts["data"]))["table"]["sha256"]
    (shown,) = set(re.findall(r"sha256 \w{16} of \d+ rows, then sha256 \w{16} of \d+ rows", report("half")))
    assert shown.split()[1] == first[:16]
    assert f"then sha256 {now.sha256[:16]} of {now.rows} rows" in shown
    assert run(["label", "half"]) == 0
    assert capsys.readouterr().err == ""  # it knows them now


def report(folder: str) -> str:
    return (Path(folder) / "report.html").read_text()


def test_data_that_did_not_change_resumes_and_labels_without_a_word(here: Path, capsys: Capture) -> None:
    text = (here / "bags.yaml").read_text()
    (here / "bags.yaml").write_text(
        "# what it is\n" + text.replace("[benign, malignant]", "\n  - benign\n  - malignant")
    )
    assert run(RESUME) == 0
    assert run(["label", "done"]) == 0
    assert run(["predict", "done", "bags.yaml"]) == 0
    assert capsys.readouterr().err == ""
    assert not RunFolder.open(here / "half").noted("data")


def test_the_table_to_test_on_is_known_too(here: Path, capsys: Capture) -> None:
    change_a_cell(here / "test" / "bags.csv")
    assert run(RESUME) == 2
    assert "error: test/bags.yaml: the data has changed since half was begun" in capsys.readouterr().err
    assert run(["label", "done"]) == 0
    assert capsys.readouterr().err == ""  # that is not what it labels


@pytest.mark.parametrize("command", [["label", "done"], ["label", "done", "bags.yaml"], ["label", "done", "ABSOLUTE"],
                                     ["predict", "done"], ["predict", "done", "bags.yaml"]], ids=" ".join)  # fmt: skip
def test_label_and_predict_warn_in_one_line_about_data_that_changed(
    command: list[str], here: Path, capsys: Capture
) -> None:
    change_a_cell(here / "bags.csv")
    words = [str(here / "bags.yaml") if word == "ABSOLUTE" else word for word in command]
    assert run(words) == 0
    name = words[2] if len(words) > 2 else "bags.yaml"
    assert capsys.readouterr().err == (
        f"glws: warning: {name}: the data has changed since done was trained on it (its columns have other values); "
        "the answers are about the data as it is now\n"
    )


@pytest.mark.parametrize("command", ["label", "predict"])
def test_another_table_is_no_change(command: str, here: Path, capsys: Capture) -> None:
    (here / "new").mkdir()
    write_table(here / "new", 4)
    assert run([command, "done", "new/bags.yaml"]) == 0
    assert capsys.readouterr().err == ""


def test_the_report_and_the_folder_show_the_hash_of_the_data_in_one_line(here: Path) -> None:
    found, test = (read_table(here / name).data_hash() for name in ("bags.yaml", "test/bags.yaml"))
    assert f"sha256 {found.sha256[:16]} of 36 rows" in report("done")
    assert f"sha256 {test.sha256[:16]} of 15 rows" in report("done")
    assert stored_hashes(RunFolder.open(here / "done")) == {"table": found, "test": test}
    assert found.sha256 in (here / "done" / "run.json").read_text()


def test_a_run_without_a_hash_goes_on_and_says_that_changes_go_unnoticed(here: Path, capsys: Capture) -> None:
    facts = dict(RunFolder.open(here / "half").facts)
    del facts["data"]
    write_checksummed(here / "half" / RUN, "run", facts)
    assert "data" not in dict(read_checksummed(here / "half" / RUN, "run"))  # type: ignore[arg-type]
    shutil.copytree("half", "again")
    assert run(RESUME) == 0
    assert capsys.readouterr().err == (
        "glws: warning: half was begun without a hash of its data, by an earlier glws: changes since go unnoticed\n"
    )
    assert stored_hashes(RunFolder.open(here / "half")).keys() == {"table", "test"}


def test_changed_data_is_for_runs_that_go_on(here: Path, capsys: Capture) -> None:
    assert run(["train", "--data", "bags.yaml", "--changed-data"]) == 2
    assert capsys.readouterr().err == ("glws: error: --changed-data is for runs that go on: use it with --resume RUN\n")
