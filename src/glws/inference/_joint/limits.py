"""Limits of the exact answers, and of trust in small numbers; measured by `benchmarks/joint_counts.py`."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from glws._launching import power_of_two

STATE_BUDGET = 65_536
"""Above this many count vectors, Π_k (n_k + 1), "auto" searches for those that matter.

At the budget one group takes about a millisecond, compiled. It covers every group of 16, whatever the classes, and
every group of 20 over 10 classes.
"""

MOST_STATES = 50_000_000
"""Above this many count vectors "exact" refuses: two tables of that size take 800 MB."""

LIVE_BUDGET = 1 << 17
"""The most live count vectors for "auto": 5 to 10 milliseconds a group."""

PRUNED_BUDGET = 1 << 19
"""The most live count vectors for "auto" if the corrected tilt is inaccurate: 20 to 50 milliseconds a group."""

MOST_LIVE = 1 << 20
"""The most live count vectors for "exact"; the tables take 50 bytes for each, and 16 for each of its classes."""

NEGLIGIBLE = 1e-17
"""Count vectors with a smaller share in the result are dropped, and the answer still counts as exact."""

EXACT = 1e-10
"""The largest dropped share of the result in an answer that counts as exact."""

PRUNED = 1e-6
"""Count vectors with a smaller share are dropped if the exact answer would take too long."""

DOUBTFUL = 0.01
"""An approximation with a larger error is replaced by a pruned recursion within PRUNED_BUDGET."""

MOST_AHEAD = 1 << 22
"""Largest table of the counts of single classes: instances times classes times the largest count."""

MAX_SET = 12
"""The largest set of classes that is answered by one table, of 2^12 numbers for each instance."""

SMALLEST = 1e-250
"""In linear space all values are at most 1. A value above this lost nothing that matters when smaller terms of its
sum, below 1e-308, became zero."""

TABLE_ENTRIES = 1 << 22
"""Plain torch solves as many groups at once as keep a table below this many numbers."""


def most_states(counts: Int[Tensor, "groups classes"]) -> int | None:
    """The largest number of count vectors of a group, rounded up; None for counts on a GPU.

    >>> import torch
    >>> most_states(torch.tensor([[1, 0, 2], [3, 1, 1]]))
    16
    """
    if counts.device.type != "cpu" or len(counts) == 0:
        return None
    largest = int((counts.clamp_min(0).double() + 1).prod(1).max().clamp_max(1e15))
    return 1 << (largest - 1).bit_length()


def largest_set(present: Bool[Tensor, "groups classes"], lengths: Int[Tensor, "groups"]) -> tuple[int, int] | None:
    """The most classes and the most instances of a group; None for tensors on a GPU.

    Rounded up to the next even number and the next power of two, so that few distinct sizes occur.

    >>> import torch
    >>> largest_set(torch.tensor([[True, True, True], [False, True, False]]), torch.tensor([3, 5]))
    (4, 8)
    """
    if present.device.type != "cpu" or lengths.device.type != "cpu" or len(present) == 0:
        return None
    classes = int(present.sum(1).max())
    return classes + classes % 2, power_of_two(int(lengths.max()))
