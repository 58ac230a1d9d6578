"""Sets of many classes: rare classes are remembered, common ones counted in and out (`compiled_subsets`).

The terms of alternating sign lose as many digits as their sum is smaller than they are, which is known, so that the
error is. Where it is too large more classes are remembered, which takes more time and memory.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from glws.inference._joint.groups import Estimate, Groups, shares
from glws.inference._joint.kernels import MIXED
from glws.inference._joint.limits import EXACT, SMALLEST
from glws.inference._kernels import waiting_for_kernels

RARE = 0.3
"""Classes that occur in a group with less than this probability are remembered."""
MOST_NUMBERS = 1 << 25
"""Of the table of states of one group."""
MOST_WORK = 2.0**32
"""Steps of the recursion for one group, in each of three attempts: a few seconds."""
NEGLIGIBLE = 1e-20
"""A part of this share of the sum changes no digit, however many there are."""
ROUNDING = 2.0**-52

Floats = npt.NDArray[np.float64]


class _Found(NamedTuple):
    """Z under normalized predictions, the posteriors, and the estimate of their error; inf without an answer."""

    mass: float
    marginals: Floats
    error: float


def large_set_posterior(groups: Groups) -> Estimate:
    """log Z and q_j(k) as in `subset_posterior`, group after group; the error is inf where there is no answer."""
    log_sums, weights = shares(groups.potentials, groups.is_real)
    answer = Estimate.unanswered(groups)
    sizes = (groups.counts > 0).sum(1).tolist()
    for group, (size, length) in enumerate(zip(sizes, groups.lengths.tolist(), strict=True)):
        found = _solved(weights[group, :length, :size].cpu().numpy())
        if found.mass > SMALLEST:
            answer.log_likelihood[group] = log_sums[group].sum() + math.log(found.mass)
            answer.marginals[group, :length, :size] = torch.from_numpy(found.marginals).to(answer.marginals)
        answer.error[group] = 0.0 if found.error <= EXACT else found.error
    return answer


def _solved(weights: Floats) -> _Found:
    """The answer that remembers few classes, or if that cancels too much, as many as there is room for."""
    length, size = weights.shape
    absence = np.exp(np.log1p(-weights.clip(0.0, 1.0 - 1e-16)).sum(0))
    order = np.argsort(-absence, kind="stable")
    if absence[order[0]] == 1.0 and not weights[:, order[0]].any():  # a class that no instance can have
        return _Found(0.0, np.zeros_like(weights), 0.0)
    most = min(size, int(math.log2(MOST_NUMBERS / (length + 1))))
    rare = min(int((absence > 1.0 - RARE).sum()), most)
    with waiting_for_kernels():
        kernel = MIXED.ready()
    best = _Found(0.0, np.zeros_like(weights), math.inf)
    for remembered in dict.fromkeys((rare, (rare + most) // 2, most)):
        found = _by_kernel(kernel, weights, order, remembered)
        best = min(best, found, key=lambda each: each.error)
        if best.error <= EXACT:
            break
    return best


def _by_kernel(kernel: Any, weights: Floats, order: npt.NDArray[np.int64], rare: int) -> _Found:
    length, size = weights.shape
    most = min(MOST_WORK / (length * max(rare, 1) * 2.0**rare), 2.0**62)
    marginals = np.zeros_like(weights)
    inside = np.empty_like(weights)
    if kernel is None or size - rare > 62:
        return _Found(0.0, marginals, math.inf)
    mass, total = kernel(np.ascontiguousarray(weights[:, order]), rare, NEGLIGIBLE, most, inside)
    marginals[:, order] = inside
    return _Found(mass, marginals, (length + 16) * ROUNDING * total / mass if mass > SMALLEST else math.inf)
