"""Groups in which some labels are given, so that only the others are asked about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from glws.automata import Automaton, nothing
from glws.inference._forms import AbstractForm, Answer, resized
from glws.inference._padding import padding_mask


@dataclass(frozen=True, eq=False)
class KnownLabels(AbstractForm):
    """Weak labels of whole groups in which some labels are given: the predictions are of the other instances.

    `labels` has the given labels at their places in the whole group, -1 elsewhere; a group too small for the place of
    a given label is impossible. It has room for all instances of the largest group. The engine of `form` answers for
    the whole group, to which a given label is evidence without any doubt; so one automaton serves all groups, whatever
    is given in each.

    >>> from glws.automata import exactly
    >>> from glws.inference import Automata, infer
    >>> known = KnownLabels(Automata.of(exactly(2), 2), torch.tensor([[1, -1, -1], [-1, -1, 0]]))
    >>> infer(torch.full((2, 2, 2), 0.5).log(), known).marginals[:, :, 1]
    tensor([[0.5000, 0.5000],
            [1.0000, 1.0000]])
    """

    form: AbstractForm
    labels: Int[Tensor, "groups places"]

    def solve(self, potentials: Tensor, lengths: Tensor) -> Answer:
        """The answer for the whole groups, of which the instances that are asked about are kept."""
        (rows, classes), device = potentials.shape[1:], potentials.device
        groups = torch.arange(len(self.labels), device=device)[:, None]
        is_given = self.labels >= 0
        sizes = lengths + is_given.sum(1)
        number = (~is_given).cumsum(1) - 1
        row = torch.where(is_given | (number >= lengths[:, None]), rows, number)  # one row more, for all others
        is_excluded = is_given[:, :, None] & (torch.arange(classes, device=device) != self.labels[:, :, None])
        whole = resized(potentials, rows + 1)[groups, row].masked_fill(is_excluded, -torch.inf)
        log_z, found = self.form.solve(whole, sizes)
        places = torch.arange(row.shape[1], device=device).expand_as(row)
        place = row.new_zeros(len(row), rows + 1).scatter(1, row, places)[:, :rows]
        is_outside = (is_given & ~padding_mask(whole, sizes)).any(1)
        is_kept = padding_mask(potentials, lengths) & ~is_outside[:, None]
        return log_z.masked_fill(is_outside, -torch.inf), torch.where(is_kept[:, :, None], found[groups, place], 0.0)

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of the others: that of the whole group, in which the given labels have been read."""
        row = self.labels[group].tolist()
        labels = {place: label for place, label in enumerate(row) if label >= 0}
        size = length + len(labels)
        whole = self.form.automaton(group, size)
        return whole.given(labels, size) if max(labels, default=-1) < size else nothing(whole.num_symbols)

    def engine(self, size: int | None) -> str:
        """The engine that answers for the whole groups."""
        return self.form.engine(None)
