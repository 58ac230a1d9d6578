"""Instances that stay in a file: the rows of the file, a few blocks in memory, and the training of the same rows."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from torch import Tensor

from glws.data import StoredInstances, WeakDataset
from glws.data._stored_instances import EXTRA
from glws.errors import DataError
from glws.kinds import Proportions
from glws.models import build
from glws.training import TrainingConfig, fit

ROWS, WIDTH = 600, 3
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twelve row groups of fifty rows."""
    path = tmp_path / "rows.parquet"
    columns = {f"x{number}": X[:, number] for number in range(WIDTH)}
    parquet.write_table(pyarrow.table({**columns, "name": ["a"] * ROWS}), path, row_group_size=50)
    return path


def stored(path: Path, blocks: int = 2) -> StoredInstances:
    return StoredInstances.parquet(path, ["x0", "x1", "x2"], memory=blocks * 50 * WIDTH * 8)


def test_rows_of_parquet_are_those_of_the_file_in_any_order(table: Path) -> None:
    rows = stored(table)
    assert rows.shape == (ROWS, WIDTH)
    numbers = torch.randint(ROWS, (500,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(rows.take(numbers), torch.from_numpy(X)[numbers])
    assert rows.take(numbers[:0]).shape == (0, WIDTH)


@pytest.mark.parametrize("chunks", [None, (64, WIDTH), (7, 1)])
def test_rows_of_hdf5_are_those_of_the_file(
    tmp_path: Path, chunks: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glws.data._stored_instances.BLOCK_ROWS", 100)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("features", data=X.astype(np.float32), chunks=chunks)
    rows = StoredInstances.hdf5(tmp_path / "rows.h5")
    assert len(rows.block_bounds) > 4
    numbers = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rows.take(numbers), torch.from_numpy(X.astype(np.float32))[numbers])


def test_only_a_few_blocks_stay_in_memory(table: Path) -> None:
    rows = stored(table)
    assert rows.blocks_at_once == 2
    for number in torch.randperm(ROWS, generator=torch.Generator().manual_seed(1)):
        rows.take(number[None])
        assert len(rows._blocks) <= 2 + EXTRA


def test_what_is_expected_is_read_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, seen = stored(table), list[int]()
    read = rows._file.read
    monkeypatch.setattr(rows._file, "read", lambda block: seen.append(block) or read(block))
    rows.expect(torch.tensor([120, 5]))
    assert torch.equal(rows.take(torch.tensor([130, 4])), torch.from_numpy(X)[[130, 4]])
    assert sorted(seen) == [0, 2]


def test_another_process_opens_the_file_again(table: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["features"] = X
    for rows in (stored(table).standardized(), StoredInstances.hdf5(tmp_path / "rows.h5")):
        again = pickle.loads(pickle.dumps(rows))
        assert again.blocks_at_once == rows.blocks_at_once
        assert torch.equal(again.take(torch.arange(ROWS)), rows.take(torch.arange(ROWS)))


def test_standardized_rows_have_mean_zero_and_spread_one(table: Path) -> None:
    rows = stored(table).standardized().take(torch.arange(ROWS)).double()
    assert rows.mean(0).abs().max() < 1e-6
    assert (rows.square().mean(0) - 1).abs().max() < 1e-5


@dataclass(frozen=True, eq=False)
class InMemory:
    """The same rows in memory, in the same blocks."""

    values: Tensor
    block_bounds: Tensor
    blocks_at_once: int

    def __len__(self) -> int:
        return len(self.values)

    def take(self, numbers: Tensor) -> Tensor:
        return self.values[numbers]


def weights(instances: object, order: str | None = None) -> Tensor:
    bags = torch.arange(ROWS).view(120, 5)
    data = WeakDataset(instances, bags, Proportions.of(torch.from_numpy(X[:, 0] > 0)[bags].sum(1)))
    model = build("mlp", [WIDTH], 2, torch.Generator().manual_seed(0), hidden=[8])
    fit(model, data, config=TrainingConfig(epochs=3, batch_size=9, order=order))  # type: ignore[arg-type]
    return torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])


def test_a_training_from_a_file_is_bit_for_bit_that_in_memory_in_the_same_order(table: Path) -> None:
    rows = stored(table)
    whole = torch.from_numpy(X)
    in_blocks = weights(rows)
    assert torch.equal(in_blocks, weights(InMemory(whole, rows.block_bounds, rows.blocks_at_once)))
    in_any_order = weights(rows, "random")
    assert torch.equal(in_any_order, weights(whole))
    assert not torch.equal(in_blocks, in_any_order)


def test_an_epoch_reads_a_row_group_about_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, seen = stored(table), list[int]()
    read = rows._file.read
    monkeypatch.setattr(rows._file, "read", lambda block: seen.append(block) or read(block))
    weights(rows)
    assert len(seen) <= 1.5 * 3 * 12


@pytest.mark.parametrize(
    ("columns", "words"),
    [(["x0", "x7"], "there is no column x7; there are x0, x1"), (["x0", "name"], "instances must be numbers")],
)
def test_columns_that_are_no_numbers_are_one_line(table: Path, columns: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        StoredInstances.parquet(table, columns).take(torch.tensor([0]))


def test_broken_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"nothing of the kind")
    for opening in (StoredInstances.parquet, StoredInstances.hdf5):
        with pytest.raises(DataError, match=r"cannot read .*broken"):
            opening(tmp_path / "broken")
    empty = pyarrow.table({"x": pyarrow.array([1.0, None, 2.0])})
    parquet.write_table(empty, tmp_path / "gaps.parquet")
    with pytest.raises(DataError, match="column x has empty cells in rows 0 to 2"):
        StoredInstances.parquet(tmp_path / "gaps.parquet").take(torch.tensor([0]))
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["features"] = np.zeros(3)
    with pytest.raises(DataError, match=r"must be \[rows, features\]"):
        StoredInstances.hdf5(tmp_path / "rows.h5")
    with pytest.raises(DataError, match="there is no data set other; there are features"):
        StoredInstances.hdf5(tmp_path / "rows.h5", "other")


def test_a_value_that_is_not_finite_is_named_with_its_row(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"x": [0.0, 1.0, 2.0, float("nan")]}), tmp_path / "t.parquet", row_group_size=2)
    with pytest.raises(DataError, match="instances must be finite, found nan in row 3"):
        StoredInstances.parquet(tmp_path / "t.parquet").take(torch.tensor([2]))
