"""The forms in which knowledge about a batch of groups reaches an engine.

Any knowledge is an automaton. Some of it has a shorter form, which an engine answers without walking a trellis: weights
of one instance, of a pair, presence or absence of classes. A form knows its answer and its automata, so that every
engine can be compared with every other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton, any_of, from_table, none_of
from glws.automata.structure import CountWeights
from glws.inference import closed
from glws.inference.enumeration import enumerate_posterior
from glws.inference.trellis import build, trellis_posterior

Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]

FormT = TypeVar("FormT", bound="AbstractForm")

MAX_PAIR_CLASSES = 64
"""Above this many classes a table over pairs costs more than the trellis."""


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
        values = {name.name: getattr(self, name.name) for name in fields(self)}  # type: ignore[arg-type]
        tensors = {name: change(value) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **tensors)  # type: ignore[type-var]


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
        mask = torch.arange(potentials.shape[1], device=lengths.device) < lengths[:, None]
        log_some, some = _in_double(closed.present, potentials, mask, self.counted)
        log_none, none = _in_double(closed.absent, potentials, mask, self.counted)
        here = self.present
        return torch.where(here, log_some, log_none), torch.where(here[:, None, None], some, none)

    def automaton(self, group: int, length: int) -> Automaton:
        """At least one, or none."""
        symbols = self.counted[group].nonzero()[:, 0].tolist()
        build_one = any_of if bool(self.present[group]) else none_of
        return build_one(symbols, self.counted.shape[1])


def _in_double(function: Callable[..., Answer], potentials: Tensor, *arguments: Tensor) -> Answer:
    log_likelihood, marginals = function(potentials.double(), *arguments)
    return log_likelihood.to(potentials.dtype), marginals.to(potentials.dtype)


@dataclass(frozen=True, eq=False)
class Automata(AbstractForm):
    """Any automata: group g has `automata[index[g]]`. Each group is answered by the engine that suits it."""

    automata: tuple[Automaton, ...]
    index: Int[Tensor, "groups"]

    @classmethod
    def of(cls, automata: Automaton | Sequence[Automaton], groups: int) -> Automata:
        """One automaton for all groups, or one for each; those that are the same object are kept once."""
        if isinstance(automata, Automaton):
            return cls((automata,), torch.zeros(groups, dtype=torch.int64))
        numbers: dict[int, int] = {}
        index = [numbers.setdefault(id(automaton), len(numbers)) for automaton in automata]
        distinct = {number: automaton for number, automaton in zip(index, automata, strict=True)}
        return cls(tuple(distinct.values()), torch.tensor(index, dtype=torch.int64))

    def engine(self, size: int | None) -> str:
        """The engines in use, joined by a plus where automata differ."""
        return " + ".join(dict.fromkeys(chosen_engine(automaton, size) for automaton in self.automata))

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of the group."""
        return self.automata[int(self.index[group])]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By the short forms where there are any, else by the trellis."""
        size = common_size(potentials, lengths)
        kinds = [_short_form(automaton, size) for automaton in self.automata]
        if len(set(kinds)) == 1:
            return _solvers[kinds[0]](self, potentials, lengths)
        log_likelihood = potentials.new_empty(len(lengths))
        marginals = torch.empty_like(potentials)
        for kind in dict.fromkeys(kinds):
            members = torch.tensor([other is kind for other in kinds], device=self.index.device)
            where = members[self.index].nonzero()[:, 0]
            some = _solvers[kind](self.select(where), potentials[where], lengths[where])
            log_likelihood[where], marginals[where] = some
        return log_likelihood, marginals

    def rows(self, values: Sequence[npt.NDArray[Any]]) -> Tensor:
        """One array for each distinct automaton, laid out for the groups."""
        return torch.from_numpy(np.stack(values)).to(self.index.device)[self.index]


def by_trellis(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """Forward and backward, any automaton."""
    return trellis_posterior(potentials, lengths, build(form.automata, form.index))


def by_enumeration(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """All labelings, written down."""
    automata = [form.automata[number] for number in form.index.tolist()]
    return enumerate_posterior(potentials, lengths.tolist(), automata)


def _by_singles(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    return InstanceWeights(form.rows([a.log_singles for a in form.automata])).solve(potentials, lengths)


def _by_pairs(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    return PairWeights(form.rows([a.log_pairs for a in form.automata])).solve(potentials, lengths)


def _by_presence(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    nobody = np.zeros(potentials.shape[2], dtype=bool)
    weights = [automaton.count_weights for automaton in form.automata]
    counted = form.rows([nobody if w is None else w.counted for w in weights])
    present = form.rows([np.asarray(_is_presence(w)) for w in weights])
    return Presence(counted, present).solve(potentials, lengths)


_solvers: dict[str, Callable[[Automata, Tensor, Tensor], Answer]] = {
    "single": _by_singles,
    "pair": _by_pairs,
    "presence": _by_presence,
    "trellis": by_trellis,
}


def common_size(potentials: Tensor, lengths: Tensor) -> int | None:
    """1 or 2 where all groups are of that size, else None; a longer size makes no difference."""
    instances = potentials.shape[1]
    return instances if instances in (1, 2) and bool((lengths == instances).all()) else None


def _short_form(automaton: Automaton, size: int | None) -> str:
    if size == 1:
        return "single"
    if size == 2 and automaton.num_symbols <= MAX_PAIR_CLASSES:
        return "pair"
    weights = automaton.count_weights
    return "presence" if _is_presence(weights) or _is_absence(weights) else "trellis"


def _is_absence(weights: CountWeights | None) -> bool:
    return weights is not None and weights.period == 0 and weights.log_weights.tolist() == [0.0]


def _is_presence(weights: CountWeights | None) -> bool:
    return weights is not None and weights.period == 1 and weights.log_weights.tolist() == [-np.inf, 0.0]


def chosen_engine(automaton: Automaton, length: int | None) -> str:
    """The engine that `infer` takes for groups of this length: "closed" or "trellis"."""
    return "trellis" if _short_form(automaton, length) == "trellis" else "closed"


def spelled_out(form: AbstractForm, lengths: Int[Tensor, "groups"]) -> Automata:
    """Any form as automata, one for each group."""
    if isinstance(form, Automata):
        return form
    automata = [form.automaton(group, length) for group, length in enumerate(lengths.tolist())]
    return Automata.of(automata, len(automata)).to(lengths.device)
