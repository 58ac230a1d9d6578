"""CSV by pyarrow: the same cells, lines and mistakes as Python's `csv` finds, which is the oracle here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from glws.data import read_table
from glws.data.tables import _csv_file as csv_file
from glws.data.tables._cells import RowBatch
from glws.data.tables._csv_file import CsvFile
from glws.errors import DataError

WORDS = ["", " ", "NA", "nan", "inf", "-inf", "null", "1e5", "+3", " 4 ", "0x10", "007", "1_000", "-0.0", "1e400",
         "5e-324", "123456789012345678901", "0.1", "2.5", "cat", "Ä", "true", "\t", "a b", "1.", ".5", "#", "'", "\x00",
         "\x1c"]  # fmt: skip
QUOTED = ['"x"', '""', '"a""b"', '"1,5"', '"two\nlines"', '"\r\n"', '" 7 "', '"NA"', '""""', '"1.25"']
ODD = ['a"b', '"x"y', '"open', ' "x"', '"lone\rreturn"', "\r", "more,cells", "\udce4"]
Found = list[tuple[int, tuple[str, ...], tuple[bool, ...]]]


def found(batches: Iterator[RowBatch]) -> Found | str:
    """Line, cells and gaps of every row; or the rows before a mistake are dropped, and its message is given."""
    rows: Found = []
    try:
        for batch in batches:
            cells = list(batch.cells.values())
            texts = [cell.values.tolist() for cell in cells]
            gaps = [cell.missing.tolist() for cell in cells]
            rows += zip(batch.rows.tolist(), zip(*texts, strict=True), zip(*gaps, strict=True), strict=True)
    except DataError as error:
        return str(error)
    return rows


def numbers(batches: Iterator[RowBatch], name: str) -> np.ndarray | str:
    try:
        return np.concatenate([batch.numbers(name) for batch in batches])
    except DataError as error:
        return str(error)


def table(draw: np.random.Generator, words: list[str], width: int) -> str:
    """Random rows with empty lines, the separator doubled as needed, and either kind of line end."""
    end = draw.choice(["\n", "\r\n"])
    lines = [",".join(f"c{column}" for column in range(width))]
    for _ in range(draw.integers(0, 30)):
        cells = draw.choice(words, width).tolist()
        lines.append("" if draw.random() < 0.05 else ",".join(cells[: -1 if draw.random() < 0.005 else None]))
    return str(end).join(lines) + (str(end) if draw.random() < 0.7 else "")


@pytest.mark.parametrize("words", [WORDS, [*WORDS, *QUOTED], [*WORDS, *QUOTED, *ODD]], ids=["plain", "quoted", "odd"])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_random_tables_are_read_as_csv_reads_them(
    words: list[str], width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(width)
    outcomes = set()
    for _ in range(150):
        monkeypatch.setattr(csv_file, "PIECE", int(draw.choice([16, 64, 1 << 20])))
        text = table(draw, words, width)
        mark = b"\xef\xbb\xbf" if draw.random() < 0.2 else b""
        (tmp_path / "t.csv").write_bytes(mark + text.encode("utf-8", "surrogateescape"))
        try:
            file = CsvFile(tmp_path / "t.csv")
        except DataError:  # bad text that was read ahead with the header
            continue
        names = file.columns[::-1]
        expected = found(file._read_by_csv(names, 0, 1, 1))
        assert found(file.row_batches(names)) == expected, text
        outcomes.add(type(expected))
    assert list in outcomes
    assert str in outcomes or width == 1  # a lone cell that is left out is an empty line


@pytest.mark.parametrize(
    "words", [["1.5", "-2", "1e5", "0.1", " 4 ", "007", "5e-324", "1e400"], WORDS[5:14], WORDS[:6]]
)
def test_numbers_are_those_that_python_reads(words: list[str], tmp_path: Path) -> None:
    draw = np.random.default_rng(len(words))
    values = [*words, *map(repr, draw.normal(size=50) * 10.0 ** draw.integers(-300, 300, 50))]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{value},1\n" for value in values))
    file = CsvFile(tmp_path / "t.csv")
    expected = numbers(file._read_by_csv(["x"], 0, 1, 1), "x")
    np.testing.assert_array_equal(numbers(file.row_batches(["x"]), "x"), expected)
    if not isinstance(expected, str):
        np.testing.assert_array_equal(expected, [float(value) if value.strip() else np.nan for value in values])


@pytest.mark.parametrize(
    ("cells", "change"),
    [
        (["1,2", "3,4"], str),
        (['"a, b",2', '"say ""x""",4', '"two\nlines",5', '"",""'], str),
        (["1,2", "", "3,4", ""], lambda text: text.replace("\n", "\r\n")),
        (["Ä,2", "NA,4"], lambda text: "\ufeff" + text),
        ([f"{'x' * 100_000},{'y' * 100_000}", "1,2"], str),
    ],
    ids=["plain", "quotes", "windows", "mark", "wide"],
)
def test_usual_tables_are_parsed_by_pyarrow_alone(
    cells: list[str], change: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_bytes(change("a,b\n" + "\n".join(cells * 50)).encode())
    file = CsvFile(tmp_path / "t.csv")
    expected = found(file._read_by_csv(file.columns, 0, 1, 1))
    monkeypatch.setattr(CsvFile, "_read_by_csv", None)
    for size in (10, 1 << 20):
        monkeypatch.setattr(csv_file, "PIECE", size)
        assert found(file.row_batches(file.columns)) == expected


def test_a_mistake_far_into_a_file_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "PIECE", 100)
    rows = [f'"{row}\n",{row}' for row in range(500)]
    about = {"data": str(tmp_path / "t.csv"), "features": "y", "classes": 2}
    for wrong, expected in {
        "1,2,3": "line 802: expected 2 cells, found 3",
        '"a"b,2': "line 802: ',' expected after '\"'",
        '"a,2': "line 802: ',' expected after '\"'",
        "1,two": "line 802: column y must be a number, found 'two'; if it is meant, write columns: {y: category}",
        "\udcff,1": "line 802: not text in UTF-8 (invalid start byte)",
    }.items():
        text = "\n".join(["x,y", *rows[:400], wrong, *rows[400:]])
        (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError) as caught:
            read_table(about)
        assert str(caught.value) == f"{tmp_path / 't.csv'}, {expected}"


def test_a_cell_that_csv_finds_too_long_is_refused(tmp_path: Path) -> None:
    for cell in ("1" * 140_000, f'"{"1," * 70_000}"'):
        (tmp_path / "t.csv").write_text(f"x,y\n1,2\n{cell},2\n")
        with pytest.raises(DataError, match="line 3: field larger than field limit"):
            read_table({"data": str(tmp_path / "t.csv"), "features": "y", "classes": 2})
