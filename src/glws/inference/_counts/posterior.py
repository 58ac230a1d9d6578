"""`count_posterior`: exact inference for counts by several algorithms with the same result."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError
from glws.inference import _gpu as gpu
from glws.inference._counts.on_cpu import compiled_counts, kernel_of
from glws.inference._counts.recursion import recursion_posterior
from glws.inference._counts.thresholds import TORCH_SHORT
from glws.inference._counts.tilting import Undecided, bounded, set_aside
from glws.inference._counts.weights import Exactly, Sampled, Weighted, Weights, Written, ends
from glws.inference._counts.windows import interval_posterior, weighted_posterior
from glws.inference._kernels import waiting_for_kernels
from glws.inference._padding import padding_mask
from glws.inference._rows import RowArrays

ALGORITHMS = ("auto", "compiled", "characteristic", "recursion")


class CountResult(NamedTuple):
    """The result for a batch of problems."""

    def __repr__(self) -> str:
        return short_repr(self)

    log_likelihood: Float[Tensor, "problems"]
    """log Σ_y ω(S(y)) Π_j potential_j(y_j); -inf when impossible."""
    marginals: Float[Tensor, "problems instances"]
    """Posterior probability that instance j is counted; 0 in padding and in impossible problems."""


def count_posterior(
    log_zero: Float[Tensor, "problems instances"],
    log_one: Float[Tensor, "problems instances"],
    lengths: Int[Tensor, "problems"],
    weights: Weights,
    method: str = "auto",
) -> CountResult:
    """Exact likelihood of weights of a count and posterior of every instance, for a batch of problems.

    Problem b has lengths[b] instances; instance j is counted with log-potential log_one[b, j] and not counted with
    log_zero[b, j]. With S the number of counted instances and ω(k) = p(w | S = k),

        log_likelihood = log Σ_y ω(S(y)) Π_j potential_j(y_j)        marginals_j = p(y_j = 1 | w)

    The potentials need not be normalized and may be -inf; entries beyond lengths[b] are not read. An impossible problem
    gives -inf and zeros. NaN among the potentials of a problem gives NaN for that problem only; log-potentials beyond
    ±1e290 are read as ±1e290. Computed in float64 whatever the input; no autograd inside:
    ∂ log_likelihood / ∂ log_one = marginals, ∂ log_likelihood / ∂ log_zero = 1 - marginals.

    method: "compiled" (CPU), "characteristic" (plain torch, any device), "recursion" (plain torch, O(L²), the
    reference), or "auto". The first two take O(L) time for `Exactly` and `Between`, whatever the count.

    >>> log_probs = torch.tensor([[0.9, 0.2, 0.6]]).log()
    >>> rest = torch.tensor([[0.1, 0.8, 0.4]]).log()
    >>> result = count_posterior(rest, log_probs, torch.tensor([3]), Exactly(torch.tensor([1])))
    >>> result.log_likelihood.exp()
    tensor([0.3440])
    >>> result.marginals
    tensor([[0.8372, 0.0233, 0.1395]])
    """
    check_problems(log_zero, log_one, lengths, weights, method)
    if log_zero.numel() == 0:
        return _without_instances(log_zero, weights)
    if isinstance(weights, Sampled):
        if method != "recursion":
            return _sampled(log_zero, log_one, lengths, weights, method)
        weights = weights.weighted(lengths)
    if method == "auto" and isinstance(weights, Exactly) and gpu.is_available(log_zero):
        return _fused(log_zero, log_one, lengths, weights)
    chosen = _automatic(log_zero, weights) if method == "auto" else method
    with torch.no_grad():
        if chosen == "compiled":
            result = _compiled(log_zero, log_one, lengths, weights)
        else:
            result = _plain(log_zero, log_one, lengths, weights, chosen)
    return result if log_zero.dtype == torch.float64 else _in_single_precision(result)


def _sampled(log_zero: Tensor, log_one: Tensor, lengths: Tensor, weights: Sampled, method: str) -> CountResult:
    """A hard count in a group of twice the size."""
    zero, one = weights.doubled(log_zero.detach().double(), log_one.detach().double(), lengths)
    log_likelihood, marginals = count_posterior(zero, one, 2 * lengths, Exactly(lengths), method)
    is_real = padding_mask(log_zero, lengths)
    result = CountResult(log_likelihood, torch.where(is_real, marginals[:, : log_zero.shape[1]], 0.0))
    return result if log_zero.dtype == torch.float64 else _in_single_precision(result)


def _fused(log_zero: Tensor, log_one: Tensor, lengths: Tensor, weights: Exactly) -> CountResult:
    """The Triton kernels, on the device of the tensors."""
    from glws.inference._gpu.counts import gpu_count_posterior

    return gpu_count_posterior(log_zero, log_one, lengths, weights.count.long())


def _in_single_precision(result: CountResult) -> CountResult:
    """Round to float32; a log-likelihood below its range becomes -inf, and the problem impossible."""
    log_likelihood = result.log_likelihood.float()
    return CountResult(
        log_likelihood, result.marginals.float().masked_fill((log_likelihood == -math.inf)[:, None], 0.0)
    )


def check_problems(log_zero: Tensor, log_one: Tensor, lengths: Tensor, weights: Weights, method: str) -> None:
    """Raise DataError when the tensors do not fit together."""
    if method not in ALGORITHMS:
        raise DataError(f"method must be one of {', '.join(ALGORITHMS)}; found {method!r}")
    if log_zero.ndim != 2 or log_zero.shape != log_one.shape or lengths.shape != log_zero.shape[:1]:
        raise DataError(
            "log_zero and log_one must be [problems, instances] and lengths [problems]; "
            f"found {list(log_zero.shape)}, {list(log_one.shape)} and {list(lengths.shape)}"
        )
    if log_zero.dtype not in (torch.float32, torch.float64):
        raise DataError(f"log-potentials must be float32 or float64; found {log_zero.dtype}")
    if method == "compiled" and log_zero.device.type != "cpu":
        raise DataError(f'method "compiled" needs tensors on the CPU; found {log_zero.device}')
    if lengths.numel() and lengths.device.type == "cpu":  # elsewhere reading the values would sync with the device
        _check_lengths(log_zero, lengths, weights)


def _check_lengths(log_zero: Tensor, lengths: Tensor, weights: Weights) -> None:
    shortest, longest = (int(value) for value in torch.aminmax(lengths))
    if shortest < 0 or longest > log_zero.shape[1]:
        raise DataError(f"lengths must be in 0..{log_zero.shape[1]}; found {shortest}..{longest}")
    if isinstance(weights, Weighted) and weights.log_weights.shape[1] <= longest:
        columns = weights.log_weights.shape[1]
        raise DataError(f"{longest} instances need {longest + 1} columns of log-weights; found {columns}")


def _automatic(log_zero: Tensor, weights: Written) -> str:
    if log_zero.device.type == "cpu" and kernel_of(weights).ready() is not None:
        return "compiled"
    return "recursion" if log_zero.shape[1] <= TORCH_SHORT else "characteristic"


def _without_instances(log_zero: Float[Tensor, "problems instances"], weights: Weights) -> CountResult:
    """The result without problems or instances, where the count is 0."""
    if isinstance(weights, Weighted):
        log_likelihood = weights.log_weights[:, 0]
    elif isinstance(weights, Sampled):
        log_likelihood = torch.zeros_like(weights.prior)
    else:
        low, high = ends(weights)
        log_likelihood = torch.where((low <= 0) & (high >= 0), 0.0, -math.inf)
    return CountResult(log_likelihood.to(log_zero.dtype), torch.zeros_like(log_zero))


def _compiled(log_zero: Tensor, log_one: Tensor, lengths: Tensor, weights: Written) -> CountResult:
    """The numba kernels on the memory of the tensors."""
    with waiting_for_kernels():
        kernel = kernel_of(weights).ready()
    assert kernel is not None, "numba is not installed"
    zero, one = (values.detach().double().contiguous().view(-1).numpy() for values in (log_zero, log_one))
    rows = RowArrays.of_padded(log_zero[:, :, None], lengths)
    log_likelihood, marginals = map(torch.from_numpy, compiled_counts(kernel, zero, one, rows, weights))
    return CountResult(log_likelihood, marginals.view_as(log_zero))


def _plain(log_zero: Tensor, log_one: Tensor, lengths: Tensor, weights: Written, method: str) -> CountResult:
    """Plain torch: set the decided instances aside, solve the others, combine the results."""
    problems = set_aside(log_zero, log_one, lengths)
    if method == "recursion":
        log_likelihood, marginals = _by_recursion(problems, weights, lengths)
    elif isinstance(weights, Weighted):
        log_weights = remaining_weights(weights, problems)
        log_likelihood, marginals = weighted_posterior(problems, log_weights)
        log_likelihood = torch.where(log_weights.isnan().any(1), math.nan, log_likelihood)
    else:
        log_likelihood, marginals = _by_interval(problems, *ends(weights))
    log_likelihood = torch.where(problems.settled.isnan(), math.nan, log_likelihood)[:, None]
    marginals = torch.where(problems.is_certain, 1.0, torch.where(problems.is_soft, marginals, 0.0))
    marginals = torch.where(log_likelihood == -math.inf, 0.0, marginals)
    is_real = padding_mask(log_zero, lengths)
    return CountResult(log_likelihood[:, 0], torch.where(log_likelihood.isnan() & is_real, math.nan, marginals))


def _by_interval(problems: Undecided, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    low = (low - problems.num_certain).clamp(min=0)
    high = torch.minimum(high - problems.num_certain, problems.num_soft)
    is_possible = (low <= high) & (problems.settled != -math.inf)
    nothing = torch.zeros_like(low)
    log_likelihood, marginals = interval_posterior(
        problems, torch.where(is_possible, low, nothing), torch.where(is_possible, high, nothing)
    )
    return torch.where(is_possible, log_likelihood, -math.inf), marginals


def remaining_weights(weights: Weighted, problems: Undecided) -> Float[Tensor, "problems counts"]:
    """Log-weights of the number of *undecided* instances that are counted, -inf beyond their number."""
    log_weights = bounded(weights.log_weights)
    counts = torch.arange(problems.zero.shape[1] + 1, device=log_weights.device).expand(len(log_weights), -1)
    places = (counts + problems.num_certain[:, None]).clamp(max=log_weights.shape[1] - 1)
    return torch.where(counts <= problems.num_soft[:, None], log_weights.gather(1, places), -math.inf)


def _by_recursion(problems: Undecided, weights: Written, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Any weights as dense ones, over the undecided instances."""
    if not isinstance(weights, Weighted):
        low, high = ends(weights)
        counts = torch.arange(problems.zero.shape[1] + 1, device=lengths.device)
        is_inside = (counts >= low[:, None]) & (counts <= high[:, None])
        weights = Weighted(torch.where(is_inside, 0.0, -math.inf).double())
    one = torch.where(problems.is_soft, problems.one, -math.inf)
    log_likelihood, marginals = recursion_posterior(problems.zero, one, remaining_weights(weights, problems))
    return log_likelihood + problems.settled, marginals
