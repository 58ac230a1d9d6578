"""Mistakes in a table or its description: one line each, with the place."""

from __future__ import annotations

import os

import numpy as np
import pytest

from glws import _optional as packages
from glws.data import read_description, read_table
from glws.errors import DataError

GOOD = "bag,f1,f2,n,y\nA,1,2,1,cat\nA,3,4,1,dog\nB,5,6,0,cat\n"
MEANT = "; if it is meant, write columns: {f1: category}"
ABOUT = {
    "features": ["f1", "f2"],
    "group": "bag",
    "classes": ["cat", "dog"],
    "kind": "proportions",
    "weak": {"count": "n"},
}


def read(tmp_path, text=GOOD, **changes):
    (tmp_path / "t.csv").write_text(text)
    about = {"data": str(tmp_path / "t.csv"), **ABOUT, **changes}
    return read_table({key: value for key, value in about.items() if value is not None})


def message(tmp_path, text=GOOD, **changes):
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(tmp_path) + os.sep, "")


NOISY = "; of counts with noise the kind is noisy_proportions, as in options: {mechanism: laplace, epsilon: 1}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("A,3,4", "A,x3,4", f"t.csv, line 3: column f1 must be a number, found 'x3'{MEANT}"),
        ("A,3,4", "A,inf,4", "t.csv, line 3: column f1 must be a finite number, found 'inf'"),
        ("A,3,4", "A,1e99,4", "t.csv, line 3: column f1 must be a finite number, found '1e99'"),
        ("B,5,6,0", "B,5,6,", "t.csv, line 4: column n is empty"),
        ("B,5,6,0", "B,5,6,-1", "t.csv, line 4: column n must be a whole number from 0 on, found '-1'" + NOISY),
        ("B,5,6,0", "B,5,6,0.5", "t.csv, line 4: column n must be a whole number from 0 on, found '0.5'" + NOISY),
        ("B,5,6,0", ",5,6,0", "t.csv, line 4: column bag is empty"),
        ("B,5,6,0", "B,5,6", "t.csv, line 4: expected 5 cells, found 4"),
        ("A,3,4,1", "A,3,4,0", "t.csv: column n must be the same in all of group A: line 2 has 1, line 3 has 0"),
        ("bag,f1", "bag,f2", "t.csv, line 1: two columns are called 'f2'"),
        ("A,3", 'A,"3', "t.csv, line 3: unexpected end of data"),
    ],
)
def test_a_wrong_cell_is_named_by_its_line(tmp_path, old, new, expected):
    assert message(tmp_path, GOOD.replace(old, new, 1)) == expected


def test_several_wrong_rows_are_listed(tmp_path):
    text = "f1,n\n" + "\n".join(f"{value},0" for value in ("a", 1, "b", "c", 2, "d", "e", "g"))
    found = message(tmp_path, text, features="f1", group=None, columns={"f1": "number"})
    assert found == "t.csv, line 2: column f1 must be a number, found 'a' (also line 4, 5, 7, 8, ...)"


def test_line_numbers_hold_after_many_rows_and_empty_lines(tmp_path):
    rows = [f"A,{row},0,1,cat" for row in range(40_000)]
    rows[20_000] = ""
    rows[39_000] = "A,oops,0,1,cat"
    text = "bag,f1,f2,n,y\n" + "\n".join(rows)
    assert message(tmp_path, text) == f"t.csv, line 39002: column f1 must be a number, found 'oops'{MEANT}"


def test_an_unknown_class_gets_the_nearest(tmp_path):
    assert message(tmp_path, GOOD.replace("dog", "dgo"), label="y") == (
        "t.csv, line 3: column y: no class is called 'dgo'; did you mean dog?"
    )
    found = message(tmp_path, GOOD.replace("dog", "zebra"), label="y")
    assert found == "t.csv, line 3: column y: no class is called 'zebra'; there are cat, dog"
    found = message(
        tmp_path, GOOD.replace("dog", "cat|dgo"), kind="partial_labels", weak={"candidates": "y"}, group=None
    )
    assert found == "t.csv, line 3: column y: no class is called 'dgo'; did you mean dog?"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"featurs": "f1"}, "there is no key 'featurs'; did you mean features?"),
        ({"features": None}, "the key features is missing"),
        ({"features": []}, 'features must be column names, a pattern such as "f*", or {image: column}'),
        ({"features": "g*"}, "t.csv: no column matches 'g*'; there are bag, f1, f2, n, y"),
        ({"features": ["f3"]}, "t.csv: there is no column 'f3'; known are bag, f1, f2, n, y"),
        ({"features": {"imag": "f1"}}, "there is no key of features 'imag'; did you mean image?"),
        ({"features": {"image": "f1", "size": 0}}, "features: size must be an integer from 1 to 4096, found 0"),
        ({"group": "bagg"}, "t.csv: there is no column 'bagg'; did you mean bag?"),
        ({"group": 3}, "group must be a text, found 3"),
        ({"label": "yy"}, "t.csv: there is no column 'yy'; did you mean y?"),
        ({"classes": "cat"}, "classes must be their names or their number, found 'cat'"),
        ({"classes": ["cat", "cat"]}, "classes: 'cat' is there twice"),
        (
            {"classes": [False, True]},
            'classes: put quotes around names that YAML reads as true or false (found False): "yes", "no"',
        ),
        ({"kind": "proportion"}, "no kind of weak label is called 'proportion'; did you mean 'proportions'?"),
        ({"kind": None}, "the key kind is missing"),
        ({"weak": {"cuont": "n"}}, "there is no weak value of proportions 'cuont'; did you mean count?"),
        (
            {"weak": {"low": "n"}},
            "the kind proportions needs weak: {count: column} or {share: column} or {low: column, high: column} or "
            "{counts: column}",
        ),
        ({"weak": ["n"]}, "weak must be names with values, such as {count: n_positive}, found ['n']"),
        (
            {"weak": {"count": True}},
            "weak: count must be a column, a list with a column for each class, or a number, found True",
        ),
        ({"weak": {"count": ["n", "n"]}}, "t.csv: count is one column, found a list of 2"),
        ({"weak": {"counts": ["n"]}}, "t.csv: counts needs 2 columns, one for each class, found 1"),
        (
            {"weak": {"counts": "n"}},
            "t.csv: counts needs a list of 2 columns, one for each class, or a column of vectors of that length; "
            "n is neither",
        ),
        ({"options": {"countd": "dog"}}, "there is no option of proportions 'countd'; did you mean counted?"),
        ({"missing": "ignore"}, "missing must be error or skip, found 'ignore'"),
        ({"separator": ";;"}, "separator must be one character, found ';;'"),
        ({"separator": ";"}, "t.csv: there is no column 'bag'; known are bag,f1,f2,n,y"),
        ({"blocks": []}, "kind belongs inside blocks when there are blocks"),
    ],
)
def test_a_wrong_description_says_what_is_meant(tmp_path, changes, expected):
    assert message(tmp_path, **changes) == expected


def test_blocks_are_numbered_in_errors(tmp_path):
    alone = {"group": None, "kind": None, "weak": None}
    blocks = [{"kind": "labels", "weak": {"label": "y"}}, {"kind": "labels", "wek": {}}]
    assert message(tmp_path, blocks=blocks, **alone) == "block 2: there is no key 'wek'; did you mean weak?"
    assert message(tmp_path, blocks="labels", **alone) == "blocks must be a list, each with kind, group and weak"


def test_a_row_with_some_of_its_weak_labels_is_refused_even_when_empty_rows_are_skipped(tmp_path):
    text = "f1,bag,a,b\n1,A,0,1\n2,B,,2\n3,,,\n"
    changes = {"features": "f1", "weak": {"low": "a", "high": "b"}, "missing": "skip"}
    assert message(tmp_path, text, **changes) == "t.csv, line 3: column a is empty where others are given"
    assert len(read(tmp_path, text.replace("2,B,,2", "2,B,,"), **changes).blocks[0]) == 1
    nothing = "f1,bag,a,b\n1,A,,\n2,B,,\n"
    assert message(tmp_path, nothing, **changes) == "t.csv: no row has a group and a weak label of kind proportions"


def test_a_group_with_a_weak_label_in_some_of_its_rows_is_refused(tmp_path):
    text = "f1,bag,n\n1,A,1\n2,A,\n"
    assert message(tmp_path, text, features="f1") == "t.csv, line 3: column n is empty"


def test_empty_and_missing_files_are_named(tmp_path):
    assert message(tmp_path, "") == "t.csv: empty: expected a line with the names of the columns"
    assert message(tmp_path, "bag,f1,f2,n,y\n") == "t.csv: there are no rows"
    assert message(tmp_path, data=str(tmp_path / "no.csv")) == "no.csv: there is no such file"
    assert message(tmp_path, data=str(tmp_path)).endswith("there is no such file")
    (tmp_path / "t.xlsx").write_text("")
    assert message(tmp_path, data=str(tmp_path / "t.xlsx")).startswith("t.xlsx: cannot be read as Excel")


def test_text_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "latin.csv").write_bytes("bag,f1,f2,n,y\nÄ,1,2,0,cat\n".encode("latin-1"))
    assert message(tmp_path, data=str(tmp_path / "latin.csv")).startswith("latin.csv, line 2: not text in UTF-8")


def test_rows_of_binary_tables_are_counted_from_zero(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    number = 70_000
    values = np.zeros(number)
    values[69_999] = np.inf
    columns = {"f": values, "n": np.zeros(number, int)}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", **columns)
    for name in ("t.parquet", "t.npz"):
        found = message(tmp_path, data=str(tmp_path / name), features="f", group=None)
        assert found == f"{name}, row 69999: column f must be a finite number, found inf"


def test_nulls_in_parquet_are_empty_cells(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"f": [1.0, None, 3.0], "g": [1, 1, None], "n": [0, 0, 0]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    changes = {"data": str(tmp_path / "t.parquet"), "weak": {"count": "n"}}
    assert message(tmp_path, features="f", group="g", **changes) == "t.parquet, row 2: column g is empty"
    assert message(tmp_path, features="n", group="g", **changes) == "t.parquet, row 2: column g is empty"


def test_lists_where_one_value_is_meant_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"f": [1.0, 2.0], "ragged": [[1], [1, 2]], "pair": [[0, 1], [1, 0]], "words": [["cat"], ["dog", "cat"]]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    changes = {"data": str(tmp_path / "t.parquet"), "group": None}
    found = message(tmp_path, features="ragged", kind="labels", weak={"label": "f"}, **changes)
    assert found == "t.parquet, row 0: column ragged must be a number, found [1] (also row 1)"
    for column in ("pair", "words"):
        found = message(tmp_path, features="f", kind="noisy_labels", weak={"label": column}, **changes)
        assert found.startswith(f"t.parquet: column {column} holds ")
    table = read(tmp_path, features="f", kind="partial_labels", weak={"candidates": "words"}, **changes)
    assert table.blocks[0].weak["candidates"].tolist() == [[True, False], [True, True]]
    table = read(tmp_path, features="f", kind="partial_labels", weak={"candidates": "pair"}, **changes)
    assert table.blocks[0].weak["candidates"].tolist() == [[False, True], [True, False]]


def test_a_column_of_many_values_is_refused_as_classes_at_once(tmp_path):
    text = "f1,y\n" + "\n".join(f"1,id{row}" for row in range(30_000))
    found = message(tmp_path, text, features="f1", group=None, kind="labels", weak={"label": "y"})
    assert found.startswith("t.csv, line 2: column y: no class is called 'id0'; there are cat, dog (also line 3, 4")


def test_arrays_must_have_one_length(tmp_path):
    np.savez(tmp_path / "t.npz", f=np.zeros((4, 2)), g=np.array([0, 1, 5, 1]), n=np.zeros(3))
    changes = {"data": str(tmp_path / "t.npz"), "features": "f"}
    assert message(tmp_path, group=None, **changes) == "t.npz: n has 3 entries where there are 4 rows"
    assert message(tmp_path, group="g", **changes) == (
        "t.npz: n has 3 entries where there are 4 rows; one entry for each group needs groups numbered 0 to 2 in g"
    )


def test_a_fractional_group_number_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", f=np.zeros(2), g=np.array([1.0, 1.5]), n=np.zeros(2))
    found = message(tmp_path, data=str(tmp_path / "t.npz"), features="f", group="g")
    assert found == "t.npz, row 1: column g: groups are whole numbers or text, found 1.5"


def test_a_missing_package_is_asked_for(tmp_path, monkeypatch):
    for name in ("t.parquet", "t.h5"):
        (tmp_path / name).write_bytes(b"")

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(packages, "import_module", refuse)
    assert "reading parquet needs the package pyarrow" in message(tmp_path, data=str(tmp_path / "t.parquet"))
    assert "reading HDF5 needs the package h5py" in message(tmp_path, data=str(tmp_path / "t.h5"))
    with pytest.raises(DataError, match="reading a description of data needs the package PyYAML"):
        read_description(tmp_path / "t.yaml")
