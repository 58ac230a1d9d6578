"""Best-bin estimation: the share of positives in unlabeled data, from the scores of a classifier."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError


class BestBin(NamedTuple):
    """The estimated share of positives, the lowest score of the bin, and the bound that selected it."""

    share: float
    threshold: float
    bound: float


def best_bin_estimate(
    positive: Float[Tensor, "positives"],
    unlabeled: Float[Tensor, "unlabeled"],
    delta: float = 0.1,
    gamma: float = 0.01,
) -> BestBin:
    """The share of positives among unlabeled instances (BBE of Garg et al., NeurIPS 2021).

    With q_p(c) and q_u(c) the shares of positives and of unlabeled instances that score at least c,

        c = argmin q_u(c) / q_p(c) + (1 + γ) ε / q_p(c),    ε = √(log(4/δ) / 2n_u) + √(log(4/δ) / 2n_p)

    over the scores of the unlabeled, and the share is q_u(c) / q_p(c), at most 1: above c nearly all are positive. At
    least two positives must score c or more; if no unlabeled instance leaves two, the share is 1. Only the order
    of the scores matters. The classifier must not have been trained on these instances, or the share is biased towards
    0. (The released code counts unlabeled instances strictly above c, one less.)

    >>> positive, negative = torch.linspace(0.5, 1, 100), torch.linspace(0, 0.5, 102)[:-1]
    >>> round(best_bin_estimate(positive, torch.cat([positive, negative, negative, negative])).share, 2)
    0.25
    """
    if len(positive) < 2 or not len(unlabeled):
        found = f"{len(positive)} and {len(unlabeled)}"
        raise DataError(f"best-bin estimation needs 2 held-out positives and 1 unlabeled instance, found {found}")
    scores = unlabeled.double().sort().values
    above_p, above_u = (_at_least(scores, each).double() for each in (positive.double(), scores))
    share_p, share_u = above_p / len(positive), above_u / len(unlabeled)
    slack = sum(math.sqrt(math.log(4 / delta) / (2 * size)) for size in (len(positive), len(unlabeled)))
    bounds = torch.where(above_p >= 2, (share_u + (1 + gamma) * slack) / share_p, torch.inf)
    best = int(bounds.argmin())
    share = float(share_u[best] / share_p[best]) if bool(above_p[best] >= 2) else 1.0
    return BestBin(min(share, 1.0), float(scores[best]), float(bounds[best]))


def _at_least(thresholds: Float[Tensor, "bins"], scores: Float[Tensor, "scores"]) -> Int[Tensor, "bins"]:
    """The number of scores that are at least as large as each threshold."""
    return len(scores) - torch.searchsorted(scores.sort().values, thresholds)
