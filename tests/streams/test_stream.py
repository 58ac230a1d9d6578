"""Tables in pieces of whole groups: the same rows, groups and answers as the table at once."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from cli.small_run import train
from pyarrow import parquet
from streams.big_table import ABOUT, FORMATS, PIECE, ROWS, columns, described, rows_of, write

from glws.cli import run as glws
from glws.data import read_description, read_table
from glws.data.tables import TableStream, file_hash, open_stream
from glws.errors import DataError, RunError
from glws.experiment import FinishedRun, Question
from glws.experiment import _answering as answering
from glws.experiment._parts import MANIFEST

ORDERS = ["grouped", "shuffled"]


def streamed(about: dict[str, Any], folder: Path, **options: Any) -> TableStream | None:
    schema = read_table(about).schema
    return open_stream(read_description(about), schema, folder / "scratch", rows_in_piece=PIECE, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on numbers ("run") and on numbers, words and gaps ("words")."""
    folder = tmp_path_factory.mktemp("trained")
    for name, with_words in (("run", False), ("words", True)):
        about = write(folder / f"{name}.parquet", columns("grouped", with_words))
        train(folder / name, "--data", str(described(folder, about)), "data.held_out=0")
    return folder


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FORMATS)
def test_pieces_are_the_table_and_cut_no_group(name: str, order: str, tmp_path: Path) -> None:
    about = write(tmp_path / name, columns(order, with_words=name != "t.h5"))
    whole, stream = read_table(about), streamed(about, tmp_path)
    assert stream is not None
    assert bool(stream.note) == (order == "shuffled")
    tables = [table for _, table in stream.tables(range(len(stream.pieces)))]
    assert len(tables) > 5
    places = np.concatenate([table.places for table in tables])
    inside, outside = np.argsort(places), np.argsort(whole.places)
    assert places[inside].tolist() == list(range(ROWS))
    for pick in (lambda table: table.features, lambda table: table.row_numbers, lambda table: table.ids["patient"]):
        found, expected = np.concatenate([pick(table) for table in tables])[inside], pick(whole)[outside]
        assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")
    groups = [table.blocks[0].group_names for table in tables]
    assert sorted(np.concatenate(groups).tolist()) == sorted(whole.blocks[0].group_names.tolist())  # each group once
    number = len(tables) // 2
    assert np.array_equal(stream.table(number).features, tables[number].features, equal_nan=True)
    again = pickle.loads(pickle.dumps(stream)).table(number)  # in another process it opens the file again
    assert np.array_equal(again.row_numbers, tables[number].row_numbers)


@pytest.mark.parametrize("name", FORMATS)
def test_the_hash_of_a_file_is_that_of_its_table(name: str, tmp_path: Path) -> None:
    about = write(tmp_path / name, columns("grouped", with_words=name != "t.h5"))
    whole = read_table(about)
    assert file_hash(read_description(about), whole.schema) == whole.data_hash()


@pytest.mark.parametrize("command", ["label", "predict"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "run"), [("t.parquet", "run"), ("t.csv", "words"), ("t.arrow", "words"), ("t.h5", "run")]
)
def test_answers_in_pieces_are_those_at_once(
    name: str, run: str, order: str, command: str, trained: Path, tmp_path: Path
) -> None:
    about = write(tmp_path / name, columns(order, with_words=run == "words"))
    opened, told = FinishedRun.open(trained / run), list[str]()
    answers = {}
    for out, rows in (("whole.parquet", None), ("one.parquet", PIECE), ("parts", PIECE)):
        question = Question(opened, command, about, tmp_path / out, told.append, rows_in_piece=rows)
        assert question.answer().rows == ROWS
        answers[out] = rows_of(parquet.read_table(tmp_path / out))
    assert answers["whole.parquet"] == answers["one.parquet"] == answers["parts"]
    assert len(list((tmp_path / "parts").glob("part-*"))) > 5
    assert not list(tmp_path.glob(".*grouped"))
    assert [line for line in told if "brought together on disk" in line] == told  # said when it is done


def test_an_interrupted_command_goes_on_and_writes_every_row_once(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = write(tmp_path / "t.parquet", columns("grouped"))
    opened = FinishedRun.open(trained / "run")
    Question(opened, "label", about, tmp_path / "sound", rows_in_piece=PIECE).answer()
    told, stopped, usual = list[str](), list[int](), answering.PieceWorker.write
    for stop in (1, 4):  # it is killed in its second piece, then in the fourth after that

        def write_some(worker: Any, number: int, table: Any, stop: int = stop) -> Any:
            if len(stopped) == stop:
                raise KeyboardInterrupt
            stopped.append(number)
            return usual(worker, number, table)

        stopped.clear()
        monkeypatch.setattr(answering.PieceWorker, "write", write_some)
        with pytest.raises(KeyboardInterrupt):
            Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()
    (tmp_path / "parts" / ".part-000006.parquet-abc.partial").write_bytes(b"half")
    monkeypatch.setattr(answering.PieceWorker, "write", usual)
    Question(opened, "label", about, tmp_path / "parts", told.append, rows_in_piece=PIECE).answer()
    assert "going on" in told[0]
    sound, found = (
        {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())} for name in ("sound", "parts")
    )
    assert found == sound  # the same parts, to the byte, and nothing besides
    Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()  # finished: nothing to do
    assert found == {path.name: path.read_bytes() for path in sorted((tmp_path / "parts").iterdir())}


def test_parts_of_something_else_are_refused(trained: Path, tmp_path: Path) -> None:
    content = columns("grouped")
    about, opened = write(tmp_path / "t.parquet", content), FinishedRun.open(trained / "run")
    Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()
    with pytest.raises(RunError, match=r"its parts answer something else \(command"):
        Question(opened, "predict", about, tmp_path / "parts", rows_in_piece=PIECE).answer()
    write(tmp_path / "t.parquet", {**content, "f0": content["f0"] + 1})
    with pytest.raises(RunError, match=r"something else \(data differ\)"):
        Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()
    (tmp_path / "parts" / MANIFEST).write_text("{")
    with pytest.raises(RunError, match=r"_manifest\.json: damaged; remove the folder"):
        Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()
    (tmp_path / "parts" / MANIFEST).unlink()
    with pytest.raises(RunError, match=r"it has parts without _manifest\.json"):
        Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer()


def test_a_part_that_a_worker_wrote_elsewhere_is_noticed(trained: Path, tmp_path: Path) -> None:
    about, opened = write(tmp_path / "t.parquet", columns("grouped")), FinishedRun.open(trained / "run")
    elsewhere = answering.PartFolder(tmp_path / "elsewhere", 100)

    def run_pieces(worker: answering.PieceWorker, numbers: Any) -> Any:
        return answering.one_by_one(replace(worker, parts=elsewhere), numbers)

    with pytest.raises(RunError, match="a worker wrote a part elsewhere; use a folder that all machines share"):
        Question(opened, "label", about, tmp_path / "parts", rows_in_piece=PIECE).answer(run_pieces)


def test_rows_without_a_group_are_cut_anywhere_and_not_labeled(trained: Path, tmp_path: Path) -> None:
    content = columns("grouped")
    content["bag"] = np.array([None if 40 <= row < 170 else name for row, name in enumerate(content["bag"].tolist())])
    counts = content["n"].astype(object)
    counts[
        [
            name is None or (content["bag"] == name).sum() < count
            for name, count in zip(content["bag"], counts, strict=True)
        ]
    ] = 0
    about = {**write(tmp_path / "t.parquet", {**content, "n": counts.astype(int)}), "missing": "skip"}
    opened = FinishedRun.open(trained / "run")
    for out, rows in (("whole.parquet", None), ("parts", PIECE)):
        Question(opened, "label", about, tmp_path / out, rows_in_piece=rows).answer()
    whole, parts = (rows_of(parquet.read_table(tmp_path / name)) for name in ("whole.parquet", "parts"))
    assert parts == whole
    assert len(whole) == ROWS - 130


def test_kinds_that_learn_from_all_groups_are_read_at_once(tmp_path: Path) -> None:
    about = write(tmp_path / "t.parquet", {**columns("grouped"), "marked": np.arange(ROWS) % 7 == 0})
    marked = {
        **about,
        "group": None,
        "kind": "positive_unlabeled",
        "weak": {"positive": "marked"},
        "options": {"unlabeled": 0},
    }
    marked = {key: value for key, value in marked.items() if value is not None}
    assert streamed(marked, tmp_path) is None
    assert streamed(marked, tmp_path, keeps_groups=False) is not None  # for predictions alone it does not matter


def test_two_kinds_with_nested_groups_are_cut_where_no_group_is(tmp_path: Path) -> None:
    content = columns("grouped")
    wards = np.cumsum(np.append(0, np.arange(1, ROWS) % 30 == 0))
    blocks = [{key: ABOUT[key] for key in ("group", "kind", "weak")},
              {"group": "ward", "kind": "multi_instance", "weak": {"present": "some"}}]  # fmt: skip
    about = {"data": "", "features": "f*", "classes": ABOUT["classes"], "blocks": blocks}
    about |= {"data": write(tmp_path / "t.parquet", {**content, "ward": wards, "some": np.ones(ROWS, int)})["data"]}
    stream = streamed(about, tmp_path)
    assert stream is not None
    for piece in stream.pieces[:-1]:
        assert wards[piece.last - 1] != wards[piece.last]
        assert content["bag"][piece.last - 1] != content["bag"][piece.last]
    write(tmp_path / "t.parquet", {**content, "ward": wards[::-1] % 3, "some": np.ones(ROWS, int)})
    assert streamed(about, tmp_path) is None  # these come back, and no single order brings all groups together


def test_a_table_that_became_shorter_and_one_with_words_say_so(trained: Path, tmp_path: Path) -> None:
    content = columns("grouped")
    about = write(tmp_path / "t.parquet", content)
    stream = streamed(about, tmp_path)
    assert stream is not None
    write(tmp_path / "t.parquet", {name: column[:100] for name, column in content.items()})
    with pytest.raises(DataError, match="its rows have become fewer while it was read"):
        list(stream.tables(range(len(stream.pieces))))
    gaps = np.where(np.arange(ROWS) == 300, np.nan, content["f1"])
    about = write(tmp_path / "gaps.parquet", {**content, "f1": gaps})
    with pytest.raises(DataError, match="column f1 is not all numbers, where the network was trained on numbers only"):
        Question(
            FinishedRun.open(trained / "run"), "label", about, tmp_path / "o.parquet", rows_in_piece=PIECE
        ).answer()
    assert not (tmp_path / "o.parquet").exists()


def test_the_command_line_takes_a_table_and_a_folder(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "new.csv", columns("shuffled"))
    shutil.copytree(trained / "run", "run")  # the table it was trained on is not needed
    assert glws(["label", "run", "new.csv", "--out", "labels"]) == 0
    assert "wrote 420 rows to labels: row, patient, kind, group, prediction, label" in capsys.readouterr().out
    assert glws(["predict", "run", "new.csv", "--out", "p.csv"]) == 0
    labels = parquet.read_table("labels")
    assert isinstance(labels, pyarrow.Table)
    assert sorted(labels["row"].to_pylist()) == list(range(ROWS))
    assert glws(["label", "run", "gone.parquet"]) == 2
    assert "gone.parquet: there is no such file" in capsys.readouterr().err
