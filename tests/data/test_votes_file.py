"""`read_votes`: long tables and matrices, from files and from memory, with the same votes in all of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from glws.data import VoteTable, read_votes
from glws.errors import DataError

LONG = {
    "task": [7, 5, 7, 5, 3],
    "worker": ["ann", "bob", "bob", "ann", "bob"],
    "label": ["cat", "dog", "dog", "dog", ""],
}
MATRIX = {"task": [3, 5, 7], "ann": [None, "dog", "cat"], "bob": ["-1", "dog", "dog"]}


def described(found: VoteTable) -> dict[int, str]:
    return {int(item): found.votes.describe(row, found.classes) for row, item in enumerate(found.items)}


def written(folder: Path, values: dict[str, Any], name: str) -> Path:
    path, table = folder / name, pyarrow.table(values)
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*values.values(), strict=True)]
        path.write_text("\n".join(map(",".join, [list(values), *rows])) + "\n")
    return path


@pytest.mark.parametrize("name", ["votes.csv", "votes.parquet", ""])
@pytest.mark.parametrize("values", [LONG, MATRIX])
def test_every_format_gives_the_same_votes(tmp_path: Path, values: dict[str, Any], name: str) -> None:
    found = read_votes(written(tmp_path, values, name) if name else values)
    said = {5: "2 votes: 2 for dog", 7: "2 votes: 1 for cat, 1 for dog", 3: "no vote"}
    assert found.classes == ("cat", "dog")
    assert found.votes.source_names == ("ann", "bob")
    assert described(found) == said


def test_data_frames_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    assert described(read_votes(pandas.DataFrame(LONG))) == described(read_votes(LONG))


def test_items_come_in_the_order_that_is_asked_for() -> None:
    found = read_votes(LONG, items=["5", "9", "7"])
    assert [found.votes.describe(row) for row in range(3)] == [
        "2 votes: 2 for 1", "no vote", "2 votes: 1 for 0, 1 for 1",
    ]  # fmt: skip


def test_votes_may_be_sets_or_against_a_class() -> None:
    found = read_votes({"item": [1, 1, 2], "source": "aba", "answer": ["a|b", "not c", "c"]})
    assert found.classes == ("a", "b", "c")
    np.testing.assert_array_equal(found.votes.log_table().argmax(1), [0, 2])
    assert sorted(found.votes.meanings.tolist()) == [[0, 0, 1], [1, 1, 0], [1, 1, 0]]


def test_large_numbers_and_many_batches_are_numbered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    from glws.data.tables import _votes_file

    monkeypatch.setattr(_votes_file, "BATCH_ROWS", 7)
    random = np.random.default_rng(0)
    items, sources, labels = random.integers(0, 9, 100) * 10**12, random.integers(0, 5, 100), random.integers(0, 3, 100)
    order = np.unique(items * 100 + sources * 1, return_index=True)[1]
    items, sources, labels = items[order], sources[order], labels[order]
    found = read_votes({"item": items, "worker": sources, "label": labels})
    assert found.items.tolist() == sorted(set(items.tolist()))
    assert [int(name) for name in found.votes.source_names] == sorted(set(sources.tolist()))
    small = read_votes({"item": items // 10**12, "worker": [f"w{s}" for s in sources], "label": labels})
    assert found.votes.offsets.tolist() == small.votes.offsets.tolist()


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        (LONG, {"item": "tusk"}, "there is no column 'tusk'; did you mean task"),
        ({"a": [1], "b": [2]}, {"label": "a"}, "a long table needs the column of the item"),
        (LONG, {"classes": ["cat", "bird"]}, "no class is called 'dog'; there are cat, bird"),
        ({"a": [-1], "b": [None]}, {}, "there is no vote"),
        (MATRIX, {"items": [3, 5, 7]}, "the rows of a matrix are the items"),
        (LONG, {"items": [5, 5]}, "items must be different names"),
    ],
)
def test_mistakes_are_one_line(values: dict[str, Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_votes(values, **given)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "votes.xls").write_text("")
    (tmp_path / "bad.parquet").write_text("no")
    for name, message in (("none.csv", "there is no such file"), ("votes.xls", "files that end in"),
                          ("bad.parquet", "cannot be read as parquet")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            read_votes(tmp_path / name)
