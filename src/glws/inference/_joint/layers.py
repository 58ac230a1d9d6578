"""Count vectors in plain torch, one layer after the other, groups side by side.

A state is a vector c of counts so far, 0 <= c_k <= n_k, numbered in mixed radix: Σ_k c_k stride_k with
stride_k = Π_{i<k} (n_i + 1). After j instances the counts sum to j, so every state belongs to one layer, and one table
with an entry for every state holds the forward values of all layers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._joint.arithmetic import Arithmetic
from glws.inference._joint.groups import Answer, batches_by_size


class Lattice(NamedTuple):
    """The states of every group by layers, padded with a nonexistent state."""

    layers: Int[Tensor, "groups layers width"]
    counts: Int[Tensor, "groups columns"]
    strides: Int[Tensor, "groups columns"]
    sizes: Int[Tensor, "groups"]

    @property
    def nowhere(self) -> int:
        """The state that does not exist: the last entry of every table."""
        return int(self.sizes.max())

    def digits(self, layer: int) -> tuple[Int[Tensor, "groups width 1"], Int[Tensor, "groups width columns"]]:
        """The states of a layer and their counts of every class."""
        states = self.layers[:, layer, :, None]
        return states, (states // self.strides[:, None]) % (self.counts + 1)[:, None]

    def before(self, layer: int) -> Int[Tensor, "groups width columns"]:
        """Predecessors of each state, by the class of the last label."""
        states, digits = self.digits(layer)
        return self._moved(states, states - self.strides[:, None], digits > 0)

    def after(self, layer: int) -> Int[Tensor, "groups width columns"]:
        """Successors of each state, by the class of the next label."""
        states, digits = self.digits(layer)
        return self._moved(states, states + self.strides[:, None], digits < self.counts[:, None])

    def _moved(self, states: Tensor, targets: Tensor, allowed: Bool[Tensor, "groups width columns"]) -> Tensor:
        return torch.where(allowed & (states < self.nowhere), targets, self.nowhere)


def num_states(counts: Int[Tensor, "groups columns"]) -> Int[Tensor, "groups"]:
    """Π_k (n_k + 1)."""
    return (counts + 1).prod(1)


def lattice(counts: Int[Tensor, "groups columns"], num_layers: int) -> Lattice:
    """All states of every group; layers beyond the length of a group are empty."""
    sizes, strides = num_states(counts), (counts + 1).cumprod(1) // (counts + 1)
    states = torch.arange(int(sizes.max()), device=counts.device)
    level = (states[None, :, None] // strides[:, None] % (counts + 1)[:, None]).sum(2)
    level = torch.where(states < sizes[:, None], level, num_layers)
    in_order = torch.nn.functional.pad(torch.argsort(level, dim=1, stable=True), (0, 1), value=len(states))
    widths = torch.zeros(len(counts), num_layers + 1, dtype=torch.int64, device=counts.device)
    widths = widths.scatter_add_(1, level, torch.ones_like(level))[:, :num_layers]
    within = torch.arange(int(widths.max()), device=counts.device)
    places = (widths.cumsum(1) - widths)[:, :, None] + within
    places = torch.where(within < widths[:, :, None], places, len(states))
    return Lattice(in_order.gather(1, places.flatten(1)).view_as(places), counts, strides, sizes)


def layer_posterior(
    weights: Float[Tensor, "groups instances columns"], counts: Int[Tensor, "groups columns"], numbers: Arithmetic
) -> Answer:
    """Σ over labelings with these counts of the product of the weights, and the posteriors.

    The sum is a number of the same arithmetic as the weights.
    """
    mass, marginals = weights.new_empty(len(counts)), torch.empty_like(weights)
    for chosen in batches_by_size(num_states(counts), counts.shape[1]):
        mass[chosen], marginals[chosen] = _posterior(weights[chosen], counts[chosen], numbers)
    return mass, marginals


def _posterior(weights: Tensor, counts: Tensor, numbers: Arithmetic) -> Answer:
    states = lattice(counts, weights.shape[1] + 1)
    forward = forward_table(weights, states, numbers)
    mass = forward.gather(1, states.sizes[:, None] - 1)
    return mass[:, 0], numbers.ratio(_parts(weights, forward, states, numbers), mass[:, :, None])


def forward_table(weights: Tensor, states: Lattice, numbers: Arithmetic) -> Float[Tensor, "groups states"]:
    """forward(c) = Σ_k forward(c - e_k) w_j(k), where j is the last of the Σ c instances so far."""
    table = weights.new_full((len(weights), states.nowhere + 1), numbers.zero)
    table[:, 0] = numbers.one
    for j in range(weights.shape[1]):
        terms = numbers.times(_read(table, states.before(j + 1)), weights[:, j, None])
        _write(table, states.layers[:, j + 1], numbers.total(terms, 2), numbers.zero)
    return table


def _parts(
    weights: Tensor, forward: Tensor, states: Lattice, numbers: Arithmetic
) -> Float[Tensor, "groups instances columns"]:
    """Σ over the labelings in which instance j has class k: forward, that label, and backward(c) of the rest."""
    table = torch.full_like(forward, numbers.zero)
    table.scatter_(1, states.sizes[:, None] - 1, numbers.one)
    parts = torch.empty_like(weights)
    for j in reversed(range(weights.shape[1])):
        here = states.layers[:, j]
        terms = numbers.times(_read(table, states.after(j)), weights[:, j, None])
        not_at_end = torch.where(here < states.sizes[:, None] - 1, here, states.nowhere)
        _write(table, not_at_end, numbers.total(terms, 2), numbers.zero)
        parts[:, j] = numbers.total(numbers.times(terms, forward.gather(1, here)[:, :, None]), 1)
    return parts


def _read(table: Tensor, places: Int[Tensor, "groups width columns"]) -> Float[Tensor, "groups width columns"]:
    return table.gather(1, places.flatten(1)).view(places.shape)


def _write(table: Tensor, places: Int[Tensor, "groups width"], values: Tensor, zero: float) -> None:
    """Write values into the table, and reset the entry of the nonexistent state."""
    table.scatter_(1, places, values)
    table[:, -1] = zero
