"""Regression trees of scikit-learn as tensors: stored without pickle, and predicting without scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]
FEW_ROWS, MANY_ROWS = 5000, 200
"""Forests are for at most so many rows, boosting for at least so many."""
ROWS_AT_ONCE = 4096


class Trees(nn.Module):
    """The sum of regression trees as class probabilities, smoothed by one row that says nothing.

    The trees predict the probability of each class, or of the second of two. With p that prediction for n training
    rows, the answer is log (n p + 1/K) / (n + 1). Node i goes to `child[i, 0]` if feature <= threshold and to
    `child[i, 1]` otherwise; a leaf goes to itself.
    """

    feature: Tensor
    threshold: Tensor
    child: Tensor
    value: Tensor
    root: Tensor
    base: Tensor
    size: Tensor

    NAMES = ("feature", "threshold", "child", "value", "root", "base", "size")

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name in self.NAMES:
            self.register_buffer(name, tensors[name])

    @classmethod
    def of(cls, estimator: Any, num_rows: int) -> Trees:
        """The trees of a fitted regressor of scikit-learn: boosting by histograms, or a forest."""
        is_boosting = hasattr(estimator, "_predictors")
        tables = _boosted(estimator) if is_boosting else [_grown(tree.tree_, len(estimator)) for tree in estimator]
        width = tables[0]["value"].shape[1]
        base = np.ravel(estimator._baseline_prediction) if is_boosting else np.zeros(width)
        starts = np.cumsum([0, *(len(table["value"]) for table in tables)])
        joined = {name: np.concatenate([table[name] for table in tables]) for name in ("feature", "threshold", "value")}
        child = np.concatenate([table["child"] + start for table, start in zip(tables, starts, strict=False)])
        depths = [_depth(table["child"]) for table in tables]
        return cls(
            feature=torch.tensor(joined["feature"], dtype=torch.int32),
            threshold=_rounded_down(joined["threshold"]),
            child=torch.tensor(child, dtype=torch.int32),
            value=torch.tensor(joined["value"], dtype=torch.float32),
            root=torch.tensor(starts[:-1], dtype=torch.int32),
            base=torch.tensor(base, dtype=torch.float32),
            size=torch.tensor([num_rows, max(depths)], dtype=torch.int64),
        )

    def forward(self, rows: Float[Tensor, "rows features"]) -> Float[Tensor, "rows classes"]:
        """Log-probabilities."""
        table = torch.cat([self._sums(piece) for piece in torch.split(rows, ROWS_AT_ONCE)]).clamp(0, 1)
        table = torch.cat([1 - table, table], 1) if table.shape[1] == 1 else table
        share = table / table.sum(1, keepdim=True).clamp_min(1e-300)
        num_rows = int(self.size[0])
        return ((num_rows * share + 1 / table.shape[1]) / (num_rows + 1)).log()

    def _sums(self, rows: Tensor) -> Tensor:
        values, child = rows.float(), self.child.flatten()
        node = self.root.expand(len(rows), -1)
        for _ in range(int(self.size[1])):
            is_right = values.gather(1, self.feature[node].long()) > self.threshold[node].float()
            node = child[2 * node + is_right]
        return self.base.double() + self.value[node].double().sum(1)


def _boosted(estimator: Any) -> list[Mapping[str, Any]]:
    """The trees of each round; with several outputs there would be several in a round, which we do not fit."""
    found: list[Mapping[str, Any]] = []
    for (predictor,) in estimator._predictors:
        nodes = predictor.nodes
        own, is_leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        sides = [np.where(is_leaf, own, nodes[side]) for side in ("left", "right")]
        value = np.where(is_leaf, nodes["value"], 0.0)[:, None]
        found.append(
            {
                "feature": np.where(is_leaf, 0, nodes["feature_idx"]),
                "threshold": np.where(is_leaf, np.inf, nodes["num_threshold"]),
                "child": np.stack(sides, 1).astype(np.int64),
                "value": value,
            }
        )
    return found


def _grown(tree: Any, number: int) -> Mapping[str, Any]:
    """One tree of a forest, whose values are averaged."""
    own, is_leaf = np.arange(tree.node_count), tree.children_left < 0
    sides = [np.where(is_leaf, own, children) for children in (tree.children_left, tree.children_right)]
    return {
        "feature": np.where(is_leaf, 0, tree.feature),
        "threshold": np.where(is_leaf, np.inf, tree.threshold),
        "child": np.stack(sides, 1),
        "value": tree.value[:, :, 0] / number,
    }


def _depth(child: NDArray[np.int64]) -> int:
    """The number of steps from the root to the deepest leaf."""
    level, depth = np.zeros(1, np.int64), 0
    while True:
        below = child[level]
        level = below[below[:, 0] != level].ravel()
        if not len(level):
            return depth
        depth += 1


def _rounded_down(threshold: Array) -> Tensor:
    """The largest float32 that is at most each threshold: float32 features fall on the same side of both.

    >>> _rounded_down(np.array([0.1])) <= 0.1, _rounded_down(np.array([np.inf]))
    (tensor([True]), tensor([inf]))
    """
    near = threshold.astype(np.float32)
    return torch.from_numpy(np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near))


@dataclass(frozen=True)
class TreeFamily:
    """Regression trees by name. Soft labels are their targets, so that rows need no weighted copies."""

    name: str
    make: Callable[[int], Any]

    def fit(self, features: Array, soft: Array, seed: int) -> Trees:
        """Trees fitted to the soft labels of these rows."""
        target = soft[:, 1] if soft.shape[1] == 2 else soft
        return Trees.of(self.make(seed).fit(features, target), len(features))


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
