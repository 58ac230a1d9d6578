"""Plain torch: batches of problems without their decided instances, and the tilt.

A tilt θ adds θ to every log-odds: x_j = z_j + θ, r_j = σ(x_j). It changes the law of the count S, not its law given
S = k, so θ is arbitrary; the best one puts the mean of S where the weight is, and then nothing underflows.

A tilted instance is stored as its *signed small side*: with a = min(r, 1-r), it is +a if r = a and -a if r = 1-a. A
decided or padded instance is 0: it contributes nothing anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._padding import padding_mask

# Log-odds beyond this leave too few digits for θ: the search then runs around a pivot.
FAR = 1e4
# Log-potentials beyond this are read as this: sums of a billion of them stay finite.
LARGEST = 1e290
# Groups longer than this are first searched on a sample of between 1 and 2 times _SAMPLE instances.
_LONG = 16384
_SAMPLE = 4096
_MAX_STEPS = 200
_NEWTON_STEPS = 12


@dataclass(frozen=True)
class Undecided:
    """The instances with two possible labels, and the contribution of the others to each problem."""

    zero: Float[Tensor, "problems instances"]  # 0 for decided instances
    one: Float[Tensor, "problems instances"]
    is_soft: Bool[Tensor, "problems instances"]
    is_certain: Bool[Tensor, "problems instances"]  # certainly counted
    num_soft: Int[Tensor, "problems"]
    num_certain: Int[Tensor, "problems"]
    settled: Float[Tensor, "problems"]  # log-potentials of the decided; -inf: no possible label; NaN: NaN among them

    @property
    def gap(self) -> Float[Tensor, "problems instances"]:
        """Log-odds."""
        return self.one - self.zero

    def rows(self, chosen: Bool[Tensor, "problems"]) -> Undecided:
        """The chosen problems."""
        return Undecided(
            self.zero[chosen],
            self.one[chosen],
            self.is_soft[chosen],
            self.is_certain[chosen],
            self.num_soft[chosen],
            self.num_certain[chosen],
            self.settled[chosen],
        )


def bounded(log_potentials: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Float64 and within ±LARGEST, except -inf, which is the zero of log space."""
    values = log_potentials.double()
    return torch.where(values == -math.inf, values, values.clamp(-LARGEST, LARGEST))


def set_aside(
    log_zero: Float[Tensor, "problems instances"],
    log_one: Float[Tensor, "problems instances"],
    lengths: Int[Tensor, "problems"],
) -> Undecided:
    """Separate decided from undecided instances; padding is decided, not counted and of weight 1."""
    is_real = padding_mask(log_zero, lengths)
    zero = torch.where(is_real, bounded(log_zero), 0.0)
    one = torch.where(is_real, bounded(log_one), -math.inf)
    is_soft = (zero > -math.inf) & (one > -math.inf)
    is_certain = (zero == -math.inf) & is_real
    settled = torch.where(is_soft, 0.0, torch.maximum(zero, one)).sum(1)
    return Undecided(
        torch.where(is_soft, zero, 0.0),
        torch.where(is_soft, one, 0.0),
        is_soft,
        is_certain,
        is_soft.sum(1),
        is_certain.sum(1),
        settled,
    )


def small_sides(
    gap: Float[Tensor, "problems instances"],
    is_soft: Bool[Tensor, "problems instances"],
    theta: Float[Tensor, "problems"],
) -> Float[Tensor, "problems instances"]:
    """Signed small sides under θ."""
    x = gap + theta[:, None]
    # In place, since memory traffic dominates. exp(-600) is negligible next to 1, and keeps the sign of its instance.
    small = x.abs().clamp_(max=600.0).neg_().sigmoid_()
    return small.copysign_(x.neg_()).mul_(is_soft)


def mean_and_variance(
    small: Float[Tensor, "problems instances"],
) -> tuple[Float[Tensor, "problems"], Float[Tensor, "problems"]]:
    """Mean and variance of S: Σ r_j and Σ r_j (1 - r_j)."""
    ones = (small < 0).sum(1)
    return ones + small.sum(1), small.abs().sum(1) - small.square().sum(1)


def slack(variance: Float[Tensor, "problems"]) -> Float[Tensor, "problems"]:
    """Tolerance of the mean: a quarter of σ costs no accuracy."""
    return 0.02 + 0.25 * variance.sqrt()


def newton_step(
    mean: Float[Tensor, "problems"],
    variance: Float[Tensor, "problems"],
    target: Float[Tensor, "problems"],
    n: Float[Tensor, "problems"],
) -> Float[Tensor, "problems"]:
    """Newton's step for logit(mean/n) = logit(target/n), which is nearly linear in θ; not finite if flat."""
    aim = torch.minimum(target.clamp(min=0.01), n - 0.01)
    distance = (aim / (n - aim)).log() - (mean / (n - mean)).log()
    return distance * mean * (1.0 - mean / n) / variance


def tilt(
    gap: Float[Tensor, "problems instances"],
    is_soft: Bool[Tensor, "problems instances"],
    target: Float[Tensor, "problems"],
) -> Float[Tensor, "problems"]:
    """θ that brings the mean of S to `target`, within `slack`."""
    theta = torch.zeros_like(target)
    if gap.shape[1] > _LONG:  # a first solution from a sample
        stride = gap.shape[1] // _SAMPLE
        share = is_soft[:, ::stride].sum(1) / is_soft.sum(1).clamp(min=1)
        theta = search(gap[:, ::stride].contiguous(), is_soft[:, ::stride].contiguous(), target * share, theta)
    return search(gap, is_soft, target, theta)


def search(
    gap: Float[Tensor, "problems instances"],
    is_soft: Bool[Tensor, "problems instances"],
    target: Float[Tensor, "problems"],
    theta: Float[Tensor, "problems"],
) -> Float[Tensor, "problems"]:
    """θ with |mean - target| <= slack: Newton while it converges, else doubling and bisection."""
    n = is_soft.sum(1).double()
    low, high = torch.full_like(target, -math.inf), torch.full_like(target, math.inf)
    stride = 4.0
    for step in range(_MAX_STEPS):
        mean, variance = mean_and_variance(small_sides(gap, is_soft, theta))
        is_done = (mean - target).abs() <= slack(variance)
        if bool(is_done.all()):
            break
        low = torch.where(mean < target, theta, low)
        high = torch.where(mean < target, high, theta)
        proposal = theta + newton_step(mean, variance, target, n)
        is_safe = (low < proposal) & (proposal < high) & ((proposal - theta).abs() <= stride) & (step < _NEWTON_STEPS)
        doubled = torch.where(high.isinf(), theta + stride, theta - stride)
        cautious = torch.where(low.isinf() | high.isinf(), doubled, 0.5 * (low + high))
        theta = torch.where(is_done, theta, torch.where(is_safe, proposal, cautious))
        stride *= 2.0
    return theta


def pivot_of(problems: Undecided, target: Int[Tensor, "problems"]) -> Float[Tensor, "problems"]:
    """The log-odds that others are measured from: 0, or the target-th largest if some are very large.

    Around the target-th largest, |θ| <= log n + 4 always suffices, so θ keeps all its digits, and differences of nearby
    log-odds are exact in floating point.
    """
    gap = problems.gap
    is_far = (gap.abs() > FAR).any(1)
    if not bool(is_far.any()):
        return torch.zeros_like(problems.settled)
    ordered = torch.where(problems.is_soft, gap, -math.inf).sort(dim=1, descending=True).values
    place = torch.minimum(target, problems.num_soft).clamp(min=1) - 1
    chosen = ordered.gather(1, place[:, None])[:, 0]
    return torch.where(is_far & (problems.num_soft > 0), chosen, 0.0)


def log_normalizer(
    problems: Undecided,
    small: Float[Tensor, "problems instances"],
    theta: Float[Tensor, "problems"],
    pivot: Float[Tensor, "problems"],
    center: Int[Tensor, "problems"],
) -> Float[Tensor, "problems"]:
    """log of (Σ over labelings with S = center of the potentials) / P_θ(S = center).

    Σ_j [r_j > 1/2 ? log_one_j : log_zero_j] - Σ_j log max(r_j, 1-r_j) + (θ - pivot)(#{r_j > 1/2} - center):
    no difference of large numbers, unlike Σ softplus(x_j) - softplus(z_j).
    """
    is_one = small < 0
    chosen = torch.where(is_one, problems.one, problems.zero).sum(1)
    excess = is_one.sum(1) - center
    return problems.settled + chosen - torch.log1p(-small.abs()).sum(1) + theta * excess - pivot * excess
