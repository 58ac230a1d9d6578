"""Small forms on the CPU, compiled: presence, agreement of pairs and triplets, tables. One pass there and back.

Importing this package does not import numba; the first answer does. All take rows of log-potentials [rows, classes],
float32 or float64, the first row of each group, and its number of rows. They compute in float64 and answer in the type
of the potentials. `doubtful` tells whether groups are left to log space, those with log Z = NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glws.inference._closed import MODERATE
from glws.inference._kernels import Kernel
from glws.inference._rows import Rows

if TYPE_CHECKING:
    from glws.inference._compiled_forms.agreement import Agreement
    from glws.inference._compiled_forms.presence import Presence
    from glws.inference._compiled_forms.tables import Tables


class Found(NamedTuple):
    """log Z in float64, q, and the number of groups without an answer."""

    log_z: Tensor
    marginals: Tensor
    doubtful: int


def _rows(dtype: torch.dtype) -> tuple[Any, ...]:
    """Two instances of two classes, as a group: values, starts, lengths, log Z and q."""
    values, numbers = torch.zeros(2, 2, dtype=dtype), torch.tensor([0])
    return values.numpy(), numbers.numpy(), torch.tensor([2]).numpy(), torch.zeros(1).double().numpy(), values.numpy()


def _load_presence() -> Presence:
    from glws.inference._compiled_forms.presence import presence

    for dtype in (torch.float32, torch.float64):
        values, starts, lengths, log_z, out = _rows(dtype)
        counted, log_weights = torch.eye(2).bool()[:1].numpy(), torch.zeros(1, 2).double().numpy()
        presence(values, starts, lengths, counted, log_weights, log_z, out)
    return presence


def _load_agreement() -> Agreement:
    from glws.inference._compiled_forms.agreement import agreement

    for dtype in (torch.float32, torch.float64):
        values, starts, lengths, log_z, out = _rows(dtype)
        agreement(values, starts, lengths, torch.ones(1, 2).double().numpy(), log_z, out)
    return agreement


def _load_tables() -> Tables:
    from glws.inference._compiled_forms.tables import tables

    for dtype in (torch.float32, torch.float64):
        values, starts, lengths, log_z, out = _rows(dtype)
        tables(values, 2, starts, lengths, torch.zeros(1, 4).double().numpy(), log_z, out)
    return tables


PRESENCE, AGREEMENT, TABLES = Kernel(_load_presence), Kernel(_load_agreement), Kernel(_load_tables)


def _answer(kernel: Any, rows: Rows, *arguments: Any) -> Found:
    log_z, marginals = torch.empty(len(rows.lengths), dtype=torch.float64), rows.like_values()
    return Found(log_z, marginals, kernel(*arguments, log_z.numpy(), marginals.numpy()))


def _alone(table: Tensor) -> Tensor:
    """The first row of a table whose rows are all the same memory."""
    return table[:1] if len(table) and table.stride(0) == 0 else table


def by_presence(rows: Rows, counted: Tensor, log_weights: Tensor) -> Found | None:
    """Weights of "no counted class occurs" and "one does"; None if the kernel is not there."""
    kernel = PRESENCE.ready()
    if kernel is None:
        return None
    masks, weights = _alone(counted).contiguous().numpy(), _alone(log_weights).double().contiguous().numpy()
    return _answer(kernel, rows, *rows.arrays(), masks, weights)


def by_agreement(rows: Rows, log_weights: Tensor) -> Found | None:
    """Pairs by log-weights of the same and of different labels; triplets by those of closer to 2, to 3, neither."""
    kernel = AGREEMENT.ready()
    if kernel is None:
        return None
    weights = torch.where(log_weights <= MODERATE, log_weights.double().exp(), torch.nan)
    return _answer(kernel, rows, *rows.arrays(), weights.contiguous().numpy())


def by_tables(rows: Rows, size: int, log_weights: Tensor) -> Found | None:
    """Tables of weights of single instances [groups, K] or pairs [groups, K, K]."""
    kernel = TABLES.ready()
    if kernel is None:
        return None
    values, starts, lengths = rows.arrays()
    weights = _alone(log_weights).double().flatten(1).contiguous().numpy()
    return _answer(kernel, rows, values, size, starts, lengths, weights)
