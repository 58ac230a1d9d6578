"""Exact sets of classes: a recursion over the subsets seen so far.

A state T is the set of classes seen, as bits. Every step adds positive terms,

    forward(T)  <- Σ_{k in T} w_j(k) (forward(T) + forward(T without k))
    backward(T) <- Σ_k w_j(k) backward(T with k)

so nothing cancels. Sets of more than MAX_SET classes are answered in `large_sets`.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._joint.arithmetic import LINEAR, LOGS, Arithmetic
from glws.inference._joint.groups import Answer, Groups, batches_by_size, shares
from glws.inference._joint.kernels import SETS
from glws.inference._joint.limits import SMALLEST
from glws.inference._padding import padding_mask


def subset_posterior(groups: Groups) -> Answer:
    """log Z and q_j(k) if all columns with a count of 1 must occur and no others.

    In linear space; solved again in log space if that underflows.
    """
    log_sums, weights = shares(groups.potentials, groups.is_real)
    kernel = SETS.ready() if weights.device.type == "cpu" else None
    own = groups._replace(potentials=weights)
    mass, marginals = plain(own, LINEAR) if kernel is None else compiled(kernel, own)
    log_likelihood = torch.where(mass > SMALLEST, log_sums.sum(1) + mass.clamp_min(SMALLEST).log(), -torch.inf)
    left = (log_likelihood == -torch.inf).nonzero()[:, 0]
    if len(left):
        log_likelihood[left], marginals[left] = plain(groups.select(left), LOGS)
    return log_likelihood, marginals


def compiled(kernel: Any, groups: Groups) -> Answer:
    """By the compiled kernel; the potentials are weights."""
    weights, sizes = groups.potentials.contiguous(), (groups.counts > 0).sum(1)
    mass, marginals = weights.new_empty(len(sizes)), torch.zeros_like(weights)
    lengths = groups.lengths.contiguous().numpy()
    kernel(weights.numpy(), sizes.numpy(), lengths, SMALLEST, mass.numpy(), marginals.numpy())
    return mass, marginals


def plain(groups: Groups, numbers: Arithmetic) -> Answer:
    """In plain torch, groups of similar size side by side; the potentials are weights of this arithmetic."""
    weights, _, lengths = groups
    bits = (groups.counts > 0).sum(1)
    mass, marginals = weights.new_empty(len(bits)), torch.empty_like(weights)
    for chosen in batches_by_size(2**bits, weights.shape[1] + weights.shape[2]):
        width = max(int(bits[chosen].max()), 1)
        parts = _posterior(weights[chosen, :, :width], bits[chosen], lengths[chosen], numbers)
        mass[chosen] = parts[0]
        marginals[chosen] = torch.nn.functional.pad(parts[1], (0, weights.shape[2] - width))
    return mass, marginals


def _posterior(
    weights: Float[Tensor, "groups instances columns"],
    bits: Int[Tensor, "groups"],
    lengths: Int[Tensor, "groups"],
    numbers: Arithmetic,
) -> Answer:
    is_real = padding_mask(weights, lengths).T[:, :, None]
    forward = _forward(weights, is_real, numbers)
    last = (2**bits - 1)[:, None]
    mass = forward[-1].gather(1, last)
    backward = torch.full_like(forward[0], numbers.zero).scatter_(1, last, numbers.one)
    parts = _parts(weights, is_real, forward, backward, numbers)
    parts = torch.where(is_real.permute(1, 0, 2), parts, numbers.zero)
    return mass[:, 0], numbers.ratio(parts, mass[:, :, None])


def _forward(
    weights: Float[Tensor, "groups instances columns"], is_real: Bool[Tensor, "instances groups 1"], numbers: Arithmetic
) -> list[Float[Tensor, "groups states"]]:
    """The forward values before the first instance and after each; padding changes nothing."""
    states, bit = _states_and_bits(weights)
    has_bit = (states & bit) > 0
    table = weights.new_full((len(weights), len(states)), numbers.zero)
    table[:, 0] = numbers.one
    tables = [table]
    for j in range(weights.shape[1]):
        seen = torch.stack([table[:, :, None].expand(-1, -1, len(bit)), table[:, states & ~bit]], 3)
        terms = numbers.times(numbers.total(seen, 3), weights[:, j, None])
        table = torch.where(is_real[j], numbers.total(torch.where(has_bit, terms, numbers.zero), 2), table)
        tables.append(table)
    return tables


def _parts(
    weights: Float[Tensor, "groups instances columns"],
    is_real: Bool[Tensor, "instances groups 1"],
    forward: list[Float[Tensor, "groups states"]],
    backward: Float[Tensor, "groups states"],
    numbers: Arithmetic,
) -> Float[Tensor, "groups instances columns"]:
    """Σ over the labelings in which instance j has class k."""
    states, bit = _states_and_bits(weights)
    parts = torch.empty_like(weights)
    for j in reversed(range(weights.shape[1])):
        terms = numbers.times(backward[:, states | bit], weights[:, j, None])
        parts[:, j] = numbers.total(numbers.times(terms, forward[j][:, :, None]), 1)
        backward = torch.where(is_real[j], numbers.total(terms, 2), backward)
    return parts


def _states_and_bits(weights: Tensor) -> tuple[Int[Tensor, "states 1"], Int[Tensor, "columns"]]:
    bit = 2 ** torch.arange(weights.shape[2], device=weights.device)
    return torch.arange(2 ** weights.shape[2], device=weights.device)[:, None], bit
