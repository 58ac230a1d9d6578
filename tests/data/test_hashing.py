"""The hash of a table: every changed cell changes it, whoever reads which rows does not."""

from __future__ import annotations

import csv
import hashlib
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glws.data import DataHash, Table, read_table
from glws.data.tables import _hashing
from glws.data.tables._hashing import BlockHasher, ColumnHasher

ABOUT = {
    "features": ["x", "k", "tiny"],
    "classes": ["no", "yes"],
    "label": "truth",
    "blocks": [
        {"group": "bag", "kind": "proportions", "weak": {"count": "n"}},
        {"group": "pair", "kind": "pair_similarity", "weak": {"same": "same"}, "missing": "skip"},
        {"kind": "positive_confidence", "weak": {"confidence": "sure"}, "missing": "skip"},
    ],
}
FORMATS = ["t.csv", "t.parquet", "t.npz", "t.h5"]


def columns() -> dict[str, list[Any]]:
    """Numbers, text, truth values, and gaps."""
    draw = np.random.default_rng(5)
    return {
        "bag": ["u", "u", "v", "v", "v", "w", "w"],
        "x": (1.7e9 + draw.normal(size=7)).tolist(),
        "k": [3, -1, 4, 1, 5, 9, 2],
        "tiny": (1e-9 * draw.normal(size=7)).tolist(),
        "n": [1, 1, 2, 2, 2, 0, 0],
        "truth": ["no", "yes", "yes", "no", "yes", "no", ""],
        "pair": ["p", "q", "p", "q", "", "", ""],
        "same": ["1", "0", "1", "0", "", "", ""],
        "sure": [0.25, 0.5, 0.125, 0.75, 0.5, 1.0, 0.0],
    }


def written(path: Path, content: dict[str, list[Any]]) -> dict[str, Any]:
    """These columns in the format of the path's name, described."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(content), *zip(*content.values(), strict=True)])
    elif path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        blank = {name: [None if value == "" else value for value in values] for name, values in content.items()}
        parquet.write_table(arrow.table(blank), path, row_group_size=3)
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in content.items()})
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, values in content.items():
                array = np.array(values)
                file[name] = array.astype(object) if array.dtype.kind == "U" else array
    return {**ABOUT, "data": str(path)}


def hash_of(table: Table) -> DataHash:
    return table.data_hash()


def other(value: Any, name: str) -> Any:
    """The smallest change of a cell that leaves the table readable."""
    if isinstance(value, float):
        return float(np.nextafter(value, 0.3))
    if name == "k":
        return value + 1
    if name == "truth":
        return "yes" if value != "yes" else ""
    return {"0": "1", "1": "0"}[value]


def changed(content: dict[str, list[Any]], name: str, row: int) -> dict[str, list[Any]]:
    """A change of one cell; of a count, in all of its bag, since another one there is refused."""
    values = list(content[name])
    if name == "n":
        values = [value + (bag == content["bag"][row]) for value, bag in zip(values, content["bag"], strict=True)]
    elif name == "same":
        same = [pair == content["pair"][row] != "" for pair in content["pair"]]
        values = [other(value, name) if here else value for value, here in zip(values, same, strict=True)]
    else:
        values[row] = other(values[row], name)
    return {**content, name: values}


@pytest.mark.parametrize("name", FORMATS)
def test_every_changed_cell_is_noticed(name: str, tmp_path: Path) -> None:
    content = columns()
    before, count = hash_of(read_table(written(tmp_path / name, content))), 0
    assert hash_of(read_table(written(tmp_path / name, content))) == before
    for column in [name for name in content if name not in ("bag", "pair")]:  # groups: in the next test
        for row in range(7):
            now = changed(content, column, row)
            if now == content:  # without a pair, nothing is known to be the same
                continue
            after = hash_of(read_table(written(tmp_path / name, now)))
            assert after.columns != before.columns, (column, row)
            assert before.changes(after) == "its columns have other values"
            count += 1
    assert count > 40


@pytest.mark.parametrize("name", FORMATS)
def test_every_changed_group_is_noticed(name: str, tmp_path: Path) -> None:
    content: dict[str, list[Any]] = {"bag": ["u", "u", "v", "v", "v", "w", "w"], "x": [1.0] * 7, "n": [0] * 7}
    about: dict[str, Any] = {
        "features": "x",
        "classes": 2,
        "group": "bag",
        "kind": "proportions",
        "weak": {"count": "n"},
    }
    before = hash_of(read_table({**about, "data": written(tmp_path / name, content)["data"]}))
    for row in range(7):
        now = {**content, "bag": [*content["bag"][:row], "z", *content["bag"][row + 1 :]]}
        after = hash_of(read_table({**about, "data": written(tmp_path / name, now)["data"]}))
        assert after.columns != before.columns


@pytest.mark.parametrize("name", FORMATS)
def test_dropped_and_exchanged_rows_are_noticed(name: str, tmp_path: Path) -> None:
    content = columns()
    before = hash_of(read_table(written(tmp_path / name, content)))
    fewer = hash_of(read_table(written(tmp_path / name, {key: values[:-2] for key, values in content.items()})))
    assert before.changes(fewer) == "7 rows then, 5 now"
    swapped = {key: [values[1], values[0], *values[2:]] for key, values in content.items()}
    assert hash_of(read_table(written(tmp_path / name, swapped))).columns != before.columns


def test_a_description_counts_by_what_it_says_and_not_by_how(tmp_path: Path) -> None:
    about = written(tmp_path / "t.npz", columns())
    before = hash_of(read_table(about))
    moved = {**written(tmp_path / "moved.npz", columns()), "blocks": [*ABOUT["blocks"]]}
    said_twice = {**moved["blocks"][0], "missing": "error", "options": {}}
    assert hash_of(read_table({**moved, "blocks": [said_twice, *moved["blocks"][1:]]})) == before
    (tmp_path / "t.yaml").write_text(
        "data: t.npz\nclasses: ['no', 'yes']  # quoted\nfeatures:\n- x\n- k\n- tiny\nlabel: truth\nblocks:\n"
        "- {kind: proportions, weak: {count: n}, group: bag}\n"
        "- {kind: pair_similarity, weak: {same: same}, group: pair, missing: skip}\n"
        "- {kind: positive_confidence, weak: {confidence: sure}, missing: skip}\n"
    )
    assert hash_of(read_table(tmp_path / "t.yaml")) == before


@pytest.mark.parametrize(
    "change",
    [
        {"features": ["k", "x", "tiny"]},
        {"features": ["x"]},
        {"classes": ["yes", "no"]},
        {"blocks": ABOUT["blocks"][:2]},
    ],
    ids=["order", "fewer", "classes", "blocks"],
)
def test_another_description_is_noticed(change: dict[str, Any], tmp_path: Path) -> None:
    about = written(tmp_path / "t.npz", columns())
    before, after = hash_of(read_table(about)), hash_of(read_table({**about, **change}))
    assert before.changes(after).startswith("its description is another one")
    assert before.sha256 != after.sha256


def by_whole_blocks(matrix: np.ndarray[Any, Any], size: int) -> list[bytes]:
    """The obvious version: cut, then hash."""
    return [hashlib.sha256(matrix[row : row + size].tobytes()).digest() for row in range(0, len(matrix), size)]


@pytest.mark.parametrize("num_rows", [1, 7, 8, 23])
@pytest.mark.parametrize("knows_length", [True, False])
def test_blocks_are_hashed_alike_however_rows_arrive(
    num_rows: int, knows_length: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hashing, "ROWS_IN_BLOCK", 4)
    draw = np.random.default_rng(num_rows)
    matrix = draw.normal(size=(num_rows, 3))
    expected = by_whole_blocks(matrix, 4)
    for _ in range(20):
        cuts = sorted(draw.integers(0, num_rows + 1, 3).tolist())
        hasher = BlockHasher(num_rows if knows_length else None)
        for piece in np.split(matrix, cuts):
            hasher.add(piece)
        assert [bytes(row) for row in hasher.digests()] == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("block", [1, 4, 5, 4096])
def test_the_hash_does_not_depend_on_the_number_of_processes(
    size: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hashing, "ROWS_IN_BLOCK", block)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    draw = np.random.default_rng(block)
    bags = np.repeat(np.arange(20), draw.integers(1, 9, 20))
    content = {"bag": bags, "n": np.zeros(len(bags), int), "x": draw.normal(size=len(bags)), "z": bags.astype(float)}
    parquet.write_table(arrow.table(content), tmp_path / "t.parquet", row_group_size=6)
    about = {"data": str(tmp_path / "t.parquet"), "features": ["x", "z"], "classes": 2, "group": "bag",
             "kind": "proportions", "weak": {"count": "n"}}  # fmt: skip
    whole = read_table(about)
    parts = [read_table(about, (rank, size)) for rank in range(size)]
    assert all(part.shard is not None for part in parts)
    blocks = [part.hashed.blocks.astype(np.int32) for part in parts]
    assert sum((found.any(1) for found in blocks), np.zeros(len(blocks[0]), int)).tolist() == [1] * len(blocks[0])
    total = torch.from_numpy(reduce(np.add, blocks))
    for part in parts:
        assert part.data_hash(lambda own: total) == whole.data_hash()


def test_texts_are_told_apart_by_where_they_end() -> None:
    def digest(texts: list[str]) -> str:
        hasher = ColumnHasher()
        hasher.add("t", np.array([*texts, None], object)[:-1])
        return hasher.digest()

    assert len({digest(texts) for texts in (["ab", "c"], ["a", "bc"], ["abc", ""], ["ab", "c", ""])}) == 4


def test_images_count_by_name_and_size(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number, name in enumerate("ab"):
        image.fromarray(np.full((8, 8, 3), 40 * number, np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "t.csv").write_text("file,y\na.png,0\nb.png,1\n")
    about = {"data": str(tmp_path / "t.csv"), "features": {"image": "file", "size": 8}, "classes": 2, "kind": "labels",
             "weak": {"label": "y"}}  # fmt: skip
    before = hash_of(read_table(about))
    assert hash_of(read_table(about)) == before
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    image.fromarray(noise).save(tmp_path / "b.png")
    assert before.changes(hash_of(read_table(about))) == "its columns have other values"


def test_what_is_stored_comes_back_and_anything_else_is_nothing() -> None:
    known = DataHash(3, "a", "b")
    assert DataHash.read(known.as_dict()) == known
    for facts in (None, "x", {}, {"rows": 3}, {**known.as_dict(), "rows": "3"}):
        assert DataHash.read(facts) is None
