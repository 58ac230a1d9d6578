"""The form of pairs of which only matters whether their labels are the same; in O(classes), for any number of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.inference import AbstractForm, Answer, Labelings, TableWeights, normalized, resized

ENTRIES_AT_ONCE = 1 << 22
"""Tables are written down for so many pairs at a time that they have about so many entries."""


@dataclass(frozen=True, eq=False)
class Agreement(AbstractForm):
    """Groups of two instances: log p(w | same label), log p(w | different labels).

    With r_2(k) = Σ_{l≠k} φ_2(l):  Z = Σ_k φ_1(k) [A_same φ_2(k) + A_different r_2(k)],  q_1(k) its share of k.
    """

    is_plain = True
    log_same: Float[Tensor, "groups"]
    log_different: Float[Tensor, "groups"]
    num_classes: int

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """As above, and the same with the two exchanged."""
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

    def mode(self, potentials: Tensor, lengths: Tensor) -> Labelings:
        """That of the table."""
        parts = [table.mode(phi, sizes) for table, phi, sizes in self._tables(potentials, lengths)]
        return torch.cat(parts)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """Those of the table."""
        parts = self._tables(potentials, lengths)
        return torch.cat([table.sample(phi, sizes, num_samples, generator) for table, phi, sizes in parts], 1)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """That of the table."""
        return torch.cat([table.entropy(phi, sizes) for table, phi, sizes in self._tables(potentials, lengths)])

    def _tables(self, potentials: Tensor, lengths: Tensor) -> Iterator[tuple[TableWeights, Tensor, Tensor]]:
        """The table, potentials and lengths of some groups at a time."""
        groups = torch.arange(len(lengths), device=lengths.device)
        for some in torch.split(groups, max(ENTRIES_AT_ONCE // self.num_classes**2, 1)):
            yield self.select(some).table(), potentials[some], lengths[some]

    def table(self) -> TableWeights:
        """The same as a table over pairs of classes."""
        equal = torch.eye(self.num_classes, dtype=torch.bool, device=self.log_same.device)
        same, different = self.log_same[:, None, None], self.log_different[:, None, None]
        return TableWeights(torch.where(equal, same, different))

    def automaton(self, group: int, length: int) -> Automaton:
        """The table as an automaton."""
        return self.select(torch.tensor([group])).table().automaton(0, length)


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
