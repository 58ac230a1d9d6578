"""Any automata as a form, and the choice of the engine that answers each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton, CountWeights
from glws.inference import _compiled_trellis as compiled_trellis
from glws.inference import _counts as counts
from glws.inference import _gpu as gpu
from glws.inference._enumeration import enumerate_posterior
from glws.inference._forms import AbstractForm, Answer, Counts, Labelings, PresenceWeights, TableWeights, only_counted
from glws.inference._gpu.tables import arc_tables
from glws.inference._gpu.trellis import fits, gpu_trellis_posterior
from glws.inference._trellis import build, trellis_posterior

TINY = 64
"""Up to this many instances in all, compiling (seconds, the first time) would never be repaid: plain torch answers."""
MAX_PAIR_CLASSES = 64
"""Above this many classes a table over pairs costs more than the trellis."""


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
        return " + ".join(dict.fromkeys(chosen_engine(automaton, size or 3) for automaton in self.automata))

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of the group."""
        return self.automata[int(self.index[group])]

    def machines(self, lengths: Int[Tensor, "groups"]) -> tuple[tuple[Automaton, ...], Int[Tensor, "groups"]]:
        """Itself."""
        return self.automata, self.index

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By the short forms where there are any, else by the trellis."""
        parts = self._parts(potentials, lengths)
        if len(parts) == 1:
            return parts[0][1].solve(potentials, lengths)
        log_likelihood = potentials.new_empty(len(lengths))
        marginals = torch.empty_like(potentials)
        for where, form in parts:
            log_likelihood[where], marginals[where] = form.solve(potentials[where], lengths[where])
        return log_likelihood, marginals

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """By the short forms where there are any."""
        modes = lengths.new_empty(potentials.shape[:2])
        for where, form in self._parts(potentials, lengths):
            modes[where] = form.mode(potentials[where], lengths[where])
        return modes

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """By the short forms where there are any."""
        labels = lengths.new_empty(num_samples, *potentials.shape[:2])
        for where, form in self._parts(potentials, lengths):
            labels[:, where] = form.sample(potentials[where], lengths[where], num_samples, generator)
        return labels

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """By the short forms where there are any."""
        entropies = potentials.new_empty(len(lengths))
        for where, form in self._parts(potentials, lengths):
            entropies[where] = form.entropy(potentials[where], lengths[where])
        return entropies

    def _parts(self, potentials: Tensor, lengths: Tensor) -> list[tuple[Tensor | slice, AbstractForm]]:
        """The groups of each form that answers, and that form for just these."""
        size, instances = common_size(potentials, lengths), potentials.shape[1]
        shortest = [_shortest(automaton, size or instances, size is not None) for automaton in self.automata]
        if len(set(shortest)) == 1:
            return [(slice(None), shortest[0](self, instances))]
        chosen = {make: self._those([other is make for other in shortest]) for make in shortest}
        return [(where, make(form, instances)) for make, (where, form) in chosen.items() if len(where)]

    def _those(self, wanted: list[bool]) -> tuple[Tensor, Automata]:
        """The groups with the wanted automata, and the form of just these."""
        kept = torch.tensor(wanted, device=self.index.device)
        where = kept[self.index].nonzero()[:, 0]
        numbers = kept.cumsum(0) - 1
        automata = tuple(automaton for automaton, chosen in zip(self.automata, wanted, strict=True) if chosen)
        return where, Automata(automata, numbers[self.index[where]])

    def rows(self, values: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> Tensor:
        """One array for each distinct automaton, laid out for the groups."""
        table = torch.from_numpy(np.asarray(values)).to(self.index.device)
        return table.expand(len(self.index), *table.shape[1:]) if len(table) == 1 else table[self.index]


def by_enumeration(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """All labelings, written down."""
    automata = [form.automata[number] for number in form.index.tolist()]
    return enumerate_posterior(potentials, lengths.tolist(), automata)


def by_trellis(form: Automata, potentials: Tensor, lengths: Tensor) -> Answer:
    """Forward and backward, any automaton: compiled on the CPU, fused on the GPU, in plain torch elsewhere."""
    if potentials.device.type == "cpu" and potentials.shape[:2].numel() > TINY and compiled_trellis.is_available():
        return compiled_trellis.compiled_posterior(potentials, lengths, form.automata, form.index)
    if gpu.is_available(potentials):
        tables = arc_tables(form.automata, potentials.device)
        if fits(tables):
            return gpu_trellis_posterior(potentials, lengths, tables, form.index)
    return trellis_posterior(potentials, lengths, build(form.automata, form.index))


@dataclass(frozen=True, eq=False)
class _Walked(Automata):
    """Automata that have no shorter form."""

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By the trellis, as is every other question."""
        return by_trellis(self, potentials, lengths)

    mode, sample, entropy = AbstractForm.mode, AbstractForm.sample, AbstractForm.entropy


def _walked(form: Automata, instances: int) -> AbstractForm:
    return _Walked(form.automata, form.index)


def _singles(form: Automata, instances: int) -> AbstractForm:
    return TableWeights(form.rows([a.log_singles for a in form.automata]))


def _pairs(form: Automata, instances: int) -> AbstractForm:
    return TableWeights(form.rows([a.log_pairs for a in form.automata]))


def _hard_counts(form: Automata, instances: int) -> AbstractForm:
    ranges = np.array([_known(automaton).interval(instances) for automaton in form.automata])
    low, high = form.rows(ranges).unbind(1)
    hard = np.array_equal(ranges[:, 0], ranges[:, 1])
    return _counts(form, counts.Exactly(low) if hard else counts.Between(low, high))


def _weighted_counts(form: Automata, instances: int) -> AbstractForm:
    return _counts(form, counts.Weighted(form.rows([_known(a).up_to(instances) for a in form.automata])))


def _presence(form: Automata, instances: int) -> AbstractForm:
    log_weights = form.rows([_known(automaton).up_to(1) for automaton in form.automata])
    return PresenceWeights(form.rows([_known(a).counted for a in form.automata]), log_weights)


def _counts(form: Automata, weights: counts.Weights) -> Counts:
    masks = np.array([_known(automaton).counted for automaton in form.automata])
    return Counts(form.rows(masks), weights, only_counted(masks))


def _known(automaton: Automaton) -> CountWeights:
    weights = automaton.count_weights
    assert weights is not None, "asked only of automata that count"
    return weights


def common_size(potentials: Tensor, lengths: Tensor) -> int | None:
    """1 or 2 where all groups are of that size, else None; a longer size makes no difference."""
    instances = potentials.shape[1]
    return instances if instances in (1, 2) and bool((lengths == instances).all()) else None


Short = Callable[[Automata, int], AbstractForm]
"""Makes the form that answers for automata in groups of at most so many instances."""


def _shortest(automaton: Automaton, most: int, all_alike: bool) -> Short:
    """What answers for this automaton in groups of at most so many instances (of exactly so many, if all alike)."""
    if most == 1 and all_alike:
        return _singles
    if most == 2 and all_alike and automaton.num_symbols <= MAX_PAIR_CLASSES:
        return _pairs
    weights = automaton.count_weights
    if weights is None:
        return _walked
    if _is_presence(weights):
        return _presence
    return _weighted_counts if weights.interval(most) is None else _hard_counts


def _is_presence(weights: CountWeights) -> bool:
    """Whether it only matters if there is any: none allowed, or one as good as more."""
    counts = len(weights.log_weights)
    return (weights.period == 0 and counts == 1) or (weights.period == 1 and counts <= 2)


def chosen_engine(automaton: Automaton, length: int) -> str:
    """The engine that `infer` takes for groups of this length: "closed", "counts" or "trellis"."""
    short = _shortest(automaton, length, True)
    if short is _walked:
        return "trellis"
    return "counts" if short in (_hard_counts, _weighted_counts) else "closed"


def spelled_out(form: AbstractForm, lengths: Int[Tensor, "groups"]) -> Automata:
    """Any form as automata."""
    return Automata(*form.machines(lengths))
