"""A parquet file in parts: each process has the groups of all, and the features of its own rows only."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from glws.data import ShardInstances, read_table
from glws.data.tables import Table, _hashing
from glws.data.tables._shard import shard_bounds
from glws.errors import DataError

ABOUT = {
    "features": "f*",
    "classes": ["no", "yes"],
    "label": "truth",
    "blocks": [
        {"group": "bag", "kind": "proportions", "weak": {"count": "positives"}},
        {"group": "pair", "kind": "pair_similarity", "weak": {"same": "same"}, "missing": "skip"},
    ],
}


def columns(num_bags: int = 31, seed: int = 3) -> dict[str, Any]:
    """Ragged bags in order, and pairs of rows from both ends of the file."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 8, num_bags)
    bags = np.repeat([f"bag {number * 7 % 100}" for number in range(num_bags)], sizes)
    rows = len(bags)
    features = {f"f{number}": draw.normal(size=rows) + number for number in range(3)}
    truth = (features["f0"] > 0).astype(int)
    counts = np.repeat(np.add.reduceat(truth, np.cumsum(sizes) - sizes), sizes)
    ends = np.arange(rows // 4)
    pair, same = np.full(rows, None, object), np.full(rows, None, object)
    pair[ends], pair[rows - 1 - ends] = ends, ends
    same[ends] = same[rows - 1 - ends] = truth[ends] == truth[rows - 1 - ends]
    return {"bag": bags, "positives": counts, "truth": np.array(["no", "yes"])[truth], "pair": pair, "same": same,
            **features}  # fmt: skip


def written(path: Path, content: dict[str, Any], rows: int = 10) -> dict[str, Any]:
    """A parquet file with so many rows in a row group, described."""
    table = pyarrow.table({name: values.tolist() for name, values in content.items()})
    parquet.write_table(table, path, row_group_size=rows)
    return {**ABOUT, "data": str(path)}


def same_but_features(part: Table, whole: Table) -> bool:
    """Whether all that is known of all rows is the same."""
    assert part.labels is not None
    blocks = zip(part.blocks, whole.blocks, strict=True)
    return all(
        [
            np.array_equal(part.row_numbers, whole.row_numbers),
            np.array_equal(part.labels, whole.labels),
            part.feature_names == whole.feature_names,
            *(np.array_equal(mine.members, other.members) for mine, other in blocks),
        ]
    )


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("rows_in_a_group", [4, 10, 1000])
def test_the_parts_together_are_the_table_and_no_bag_is_cut(tmp_path: Path, size: int, rows_in_a_group: int) -> None:
    about = written(tmp_path / "t.parquet", columns(), rows_in_a_group)
    whole = read_table(about)
    parts = [read_table(about, (rank, size)) for rank in range(size)]
    assert np.array_equal(np.concatenate([part.features for part in parts]), whole.features)
    for rank, part in enumerate(parts):
        assert part.shard is not None
        assert same_but_features(part, whole)
        assert len(part.features) == part.shard.bounds[rank + 1] - part.shard.bounds[rank]
        assert set(part.shard.bounds) <= {*whole.blocks[0].offsets.tolist(), len(whole)}
        assert np.array_equal(part.shard.example, whole.features[:1])
    sizes = [len(part.features) for part in parts]
    assert max(sizes) - min(sizes) < 2 * 8  # even, up to a bag at each end


def test_instances_of_a_part_are_those_of_the_table_and_others_are_refused(tmp_path: Path) -> None:
    about = written(tmp_path / "t.parquet", columns())
    whole, part = read_table(about).dataset(), read_table(about, (1, 3)).dataset()
    instances = part.instances
    assert isinstance(instances, ShardInstances)
    first, last = instances.bounds[1:3]
    mine = torch.arange(first, last).flip(0)
    assert len(instances) == len(whole.instances)
    assert torch.equal(instances.take(mine), whole.instances.take(mine))
    assert torch.equal(instances.take(torch.tensor([0])), whole.instances.take(torch.tensor([0])))
    with pytest.raises(DataError, match=f"^instance {last} was read by another process; this one has {first} to"):
        instances.take(torch.tensor([first, last]))
    some = torch.arange(1, len(whole.instances), 3)
    chosen = instances.subset(some)
    here = torch.arange(len(some))[chosen.is_here(torch.arange(len(some)))]
    assert len(chosen) == len(some)
    assert torch.equal(chosen.take(here), whole.instances.take(some[here]))
    assert 0 < len(here) < len(some)
    with pytest.raises(DataError, match=r"^instance 0 was read by another process"):
        chosen.take(torch.tensor([0]))


@pytest.mark.parametrize("row", [0, 60, -1])
def test_what_is_wrong_in_a_part_is_found_by_who_reads_it(
    tmp_path: Path, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hashing, "ROWS_IN_BLOCK", 1)  # otherwise the first process reads its whole block, which is all
    content = columns()
    content["f1"][row] = np.inf
    about = written(tmp_path / "t.parquet", content)
    place = row % len(content["f1"])
    for rank in range(3):
        bounds = shard_bounds(read_table(written(tmp_path / "good.parquet", columns())).blocks[0].offsets,
                              len(content["f1"]), 3)  # fmt: skip
        assert bounds is not None
        if bounds[rank] <= place < bounds[rank + 1] or place == 0:
            with pytest.raises(DataError, match=rf"row {place}: column f1 must be a finite number"):
                read_table(about, (rank, 3))
        else:
            read_table(about, (rank, 3))


def test_where_rows_of_a_group_do_not_stand_together_everything_is_read_and_a_note_says_so(tmp_path: Path) -> None:
    content = columns()
    order = np.random.default_rng(0).permutation(len(content["bag"]))
    about = written(tmp_path / "t.parquet", {name: values[order] for name, values in content.items()})
    whole, part = read_table(about), read_table(about, (1, 2))
    assert np.array_equal(part.features, whole.features)
    assert part.shard is None
    assert "every process reads all of it, because the rows of a group do not stand together" in part.note
    few = read_table(written(tmp_path / "few.parquet", columns(num_bags=2)), (0, 3))
    assert few.note.endswith("because there are fewer groups than processes")
    (tmp_path / "t.csv").write_text("f,n\n1,0\n2,1\n")
    row = {"data": str(tmp_path / "t.csv"), "features": "f", "classes": 2, "kind": "labels", "weak": {"label": "n"}}
    assert "only of a parquet file with groups" in read_table(row, (0, 2)).note
    assert not read_table(row).note


def test_a_table_of_single_rows_is_cut_anywhere(tmp_path: Path) -> None:
    content = {"f": np.arange(7.0), "n": np.arange(7) % 2}
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(content), path, row_group_size=3)
    about = {"data": str(path), "features": "f", "classes": 2, "kind": "labels", "weak": {"label": "n"}}
    parts = [read_table(about, (rank, 3)) for rank in range(3)]
    assert [part.features[:, 0].tolist() for part in parts] == [[0, 1], [2, 3], [4, 5, 6]]


def test_a_process_holds_the_features_of_its_part_only(tmp_path: Path) -> None:
    rows, wide = 40_000, 100
    features = np.random.default_rng(1).normal(size=(rows, wide)).astype(np.float32)
    content = {"bag": np.arange(rows) // 10, "positives": np.zeros(rows, int)}
    content |= {f"f{number}": features[:, number] for number in range(wide)}
    parquet.write_table(pyarrow.table(content), tmp_path / "t.parquet", row_group_size=1000)
    about = {"data": str(tmp_path / "t.parquet"), "features": "f*", "classes": 2, "group": "bag",
             "kind": "proportions", "weak": {"count": "positives"}}  # fmt: skip
    whole, part = peak(about, None), peak(about, (2, 16))
    own = features.nbytes / 16
    bookkeeping = rows * 8 * 8  # some columns of whole numbers
    row_batch = 3 * own  # rows as arrow has them, as columns, as a matrix, before they are added to the others
    assert whole > features.nbytes
    assert part < own + bookkeeping + row_batch < features.nbytes / 2


def peak(about: dict[str, Any], part: tuple[int, int] | None) -> int:
    """The most that numpy and arrow held at once while the table was read."""
    before, pool = pyarrow.default_memory_pool(), pyarrow.proxy_memory_pool(pyarrow.default_memory_pool())
    pyarrow.set_memory_pool(pool)
    tracemalloc.start()
    try:
        read_table(about, part)
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(before)
