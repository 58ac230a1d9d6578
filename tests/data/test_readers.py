"""Files as people have them: separators and decimal commas, Arrow, Excel; one line for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glws import _optional as packages
from glws.data import read_table, table
from glws.data.tables._csv_dialect import Dialect, found_dialect
from glws.errors import DataError

pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
FRAME = {"f1": [0.5, 1.5, 2.5, 3.5], "f2": ["a", "b", None, "a"], "bag": [1, 1, 2, 2], "n": [1, 1, 0, 0]}
ABOUT: dict[str, Any] = {"classes": 2, "features": "f*", "group": "bag", "kind": "proportions", "weak": {"count": "n"}}


def read(path: Path, **changes: Any) -> Any:
    return read_table({**ABOUT, "data": str(path), **changes})


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_separator_and_decimal_sign_are_found(tmp_path: Path, separator: str, decimal: str) -> None:
    if separator == decimal:
        return
    pandas.DataFrame(FRAME).to_csv(tmp_path / "t.csv", sep=separator, decimal=decimal, index=False)
    found = read(tmp_path / "t.csv")
    assert found.features[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert found.schema == table(FRAME, **{**ABOUT, "features": "f*"}).schema


def test_numbers_with_a_comma_and_with_a_point_need_a_word(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("f1;bag;n\n54,7;a;1.0\n40,8;a;1.0\n")
    with pytest.raises(DataError, match=r'numbers are written as 54,7 and as 1.0; say which .* decimal: ","'):
        read(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv", decimal=",").features.tolist() == [[54.7], [40.8]]


def test_a_decimal_comma_is_read_in_weak_labels_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("f1;bag;share\n1,5;a;0,5\n2,5;a;0,5\n")
    found = read(tmp_path / "t.csv", weak={"share": "share"})
    assert found.blocks[0].weak["share"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", (",", ".")),
        ("a;b\n1;2\n", (";", ".")),
        ("a;b\n1,5;2\n", (";", ",")),
        ("length, cm;b\n1;2\n", (";", ".")),
        ("a,b\n1,2,3\n1;2\n", (",", ".")),
        ("a\n1\n", (",", ".")),
        ("", (",", ".")),
    ],
)
def test_the_dialect_of_a_file(tmp_path: Path, text: str, expected: tuple[str, str]) -> None:
    (tmp_path / "t.csv").write_text(text)
    if text.startswith("length"):  # both signs cut the first row in two: the given one holds
        assert found_dialect(tmp_path / "t.csv", ";") == Dialect(*expected)
    else:
        assert found_dialect(tmp_path / "t.csv") == Dialect(*expected)


def test_what_is_given_holds(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("f1;bag;n\n1,5;a;1\n")
    assert read(tmp_path / "t.csv", decimal=",").features.tolist() == [[1.5]]
    with pytest.raises(DataError, match="decimal must be one character, found ',,'"):
        read(tmp_path / "t.csv", decimal=",,")


@pytest.mark.parametrize("name", ["t.arrow", "t.feather"])
def test_arrow_files_are_read(tmp_path: Path, name: str) -> None:
    from pyarrow import feather

    feather.write_feather(arrow.table(FRAME), tmp_path / name)
    assert read(tmp_path / name).hashed.known == table(FRAME, **ABOUT).hashed.known


def test_a_damaged_arrow_file_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.arrow").write_bytes(b"ARROW1\0\0" + bytes(40))
    with pytest.raises(DataError, match=r"t\.arrow: cannot be read as Arrow \(") as caught:
        read(tmp_path / "t.arrow")
    assert "\n" not in str(caught.value)


def test_excel_files_are_read_and_errors_name_the_row_of_the_sheet(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    pandas.DataFrame(FRAME).to_excel(tmp_path / "t.xlsx", index=False)
    found = read(tmp_path / "t.xlsx")
    assert found.features[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert found.row_numbers.tolist() == [2, 3, 4, 5]
    pandas.DataFrame({**FRAME, "n": [1, -1, 0, 0]}).to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(DataError, match="row 3: column n must be a whole number from 0 on, found -1"):
        read(tmp_path / "t.xlsx")
    (tmp_path / "u.xlsx").write_bytes(b"no sheet")
    with pytest.raises(DataError, match=r"u\.xlsx: cannot be read as Excel"):
        read(tmp_path / "u.xlsx")


def test_a_missing_reader_of_excel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        if name == "openpyxl":
            raise ImportError(name)
        return __import__(name, fromlist=["_"])

    (tmp_path / "t.xlsx").write_bytes(b"")
    monkeypatch.setattr(packages, "import_module", missing)
    with pytest.raises(DataError, match="reading Excel files needs the package openpyxl: pip install openpyxl"):
        read(tmp_path / "t.xlsx")
