"""A convex start for bags: ridge regression of the shares of classes on the means of bags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from glws.selection import WeakLabels
from glws.training._stack import Stack

Array = NDArray[np.float64]
PENALTIES = np.logspace(-2, 4, 13)
FEWEST = 10
"""With fewer bags of more than one row nothing is fitted."""


def bag_means(rows: Float[Tensor, "rows features"], known: WeakLabels, soft: Array) -> tuple[Array, Array]:
    """For each group of all kinds: the mean of its rows, and of their soft labels, which is the share of each class.

    >>> from glws.data import Groups
    >>> from glws.kinds import Proportions
    >>> known = WeakLabels((Groups.of([[0, 1], [2, 3]]),), (Proportions.of([1, 2]),))
    >>> soft = np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    >>> [found.tolist() for found in bag_means(torch.tensor([[0.0], [1.0], [3.0], [5.0]]), known, soft)]
    [[[0.5], [4.0]], [[0.5, 0.5], [0.0, 1.0]]]
    """
    table = np.concatenate([rows.double().numpy(), soft], 1)
    found = []
    for groups in known.groups:
        owner = np.repeat(np.arange(len(groups)), groups.lengths.numpy())
        sums = np.zeros((len(groups), table.shape[1]))
        np.add.at(sums, owner, table[groups.indices.numpy()])
        found.append(sums / groups.lengths.double().clamp_min(1).numpy()[:, None])
    means = np.concatenate(found)
    return means[:, : rows.shape[1]], means[:, rows.shape[1] :]


def fitted_to_means(means: Array, shares: Array, folds: Sequence[NDArray[np.bool_]]) -> Stack:
    """A linear model for each fold, of the groups that its mask keeps, with a penalty chosen by leaving groups out.

    With f_k the predicted share of class k of K, the logits are K f_k: their softmax is f near equal shares.
    """
    from sklearn.linear_model import RidgeCV

    num_classes = shares.shape[1]
    stack = Stack(len(folds), means.shape[1], num_classes, (), 0.0, torch.Generator())
    for number, kept in enumerate(folds):
        fitted = RidgeCV(PENALTIES).fit(means[kept], shares[kept])
        with torch.no_grad():
            stack.weights[0][number] = num_classes * torch.from_numpy(fitted.coef_.T)
            stack.biases[0][number, 0] = num_classes * torch.from_numpy(np.asarray(fitted.intercept_))
    return stack


def has_bags(known: WeakLabels, shares: Array) -> bool:
    """Whether there are enough groups of more than one row, and their shares differ."""
    lengths = torch.cat([groups.lengths for groups in known.groups])
    return bool((lengths > 1).sum() >= FEWEST) and bool((lengths > 1).all()) and float(np.ptp(shares, 0).max()) > 0
