"""The most likely labels, samples and entropy given weights of a count, each in O(L log L).

Problems are those of `count_posterior`. Results in padding and in impossible problems are undefined.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from glws.inference._counts._conditional import sample_given_count
from glws.inference._counts.posterior import count_posterior, remaining_weights
from glws.inference._counts.tilting import Undecided, set_aside, small_sides
from glws.inference._counts.weights import Between, Exactly, Sampled, Weighted, Weights, ends
from glws.inference._counts.windows import log_law, tilted_to
from glws.inference._draws import cross_entropy, draws

CELLS_AT_ONCE = 1 << 22
"""Number of instances that are sampled at a time."""

Table = Float[Tensor, "problems instances"]
Sizes = Int[Tensor, "problems"]


def count_mode(log_zero: Table, log_one: Table, lengths: Sizes, weights: Weights) -> Bool[Tensor, "problems instances"]:
    """Which instances are counted in the most likely labeling.

    With log-odds in descending order and C_m the sum of the first m, these are the first argmax_m log ω(m) + C_m. Among
    equal log-odds the first in the group are counted; among equally good counts the smallest is chosen.

    >>> log_zero, log_one = torch.zeros(1, 3), torch.tensor([[1.0, -2.0, 0.5]])
    >>> count_mode(log_zero, log_one, torch.tensor([3]), Exactly(torch.tensor([1])))
    tensor([[ True, False, False]])
    """
    problems = set_aside(log_zero, log_one, lengths)
    order = torch.where(problems.is_soft, problems.gap, -torch.inf).sort(dim=1, descending=True, stable=True)
    gains = order.values.masked_fill_(order.values == -torch.inf, 0.0)
    best = (_log_weights(weights, lengths, problems) + pad(gains.cumsum_(1), (1, 0))).argmax(1, keepdim=True)
    is_first = torch.arange(gains.shape[1], device=best.device) < best
    return problems.is_certain | torch.zeros_like(is_first).scatter_(1, order.indices, is_first)


def count_sample(
    log_zero: Table,
    log_one: Table,
    lengths: Sizes,
    weights: Weights,
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Bool[Tensor, "n problems instances"]:
    """Independent samples of which instances are counted: their number from its posterior, then which ones."""
    if isinstance(weights, Sampled):
        zero, one = weights.doubled(log_zero, log_one, lengths)
        both = count_sample(zero, one, 2 * lengths, Exactly(lengths), num_samples, generator)
        return both[:, :, : log_zero.shape[1]]
    problems = set_aside(log_zero, log_one, lengths)
    numbers = _numbers(problems, lengths, weights, num_samples, generator)
    numbers, gap = numbers.flatten(), problems.gap
    counted = torch.empty(len(numbers), log_zero.shape[1], dtype=torch.bool, device=log_zero.device)
    rows = torch.arange(len(numbers), device=log_zero.device)
    for some in torch.split(rows, max(CELLS_AT_ONCE // max(log_zero.shape[1], 1), 1)):
        problem = some % len(lengths)
        is_counted = sample_given_count(gap[problem], problems.is_soft[problem], numbers[some], generator)
        counted[some] = is_counted | problems.is_certain[problem]
    return counted.view(num_samples, *log_zero.shape)


def _numbers(
    problems: Undecided, lengths: Sizes, weights: Weights, num_samples: int, generator: torch.Generator | None
) -> Int[Tensor, "n problems"]:
    """Samples of the number of undecided instances that are counted."""
    if isinstance(weights, Exactly):
        return (weights.count.long() - problems.num_certain).expand(num_samples, -1)
    law = log_law(problems, _log_weights(weights, lengths, problems))
    return draws((law - law.amax(1, keepdim=True)).nan_to_num(-torch.inf).exp(), num_samples, generator)


def count_entropy(
    log_zero: Table, log_one: Table, lengths: Sizes, weights: Weights
) -> tuple[Float[Tensor, "problems"], Table]:
    """Entropy in nats over which instances are counted, and the posterior of each of being counted.

    With r_j the probability of being counted under the tilt θ, S the count and M the count given w,

        H = log Σ_k ω'(k) P_θ(S = k) - E[log ω'(M)] - Σ_j q_j log r_j + (1 - q_j) log(1 - r_j),   ω'(k) = ω(k) e^{-θ k}

    for any θ. For an exact count θ moves the expected count there, so that no large numbers cancel.
    """
    problems = set_aside(log_zero, log_one, lengths)
    small, left, expected = _tilted_problem(problems, lengths, weights)
    is_one = small < 0
    near, far = torch.log1p(-small.abs()), small.abs().log()
    zero = torch.where(problems.is_soft, torch.where(is_one, far, near), 0.0)
    one = torch.where(problems.is_soft, torch.where(is_one, near, far), -torch.inf)
    columns = torch.full_like(lengths, log_zero.shape[1])
    log_mass, shares = count_posterior(zero, one, columns, left)
    spread = cross_entropy(torch.stack([1.0 - shares, shares], 2), torch.stack([zero, one], 2)).sum(1)
    entropy = (log_mass - expected + spread).clamp_min(0.0)
    return entropy, torch.where(problems.is_certain, 1.0, shares)


def _tilted_problem(
    problems: Undecided, lengths: Sizes, weights: Weights
) -> tuple[Table, Weights, Float[Tensor, "problems"] | float]:
    """Small sides of the undecided instances under θ, the weights ω' of their count, and E[log ω'(M)]."""
    if isinstance(weights, Exactly):
        center = torch.minimum((weights.count.long() - problems.num_certain).clamp_min(0), problems.num_soft)
        return tilted_to(problems, center, torch.ones_like(center, dtype=torch.bool)).small, Exactly(center), 0.0
    small = small_sides(problems.gap, problems.is_soft, torch.zeros_like(problems.settled))
    if isinstance(weights, Between):
        return small, Between(weights.low - problems.num_certain, weights.high - problems.num_certain), 0.0
    log_weights = _log_weights(weights, lengths, problems)
    shares = log_law(problems, log_weights).softmax(1)
    return small, Weighted(log_weights), -cross_entropy(shares, log_weights)


def _log_weights(weights: Weights, lengths: Sizes, problems: Undecided) -> Float[Tensor, "problems counts"]:
    """log ω of the number of undecided instances that are counted."""
    if isinstance(weights, Weighted | Sampled):
        written = weights if isinstance(weights, Weighted) else weights.weighted(lengths)
        return remaining_weights(written, problems)
    low, high = (end - problems.num_certain for end in ends(weights))
    counts = torch.arange(problems.zero.shape[1] + 1, device=lengths.device)
    last = torch.minimum(high, problems.num_soft)[:, None]
    return torch.where((counts >= low[:, None]) & (counts <= last), 0.0, -torch.inf).double()
