"""The compiled kernels for joint counts and sets, loaded in the background when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glws.inference._kernels import Kernel

if TYPE_CHECKING:
    pass

SMALL = 1e-250


def _pair() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Two instances of two classes."""
    return np.full((2, 2), 0.5)


def _load_counts() -> Any:
    from glws.inference._joint.compiled_counts import count_batch

    count_batch(_pair()[None], np.ones((1, 2), np.int64), 4, SMALL, np.zeros(1), np.zeros((1, 2, 2)))
    return count_batch


def _load_sets() -> Any:
    from glws.inference._joint.compiled_subsets import subset_batch

    two = np.full(1, 2)
    subset_batch(_pair()[None], two, two, SMALL, np.zeros(1), np.zeros((1, 2, 2)))
    return subset_batch


def _load_mixed() -> Any:
    from glws.inference._joint.compiled_subsets import mixed_posterior

    mixed_posterior(_pair(), 1, 0.0, 1e9, np.zeros((2, 2)))
    return mixed_posterior


def _load_live() -> Any:
    from glws.inference._joint.compiled_live import States, group_posterior

    states = States(
        np.zeros(9, np.int64), np.zeros((9, 2), np.int64), np.zeros(9), np.zeros(9), np.zeros((9, 2), np.int64),
        np.zeros(9, np.int64), np.zeros(9, np.int64), np.full(16, -1),
    )  # fmt: skip
    group_posterior(_pair(), np.ones(2, np.int64), 0.0, np.zeros((3, 2, 2)), states, np.zeros((2, 2)))
    return group_posterior


COUNTS, SETS, MIXED, LIVE = Kernel(_load_counts), Kernel(_load_sets), Kernel(_load_mixed), Kernel(_load_live)
