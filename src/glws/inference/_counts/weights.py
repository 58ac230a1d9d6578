"""Weights ω(k) = p(w | S = k) of the number S of counted instances, for a batch of problems."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr


@dataclass(frozen=True)
class Exactly:
    """Exactly `count` instances are counted: ω(k) = 1 at k = count, else 0."""

    __repr__ = short_repr

    count: Int[Tensor, "problems"]


@dataclass(frozen=True)
class Between:
    """Between `low` and `high` instances are counted, both included: ω(k) = 1 there, else 0.

    "At least m" is low = m and any high >= the length; "at most m" is low <= 0 and high = m. An empty range is
    impossible.
    """

    __repr__ = short_repr

    low: Int[Tensor, "problems"]
    high: Int[Tensor, "problems"]


@dataclass(frozen=True)
class Weighted:
    """Any weights: column k holds log ω(k), -inf for impossible counts; columns beyond the length are ignored."""

    __repr__ = short_repr

    log_weights: Float[Tensor, "problems counts"]


@dataclass(frozen=True)
class Sampled:
    """The group is a sample of a population in which a share `prior` is counted: ω(k) = Binomial(k; L, prior).

    Equivalent to a hard count of twice as many: add L virtual instances that are counted with probability 1 - prior
    each. Then ω(k) is the probability that L - k of those are counted, and Z that L of all 2 L are. It costs as much as
    a hard count, O(L), while other weights cost more.
    """

    __repr__ = short_repr

    prior: Float[Tensor, "problems"]

    def doubled(self, log_zero: Table, log_one: Table, lengths: Int[Tensor, "problems"]) -> tuple[Table, Table]:
        """The potentials followed by those of the virtual instances; exactly `lengths` of all are counted.

        >>> zero, one = torch.tensor([[0.1, 0.2]]).log(), torch.tensor([[0.9, 0.8]]).log()
        >>> Sampled(torch.tensor([0.3])).doubled(zero, one, torch.tensor([2]))[1].exp()
        tensor([[0.9000, 0.8000, 0.7000, 0.7000]])
        """
        wide = torch.arange(2 * log_zero.shape[1], device=log_zero.device)
        is_own = wide < lengths[:, None]
        prior = self.prior.to(log_zero)[:, None]
        beside = (prior.log(), torch.log1p(-prior))
        padded = (torch.nn.functional.pad(values, (0, values.shape[1])) for values in (log_zero, log_one))
        zero, one = (torch.where(is_own, own, other) for own, other in zip(padded, beside, strict=True))
        return zero, one

    def weighted(self, lengths: Int[Tensor, "problems"]) -> Weighted:
        """The same weights, listed for each count."""
        return binomial(lengths, self.prior.to(lengths.device))


Table = Float[Tensor, "problems instances"]
Weights = Exactly | Between | Weighted | Sampled
"""A weight of each count: exactly m, an interval, any weights, or a sample of a population."""
Written = Exactly | Between | Weighted
"""Weights that are an interval, or a list."""


def ends(weights: Exactly | Between) -> tuple[Int[Tensor, "problems"], Int[Tensor, "problems"]]:
    """The smallest and the largest count of weight 1."""
    if isinstance(weights, Exactly):
        return weights.count.long(), weights.count.long()
    return weights.low.long(), weights.high.long()


def binomial(lengths: Int[Tensor, "problems"], prior: Float[Tensor, "problems"] | float) -> Weighted:
    """The weights of a sample, see `Sampled`: ω(k) = Binomial(k; L, prior).

    ω is the whole binomial probability C(L, k) π^k (1-π)^(L-k) of the *total* k; it is not divided by C(L, k). Divided,
    ω would be the prior of one labeling, a product over instances: it would only shift every logit by log π/(1-π), and
    no instance would learn from the count of the others. Undivided, the prior multiplies a model that may already
    contain it, so it sharpens predictions slightly. π = 0 and π = 1 allow one count only.

    >>> binomial(torch.tensor([2]), 0.5).log_weights.exp()
    tensor([[0.2500, 0.5000, 0.2500]], dtype=torch.float64)
    """
    counts, size = _counts_and_sizes(lengths)
    share = torch.as_tensor(prior, dtype=torch.float64, device=lengths.device).reshape(-1, 1)
    log_weights = (
        _log_choose(size, counts) + torch.special.xlogy(counts, share) + torch.special.xlog1py(size - counts, -share)
    )
    return Weighted(_within(log_weights, lengths))


def hypergeometric(
    lengths: Int[Tensor, "problems"], population: Int[Tensor, "problems"] | int, counted: Int[Tensor, "problems"] | int
) -> Weighted:
    """Weights of a group drawn without replacement from `population` instances, of which `counted` are counted.

    ω(k) = C(counted, k) C(population - counted, L - k) / C(population, L), the probability of the total (see
    `binomial`). A group larger than the population is infeasible.

    >>> hypergeometric(torch.tensor([2]), 4, 2).log_weights.exp()
    tensor([[0.1667, 0.6667, 0.1667]], dtype=torch.float64)
    """
    counts, size = _counts_and_sizes(lengths)
    whole = torch.as_tensor(population, dtype=torch.float64, device=lengths.device).reshape(-1, 1)
    part = torch.as_tensor(counted, dtype=torch.float64, device=lengths.device).reshape(-1, 1)
    ways = _log_choose(part, counts) + _log_choose(whole - part, size - counts)
    log_weights = torch.where(size <= whole, ways - _log_choose(whole, size), -math.inf)
    return Weighted(_within(log_weights, lengths))


def geometric_noise(observed: Int[Tensor, "problems"], scale: float, lengths: Int[Tensor, "problems"]) -> Weighted:
    """Weights of a count observed with two-sided geometric noise.

    p(observed | k) = (1-α)/(1+α) α^|observed - k|, α = e^(-1/scale).

    This is the output of the geometric privacy mechanism with ε = 1/scale. The observed count may lie outside 0 .. L.

    >>> geometric_noise(torch.tensor([1]), 1 / math.log(2), torch.tensor([2])).log_weights.exp()
    tensor([[0.1667, 0.3333, 0.1667]], dtype=torch.float64)
    """
    counts, _ = _counts_and_sizes(lengths)
    distance = (observed[:, None] - counts).abs()
    log_weights = math.log(math.tanh(0.5 / scale)) - distance / scale
    return Weighted(_within(log_weights, lengths))


def laplace_noise(observed: Float[Tensor, "problems"], scale: float, lengths: Int[Tensor, "problems"]) -> Weighted:
    """Weights of a total observed with Laplace noise.

    The density is p(observed | k) = exp(-|observed - k| / scale) / (2 scale).

    This is the output of the Laplace privacy mechanism with ε = 1/scale. The observed total need not be whole.

    >>> laplace_noise(torch.tensor([0.5]), 0.5, torch.tensor([2])).log_weights
    tensor([[-1., -1., -3.]], dtype=torch.float64)
    """
    counts, _ = _counts_and_sizes(lengths)
    log_weights = -(observed.double()[:, None] - counts).abs() / scale - math.log(2.0 * scale)
    return Weighted(_within(log_weights, lengths))


def _counts_and_sizes(lengths: Int[Tensor, "problems"]) -> tuple[Float[Tensor, "counts"], Float[Tensor, "problems 1"]]:
    columns = int(lengths.max()) + 1 if lengths.numel() else 1
    return torch.arange(columns, dtype=torch.float64, device=lengths.device), lengths.double()[:, None]


def _log_choose(n: Float[Tensor, "*#shape"], k: Float[Tensor, "*#shape"]) -> Tensor:
    """log C(n, k), -inf outside 0 <= k <= n."""
    inside = (k >= 0) & (k <= n)
    k = torch.where(inside, k, 0.0)
    n = torch.where(inside, n, 0.0)
    return torch.where(inside, torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1), -math.inf)


def _within(
    log_weights: Float[Tensor, "problems counts"], lengths: Int[Tensor, "problems"]
) -> Float[Tensor, "problems counts"]:
    counts = torch.arange(log_weights.shape[1], device=lengths.device)
    return torch.where(counts <= lengths[:, None], log_weights, -math.inf)
