"""Plain torch: the recursion over instances in log space. The simplest exact algorithm, O(L²); the reference."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor


def recursion_posterior(
    log_zero: Float[Tensor, "problems instances"],
    log_one: Float[Tensor, "problems instances"],
    log_weights: Float[Tensor, "problems counts"],
) -> tuple[Float[Tensor, "problems"], Float[Tensor, "problems instances"]]:
    """Log-likelihood and posteriors by a forward and a backward pass over the instances.

        forward[j, k] = log-weight of the first j instances with k of them counted
        backward[k]   = log-weight of the remaining instances, ω included, when k are counted so far

    Padding must be certain: log_zero = 0 and log_one = -inf. Rounding errors grow with the size of the logarithms,
    about 1e-16 |log Z| in the posteriors. An impossible problem gives -inf and zeros.
    """
    forward = _forward(log_zero, log_one, log_weights.shape[1])
    backward = log_weights
    log_likelihood = torch.logsumexp(forward[-1] + backward, 1)
    safe = torch.where(log_likelihood == -math.inf, 0.0, log_likelihood)
    marginals = torch.zeros_like(log_zero)
    for j in reversed(range(log_zero.shape[1])):
        counted = _shifted_down(backward) + log_one[:, j, None]
        marginals[:, j] = (torch.logsumexp(forward[j] + counted, 1) - safe).exp()
        backward = torch.logaddexp(backward + log_zero[:, j, None], counted)
    return log_likelihood, marginals.clamp(max=1.0)


def _forward(
    log_zero: Float[Tensor, "problems instances"], log_one: Float[Tensor, "problems instances"], counts: int
) -> list[Float[Tensor, "problems counts"]]:
    row = torch.full((log_zero.shape[0], counts), -math.inf, dtype=log_zero.dtype, device=log_zero.device)
    row[:, 0] = 0.0
    rows = [row]
    for j in range(log_zero.shape[1]):
        row = torch.logaddexp(row + log_zero[:, j, None], _shifted_up(row) + log_one[:, j, None])
        rows.append(row)
    return rows


def _shifted_up(row: Float[Tensor, "problems counts"]) -> Float[Tensor, "problems counts"]:
    return torch.nn.functional.pad(row[:, :-1], (1, 0), value=-math.inf)


def _shifted_down(row: Float[Tensor, "problems counts"]) -> Float[Tensor, "problems counts"]:
    return torch.nn.functional.pad(row[:, 1:], (0, 1), value=-math.inf)
