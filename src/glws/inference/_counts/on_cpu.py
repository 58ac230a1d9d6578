"""The compiled kernels for counts, on rows: the problems are ranges of two columns of log-potentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glws.inference._counts.thresholds import COMPILED_SHORT_EXACT, COMPILED_SHORT_WEIGHTED
from glws.inference._counts.tilting import bounded
from glws.inference._counts.weights import Weighted, Written, ends
from glws.inference._kernels import Kernel
from glws.inference._rows import Array, RowArrays
from glws.inference._threads import in_parallel

if TYPE_CHECKING:
    from glws.inference._counts.compiled import IntervalBatch, WeightedBatch


def _arrays() -> tuple[Any, ...]:
    """One problem of two instances, and room for its answer."""
    numbers = np.zeros(1, dtype=np.int64)
    return np.zeros(2), np.zeros(2), numbers, numbers + 2, np.zeros(1), np.zeros(2)


def _load_intervals() -> IntervalBatch:
    from glws.inference._counts.compiled import intervals

    zero, one, starts, lengths, log_likelihood, marginals = _arrays()
    intervals(zero, one, starts, lengths, starts, lengths, COMPILED_SHORT_EXACT, log_likelihood, marginals)
    return intervals


def _load_weighted() -> WeightedBatch:
    from glws.inference._counts.compiled import weighted

    zero, one, starts, lengths, log_likelihood, marginals = _arrays()
    log_weights = np.zeros((1, 3))
    weighted(zero, one, starts, lengths, log_weights, COMPILED_SHORT_WEIGHTED, log_likelihood, marginals)
    return weighted


INTERVALS, WEIGHTED = Kernel(_load_intervals), Kernel(_load_weighted)


def kernel_of(weights: Written) -> Kernel[Any]:
    """The kernel for weights of this type."""
    return WEIGHTED if isinstance(weights, Weighted) else INTERVALS


def compiled_counts(
    kernel: Any, log_zero: Array, log_one: Array, rows: RowArrays, weights: Written
) -> tuple[Array, Array]:
    """log-likelihoods, and posteriors of being counted, of rows in float64; 0 in gaps."""
    starts, lengths = rows.starts, rows.lengths
    marginals, log_likelihood = np.zeros(len(log_zero)), np.empty(len(lengths))
    given, short = given_arrays(weights)

    def solve(begin: int, end: int) -> None:
        part, own = slice(begin, end), [values[begin:end] for values in given]
        kernel(log_zero, log_one, starts[part], lengths[part], *own, short, log_likelihood[part], marginals)

    in_parallel(solve, lengths)
    return log_likelihood, marginals


def given_arrays(weights: Written) -> tuple[tuple[Any, ...], int]:
    """The weights as arrays, and up to how many instances the recursion is faster."""
    if isinstance(weights, Weighted):
        return (bounded(weights.log_weights.detach()).contiguous().numpy(),), COMPILED_SHORT_WEIGHTED
    return tuple(np.ascontiguousarray(end.numpy()) for end in ends(weights)), COMPILED_SHORT_EXACT
