"""Count vectors, pruned: exact for groups of any size in which few count vectors matter.

Under the tilt the counts of the instances so far stay near their mean if predictions are sharp, so most of the
Π_k (n_k + 1) count vectors have no share in the result. `compiled_live` visits the others and bounds the rest. If the
bound is negligible, the answer is exact to rounding. If not, it bounds the error of every posterior: the answer is then
the posterior given that the labels avoid the dropped count vectors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glws.inference._joint.groups import ENGINES, Estimate, Groups
from glws.inference._joint.kernels import LIVE
from glws.inference._joint.limits import EXACT, MOST_AHEAD
from glws.inference._joint.saddle import is_impossible, log_det, log_mass
from glws.inference._joint.tilting import Point, covariance

Array = np.ndarray[Any, np.dtype[Any]]

if TYPE_CHECKING:
    from glws.inference._joint.compiled_live import States

CERTAIN = 1e-18
"""An instance whose other classes together have less than this under the tilt is assigned its class."""
LARGEST_KEY = 2.0**62
HOPELESS = 2.0
"""Not tried if it is expected to need this many times the storage; some groups need less than expected."""


def live_posterior(groups: Groups, point: Point, share: float, most: int) -> Estimate:
    """The answer without count vectors whose share in the result is below `share`.

    The error is a bound, and 0 if it is below EXACT. It is inf if more than `most` count vectors remain, if none does,
    and without the compiled kernel.
    """
    answer = Estimate.unanswered(groups)
    kernel = LIVE.ready()
    if kernel is None:
        return answer
    log_masses = log_mass(point.marginals, groups.counts)
    is_tried = (log_num_live(groups, point, share) < math.log(HOPELESS * most)) & ~is_impossible(groups, point)
    states = None
    for group in is_tried.nonzero()[:, 0].tolist():
        states = states or _room(most, groups.counts.shape[1])
        marginals, counts = (part[group].cpu().numpy() for part in (point.marginals, groups.counts))
        weights = marginals[: int(groups.lengths[group])]
        mass, found, missing = _solved(kernel, weights, counts, share * math.exp(float(log_masses[group])), states)
        if mass > 0.0:
            answer.log_likelihood[group] = point.dual[group] + math.log(mass)
            answer.marginals[group, : len(weights)] = torch.from_numpy(found).to(answer.marginals.device)
            answer.error[group] = 0.0 if missing < EXACT else missing
            answer.engine[group] = 0 if missing < EXACT else ENGINES.index("pruned counts")
    return answer


def log_num_live(groups: Groups, point: Point, share: float) -> Float[Tensor, "groups"]:
    """Log of the approximate number of count vectors with a larger share.

    After half of the instances the counts, given their sums at the end, have about a quarter of the covariance matrix
    at the end; those with more than this share of a Gaussian law fill an ellipsoid. That is the widest of as many as
    there are instances, which have half its volume on average.
    """
    dimensions = (groups.counts > 0).sum(1).double() - 1.0
    radius = -2.0 * math.log(share)
    log_ball = 0.5 * dimensions * math.log(math.pi * radius) - torch.lgamma(0.5 * dimensions + 1.0)
    spread = 0.5 * (log_det(covariance(point.marginals), groups.counts > 0) - dimensions * math.log(4.0))
    log_sum = log_ball + spread + torch.log(0.5 * groups.lengths.clamp_min(1))
    return torch.minimum(log_sum, torch.log1p(groups.counts.double()).sum(1))


def _solved(kernel: Any, weights: Array, counts: Array, cut: float, states: States) -> tuple[float, Array, float]:
    """The mass under the tilt (0: no answer), the posteriors, and a bound on the missing share.

    Certain instances are set aside with their labels. The others are sorted so that those with the same likely classes
    are adjacent, and the counts of a class are complete once its instances have passed.
    """
    top = weights.argmax(1)
    others = weights.sum(1, where=np.arange(weights.shape[1]) != top[:, None])
    free = np.flatnonzero(others > CERTAIN)
    left = counts - np.bincount(np.delete(top, free), minlength=len(counts))
    if left.min() < 0 or np.prod(left[1:] + 1.0) > LARGEST_KEY:
        return 0.0, weights, math.inf
    if (len(free) + 1.0) * len(counts) * (left.max() + 1.0) > MOST_AHEAD:
        return 0.0, weights, math.inf
    order = free[np.argsort(weights[free] @ np.arange(weights.shape[1]), kind="stable")]
    marginals = np.zeros((len(order), len(counts)))
    ahead = np.empty((len(order) + 1, len(counts), left.max() + 1))
    mass, dropped = kernel(weights[order], left, cut, ahead, states, marginals)
    if mass == 0.0:
        return 0.0, weights, math.inf
    answer = np.zeros_like(weights)
    answer[np.arange(len(top)), top] = 1.0
    answer[order] = marginals
    dropped += np.delete(others, free).sum()
    return mass, answer, dropped / (mass + dropped)


def _room(most: int, columns: int) -> States:
    from glws.inference._joint.compiled_live import States

    def numbers(*shape: int) -> Array:
        return np.empty(shape, dtype=np.int64)

    table = np.full(1 << most.bit_length(), -1, dtype=np.int64)
    return States(
        numbers(most), numbers(most, columns), np.empty(most), np.empty(most), numbers(most, columns), numbers(most),
        numbers(most), table,
    )  # fmt: skip
