"""Any automata as a form, and the choice of the fastest engine for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton, CountWeights, anything
from glws.inference import _compiled_trellis as compiled_trellis
from glws.inference import _counts as counts
from glws.inference import _gpu as gpu
from glws.inference._enumeration import enumerate_posterior
from glws.inference._forms import AbstractForm, Answer, Counts, Labelings, PresenceWeights, TableWeights, only_counted
from glws.inference._gpu.tables import arc_tables
from glws.inference._gpu.trellis import fits, gpu_trellis_posterior
from glws.inference._kernels import Kernel
from glws.inference._trellis import build, trellis_posterior

MAX_PAIR_CLASSES = 64
"""Above this many classes the trellis is faster than a table over pairs."""


@dataclass(frozen=True, eq=False)
class Automata(AbstractForm):
    """Any automata: group g has `automata[index[g]]`. The fastest engine answers for each group."""

    automata: tuple[Automaton, ...]
    index: Int[Tensor, "groups"]

    @classmethod
    def of(cls, automata: Automaton | Sequence[Automaton], groups: int) -> Automata:
        """One automaton for all groups, or one for each; identical objects are stored once."""
        if isinstance(automata, Automaton):
            return cls((automata,), torch.zeros(groups, dtype=torch.int64))
        numbers: dict[int, int] = {}
        index = [numbers.setdefault(id(automaton), len(numbers)) for automaton in automata]
        distinct = {number: automaton for number, automaton in zip(index, automata, strict=True)}
        return cls(tuple(distinct.values()), torch.tensor(index, dtype=torch.int64))

    def between(self, first: int, last: int) -> Automata:
        """The form of some of the groups, with their automata only."""
        found, index = torch.unique(self.index[first:last], return_inverse=True)
        return type(self)(tuple(self.automata[number] for number in found.tolist()), index)

    def engine(self, size: int | None) -> str:
        """The engines in use, joined by a plus if automata differ."""
        return " + ".join(dict.fromkeys(chosen_engine(automaton, size or 3) for automaton in self.automata))

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of the group."""
        return self.automata[int(self.index[group])]

    def machines(self, lengths: Int[Tensor, "groups"]) -> tuple[tuple[Automaton, ...], Int[Tensor, "groups"]]:
        """The automata and their index, unchanged."""
        return self.automata, self.index

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By short forms if available, else by the trellis."""
        parts = self._parts(potentials, lengths)
        if len(parts) == 1:
            return parts[0][1].solve(potentials, lengths)
        log_likelihood = potentials.new_empty(len(lengths))
        marginals = torch.empty_like(potentials)
        for where, form in parts:
            log_likelihood[where], marginals[where] = form.solve(potentials[where], lengths[where])
        return log_likelihood, marginals

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """By short forms if available, else by the trellis."""
        modes = lengths.new_empty(potentials.shape[:2])
        for where, form in self._parts(potentials, lengths):
            modes[where] = form.mode(potentials[where], lengths[where])
        return modes

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """By short forms if available, else by the trellis."""
        labels = lengths.new_empty(num_samples, *potentials.shape[:2])
        for where, form in self._parts(potentials, lengths):
            labels[:, where] = form.sample(potentials[where], lengths[where], num_samples, generator)
        return labels

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """By short forms if available, else by the trellis."""
        entropies = potentials.new_empty(len(lengths))
        for where, form in self._parts(potentials, lengths):
            entropies[where] = form.entropy(potentials[where], lengths[where])
        return entropies

    def _parts(self, potentials: Tensor, lengths: Tensor) -> list[tuple[Tensor | slice, AbstractForm]]:
        """The groups of each form in use, and that form restricted to them."""
        size, instances = common_size(potentials, lengths), potentials.shape[1]
        makers = [_fastest_form(automaton, size or instances, size is not None) for automaton in self.automata]
        if len(set(makers)) == 1:
            return [(slice(None), makers[0](self, instances))]
        chosen = {make: self._subset([other is make for other in makers]) for make in makers}
        return [(where, make(form, instances)) for make, (where, form) in chosen.items() if len(where)]

    def _subset(self, is_selected: list[bool]) -> tuple[Tensor, Automata]:
        """The groups with the selected automata, and the form restricted to them."""
        kept = torch.tensor(is_selected, device=self.index.device)
        where = kept[self.index].nonzero()[:, 0]
        numbers = kept.cumsum(0) - 1
        automata = tuple(automaton for automaton, chosen in zip(self.automata, is_selected, strict=True) if chosen)
        return where, Automata(automata, numbers[self.index[where]])

    def rows(self, values: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> Tensor:
        """One array per distinct automaton, indexed by group."""
        table = torch.from_numpy(np.asarray(values)).to(self.index.device)
        return table.expand(len(self.index), *table.shape[1:]) if len(table) == 1 else table[self.index]


def by_enumeration(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """The sum over all labelings."""
    automata = [form.automata[number] for number in form.index.tolist()]
    return enumerate_posterior(potentials, lengths.tolist(), automata)


def by_trellis(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """Forward and backward for any automaton: compiled on the CPU, fused on the GPU, else plain torch."""
    if potentials.device.type == "cpu" and (compiled := TRELLIS.ready()) is not None:
        return compiled(potentials, lengths, form.automata, form.index)
    if gpu.is_available(potentials):
        tables = arc_tables(form.automata, potentials.device)
        if fits(tables):
            return gpu_trellis_posterior(potentials, lengths, tables, form.index)
    return trellis_posterior(potentials, lengths, build(form.automata, form.index))


def _load_trellis() -> Callable[..., Answer]:
    for dtype in (torch.float32, torch.float64):
        one = torch.zeros(1, dtype=torch.int64)
        compiled_trellis.compiled_posterior(torch.zeros(1, 2, 2, dtype=dtype), one + 2, [anything(2)], one)
    return compiled_trellis.compiled_posterior


TRELLIS = Kernel(_load_trellis)


@dataclass(frozen=True, eq=False)
class _TrellisOnly(Automata):
    """Automata without a shorter form."""

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By the trellis, like every other query."""
        return by_trellis(self, potentials, lengths)

    mode, sample, entropy = AbstractForm.mode, AbstractForm.sample, AbstractForm.entropy


def _trellis(form: Automata, instances: int) -> AbstractForm:
    return _TrellisOnly(form.automata, form.index)


def _singles(form: Automata, instances: int) -> AbstractForm:
    return TableWeights(form.rows([a.log_singles for a in form.automata]))


def _pairs(form: Automata, instances: int) -> AbstractForm:
    return TableWeights(form.rows([a.log_pairs for a in form.automata]))


def _hard_counts(form: Automata, instances: int) -> AbstractForm:
    ranges = np.array([_count_weights(automaton).interval(instances) for automaton in form.automata])
    low, high = form.rows(ranges).unbind(1)
    hard = np.array_equal(ranges[:, 0], ranges[:, 1])
    return _counts(form, counts.Exactly(low) if hard else counts.Between(low, high))


def _weighted_counts(form: Automata, instances: int) -> AbstractForm:
    return _counts(form, counts.Weighted(form.rows([_count_weights(a).up_to(instances) for a in form.automata])))


def _presence(form: Automata, instances: int) -> AbstractForm:
    log_weights = form.rows([_count_weights(automaton).up_to(1) for automaton in form.automata])
    return PresenceWeights(form.rows([_count_weights(a).counted for a in form.automata]), log_weights)


def _counts(form: Automata, weights: counts.Weights) -> Counts:
    masks = np.array([_count_weights(automaton).counted for automaton in form.automata])
    return Counts(form.rows(masks), weights, only_counted(masks))


def _count_weights(automaton: Automaton) -> CountWeights:
    weights = automaton.count_weights
    assert weights is not None, "the automaton does not depend on a count only"
    return weights


def common_size(potentials: Tensor, lengths: Tensor) -> int | None:
    """1 or 2 if all groups have that size, else None; larger sizes make no difference."""
    instances = potentials.shape[1]
    return instances if instances in (1, 2) and bool((lengths == instances).all()) else None


MakeForm = Callable[[Automata, int], AbstractForm]
"""Makes the form that answers for automata, given the largest number of instances in a group."""


def _fastest_form(automaton: Automaton, most: int, all_alike: bool) -> MakeForm:
    """The maker of the fastest form for groups of at most `most` instances (exactly, if `all_alike`)."""
    if most == 1 and all_alike:
        return _singles
    if most == 2 and all_alike and automaton.num_symbols <= MAX_PAIR_CLASSES:
        return _pairs
    weights = automaton.count_weights
    if weights is None:
        return _trellis
    if _is_presence(weights):
        return _presence
    return _weighted_counts if weights.interval(most) is None else _hard_counts


def _is_presence(weights: CountWeights) -> bool:
    """Whether only presence matters: no counted label allowed, or one is equivalent to more."""
    counts = len(weights.log_weights)
    return (weights.period == 0 and counts == 1) or (weights.period == 1 and counts <= 2)


def chosen_engine(automaton: Automaton, length: int) -> str:
    """The engine that `infer` chooses for groups of this length: "closed", "counts" or "trellis"."""
    make = _fastest_form(automaton, length, True)
    if make is _trellis:
        return "trellis"
    return "counts" if make in (_hard_counts, _weighted_counts) else "closed"


def as_automata(form: AbstractForm, lengths: Int[Tensor, "groups"]) -> Automata:
    """Any form as automata."""
    return Automata(*form.machines(lengths))
