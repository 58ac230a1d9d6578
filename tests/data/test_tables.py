"""Tables: the same data from every format, groups in order, several kinds at once."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from glws.data import read_description, read_table
from glws.data.tables._grouping import members_of, numbered, sorting_order
from glws.errors import DataError

COLUMNS = {
    "bag": ["b7", "b7", "a2", "b7", "c1", "a2"],
    "f2": [0.5, -1.0, 2.0, 3.25, 4.0, 5.0],
    "f1": [1, 2, 3, 4, 5, 6],
    "positives": [2, 2, 0, 2, 1, 0],
    "truth": ["yes", "no", "no", "yes", "yes", "no"],
}
ABOUT = {
    "features": "f*",
    "group": "bag",
    "classes": ["no", "yes"],
    "kind": "proportions",
    "weak": {"count": "positives"},
    "label": "truth",
}


def write(path, columns):
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    elif path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path, row_group_size=4)
    elif path.suffix == ".npz":
        np.savez_compressed(path, **{name: np.array(values) for name, values in columns.items()})
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, values in columns.items():
                array = np.array(values)
                file[name] = array.astype(object) if array.dtype.kind == "U" else array
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.npz", "t.h5"])
def test_every_format_gives_the_same_table(tmp_path, name):
    features = (
        ["f2", "f1"] if name == "t.h5" else "f*"
    )  # a pattern takes the order of the file; HDF5 has none of its own
    table = read_table({**ABOUT, "features": features, "data": str(write(tmp_path / name, COLUMNS))})
    assert table.feature_names == ("f2", "f1")
    assert table.features.dtype == np.float64
    assert table.dataset().instances.values.dtype == torch.float32
    assert table.features.tolist() == [[0.5, 1], [-1, 2], [3.25, 4], [2, 3], [5, 6], [4, 5]]
    first = 2 if name.endswith("sv") else 0
    assert (table.row_numbers - first).tolist() == [0, 1, 3, 2, 5, 4]
    assert table.labels.tolist() == [1, 0, 1, 0, 0, 1]
    block = table.blocks[0]
    assert block.group_names.tolist() == ["b7", "a2", "c1"], "groups are numbered as they first appear"
    assert block.offsets.tolist() == [0, 3, 5, 6]
    assert block.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert block.weak["count"].tolist() == [2, 0, 1]
    assert table.supervision().describe(0) == "exactly 2 of class 1"
    assert "6 rows, 2 classes, 3 groups of proportions" in repr(table)


def test_a_yaml_file_is_read_relative_to_its_folder(tmp_path):
    write(tmp_path / "t.csv", COLUMNS)
    (tmp_path / "about.yaml").write_text(
        'data: t.csv\nfeatures: [f1]\ngroup: bag\nclasses: ["no", "yes"]\nkind: proportions\nweak: {count: positives}\n'
    )
    table = read_table(tmp_path / "about.yaml")
    assert table.features[:, 0].tolist() == [1, 2, 4, 3, 6, 5]
    assert table.labels is None


def test_lines_are_counted_as_an_editor_does(tmp_path):
    text = '\ufefff1,note,y\r\n1,plain,a\r\n\r\n2,"two\r\nlines",b\r\n3,x,a\r\n'
    (tmp_path / "t.csv").write_bytes(text.encode())
    about = {"data": str(tmp_path / "t.csv"), "features": ["f1"], "classes": ["a", "b"], "label": "y"}
    table = read_table(about)
    assert table.row_numbers.tolist() == [2, 4, 6], "the second row begins on line 4 and ends on line 5"
    assert table.labels.tolist() == [0, 1, 0]
    assert table.blocks == ()


def test_without_a_group_column_each_row_is_a_group(tmp_path):
    path = write(tmp_path / "t.csv", {"f": [1, 2, 3], "y": ["cat", "", "dog"]})
    about = {"data": str(path), "features": "f", "classes": ["cat", "dog"], "kind": "labels", "weak": {"label": "y"}}
    block = read_table(about).blocks[0]
    assert block.lengths.tolist() == [1, 1, 1]
    assert block.weak["label"].tolist() == [0, -1, 1], "no label is no error in this kind"
    assert block.group_names.tolist() == [2, 3, 4], "lines of the file"


def test_several_kinds_share_the_instances(tmp_path):
    columns = {
        "f": [10, 20, 30, 40, 50],
        "bag": ["x", "", "y", "x", "y"],
        "n": [1, "", 2, 1, 2],
        "known": ["", "cat", "", "dog", ""],
        "pair": [2, 1, 2, "", 1],
        "same": ["no", "yes", "no", "", "yes"],
    }
    about = {
        "data": str(write(tmp_path / "t.csv", columns)),
        "features": "f",
        "classes": ["cat", "dog"],
        "blocks": [
            {"kind": "proportions", "group": "bag", "weak": {"count": "n"}, "missing": "skip"},
            {"kind": "labels", "weak": {"label": "known"}, "missing": "skip"},
            {"kind": "pair_similarity", "group": "pair", "weak": {"same": "same"}, "missing": "skip"},
            {"kind": "labels", "weak": {"label": "known"}},
        ],
    }
    table = read_table(about)
    assert table.features[:, 0].tolist() == [10, 40, 30, 50, 20], "rows of no bag come last"
    bags, labels, pairs, everything = table.blocks
    assert [bags.offsets.tolist(), bags.members.tolist(), bags.weak["count"].tolist()] == [
        [0, 2, 4],
        [0, 1, 2, 3],
        [1, 2],
    ]
    assert table.features[labels.members, 0].tolist() == [20, 40], "in the order of the file"
    assert labels.weak["label"].tolist() == [0, 1]
    assert labels.group_names.tolist() == [3, 5]
    assert pairs.group_names.tolist() == ["2", "1"]
    assert table.features[pairs.members, 0].tolist() == [10, 30, 50, 20]
    assert pairs.weak["same"].tolist() == [0, 1]
    assert table.features[everything.members, 0].tolist() == [10, 20, 30, 40, 50]
    assert everything.weak["label"].tolist() == [-1, 0, -1, 1, -1]
    assert [len(table.supervision(number)) for number in range(4)] == [2, 2, 2, 5]
    batch = next(table.dataset().batches(1))
    assert batch.instances[batch.parts[2].rows][:, :, 0].tolist() == [[10, 30], [50, 20]]


def test_vectors_are_wide_features(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    vectors = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    parquet.write_table(arrow.table({"e": vectors, "f": [7, 8, 9]}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", e=np.array(vectors), f=np.array([7, 8, 9]))
    for name in ("t.parquet", "t.npz"):
        table = read_table({"data": str(tmp_path / name), "features": ["f", "e"], "classes": 2})
        assert table.feature_names == ("f", "e[0]", "e[1]")
        assert table.features.tolist() == [[7, 1, 2], [8, 3, 4], [9, 5, 6]]


def test_an_array_with_one_entry_for_each_group_is_spread_over_its_rows(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.eye(5), bag=np.array([1, 0, 1, 2, 0]), bag_label=np.array([1, 0, 1]))
    about = {"data": str(tmp_path / "t.npz"), "features": "x", "classes": 2, "group": "bag"}
    table = read_table({**about, "kind": "multi_instance", "weak": {"present": "bag_label"}})
    assert table.blocks[0].group_names.tolist() == [1, 0, 2]
    assert table.blocks[0].weak["present"].tolist() == [0, 1, 1]


def test_images_stay_in_their_files(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        pillow.fromarray(np.full((5, 5, 3), number, np.uint8)).save(tmp_path / "pictures" / f"{number}.png")
    columns = {"file": [f"pictures/{number}.png" for number in (2, 0, 1)], "g": ["b", "a", "b"], "n": [1, 0, 1]}
    about = {"features": {"image": "file", "size": 4}, "classes": 2, "group": "g", "kind": "proportions"}
    table = read_table({**about, "weak": {"count": "n"}, "data": str(write(tmp_path / "t.csv", columns))})
    assert [int(table.features[row][0, 0, 0]) for row in range(3)] == [2, 1, 0]
    assert table.features[0].shape == (3, 4, 4)
    (tmp_path / "pictures" / "0.png").unlink()
    with pytest.raises(DataError, match=r"line 3: column file: there is no image .*0\.png"):
        read_table({**about, "weak": {"count": "n"}, "data": str(tmp_path / "t.csv")})


def test_parquet_types_are_understood(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from datetime import date
    from decimal import Decimal

    table = arrow.table(
        {
            "day": [date(2020, 1, 2), date(2020, 1, 1), date(2020, 1, 2)],
            "price": [Decimal("1.50"), Decimal("2.25"), Decimal("3.00")],
            "flag": [True, False, True],
            "n": arrow.array([1, 0, 1], arrow.int16()),
            "kind": arrow.array(["b", "a", None]).dictionary_encode(),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    about = {"data": str(tmp_path / "t.parquet"), "features": ["price", "flag"], "classes": ["a", "b"], "label": "kind"}
    read = read_table({**about, "group": "day", "kind": "proportions", "weak": {"count": "n"}})
    assert read.features.tolist() == [[1.5, 1], [3, 1], [2.25, 0]]
    assert read.blocks[0].group_names.tolist() == ["2020-01-02", "2020-01-01"]
    assert read.labels.tolist() == [1, -1, 0]


@pytest.mark.parametrize("name", ["t.parquet", "t.npz", "t.h5"])
def test_a_number_that_is_nan_is_an_empty_cell(tmp_path, name):
    path = write(tmp_path / name, {"x": [0.0, 1, 2, 3], "bag": [2, np.nan, 2, 5], "n": [1, np.nan, 1, 0]})
    about = {"data": str(path), "features": "x", "classes": 2, "group": "bag", "kind": "proportions"}
    block = read_table({**about, "weak": {"count": "n"}, "missing": "skip"}).blocks[0]
    assert block.group_names.tolist() == [2, 5]
    assert block.lengths.tolist() == [2, 1]
    with pytest.raises(DataError, match="row 1: column n is empty"):
        read_table({**about, "weak": {"count": "n"}})


def test_a_pattern_never_takes_what_is_used_otherwise(tmp_path):
    path = write(tmp_path / "t.csv", {"a": [1, 2], "a_bag": [1, 2], "a_count": [0, 1], "a_truth": [0, 1]})
    about = {"features": "a*", "classes": 2, "group": "a_bag", "kind": "proportions", "weak": {"count": "a_count"}}
    assert read_table({**about, "label": "a_truth", "data": str(path)}).feature_names == ("a",)
    with pytest.raises(DataError, match="a_truth is the true label"):
        read_table({**about, "label": "a_truth", "features": ["a", "a_truth"], "data": str(path)})


def test_classes_may_be_numbers_or_names(tmp_path):
    path = write(
        tmp_path / "t.csv", {"f": [0, 0, 0], "number": [1, 0, 1], "digit": [8, 3, 8], "mixed": ["b", "0", "1"]}
    )
    for label, classes in (("number", 2), ("number", ["a", "b"]), ("digit", [3, 8]), ("mixed", ["a", "b"])):
        table = read_table({"data": str(path), "features": "f", "classes": classes, "label": label})
        assert table.labels.tolist() == [1, 0, 1], (label, classes)
    with pytest.raises(DataError, match="line 2: column number: no class is called '1'; there are 3, 8"):
        read_table({"data": str(path), "features": "f", "classes": [3, 8], "label": "number"})


@pytest.mark.parametrize("kind", ["dense", "sparse", "text"])
def test_groups_are_those_of_a_plain_loop(kind):
    generator = np.random.default_rng(6)
    for _ in range(200):
        size = int(generator.integers(0, 12))
        names = generator.integers(-3, 4, size) * (10**9 if kind == "sparse" else 1)
        names = names.astype(str).astype(object) if kind == "text" else names
        is_member = generator.random(size) < 0.8
        numbers, found = numbered(names, is_member)
        seen = list(dict.fromkeys(names[is_member].tolist()))
        assert found.tolist() == seen
        assert numbers.tolist() == [
            seen.index(name) if kept else -1 for name, kept in zip(names, is_member, strict=True)
        ]
        offsets, members = members_of(numbers, len(seen))
        for group in range(len(seen)):
            assert members[offsets[group] : offsets[group + 1]].tolist() == np.flatnonzero(numbers == group).tolist()
        order = sorting_order(numbers)
        arranged = numbers if order is None else numbers[order]
        inside = arranged[arranged >= 0]
        assert (np.diff(inside) >= 0).all()
        assert (arranged[len(inside) :] == -1).all()


def test_a_description_knows_its_columns():
    about = read_description({**ABOUT, "data": "t.csv", "weak": {"low": "a", "high": "b"}})
    assert about.blocks[0].columns == ["bag", "a", "b"]
    assert read_description({**ABOUT, "data": "t.csv", "classes": 3}).classes == ("0", "1", "2")
