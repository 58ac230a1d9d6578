"""Standardization of features: mean and spread in double precision, then rounding to float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glws.errors import DataError

Scaling = Mapping[str, Tensor]
"""The mean that is subtracted from each feature and the spread that it is divided by."""
NUMBERS_AT_ONCE = 1 << 22


def itself(own: Tensor) -> Tensor:
    """The tensor itself: the sum over all processes of a single-process run."""
    return own


def scaling_of(
    features: Any, first: Any, num_rows: int, summed: Callable[[Tensor], Tensor] = itself
) -> dict[str, Float[Tensor, "columns"]]:
    """Mean and standard deviation of each column in float64, from two passes; a constant column has the spread 1.

    `features` are the rows of this process, `first` is the first row of the table, `num_rows` counts all rows, and
    `summed` sums a tensor over all processes. With x_0 the first row

        mean = x_0 + sum(x - x_0) / rows,    spread^2 = sum((x - mean)^2) / rows,

    so that a constant column has a spread of exactly 0, which is replaced by 1, however far from zero it is.

    >>> rows = torch.tensor([[1.7e9, 0.1], [1.7e9 + 2, 0.1], [1.7e9 + 4, 0.1]], dtype=torch.float64)
    >>> scaling = scaling_of(rows, rows[0], num_rows=3)
    >>> scaling["mean"].tolist(), scaling["spread"].square().tolist()
    ([1700000002.0, 0.1], [2.6666666666666665, 1.0])
    """
    values, start = _array(features), _array(first).astype(np.float64)
    offset = sum((values[piece] - start).sum(0) for piece in _pieces(values))
    mean = start + summed(torch.as_tensor(offset)).numpy() / num_rows
    squares = sum(np.square(values[piece] - mean).sum(0) for piece in _pieces(values))
    spread = np.sqrt(summed(torch.as_tensor(squares)).numpy() / num_rows)
    return {"mean": torch.from_numpy(mean), "spread": torch.from_numpy(np.where(spread > 0, spread, 1.0))}


def scaled(features: Any, scaling: Scaling | None) -> Float[Tensor, "rows columns"]:
    """Features in float32, minus their mean and divided by their spread; only rounded without a `scaling`.

    The arithmetic has the precision of the scaling: float64, or float32 in a run of an earlier version of glws, whose
    network then gets the values that it was trained on.

    >>> column = torch.tensor([[1.7e9], [1.7e9 + 2]], dtype=torch.float64)
    >>> scaled(column, scaling_of(column, column[0], 2)).tolist(), scaled(column, None).diff(dim=0).tolist()
    ([[-1.0], [1.0]], [[0.0]])
    """
    values = _array(features)
    if scaling is None:
        return torch.from_numpy(np.require(values, np.float32, "W"))
    mean, spread = _array(scaling["mean"]), _array(scaling["spread"])
    if values.shape[1] != len(mean):
        raise DataError(f"the network was trained on {len(mean)} features, found {values.shape[1]}")
    result = np.empty(values.shape, np.float32)
    for piece in _pieces(values):
        result[piece] = (values[piece].astype(mean.dtype, copy=False) - mean) / spread
    return torch.from_numpy(result)


def _array(values: Any) -> NDArray[Any]:
    return values.numpy() if isinstance(values, Tensor) else np.asarray(values)


def _pieces(values: NDArray[Any]) -> Iterator[slice]:
    """Slices of a few rows, to limit memory."""
    rows = max(NUMBERS_AT_ONCE // max(values.shape[1], 1), 1)
    return (slice(first, first + rows) for first in range(0, len(values), rows))
