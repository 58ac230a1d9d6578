"""Exact samples of labels given the number of counted instances.

Under the tilt that makes the given count the expected one, instances are independent. The group is cut into two halves
of similar variance. The first is sampled without a constraint, with sum a; the sample is accepted with probability
P(S_2 = m - a) / max_b P(S_2 = b), S_2 the sum of the second half. An accepted sample has the law given the total, and
about 7 in 10 are accepted. The second half is then the same problem, with m - a for m: O(L log L) in all. Short groups
are sampled whole until their sum is m.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._counts.posterior import count_posterior
from glws.inference._counts.tilting import Undecided
from glws.inference._counts.weights import Exactly
from glws.inference._counts.windows import tilted_to

SHORT = 16
"""Groups of up to this many instances are sampled whole."""

Odds = Float[Tensor, "rows instances"]
Mask = Bool[Tensor, "rows instances"]
Counts = Int[Tensor, "rows"]


def sample_given_count(log_odds: Odds, is_soft: Mask, count: Counts, generator: torch.Generator | None = None) -> Mask:
    """Sample which soft instances are counted, given that `count` of them are; rows are independent.

    A count below 0 or above the number of soft instances is clipped.

    >>> sample_given_count(torch.zeros(1, 5), torch.tensor([[True, True, False, True, True]]), torch.tensor([4]))
    tensor([[ True,  True, False,  True,  True]])
    """
    number = is_soft.sum(1)
    is_counted = is_soft & (count >= number)[:, None]
    is_open = ((count > 0) & (count < number)).nonzero()[:, 0]
    if len(is_open):
        is_counted[is_open] = _sample_undecided(log_odds[is_open], is_soft[is_open], count[is_open], generator)
    return is_counted


def _sample_undecided(log_odds: Odds, is_soft: Mask, count: Counts, generator: torch.Generator | None) -> Mask:
    """`sample_given_count` for counts that are neither none nor all."""
    small = _small_sides(log_odds, is_soft, count)
    is_counted = torch.zeros_like(is_soft)
    width = int(is_soft.sum(1).max())
    order = small.abs().masked_fill(~is_soft, -1.0).argsort(dim=1, descending=True)[:, :width]
    if width <= SHORT:
        return is_counted.scatter_(1, order, _whole(small.gather(1, order), count, generator))
    first, second = order[:, 1::2], order[:, 0::2]
    ahead = _accepted(small.gather(1, first), small.gather(1, second), count, generator)
    left = count - ahead.sum(1)
    behind = sample_given_count(log_odds.gather(1, second), is_soft.gather(1, second), left, generator)
    return is_counted.scatter_(1, first, ahead).scatter_(1, second, behind)


def _small_sides(log_odds: Odds, is_soft: Mask, count: Counts) -> Odds:
    """Small sides under the tilt with this expected count."""
    nothing = torch.zeros_like(count)
    problems = Undecided(
        torch.zeros_like(log_odds),
        log_odds,
        is_soft,
        torch.zeros_like(is_soft),
        is_soft.sum(1),
        nothing,
        nothing.to(log_odds),
    )
    return tilted_to(problems, count, torch.ones_like(count, dtype=torch.bool)).small


def _independent(small: Odds, generator: torch.Generator | None) -> Mask:
    """Independent samples."""
    uniform = torch.rand(small.shape, dtype=small.dtype, device=small.device, generator=generator)
    return (uniform < small.abs()) ^ (small < 0)


def _whole(small: Odds, count: Counts, generator: torch.Generator | None) -> Mask:
    """Independent samples until the sum is `count`."""
    is_counted = torch.zeros_like(small, dtype=torch.bool)
    waiting = torch.arange(len(small), device=small.device)
    while len(waiting):
        tried = _independent(small[waiting], generator)
        is_right = tried.sum(1) == count[waiting]
        is_counted[waiting[is_right]] = tried[is_right]
        waiting = waiting[~is_right]
    return is_counted


def _accepted(
    first: Odds, second: Float[Tensor, "rows others"], count: Counts, generator: torch.Generator | None
) -> Mask:
    """Samples of the first half, accepted in proportion to P(second half has the remaining count)."""
    is_counted = torch.zeros_like(first, dtype=torch.bool)
    mean = (second.sum(1) + (second < 0).sum(1)).floor().long()
    # the most likely sum of independent labels is the mean, rounded down or up (Darroch 1964)
    top = torch.maximum(_log_prob(second, mean), _log_prob(second, mean + 1))
    waiting = torch.arange(len(first), device=first.device)
    while len(waiting):
        tried = _independent(first[waiting], generator)
        log_share = _log_prob(second[waiting], count[waiting] - tried.sum(1)) - top[waiting]
        uniform = torch.rand(len(waiting), dtype=first.dtype, device=first.device, generator=generator)
        is_kept = uniform.log() < log_share
        is_counted[waiting[is_kept]] = tried[is_kept]
        waiting = waiting[~is_kept]
    return is_counted


def _log_prob(small: Odds, count: Counts) -> Float[Tensor, "rows"]:
    """log P(S = count) for independent instances."""
    near, far, is_one = torch.log1p(-small.abs()), small.abs().log(), small < 0
    zero, one = torch.where(is_one, far, near), torch.where(is_one, near, far)
    columns = torch.full_like(count, small.shape[1])
    return count_posterior(zero, one, columns, Exactly(count)).log_likelihood
