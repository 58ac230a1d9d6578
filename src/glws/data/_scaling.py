"""Standardization of features: mean and spread in double precision, and rounding to float32 only afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError

Scaling = Mapping[str, Tensor]
"""What is subtracted from each feature and what it is divided by: "mean" and "spread"."""
NUMBERS_AT_ONCE = 1 << 22


def itself(own: Tensor) -> Tensor:
    """The sum over all processes where there is one."""
    return own


def scaling_of(
    features: Any, first: Any, num_rows: int, summed: Callable[[Tensor], Tensor] = itself
) -> dict[str, Float[Tensor, "columns"]]:
    """Mean and standard deviation of each column in float64, from two passes; a constant column has the spread 1.

    `features` are the rows of this process, `first` is the first row of the table, `num_rows` counts all rows, and
    `summed` adds a tensor up over all processes. With x_0 the first row

        mean = x_0 + sum(x - x_0) / rows,    spread^2 = sum((x - mean)^2) / rows,

    so that a constant column has a spread of exactly 0, which is replaced by 1, however far from zero it is.

    >>> rows = torch.tensor([[1.7e9, 0.1], [1.7e9 + 2, 0.1], [1.7e9 + 4, 0.1]], dtype=torch.float64)
    >>> scaling = scaling_of(rows, rows[0], num_rows=3)
    >>> scaling["mean"].tolist(), scaling["spread"].square().tolist()
    ([1700000002.0, 0.1], [2.6666666666666665, 1.0])
    """
    values, start = torch.as_tensor(features), torch.as_tensor(first, dtype=torch.float64)
    offset = start.new_zeros(len(start))
    for piece in _pieces(values):
        offset += (values[piece] - start).sum(0)
    mean = start + summed(offset) / num_rows
    squares = start.new_zeros(len(start))
    for piece in _pieces(values):
        squares += (values[piece] - mean).square().sum(0)
    spread = (summed(squares) / num_rows).sqrt()
    return {"mean": mean, "spread": torch.where(spread > 0, spread, 1.0)}


def scaled(features: Any, scaling: Scaling | None) -> Float[Tensor, "rows columns"]:
    """Features in float32, less their mean and in units of their spread; only rounded where there is no `scaling`.

    The arithmetic has the precision of the scaling: float64, or float32 in a run of an earlier version of glws, whose
    network then gets the values it was trained on.

    >>> column = torch.tensor([[1.7e9], [1.7e9 + 2]], dtype=torch.float64)
    >>> scaled(column, scaling_of(column, column[0], 2)).tolist(), scaled(column, None).diff(dim=0).tolist()
    ([[-1.0], [1.0]], [[0.0]])
    """
    values = torch.as_tensor(features)
    if scaling is None:
        return values.float()
    mean, spread = scaling["mean"], scaling["spread"]
    if values.shape[1] != len(mean):
        raise DataError(f"the network was trained on {len(mean)} features, found {values.shape[1]}")
    result = torch.empty(values.shape, dtype=torch.float32)
    for piece in _pieces(values):
        result[piece] = (values[piece].to(mean.dtype) - mean) / spread
    return result


def _pieces(values: Tensor) -> Iterator[slice]:
    """A few rows at a time, to need little memory beside them."""
    rows = max(NUMBERS_AT_ONCE // max(values.shape[1], 1), 1)
    return (slice(first, first + rows) for first in range(0, len(values), rows))
