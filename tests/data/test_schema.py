"""Tables as people have them: types of columns, empty cells, ids, DataFrames, and what models get of them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glws.data import Schema, read_table, table
from glws.data.tables import Coded, Column
from glws.data.tables._encoded import EncodedInstances
from glws.errors import DataError

pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
ABOUT: dict[str, Any] = {"classes": 2, "group": "bag", "kind": "proportions", "weak": {"count": "n"}}


def people(rows: int = 240, seed: int = 0) -> dict[str, list[Any]]:
    """A table with a column of every type."""
    rng = np.random.default_rng(seed)
    words = ["good", "bad", "day", "pain", "none", "red", "left", "arm"]
    day = datetime.date(2020, 1, 1)
    columns: dict[str, list[Any]] = {
        "person": [f"P{row:05d}" for row in range(rows)],
        "age": [None if row % 17 == 3 else float(value) for row, value in enumerate(rng.normal(50, 9, rows).round(1))],
        "work": [None if row % 23 == 5 else str(rng.choice(["state", "private", "self"])) for row in range(rows)],
        "zip": [f"{value:05d}" for value in rng.integers(0, 9, rows) * 1111],
        "seen": [(day + datetime.timedelta(int(value))).isoformat() for value in rng.integers(0, 900, rows)],
        "note": [" ".join(rng.choice(words, 5)) for _ in range(rows)],
        "smoker": [["no", "yes"][int(value)] for value in rng.random(rows) < 0.3],
        "bag": (np.arange(rows) // 8).tolist(),
    }
    return {**columns, "n": [3] * rows}


def types_of(schema: Schema) -> dict[str, str]:
    return {column.name: column.type for column in schema.columns}


def test_types_are_inferred_from_all_cells() -> None:
    schema = table(people(), **ABOUT).schema
    assert schema is not None
    assert types_of(schema) == {
        "person": "id", "age": "number", "work": "category", "zip": "category", "seen": "date", "note": "text",
        "smoker": "boolean",
    }  # fmt: skip
    assert {column.name for column in schema.columns if column.has_missing} == {"age", "work"}


def test_the_schema_is_printed_as_one_line_for_each_column() -> None:
    schema = table(people(), **ABOUT, columns={"note": "ignore"}).schema
    lines = str(schema).splitlines()
    assert lines[0] == "columns: 1 number, 2 categories, 1 boolean, 1 date, 1 id, 1 ignore; 21 inputs of the model"
    assert lines[2].split() == ["age", "number", *lines[2].split()[2:]]
    assert lines[2].endswith("% missing")
    assert lines[4].startswith("  zip     category  9 values (")


def test_a_description_overrides_types_by_names_and_patterns() -> None:
    frame = {"zip_a": [1, 2, 3, 1], "zip_b": [7, 7, 8, 8], "n": [0, 1, 0, 1]}
    found = table(frame, classes=2, columns={"zip_*": "category", "n": "number"})
    assert found.schema is not None
    assert types_of(found.schema) == {"zip_a": "category", "zip_b": "category", "n": "number"}
    assert found.schema.encoded_names == ["zip_a=1", "zip_a=2", "zip_a=3", "zip_b=7", "zip_b=8", "n"]


def test_every_kind_of_data_frame_gives_the_same_table(tmp_path: Path) -> None:
    frame = pandas.DataFrame(people())
    arrow_frame = arrow.Table.from_pandas(frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    about = {**ABOUT, "features": "*"}
    tables = [table(each, **ABOUT) for each in (people(), frame, polars.from_pandas(frame), arrow_frame)]
    tables += [read_table({**about, "data": str(tmp_path / name)}) for name in ("t.csv", "t.parquet")]
    first = tables[0]
    numbers = torch.arange(len(first))
    expected = first.dataset(scaling=first.scaling()).instances.take(numbers)
    for other in tables[1:]:
        assert other.schema == first.schema
        assert torch.equal(other.dataset(scaling=other.scaling()).instances.take(numbers), expected)
        assert other.ids["person"].tolist() == first.ids["person"].tolist()
    assert len({other.hashed.known for other in tables[:4]}) == 1  # files write weak labels in types of their own


def test_columns_that_are_all_numbers_need_no_schema() -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, 1.5, 2.5, 3.5], "bag": [0, 0, 1, 1], "n": [1, 1, 0, 0]})
    found = table(frame, **ABOUT)
    assert found.schema is None
    assert found.features.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5], [4, 3.5]]


# ---------------------------------------------------------------- encoding, against the obvious


def encoded_cell(column: Column, cell: Any) -> list[float]:
    """What a cell becomes, written out: the reference."""
    gap = [float(cell is None)] if column.has_missing else []
    if column.type == "number":
        return [column.fill if cell is None else cell, *gap]
    if column.type == "boolean":
        return [0.0 if cell is None else float(cell == "yes"), *gap]
    if column.type == "category":
        marks = [float(cell == word) for word in column.words]
        others = [float(cell is not None and cell not in column.words)] * (column.buckets == 1)
        return [*marks, *others, *gap]
    assert column.type == "date"
    days = (datetime.date.fromisoformat(cell) - datetime.date(1970, 1, 1)).days
    year, week = 2 * np.pi * days / 365.2425, 2 * np.pi * datetime.date.fromisoformat(cell).weekday() / 7
    return [days, np.sin(year), np.cos(year), np.sin(week), np.cos(week), *gap]


@pytest.mark.parametrize("seed", range(3))
def test_the_encoding_is_that_of_single_cells(seed: int) -> None:
    frame = people(160, seed)
    frame["work"][:5] = ["rare1", "rare2", "rare3", "rare4", "rare5"]
    frame = {name: cells * 2 for name, cells in frame.items() if name != "note"}
    frame["work"][160:165] = ["state"] * 5
    frame["bag"] = [row // 8 for row in range(320)]
    found = table(frame, **ABOUT)
    schema = found.schema
    assert schema is not None
    assert {column.name: column.buckets for column in schema.columns}["work"] == 1
    expected = [
        [value for column in schema.features for value in encoded_cell(column, frame[column.name][row])]
        for row in range(320)
    ]
    np.testing.assert_allclose(schema.encoded(Coded(found.features)), expected, atol=1e-9)  # sines of 2 pi times days


def test_numbers_are_standardized_and_indicators_are_not() -> None:
    found = table(people(), **ABOUT)
    assert found.schema is not None
    rows = found.dataset(scaling=found.scaling()).instances.take(torch.arange(240)).double()
    names = found.schema.encoded_names
    for name in ("age", "seen"):
        column = rows[:, names.index(name)]
        assert abs(float(column.mean())) < 1e-6
        assert abs(float(column.std(correction=0)) - 1) < 1e-6
    assert set(rows[:, names.index("work=state")].tolist()) == {0.0, 1.0}


def test_texts_are_rows_of_length_one_and_sparse() -> None:
    found = table(people(), **ABOUT)
    assert found.texts.shape == (240, 1024)
    assert found.texts.nnz < 240 * 12
    np.testing.assert_allclose(np.sqrt(found.texts.multiply(found.texts).sum(1)), 1, atol=1e-6)


def test_a_table_too_large_to_keep_is_encoded_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table(people(), **ABOUT)
    chosen = torch.tensor([5, 0, 200])
    kept = found.instances(found.scaling()).take(chosen)
    monkeypatch.setattr("glws.data.tables._encoded.DENSE_BYTES", 0)
    instances = found.instances(found.scaling())
    assert isinstance(instances, EncodedInstances)
    assert instances.values is None
    assert torch.equal(instances.take(chosen), kept)


def test_a_sentence_encoder_may_take_a_text_column() -> None:
    def lengths(texts: list[str]) -> list[list[float]]:
        return [[len(text), text.count("a")] for text in texts]

    found = table(people(), **ABOUT, columns={"note": lengths})
    assert found.schema is not None
    assert found.schema.encoded_names[-3:-1] == ["note[0]", "note[1]"]
    notes = people()["note"]
    place = found.schema.coded_names.index("note[0]")
    assert found.features[:, place].tolist() == [len(note) for note in notes]


# ---------------------------------------------------------------- new rows


def test_new_rows_are_coded_as_those_that_were_learned_from(tmp_path: Path) -> None:
    known = {"age": [30.0, 40.0] * 4, "work": ["a", "b", "a", "b", "a", "b", "a", "b"]}
    schema = table(known, classes=2).schema
    assert schema is not None
    (tmp_path / "new.csv").write_text("work,age,extra\nb,,1\nzebra,35,2\n,20,3\n")
    about = {"data": str(tmp_path / "new.csv"), "features": "age", "classes": 2}
    new = read_table(about, schema=schema)
    assert new.feature_names == ("age", "work")
    assert schema.encoded(Coded(new.features)).tolist() == [[35.0, 0, 1], [35.0, 0, 0], [20.0, 0, 0]]


def test_an_unknown_category_goes_where_the_rare_ones_went() -> None:
    known = {"work": ["a"] * 100 + ["b"] * 99 + ["c", "d", "e"]}
    schema = table(known, classes=2).schema
    assert schema is not None
    assert schema.encoded_names == ["work=a", "work=b", "work: other"]
    assert schema.columns[0].code_of(["b", "d", "zebra"]).tolist() == [1, 2, 2]


def test_many_categories_share_codes_by_their_hash() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{value}" for value in rng.integers(0, 400, 6000)]
    schema = table({"word": words}, classes=2, columns={"word": "category"}).schema
    assert schema is not None
    column = schema.columns[0]
    assert (len(column.words), column.buckets) == (190, 64)
    codes = column.code_of(sorted(set(words)))
    assert codes.max() < 254
    assert len(np.unique(codes[codes >= 190])) > 50


def test_a_schema_survives_being_stored() -> None:
    schema = table(people(), **ABOUT).schema
    assert schema is not None
    assert Schema.read(schema.as_dict()) == schema
    wrong_columns: list[Any] = [{"name": "a", "type": "zebra"}, {"name": 3, "type": "id"}, {"name": "a"}, "age"]
    for wrong in ({}, {"format": 2, "columns": []}, *({"format": 1, "columns": [each]} for each in wrong_columns)):
        with pytest.raises(DataError, match=r"schema"):
            Schema.read(wrong)


@pytest.mark.parametrize("name", ["age", "work", "zip", "seen", "note", "smoker"])
def test_the_hash_covers_every_column(name: str) -> None:
    before = table(people(), **ABOUT).data_hash()
    other = people()
    place = next(row for row, cell in enumerate(other[name]) if cell != other[name][7])
    other[name][7], other[name][place] = other[name][place], other[name][7]
    assert table(other, **ABOUT).data_hash().columns != before.columns


# ---------------------------------------------------------------- mistakes

TEXT = "id,age,when,ok,bag,n\n" + "".join(
    f"{row},{20 + row},2020-01-{row + 1:02d},yes,{row // 4},1\n" for row in range(8)
)


@pytest.mark.parametrize(
    ("old", "new", "changes", "expected"),
    [
        ("23,", "23y,", {}, "line 5: column age must be a number, found '23y'; if it is meant, write columns: "
         "{age: category}"),
        ("23,", "23y,", {"columns": {"age": "number"}}, "line 5: column age must be a number, found '23y'"),
        ("2020-01-04", "4.1.2020", {"columns": {"when": "date"}},
         "column when is no date in ISO 8601; give the format, as in: date %d.%m.%Y, found '4.1.2020'"),
        ("yes,0", "maybe,0", {"columns": {"ok": "boolean"}},
         "column ok must be true or false, 1 or 0, yes or no, found 'maybe'"),
        ("23,", "inf,", {}, "line 5: column age must be a finite number, found 'inf'"),
    ],
)  # fmt: skip
def test_a_wrong_cell_gets_one_line(tmp_path: Path, old: str, new: str, changes: dict[str, Any], expected: str) -> None:
    (tmp_path / "t.csv").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        read_table({**ABOUT, "features": "*", "data": str(tmp_path / "t.csv"), **changes})
    assert str(caught.value).removeprefix(f"{tmp_path / 't.csv'}").lstrip(",: ") == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"columns": {"age": "nubmer"}}, "columns: age cannot be 'nubmer'; did you mean number?"),
        ({"columns": {"aeg": "number"}}, "there is no feature column 'aeg'; did you mean age?"),
        ({"columns": ["age"]}, "columns must be names with types, such as {zip: category}, found ['age']"),
        ({"id": 3}, "id must be a column, or a list of columns, found 3"),
        ({"id": "persno"}, "there is no column 'persno'; did you mean person?"),
    ],
)
def test_a_wrong_description_of_columns_says_what_is_meant(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(DataError) as caught:
        table({"person": ["a", "b"], "age": [1, 2]}, classes=2, **changes)
    assert str(caught.value).removeprefix("DataFrame: ") == expected


def test_a_column_that_the_model_needs_is_named(tmp_path: Path) -> None:
    schema = table({"work": ["a", "b"], "age": [1, 2]}, classes=2).schema
    (tmp_path / "new.csv").write_text("wrk,age\na,1\n")
    with pytest.raises(DataError, match=r"there is no column 'work', which the model was trained with; did you mean"):
        read_table({"data": str(tmp_path / "new.csv"), "features": "age", "classes": 2}, schema=schema)
