"""The forms in which knowledge about a batch of groups reaches an engine.

Any knowledge is an automaton. Some of it has a shorter form, which an engine answers without walking a trellis: weights
of one instance, of a pair, presence or absence of classes, counts. A form knows its answer and its automata, so that
every engine can be compared with every other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton, any_of, between, exactly, from_counts, from_table, none_of
from glws.inference import closed, counts

Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]

FormT = TypeVar("FormT", bound="AbstractForm")


def real_instances(potentials: Tensor, lengths: Int[Tensor, "groups"]) -> Bool[Tensor, "groups instances"]:
    """True for instances, False for padding."""
    return torch.arange(potentials.shape[1], device=lengths.device) < lengths[:, None]


class AbstractForm(ABC):
    """What is known about each group of a batch, as tensors whose first axis is the group."""

    @abstractmethod
    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """log Z and q_j(k), in the dtype of the potentials; garbage-free in padding."""

    @abstractmethod
    def automaton(self, group: int, length: int) -> Automaton:
        """The same knowledge about one group of this length."""

    def engine(self, size: int | None) -> str:
        """The name of the engine that answers for groups of this common size (None: they differ)."""
        return "closed"

    def select(self: FormT, groups: Int[Tensor, "chosen"]) -> FormT:
        """The same knowledge about some of the groups."""
        return self._mapped(lambda value: value[groups.to(value.device)])

    def to(self: FormT, device: torch.device) -> FormT:
        """The same knowledge, its tensors on another device."""
        return self._mapped(lambda value: value.to(device))

    def _mapped(self: FormT, change: Callable[[Tensor], Tensor]) -> FormT:
        return _with_tensors(self, change)


T = TypeVar("T")


def _with_tensors(record: T, change: Callable[[Tensor], Tensor]) -> T:
    """A dataclass with its tensors changed, those of dataclasses within it too."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}  # type: ignore[arg-type]
    changed = {name: change(value) for name, value in values.items() if isinstance(value, Tensor)}
    nested = {name: _with_tensors(value, change) for name, value in values.items() if is_dataclass(value)}
    return replace(record, **changed, **nested)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class InstanceWeights(AbstractForm):
    """Groups of one instance: log p(w | y = k)."""

    log_weights: Float[Tensor, "groups classes"]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Z = Σ_k A(k) φ(k)."""
        return _in_double(closed.single, potentials, self.log_weights.double())

    def automaton(self, group: int, length: int) -> Automaton:
        """A table over the classes."""
        return from_table(self.log_weights[group].double().exp().cpu().numpy())


@dataclass(frozen=True, eq=False)
class PairWeights(AbstractForm):
    """Groups of two instances: log p(w | y_1 = k, y_2 = l)."""

    log_weights: Float[Tensor, "groups classes classes"]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Z = Σ_{k,l} A(k,l) φ_1(k) φ_2(l)."""
        return _in_double(closed.pair, potentials, self.log_weights.double())

    def automaton(self, group: int, length: int) -> Automaton:
        """A table over pairs of classes."""
        return from_table(self.log_weights[group].double().exp().cpu().numpy())


@dataclass(frozen=True, eq=False)
class Presence(AbstractForm):
    """Whether any label is among the counted classes: at least one (True), or none (False)."""

    counted: Bool[Tensor, "groups classes"]
    present: Bool[Tensor, "groups"]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """Both closed forms, each group by its own."""
        mask = real_instances(potentials, lengths)
        log_some, some = _in_double(closed.present, potentials, mask, self.counted)
        log_none, none = _in_double(closed.absent, potentials, mask, self.counted)
        here = self.present
        return torch.where(here, log_some, log_none), torch.where(here[:, None, None], some, none)

    def automaton(self, group: int, length: int) -> Automaton:
        """At least one, or none."""
        symbols = self.counted[group].nonzero()[:, 0].tolist()
        build_one = any_of if bool(self.present[group]) else none_of
        return build_one(symbols, self.counted.shape[1])


@dataclass(frozen=True, eq=False)
class Counts(AbstractForm):
    """Any function of how many labels are among the counted classes: exactly m, a range, a weight for each number."""

    counted: Bool[Tensor, "groups classes"]
    weights: counts.Weights

    def engine(self, size: int | None) -> str:
        """Counts have an engine of their own."""
        return "counts"

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The posterior of being counted, shared out among the counted classes, and the rest among the others."""
        phi = potentials.double()
        log_one, shares_one = _within(phi, self.counted)
        log_zero, shares_zero = _within(phi, ~self.counted)
        log_likelihood, positive = counts.count_posterior(log_zero, log_one, lengths, self.weights)
        real = real_instances(phi, lengths) & (log_likelihood > -torch.inf)[:, None]
        negative = torch.where(real, 1.0 - positive, 0.0)
        marginals = positive[:, :, None] * shares_one + negative[:, :, None] * shares_zero
        return log_likelihood.to(potentials.dtype), marginals.to(potentials.dtype)

    def automaton(self, group: int, length: int) -> Automaton:
        """A chain with one state for each count."""
        symbols = self.counted[group].nonzero()[:, 0].tolist()
        num_symbols = self.counted.shape[1]
        if isinstance(self.weights, counts.Exactly):
            return exactly(int(self.weights.count[group]), symbols, num_symbols)
        if isinstance(self.weights, counts.Between):
            return between(int(self.weights.low[group]), int(self.weights.high[group]), symbols, num_symbols)
        return from_counts(self.weights.log_weights[group, : length + 1].tolist(), symbols, num_symbols)


def _within(phi: Tensor, chosen: Tensor) -> tuple[Float[Tensor, "groups instances"], Tensor]:
    """Log of the sum over the chosen classes of each instance, and their shares in it."""
    some = torch.where(chosen[:, None], phi, -torch.inf)
    total = torch.logsumexp(some, 2)
    return total, torch.exp(some - torch.where(total == -torch.inf, 0.0, total)[:, :, None])


def _in_double(function: Callable[..., Answer], potentials: Tensor, *arguments: Tensor) -> Answer:
    log_likelihood, marginals = function(potentials.double(), *arguments)
    return log_likelihood.to(potentials.dtype), marginals.to(potentials.dtype)
