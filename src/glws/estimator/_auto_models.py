"""The models that `model="auto"` tries: stacks of small networks, and trees fitted to soft labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from glws.data import Scaling, scaled
from glws.selection import WeakLabels, weak_fit
from glws.training import Stack, stack_log_probs

Array = NDArray[np.float64]
FAR = 5.0
"""Standardized features are squashed smoothly into ±FAR."""
MOST_PERMUTED = 4
"""With up to so many classes their names are put right after training."""
FEW_ROWS, MANY_ROWS = 5000, 200
"""Forests are for at most so many rows, boosting for at least so many."""
TIE = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Features as trees take them, and as networks do."""

    raw: Array
    squashed: torch.Tensor

    @classmethod
    def of(cls, features: Array, scaling: Scaling | None) -> Rows:
        """Standardized features z become z / √(1 + (z / FAR)²) for networks."""
        values = scaled(features, scaling)
        return cls(features, values / (1 + (values / FAR) ** 2).sqrt())


class Model(Protocol):
    """Anything that predicts rows."""

    def log_probs(self, rows: Rows) -> Array:
        """Log-probabilities [rows, classes]."""


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A member of a stack; `order` renames the classes."""

    stack: Stack
    order: tuple[int, ...]

    def log_probs(self, rows: Rows) -> Array:
        """Log-probabilities [rows, classes]."""
        return np.asarray(stack_log_probs(self.stack, rows.squashed)[0][:, self.order])


def class_order(log_probs: Array, known: WeakLabels, reference: Array | None) -> tuple[int, ...]:
    """The renaming of predicted classes under which the weak labels are most likely.

    Where they are equally likely, the one that agrees best with reference predictions: weak labels may leave names
    open, but all models of a mixture must use the same names.
    """
    num_classes = log_probs.shape[1]
    if num_classes > MOST_PERMUTED:
        return tuple(range(num_classes))
    orders = list(permutations(range(num_classes)))
    likely = [float(weak_fit(log_probs[:, order], known, False).log_likelihood.sum()) for order in orders]
    best = [order for order, value in zip(orders, likely, strict=True) if value >= max(likely) - TIE * len(log_probs)]
    if reference is None:
        return best[0]
    agree = np.exp(reference)
    return max(best, key=lambda order: float((agree * np.exp(log_probs[:, order])).sum()))


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Regression trees for the soft labels, smoothed by one row that says nothing."""

    estimator: Any
    num_rows: int

    def log_probs(self, rows: Rows) -> Array:
        """log (n p + 1/K) / (n + 1); for two classes the trees predict the second."""
        table = np.asarray(self.estimator.predict(rows.raw)).clip(0, 1)
        table = np.stack([1 - table, table], 1) if table.ndim == 1 else table
        share = table / np.maximum(table.sum(1, keepdims=True), 1e-300)
        return np.asarray(np.log((self.num_rows * share + 1 / table.shape[1]) / (self.num_rows + 1)))


@dataclass(frozen=True)
class TreeFamily:
    """Regression trees by name. Soft labels are their targets, so that rows need no weighted copies."""

    name: str
    make: Callable[[int], Any]

    def fit(self, features: Array, soft: Array, seed: int) -> TreeModel:
        """Trees fitted to the soft labels of these rows."""
        target = soft[:, 1] if soft.shape[1] == 2 else soft
        return TreeModel(self.make(seed).fit(features, target), len(features))


def tree_families(num_rows: int, num_classes: int) -> list[TreeFamily]:
    """Boosting for two classes, forests for few rows: those that are fitted in time."""
    found = [TreeFamily("extra trees", _forest)] if num_rows <= FEW_ROWS else []
    return found + ([TreeFamily("gradient boosting", _boosting)] if num_classes == 2 and num_rows >= MANY_ROWS else [])


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=100, max_leaf_nodes=31, min_samples_leaf=20, early_stopping=False, random_state=seed
    )


def _forest(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(100, min_samples_leaf=3, max_features=0.3, random_state=seed)
