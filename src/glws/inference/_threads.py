"""Groups in parallel: compiled kernels release the interpreter, so that plain threads run them side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

LEAST = 1 << 14
"""Batches of fewer instances are answered by one thread: starting another takes some 50 microseconds."""
AT_ONCE = 1 << 16
"""About so many instances are a piece, at most: what is copied for them stays in the cache."""
PIECES = 4
"""Pieces for each thread, so that one that ends early takes another."""

Integers = npt.NDArray[np.int64]


def in_parallel(solve: Callable[[int, int], object], lengths: Integers) -> None:
    """Calls solve(begin, end) for pieces of the groups, by as many threads as torch uses.

    Every group is solved by itself, so that the answers have the same bits whatever the number of threads.

    >>> in_parallel(lambda begin, end: print(begin, end), np.full(5, 20))
    0 5
    """
    threads = torch.get_num_threads()
    number = int(lengths.sum()) if len(lengths) > 1 else 0
    pieces = 1 if number < LEAST else max(PIECES * threads if threads > 1 else 1, number // AT_ONCE)
    if pieces == 1:
        solve(0, len(lengths))
        return
    left = deque(_pieces(lengths, pieces))
    helpers = [_pool(threads - 1).submit(_take, left, solve) for _ in range(threads - 1)]
    _take(left, solve)
    for helper in helpers:
        if not helper.cancel():  # on a busy machine the calling thread may be done before a helper begins
            helper.result()


def _take(left: deque[tuple[int, int]], solve: Callable[[int, int], object]) -> None:
    """Solve pieces until none is left."""
    while left:
        try:
            piece = left.popleft()
        except IndexError:  # another thread took the last
            return
        solve(*piece)


def _pieces(lengths: Integers, number: int) -> list[tuple[int, int]]:
    """Ranges of groups with about as many instances each, those with most instances first."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], number + 1)[1:-1]) + 1
    bounds = np.unique(np.concatenate([[0], cuts.clip(0, len(lengths)), [len(lengths)]])).tolist()
    pieces = list(pairwise(bounds))
    return sorted(pieces, key=lambda piece: -int(lengths[piece[0] : piece[1]].sum()))


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "glws")
