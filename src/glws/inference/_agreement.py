"""Pairs and triplets for which only matters which labels are the same: in O(classes), without a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.inference._abstract_form import AbstractCompiledForm
from glws.inference._compiled_forms import AGREEMENT, Found, answered, bounded_weights
from glws.inference._forms import Answer, Labelings, TableWeights, normalized, resized
from glws.inference._rows import Array, RowArrays

ENTRIES_AT_ONCE = 1 << 22
"""Tables are written down for so many pairs at a time that they have about so many entries."""


class AbstractTabled(AbstractCompiledForm):
    """Weights of a few instances that a table could hold, but that are answered without one."""

    num_classes: int

    @abstractmethod
    def table(self) -> TableWeights:
        """The same as a table."""

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The answer of the table."""
        parts = [table.in_log_space(phi, sizes) for table, phi, sizes in self._tables(potentials, lengths)]
        log_z, marginals = (torch.cat(values) for values in zip(*parts, strict=True))
        return log_z, marginals

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """The mode of the table."""
        return torch.cat([table.mode(phi, sizes) for table, phi, sizes in self._tables(potentials, lengths)])

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Samples of the table."""
        parts = self._tables(potentials, lengths)
        return torch.cat([table.sample(phi, sizes, num_samples, generator) for table, phi, sizes in parts], 1)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """The entropy of the table."""
        return torch.cat([table.entropy(phi, sizes) for table, phi, sizes in self._tables(potentials, lengths)])

    def _tables(self, potentials: Tensor, lengths: Tensor) -> Iterator[tuple[TableWeights, Tensor, Tensor]]:
        """The table, potentials and lengths of some groups at a time."""
        entries = self.num_classes ** self.select(torch.zeros(0, dtype=torch.int64)).table().size
        groups = torch.arange(len(lengths), device=lengths.device)
        for some in torch.split(groups, max(ENTRIES_AT_ONCE // entries, 1)):
            yield self.select(some).table(), potentials[some], lengths[some]

    def automaton(self, group: int, length: int) -> Automaton:
        """The table as an automaton."""
        return self.select(torch.tensor([group])).table().automaton(0, length)


@dataclass(frozen=True, eq=False)
class Agreement(AbstractTabled):
    """Groups of two instances: log p(w | same label), log p(w | different labels).

    With r_2(k) = Σ_{l≠k} φ_2(l):  Z = Σ_k φ_1(k) [A_same φ_2(k) + A_different r_2(k)],  q_1(k) its share of k.
    """

    is_plain = True
    log_same: Float[Tensor, "groups"]
    log_different: Float[Tensor, "groups"]
    num_classes: int

    def compiled(self, rows: RowArrays) -> Found | None:
        """In linear space, in one pass."""
        return answered(AGREEMENT, rows, self._arrays)

    @cached_property
    def _arrays(self) -> tuple[Array, ...]:
        return (bounded_weights(torch.stack([self.log_same, self.log_different], 1)),)

    def in_log_space(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """By sums over the classes before and after each."""
        inside = resized(potentials.double(), 2)
        partners = inside.flip(1)
        same = self.log_same.double()[:, None, None] + partners
        different = self.log_different.double()[:, None, None] + log_sum_of_others(partners)
        scores = inside + torch.logaddexp(same, different)
        fits = lengths == 2
        log_z, first = normalized(scores[:, 0], fits)
        _, second = normalized(scores[:, 1], fits)
        marginals = resized(torch.stack([first, second], 1), potentials.shape[1])
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)

    def table(self) -> TableWeights:
        """The same as a table over pairs of classes."""
        equal = torch.eye(self.num_classes, dtype=torch.bool, device=self.log_same.device)
        same, different = self.log_same[:, None, None], self.log_different[:, None, None]
        return TableWeights(torch.where(equal, same, different))


@dataclass(frozen=True, eq=False)
class Closeness(AbstractTabled):
    """Groups of three instances: whether the first has the label of the second only, of the third only, or neither.

    Neither stands for both as well. `log_weights` are log p(w | y) of the three cases.
    """

    is_plain = True
    log_weights: Float[Tensor, "groups 3"]
    num_classes: int

    def compiled(self, rows: RowArrays) -> Found | None:
        """In linear space, in one pass."""
        return answered(AGREEMENT, rows, self._arrays)

    @cached_property
    def _arrays(self) -> tuple[Array, ...]:
        return (bounded_weights(self.log_weights),)

    def table(self) -> TableWeights:
        """The same as a table over triplets of classes."""
        equal = torch.eye(self.num_classes, dtype=torch.bool, device=self.log_weights.device)
        like_second, like_third = equal[:, :, None], equal[:, None, :]
        case = torch.where(like_second == like_third, 2, torch.where(like_second, 0, 1))
        return TableWeights(self.log_weights[:, case])


def log_sum_of_others(values: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch classes"]:
    """log Σ_{l≠k} exp(values_l) for each k, as what is before plus what is after: nothing cancels.

    >>> log_sum_of_others(torch.tensor([1.0, 2.0, 4.0]).log()).exp().round()
    tensor([6., 5., 3.])
    """
    before = _exclusive(values)
    after = _exclusive(values.flip(-1)).flip(-1)
    return torch.logaddexp(before, after)


def _exclusive(values: Tensor) -> Tensor:
    nothing = torch.full_like(values[..., :1], -torch.inf)
    return torch.cat([nothing, torch.logcumsumexp(values, -1)[..., :-1]], -1)
