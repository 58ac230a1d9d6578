"""Features reach a network as exactly as float32 can hold them once they are centered in float64."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from glws.data import read_table, scaled, scaling_of

OFFSETS = [0.0, 1.7e9, -3e12, 1e-7]
FORMATS = ["t.csv", "t.parquet", "t.npz", "t.h5"]


def written(path: Path, columns: dict[str, Any]) -> dict[str, Any]:
    """A table with a label for each row, in the format of the path's name, described."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if path.suffix == ".csv":
        rows = zip(*[np.asarray(values).tolist() for values in columns.values()], strict=True)
        path.write_text("\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows)]) + "\n")
    elif path.suffix == ".parquet":
        parquet.write_table(arrow.table(columns), path, row_group_size=50)
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    return {"data": str(path), "features": [name for name in columns if name != "y"], "classes": 2, "kind": "labels",
            "weak": {"label": "y"}}  # fmt: skip


def by_fractions(column: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and spread of a column without any rounding but that of the result."""
    exact = [Fraction(value) for value in column.tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    scale = Fraction(10) ** 60
    return float(mean), float(variance * scale) ** 0.5 / 1e30


@pytest.mark.parametrize("offset", OFFSETS)
def test_mean_and_spread_are_those_without_rounding(offset: float) -> None:
    draw = np.random.default_rng(3)
    features = offset + draw.normal(size=(157, 3)) * [60, 1e-3, 7] + [1, 2, -5]
    found = scaling_of(features, features[0], len(features))
    for number, column in enumerate(features.T):
        mean, spread = by_fractions(column)
        assert abs(float(found["mean"][number]) - mean) <= 1e-15 * abs(mean) + 1e-14 * spread  # a few digits of a sum
        rounding = (2**-53 * abs(mean) / spread) ** 2  # from differences to a mean in float64
        assert float(found["spread"][number]) == pytest.approx(spread, rel=1e-12 + rounding)


def test_mean_and_spread_do_not_depend_on_who_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    features = 1.7e9 + np.random.default_rng(0).normal(size=(1000, 3)) * [60, 1, 1e3]
    whole = scaling_of(features, features[0], 1000)
    monkeypatch.setattr("glws.data._scaling.NUMBERS_AT_ONCE", 100)
    totals: list[torch.Tensor] = []
    first, rest = features[:300], features[300:]
    scaling_of(rest, features[0], 1000, lambda own: totals.append(own) or own)
    offset = totals[0]
    mean = torch.as_tensor(features[0]) + (offset + torch.as_tensor(first - features[0]).sum(0)) / 1000
    assert torch.allclose(mean, whole["mean"], rtol=1e-15)
    assert torch.allclose(scaling_of(features, features[0], 1000)["spread"], whole["spread"], rtol=1e-12)


@pytest.mark.parametrize("value", [0.1, 1.7e9 + 0.3, -1e-20])
def test_a_constant_column_is_centered_at_zero_and_not_divided(value: float) -> None:
    features = np.full((1201, 1), value)
    found = scaling_of(features, features[0], 1201)
    assert found["mean"].tolist() == [value]
    assert found["spread"].tolist() == [1.0]
    assert not scaled(features, found).any()


@pytest.mark.parametrize("name", FORMATS)
def test_a_column_of_timestamps_keeps_all_its_values(name: str, tmp_path: Path) -> None:
    times = np.random.default_rng(1).permutation(1200) / 10  # two minutes, ten times a second
    table = read_table(written(tmp_path / name, {"t": 1.7e9 + times, "near": times, "y": (times > 60).astype(int)}))
    found = table.dataset(scaling=table.scaling()).instances.values
    assert found.dtype == torch.float32
    assert len(found[:, 0].unique()) == 1200
    assert torch.allclose(found[:, 0], found[:, 1], atol=1e-6)  # in units of the spread, of which 1e-7 is a digit
    with pytest.warns(UserWarning, match="column t keeps 2 of its 1,200 distinct values when rounded to float32"):
        assert len(table.dataset().instances.values[:, 0].unique()) == 2, "nothing was centered here"


@pytest.mark.parametrize(("kept", "dtype"), [("float32", "float32"), ("int16", "float32"), ("int64", "float64")])
@pytest.mark.parametrize("name", FORMATS[1:])
def test_features_take_the_memory_that_their_type_needs(name: str, kept: str, dtype: str, tmp_path: Path) -> None:
    columns = {"f": np.arange(7, dtype=kept), "y": np.arange(7) % 2}
    table = read_table(written(tmp_path / name, columns))
    assert table.features.dtype == dtype
    assert table.features[:, 0].tolist() == list(range(7))


def test_a_scaling_in_float32_of_an_earlier_version_gives_what_it_gave() -> None:
    features = np.random.default_rng(2).normal(3, 5, size=(40, 2))
    old = {"mean": torch.tensor([2.9, 3.3]), "spread": torch.tensor([5.1, 4.7])}
    before = (torch.as_tensor(features.astype(np.float32)) - old["mean"]) / old["spread"]
    assert torch.equal(scaled(features, old), before)
