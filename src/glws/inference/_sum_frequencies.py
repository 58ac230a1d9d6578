"""Exact sums of values in plain torch, on any device: a tilt, then the characteristic function.

As in `_compiled_sums`, with p_j(v) tilted to r_j(v) = p_j(v) e^{λ v} / z_j(λ) so that the mean of S is s:

    Z = Π_j z_j(λ) · e^{-λ s} · P_λ(S = s)      P_λ(S = s) = 1/N Σ_l e^{-i t_l s} Π_j φ_j(t_l),  t_l = 2π l / N

The posterior of instance j uses the product over the others, from products of those before it and those after it:
nothing is divided. N is the number of possible sums, or smaller if S cannot be that far from its mean (Bernstein).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

STEPS, CHECKED_EVERY, STEEPEST = 32, 4, 400.0
"""Of Newton's method, which bisects where it leaves its bracket; and the ends of the first bracket."""
CLOSE = 1e-3
"""The mean of S need not be nearer to s: the tilt is for the size of numbers, any tilt gives the same answer."""
ALIASED = 46.0
"""-log of the probability beyond the period."""
NEGLIGIBLE = -46.0
"""Products with smaller logarithms are left out, and no factor counts for less."""
SAFE_SHARE = 1e-3
"""Smaller probabilities, times the points of the period, lose digits in the sum, whose terms are up to 1."""
_PART = 1 << 24
"""Complex numbers of one part of the groups."""


def sum_posterior(
    potentials: Float[Tensor, "groups instances values"], values: Int[Tensor, "values"], goal: Float[Tensor, "groups"]
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances values"], Bool[Tensor, "groups"]]:
    """log Z, posteriors, and which groups are reliable; `values` ascend from 0, padding has value 0 for sure."""
    steps = values.double()
    z, tilt = potentials.logsumexp(2), _tilt(potentials, steps, goal)
    tilted = potentials + tilt[:, None, None] * steps
    log_factors = tilted.logsumexp(2)
    r = (tilted - log_factors[:, :, None]).exp()
    points = _points(r, steps)
    share, posterior = _by_frequencies(r, steps, goal, points)
    is_reliable = (share * points > SAFE_SHARE) & (z > -torch.inf).all(1)
    log_z = log_factors.sum(1) - tilt * goal + share.clamp_min(0.0).log()
    return log_z, posterior, is_reliable


def _tilt(potentials: Tensor, values: Tensor, goal: Tensor) -> Float[Tensor, "groups"]:
    """λ with E_λ[S] = s, by Newton's method within a bracket that shrinks."""
    low, high = torch.full_like(goal, -STEEPEST), torch.full_like(goal, STEEPEST)
    tilt = torch.zeros_like(goal)
    for step in range(STEPS):
        r = (potentials + tilt[:, None, None] * values).softmax(2)
        means = r @ values
        excess = means.sum(1) - goal
        if step % CHECKED_EVERY == CHECKED_EVERY - 1 and bool((excess.abs() < CLOSE).all()):
            break
        variance = (r @ values.square() - means.square()).sum(1)
        low, high = torch.where(excess < 0, tilt, low), torch.where(excess < 0, high, tilt)
        newton = tilt - excess / variance
        tilt = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return tilt


def _points(r: Tensor, values: Tensor) -> int:
    """N: odd, and larger than the distance of any two sums of a probability that counts."""
    span, most = int(values[-1]), int(values[-1]) * r.shape[1]
    variance = float(((r @ values.square()) - (r @ values).square()).sum(1).max())
    reach = math.sqrt(2 * ALIASED * max(variance, 0.0)) + 2 * ALIASED * span / 3 + span
    return (int(min(most, 2 * reach)) + 1) | 1


def _by_frequencies(r: Tensor, values: Tensor, goal: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """P_λ(S = s), and the posteriors, by parts of the groups that fit into memory."""
    times = 2 * math.pi / points * torch.arange(points // 2 + 1, device=r.device, dtype=torch.float64)
    size = max(1, _PART // (r.shape[1] * len(times)))
    parts = [_part(*each, values, times) for each in zip(torch.split(r, size), torch.split(goal, size), strict=True)]
    shares, posteriors = zip(*parts, strict=True)
    return torch.cat(shares), torch.cat(posteriors)


def _part(r: Tensor, goal: Tensor, values: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
    points = 2 * len(times) - 1
    waves = torch.polar(torch.ones_like(values)[:, None].expand(-1, len(times)), values[:, None] * times)
    factors = r.to(waves.dtype) @ waves
    kept = _is_heard(factors)
    factors, waves, times = factors[:, :, kept], waves[:, kept], times[kept]
    weight = (2.0 - (times == 0).to(times)) / points
    turn = torch.polar(weight.expand(len(goal), -1), -goal[:, None] * times)
    one = torch.ones_like(factors[:, :1])
    before = torch.cat([one, factors[:, :-1].cumprod(1)], 1)
    after = torch.cat([factors[:, 1:].flip(1).cumprod(1).flip(1), one], 1)
    share = (before[:, -1] * factors[:, -1] * turn).real.sum(1)
    heights = ((before * after * turn[:, None]) @ waves.T).real
    posterior = (r * heights).clamp_min(0.0)
    return share, posterior / posterior.sum(2, keepdim=True).clamp_min(torch.finfo(r.dtype).tiny)


def _is_heard(factors: Tensor) -> Int[Tensor, "kept"]:
    """The frequencies at which the product of the factors, or of all but one, is not negligible."""
    logs = factors.abs().log().clamp_min(NEGLIGIBLE)
    product = logs.sum(1) - logs.amin(1)
    return (product > NEGLIGIBLE).any(0).nonzero()[:, 0]
