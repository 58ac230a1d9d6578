"""Lists of products taken four at a time: a factor that the four share is read once.

In a deterministic automaton every state has an arc for each class. So four states read the same emissions in the
backward pass, and four classes the same α; only the β that is multiplied differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Product = tuple[int, int, int, float]

FOUR = 4
MAX_PADDING = 1.5
"""The largest ratio of products read, padding included, to products needed; above, quartets do not pay."""


class Quartets(NamedTuple):
    """Quartet i is at bounds[i]..bounds[i + 1]; each entry is a shared factor and the other factors of four sums."""

    bounds: Integers
    shared: Integers
    others: Integers


def rounded_up(count: int) -> int:
    """The next multiple of four."""
    return (count + FOUR - 1) // FOUR * FOUR


def quartets(products: Sequence[Product], sums: int, nobody: int) -> Quartets | None:
    """The products (sum, shared, other, weight) as quartets of sums; `nobody` is the other factor of padding.

    None if weights differ from 1, or if the sums have too little in common.

    >>> found = quartets([(0, 7, 1, 1.0), (1, 7, 2, 1.0), (2, 7, 1, 1.0)], sums=3, nobody=9)
    >>> found.shared, found.others
    (array([7]), array([1, 2, 1, 9]))
    """
    if any(weight != 1.0 for *_, weight in products):
        return None
    parts = [_quartet(products, first, nobody) for first in range(0, sums, FOUR)]
    if FOUR * sum(map(len, parts)) > MAX_PADDING * len(products):
        return None
    entries = np.array([entry for part in parts for entry in part], dtype=np.int64).reshape(-1, 1 + FOUR)
    bounds = np.cumsum([0, *map(len, parts)])
    return Quartets(bounds, entries[:, 0].copy(), entries[:, 1:].reshape(-1))


def _quartet(products: Iterable[Product], first: int, nobody: int) -> list[tuple[int, ...]]:
    """Entries (shared, others...) of the sums from `first` on."""
    found: defaultdict[int, tuple[list[int], ...]] = defaultdict(lambda: ([], [], [], []))
    for total, shared, other, _ in products:
        if first <= total < first + FOUR:
            found[shared][total - first].append(other)
    return [(shared, *row) for shared in sorted(found) for row in zip_longest(*found[shared], fillvalue=nobody)]


def joined(parts: Sequence[Quartets | None]) -> tuple[Quartets, Integers]:
    """All quartets one after the other, and the offset of the bounds of each: -1 for missing ones."""
    empty = np.zeros(0, dtype=np.int64)
    bounds, shared, others, begins = [empty], [empty], [empty], []
    entries = places = 0
    for part in parts:
        begins.append(-1 if part is None else places)
        if part is not None:
            bounds.append(part.bounds + entries)
            shared.append(part.shared)
            others.append(part.others)
            entries, places = entries + len(part.shared), places + len(part.bounds)
    return Quartets(*map(np.concatenate, (bounds, shared, others))), np.array(begins, dtype=np.int64)
