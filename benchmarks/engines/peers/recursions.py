"""Log-space recursions in plain torch with posteriors from autograd, as research code is usually written."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.engines.contest import Answer, Call
from benchmarks.engines.tasks.inputs import GROUPS, CountInputs, TrellisInputs

NEVER = -1e30
"""In place of -inf, whose gradients are NaN."""


def counts(inputs: CountInputs) -> Call:
    """log α_j(c) = logaddexp(log α_{j-1}(c) + log p_0, log α_{j-1}(c - 1) + log p_1), c = 0..m, all bags at once."""

    def call() -> Answer:
        log_one = inputs.log_one.detach().requires_grad_()
        never = torch.full_like(log_one[:, :1], NEVER)
        alpha = torch.cat([torch.zeros_like(never), never.expand(-1, inputs.count)], 1)
        for zero, one in zip(inputs.log_zero.unbind(1), log_one.unbind(1), strict=True):
            shifted = torch.cat([never, alpha[:, :-1]], 1)
            alpha = torch.logaddexp(alpha + zero[:, None], shifted + one[:, None])
        return _with_gradient(alpha[:, -1], log_one)

    return call


def count_gigabytes(instances: int) -> float:
    """Memory of autograd: about three tensors of m + 1 numbers per bag and instance."""
    return 3 * 8e-9 * GROUPS * instances * (instances / 4 + 1)


def trellis(inputs: TrellisInputs) -> Call:
    """log α_j(t) = logsumexp over s of log α_{j-1}(s) + log p_j(s → t), all groups at once."""
    moves, final = torch.from_numpy(inputs.moves), _final(inputs)

    def call() -> Answer:
        log_probs = inputs.log_probs.detach().requires_grad_()
        return _with_gradient(_forward(log_probs, moves, final), log_probs)

    return call


def trellis_in_a_loop(inputs: TrellisInputs) -> Call:
    """The same with a Python loop over groups."""
    moves, final = torch.from_numpy(inputs.moves), _final(inputs)

    def call() -> Answer:
        log_probs = inputs.log_probs.detach().requires_grad_()
        totals = [_forward(group[None], moves, final) for group in log_probs.unbind(0)]
        return _with_gradient(torch.cat(totals), log_probs)

    return call


def pairs(log_probs: Tensor) -> Call:
    """log Σ_k p_1(k) p_2(k)."""

    def call() -> Answer:
        leaf = log_probs.detach().requires_grad_()
        return _with_gradient(torch.logsumexp(leaf.sum(1), 1), leaf)

    return call


def log_edges(log_probs: Tensor, moves: Tensor, never: float = NEVER) -> Tensor:
    """Log-probability of going from state to state at each instance: [groups, instances, from, to]."""
    probs = torch.einsum("glk,kst->glst", log_probs.exp(), moves)
    is_open = moves.sum(0) > 0
    return torch.where(is_open, torch.where(is_open, probs, 1.0).log(), never)


def _forward(log_probs: Tensor, moves: Tensor, final: Tensor) -> Tensor:
    edges = log_edges(log_probs, moves)
    alpha = edges[:, 0, 0]
    for edge in edges[:, 1:].unbind(1):
        alpha = torch.logsumexp(alpha[:, :, None] + edge, 1)
    return torch.logsumexp(alpha + final, 1)


def _final(inputs: TrellisInputs) -> Tensor:
    return torch.where(torch.from_numpy(inputs.final), 0.0, NEVER)


def _with_gradient(log_likelihood: Tensor, leaf: Tensor) -> Answer:
    (marginals,) = torch.autograd.grad(log_likelihood.sum(), leaf)
    return Answer(log_likelihood.detach(), marginals)
