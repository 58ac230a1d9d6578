"""The multi-class tilt: θ such that q_j(k) ∝ exp(φ_j(k) + θ_k) has the given counts as expected counts.

θ minimizes the convex function D(θ) = Σ_j log Σ_k exp(φ_j(k) + θ_k) - θ·n, whose gradient is N(θ) - n with
N_k = Σ_j q_j(k), and whose Hessian is the covariance matrix of the counts, diag(N) - Σ_j q_j q_jᵀ.

Each step takes the better of two: Sinkhorn's, θ + log n - log N, which never fails and can be slow, and Newton's. If
predictions are so sharp that both are slow (D is then nearly piecewise linear), the potentials are first divided by a
temperature, which is halved whenever the counts nearly fit, until it is 1. The number of steps depends little on the
scale of the potentials or the size of the group: 5 to 15 for ordinary predictions, 20 to 50 for logits of
1,000.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._joint.groups import Groups, shares

MOST_STEPS = 150
LONGEST_STEP = 4.0
COLD_RANGE = 8.0
"""Potentials that differ by less than this within an instance need no temperature."""
NEARLY = 0.3
"""The temperature is lowered when at most this many labels are misplaced."""
PRECISION = 1e-12
"""Tolerance: misplaced labels at the end, per instance."""


class Point(NamedTuple):
    """A tilt and its results."""

    theta: Float[Tensor, "groups columns"]
    dual: Float[Tensor, "groups"]
    """D(θ): the leading term of the log-likelihood."""
    marginals: Float[Tensor, "groups instances columns"]
    error: Float[Tensor, "groups"]
    """Σ_k |N_k - n_k|."""

    def select(self, chosen: Int[Tensor, "chosen"]) -> Point:
        """The tilts of some of the groups."""
        return Point(*(part[chosen] for part in self))


def tilted(groups: Groups) -> Point:
    """The tilt of every group.

    Where hard zeros (-inf) allow no labeling with these counts, `error` stays at 1 or more: an instance has no
    possible class, or, by Hall's theorem, some classes ask for more labels than there are instances for them.
    """
    heat, theta = _range(groups).div(COLD_RANGE).clamp_min(1.0), torch.zeros_like(groups.counts, dtype=torch.float64)
    point = _point(groups, heat, theta)
    least = _least(groups)
    for _ in range(MOST_STEPS):
        point = _better(groups, heat, point)
        is_done = (heat == 1.0) & (point.error <= PRECISION * groups.lengths)
        if bool((is_done | (point.dual < least / heat - 1.0)).all()):  # below its bound: no labeling exists
            break
        cooler = torch.where(point.error < NEARLY, (heat / 2.0).clamp_min(1.0), heat)
        if not torch.equal(cooler, heat):
            point = _point(groups, cooler, point.theta * (heat / cooler)[:, None])
        heat = cooler
    return _point(groups, torch.ones_like(heat), point.theta * heat[:, None])


def _range(groups: Groups) -> Float[Tensor, "groups"]:
    """The largest difference between two finite potentials of one instance."""
    real = groups.is_real[:, :, None] & (groups.potentials > -torch.inf)
    top = torch.where(real, groups.potentials, -torch.inf).amax(2)
    bottom = torch.where(real, groups.potentials, torch.inf).amin(2)
    return torch.where(top >= bottom, top - bottom, 0.0).amax(1)


def _least(groups: Groups) -> Float[Tensor, "groups"]:
    """A lower bound of the log-potential of every possible labeling, and so of D(θ), if one is possible."""
    bottom = torch.where(groups.potentials > -torch.inf, groups.potentials, torch.inf).amin(2)
    return torch.where(groups.is_real, bottom, 0.0).sum(1)


def _point(groups: Groups, heat: Float[Tensor, "groups"], theta: Float[Tensor, "groups columns"]) -> Point:
    log_sums, marginals = shares(groups.potentials / heat[:, None, None] + theta[:, None], groups.is_real)
    dual = log_sums.sum(1) - (theta * groups.counts).sum(1)
    return Point(theta, dual, marginals, (marginals.sum(1) - groups.counts).abs().sum(1))


def _better(groups: Groups, heat: Float[Tensor, "groups"], point: Point) -> Point:
    """One step: the better of Newton's and Sinkhorn's, by the dual or, if that is flat, by the error.

    Sinkhorn's step lowers the dual and never increases the error, so neither does this.
    """
    sinkhorn = _point(groups, heat, point.theta + _sinkhorn_step(groups, point))
    newton = _point(groups, heat, point.theta + _newton_step(groups, point))
    scale = 1.0 + point.dual.abs()
    is_down = newton.dual <= point.dual + 1e-12 * scale
    is_better = (newton.error <= sinkhorn.error) | (newton.dual < sinkhorn.dual - 1e-9 * scale)
    return _chosen(is_down & is_better, newton, sinkhorn)


def _chosen(condition: Bool[Tensor, "groups"], first: Point, second: Point) -> Point:
    pairs = zip(first, second, strict=True)
    return Point(*(torch.where(condition.view(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def _sinkhorn_step(groups: Groups, point: Point) -> Float[Tensor, "groups columns"]:
    expected = point.marginals.sum(1)
    usable = (groups.counts > 0) & (expected > 0)
    return torch.where(usable, groups.counts.double().log() - expected.log(), 0.0)


def _newton_step(groups: Groups, point: Point) -> Float[Tensor, "groups columns"]:
    """Σ^-1 (n - N), no longer than LONGEST_STEP. A common shift of θ changes nothing and is pinned."""
    is_used = (groups.counts > 0).double()
    pinned = covariance(point.marginals) + is_used[:, :, None] * is_used[:, None]
    floor = 1e-14 * groups.counts + (1.0 - is_used)
    factor, _ = torch.linalg.cholesky_ex(pinned + torch.diag_embed(floor))
    step = torch.cholesky_solve((groups.counts - point.marginals.sum(1))[:, :, None], factor)[:, :, 0]
    step = torch.where(step.isfinite().all(1, keepdim=True), step, 0.0)
    return step * (LONGEST_STEP / step.abs().amax(1, keepdim=True).clamp_min(LONGEST_STEP))


def covariance(marginals: Float[Tensor, "groups instances columns"]) -> Float[Tensor, "groups columns columns"]:
    """The covariance of the counts of independent labels: diag(Σ_j q_j) - Σ_j q_j q_jᵀ."""
    return torch.diag_embed(marginals.sum(1)) - marginals.mT @ marginals
