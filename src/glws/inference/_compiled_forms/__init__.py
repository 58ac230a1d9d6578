"""Small forms on the CPU, compiled: presence, agreement of pairs and triplets, tables. One pass there and back.

Importing this package does not import numba; the first answer does. All take rows of log-potentials [rows, classes],
float32 or float64, the first row of each group, and its number of rows. They compute in float64 and answer in the type
of the potentials. Groups with log Z = NaN are left to log space.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glws.inference._closed import MODERATE
from glws.inference._counts.on_cpu import compiled_counts, given_arrays, kernel_of
from glws.inference._counts.weights import Sampled, Weights, Written
from glws.inference._kernels import Kernel
from glws.inference._rows import Array, RowArrays, least
from glws.inference._threads import in_parallel

if TYPE_CHECKING:
    from glws.inference._compiled_forms.agreement import Agreement
    from glws.inference._compiled_forms.presence import Presence
    from glws.inference._compiled_forms.tables import Tables


class Found(NamedTuple):
    """log Z in float64, NaN where the kernel left the group to log space, and q."""

    log_z: Array
    marginals: Array


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


def answered(
    kernel: Kernel[Any], rows: RowArrays, tables: tuple[Array, ...], size: tuple[int, ...] = ()
) -> Found | None:
    """The answer group by group, None if the kernel is not there; a table has a row for each group, or one for all."""
    function = kernel.ready()
    if function is None:
        return None
    values, starts, lengths = rows
    log_z, marginals = np.empty(len(lengths)), np.zeros(values.shape, values.dtype)

    def solve(begin: int, end: int) -> None:
        part = slice(begin, end)
        own = [table if len(table) == 1 else table[part] for table in tables]
        function(values, *size, starts[part], lengths[part], *own, log_z[part], marginals)

    in_parallel(solve, lengths)
    return Found(log_z, marginals)


def array_of(table: Tensor) -> Array:
    """A table for kernels: float64, or true and false; its first row if all rows are the same memory."""
    array = table.numpy()
    array = array[:1] if array.strides[0] == 0 and len(array) else array
    return np.ascontiguousarray(array, None if array.dtype == np.bool_ else np.float64)


def bounded_weights(log_weights: Tensor) -> Array:
    """Weights of the same and of different labels, or of closer to 2, to 3, neither; NaN for those too large."""
    return torch.where(log_weights <= MODERATE, log_weights.double().exp(), torch.nan).numpy()


def by_counts(rows: RowArrays, counted: Tensor, only: int | None, weights: Weights) -> Found | None:
    """Weights of the number of labels in the counted classes, of whatever class."""
    if isinstance(weights, Sampled) or (kernel := kernel_of(weights).ready()) is None:
        return None
    if only is not None and rows.values.shape[1] == 2:
        return _of_two_classes(kernel, rows, only, weights)
    table = rows.tensors()
    one, zero = (np.empty(len(rows.values)) for _ in range(2))
    mask = table.spread(counted)
    for part in _blocks(len(one)):
        phi, chosen = table.values[part].double(), mask if len(mask) == 1 else mask[part]
        one[part], zero[part] = _log_sum(phi, chosen), _log_sum(phi, ~chosen)
    log_z, positive = compiled_counts(kernel, zero, one, rows, weights)
    sums = [torch.from_numpy(values)[:, None] for values in (one, zero, positive, _rest(rows, positive, log_z))]
    marginals = np.empty_like(rows.values)
    for part in _blocks(len(one)):
        phi, chosen = table.values[part].double(), mask if len(mask) == 1 else mask[part]
        log_sum = torch.where(chosen, sums[0][part], sums[1][part])
        own = (phi - torch.where(log_sum == -torch.inf, 0.0, log_sum)).exp_()
        marginals[part] = own.mul_(torch.where(chosen, sums[2][part], sums[3][part]))
    return Found(log_z, marginals)


def _of_two_classes(kernel: Any, rows: RowArrays, only: int, weights: Written) -> Found:
    """One counted class and one other: their columns are copied piece by piece, by the thread that reads them."""
    values, (given, short) = rows.values, given_arrays(weights)
    log_z, marginals = np.empty(len(rows.lengths)), np.zeros(values.shape, values.dtype)

    def solve(begin: int, end: int) -> None:
        first, groups = rows.starts[begin], slice(begin, end)
        place = slice(first, rows.starts[end] if end < len(rows.starts) else len(values))
        part = RowArrays(values[place], rows.starts[groups] - first, rows.lengths[groups])
        zero, one = (part.values[:, label].astype(np.float64) for label in (1 - only, only))
        positive, own = np.zeros(len(one)), [array[groups] for array in given]
        kernel(zero, one, part.starts, part.lengths, *own, short, log_z[groups], positive)
        marginals[place, only], marginals[place, 1 - only] = positive, _rest(part, positive, log_z[groups])

    in_parallel(solve, rows.lengths)
    return Found(log_z, marginals)


def _rest(rows: RowArrays, positive: Array, log_z: Array) -> Array:
    """1 - positive, 0 in impossible groups and in gaps."""
    if len(positive) == rows.lengths.sum() and least(log_z) > -np.inf:
        return 1.0 - positive
    return rows.tensors().where_possible(torch.from_numpy(1.0 - positive), torch.from_numpy(log_z)).numpy()


ROWS_AT_ONCE = 1 << 12


def _blocks(rows: int) -> Iterator[slice]:
    """Ranges of rows, so that what is computed from them on the way takes little memory."""
    return (slice(first, first + ROWS_AT_ONCE) for first in range(0, rows, ROWS_AT_ONCE))


def _log_sum(phi: Tensor, chosen: Tensor) -> Tensor:
    """Log of the sum over the chosen classes of each row."""
    return torch.where(chosen, phi, -torch.inf).logsumexp(1)
