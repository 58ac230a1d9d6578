"""Small forms on the CPU, compiled: presence, agreement of pairs and triplets, tables. One pass there and back.

Importing this package does not import numba; the first answer does. All take rows of log-potentials [rows, classes],
float32 or float64, the first row of each group, and its number of rows. They compute in float64 and answer in the type
of the potentials. `doubtful` tells whether groups are left to log space, those with log Z = NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from glws.inference._closed import MODERATE
from glws.inference._counts.on_cpu import compiled_counts, kernel_of
from glws.inference._counts.weights import Sampled, Weights
from glws.inference._kernels import Kernel
from glws.inference._rows import Rows
from glws.inference._threads import in_parallel

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


def _answer(kernel: Any, rows: Rows, *tables: Tensor, size: tuple[int, ...] = ()) -> Found:
    """The answer of a kernel, group by group; a table has a row for each group, or one for all."""
    values, starts, lengths = rows.arrays()
    log_z, marginals = torch.empty(len(lengths), dtype=torch.float64), rows.like_values()
    found, out = log_z.numpy(), marginals.numpy()
    arrays = [table.contiguous().numpy() for table in tables]

    def solve(begin: int, end: int) -> int:
        part = slice(begin, end)
        own = [array if len(array) == 1 else array[part] for array in arrays]
        doubtful: int = kernel(values, *size, starts[part], lengths[part], *own, found[part], out)
        return doubtful

    return Found(log_z, marginals, in_parallel(solve, lengths))


def _alone(table: Tensor) -> Tensor:
    """The first row of a table whose rows are all the same memory."""
    return table[:1] if len(table) and table.stride(0) == 0 else table


def by_presence(rows: Rows, counted: Tensor, log_weights: Tensor) -> Found | None:
    """Weights of "no counted class occurs" and "one does"; None if the kernel is not there."""
    kernel = PRESENCE.ready()
    return None if kernel is None else _answer(kernel, rows, _alone(counted), _alone(log_weights).double())


def by_agreement(rows: Rows, log_weights: Tensor) -> Found | None:
    """Pairs by log-weights of the same and of different labels; triplets by those of closer to 2, to 3, neither."""
    kernel = AGREEMENT.ready()
    if kernel is None:
        return None
    return _answer(kernel, rows, torch.where(log_weights <= MODERATE, log_weights.double().exp(), torch.nan))


def by_tables(rows: Rows, size: int, log_weights: Tensor) -> Found | None:
    """Tables of weights of single instances [groups, K] or pairs [groups, K, K]."""
    kernel = TABLES.ready()
    return None if kernel is None else _answer(kernel, rows, _alone(log_weights).double().flatten(1), size=(size,))


def by_counts(rows: Rows, counted: Tensor, only: int | None, weights: Weights) -> Found | None:
    """Weights of the number of labels in the counted classes, of whatever class."""
    if isinstance(weights, Sampled) or (kernel := kernel_of(weights).ready()) is None:
        return None
    if only is not None and rows.values.shape[1] == 2:
        zero, one = (rows.values[:, label].double().contiguous() for label in (1 - only, only))
        log_z, positive = compiled_counts(kernel, zero, one, rows.starts, rows.lengths, weights)
        negative = rows.where_possible(1.0 - positive, log_z)
        shares = [negative, positive] if only else [positive, negative]
        return Found(log_z, torch.stack(shares, 1).to(rows.values.dtype), 0)
    one, zero = (rows.values.new_empty(len(rows.values), dtype=torch.float64) for _ in range(2))
    mask = rows.spread(counted)
    for part in _blocks(len(one)):
        phi, chosen = rows.values[part].double(), mask if len(mask) == 1 else mask[part]
        one[part], zero[part] = _log_sum(phi, chosen), _log_sum(phi, ~chosen)
    log_z, positive = compiled_counts(kernel, zero, one, rows.starts, rows.lengths, weights)
    negative = rows.where_possible(1.0 - positive, log_z)
    marginals = torch.empty_like(rows.values)
    for part in _blocks(len(one)):
        phi, chosen = rows.values[part].double(), mask if len(mask) == 1 else mask[part]
        log_sum = torch.where(chosen, one[part, None], zero[part, None])
        own = (phi - torch.where(log_sum == -torch.inf, 0.0, log_sum)).exp_()
        marginals[part] = own.mul_(torch.where(chosen, positive[part, None], negative[part, None]))
    return Found(log_z, marginals, 0)


ROWS_AT_ONCE = 1 << 12


def _blocks(rows: int) -> Iterator[slice]:
    """Ranges of rows, so that what is computed from them on the way takes little memory."""
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, rows, ROWS_AT_ONCE))


def _log_sum(phi: Tensor, chosen: Tensor) -> Tensor:
    """Log of the sum over the chosen classes of each row."""
    return torch.where(chosen, phi, -torch.inf).logsumexp(1)
