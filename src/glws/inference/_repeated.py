"""Counts over rows that stand for many instances each: the time depends on the rows, not on the instances."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError

ALIAS_POINTS, SPREADS = 26, 9.0
"""Frequencies: 26 + 9σ points keep aliases below rounding error (Bernstein)."""
SMALLEST = 1e-18
"""The characteristic function is left out where it is smaller."""
STEPS = 80


class RepeatedCounts(NamedTuple):
    """log P(count) for each group, and for each row the expected number of counted instances given the count."""

    def __repr__(self) -> str:
        return short_repr(self)

    log_likelihood: Float[Tensor, "groups"]
    expected: Float[Tensor, "groups rows"]


def repeated_counts(
    log_odds: Float[Tensor, "groups rows"], multiplicity: Int[Tensor, "groups rows"], counts: Int[Tensor, "groups"]
) -> RepeatedCounts:
    """The posterior of groups whose rows stand for n_j instances each, of which `counts` are counted in all.

    The instances of row j are independent with probability r_j = σ(log_odds); S is a sum of binomials. With a tilt θ
    that makes the count the mean, x_j = log_odds + θ and r_j = σ(x_j),

        log P(S = m) = Σ_j n_j (softplus(x_j) - softplus(x_j - θ)) - θ m + log P_θ(S = m)
        P_θ(S = m) = (1/N) Σ_l e^{-i t_l m} Π_j (1 - r_j + r_j e^{i t_l})^{n_j},    t_l = 2πl/N
        E[k_j] = n_j r_j P_θ(S = m, one instance of row j counted) / (r_j P_θ(S = m))

    exact to rounding. Rows with multiplicity 0 are padding. A count below 0 or above Σ n_j has log-likelihood -inf.

    >>> found = repeated_counts(torch.zeros(1, 2), torch.tensor([[3, 1]]), torch.tensor([2]))
    >>> found.log_likelihood.exp(), found.expected
    (tensor([0.3750], dtype=torch.float64), tensor([[1.5000, 0.5000]], dtype=torch.float64))
    """
    z, n, m = log_odds.double(), multiplicity.double(), counts.double()
    if bool((multiplicity < 0).any()):
        raise DataError("a multiplicity must be a whole number >= 0")
    total = n.sum(1)
    possible, forced = (m >= 0) & (m <= total), (m == 0) | (m == total)
    theta = _tilt(z, n, torch.where(possible & ~forced, m, total / 2))
    parts = [_one_group(*each) for each in zip(z, n, m, theta, possible.tolist(), forced.tolist(), strict=True)]
    log_likelihood = torch.stack([part[0] for part in parts]) if parts else z.new_zeros(0)
    return RepeatedCounts(log_likelihood, torch.stack([part[1] for part in parts]) if parts else z)


def _tilt(z: Tensor, n: Tensor, wanted: Tensor) -> Float[Tensor, "groups"]:
    """θ with Σ_j n_j σ(z_j + θ) = wanted, by bisection."""
    is_real = n > 0
    goal = torch.logit(wanted / n.sum(1).clamp_min(1), eps=1e-15)
    low = goal - torch.where(is_real, z, -math.inf).amax(1).clamp_min(-1e300)
    high = goal - torch.where(is_real, z, math.inf).amin(1).clamp_max(1e300)
    for _ in range(STEPS):
        middle = (low + high) / 2
        is_below = (n * torch.sigmoid(z + middle[:, None])).sum(1) < wanted
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return (low + high) / 2


def _one_group(
    z: Tensor, n: Tensor, m: Tensor, theta: Tensor, is_possible: bool, is_forced: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "rows"]]:
    """The answer of one group; none or all counted in closed form."""
    if not is_possible:
        return z.new_tensor(-math.inf), torch.zeros_like(n)
    if is_forced:
        is_all = bool(m > 0)
        terms = torch.nn.functional.logsigmoid(z if is_all else -z)
        return torch.where(n > 0, n * terms, 0.0).sum(), n if is_all else torch.zeros_like(n)
    x = torch.where(n > 0, z + theta, 0.0)
    r = torch.sigmoid(x)
    variance = float((n * r * (1 - r)).sum())
    points = min(int(ALIAS_POINTS + SPREADS * math.sqrt(variance)), int(n.sum()) + 1) | 1
    t = 2 * math.pi * torch.arange((points + 1) // 2, dtype=torch.float64, device=z.device) / points
    t = t[variance * (1 - t.cos()) < -math.log(SMALLEST)]  # |φ(t)| <= exp(-σ² (1 - cos t))
    versine = 2 * (t / 2).sin() ** 2
    log_size = 0.5 * torch.log1p(-2 * (r * (1 - r))[:, None] * versine)
    angle = torch.atan2(r[:, None] * t.sin(), 1 - r[:, None] * versine)
    size = (n[:, None] * log_size).sum(0).exp()
    turn = (n[:, None] * angle).sum(0) - t * m
    weight = torch.where(t > 0, 2.0, 1.0) * size  # frequencies t and -t together
    probability = (weight * turn.cos()).sum() / points
    one_counted = (weight * (-log_size).exp() * (turn + t - angle).cos()).sum(1) / points
    rest = n * (torch.nn.functional.softplus(x) - torch.nn.functional.softplus(x - theta))
    log_likelihood = torch.where(n > 0, rest, 0.0).sum() - theta * m + probability.log()
    return log_likelihood, n * r * one_counted / probability
