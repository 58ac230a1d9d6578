"""The batches of an epoch, prepared for many steps at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from glws.data import Batch, WeakDataset
from glws.training._order import Order

STEPS = 32
"""The most steps that are prepared at once; what they share is then hardly felt."""
MOST_MEMBERS = 1 << 16
"""The most members of groups that are prepared at once, unless a single step has more."""

Own = Callable[[WeakDataset, Sequence[Tensor]], list[Tensor] | None]


class Prepared:
    """Batches with instance numbers instead of instances, those of the next steps kept.

    The groups of a step are sorted by number: where the groups follow each other in the data, so do the instances.
    Steps are prepared together in fixed ranges of an epoch, so that training that resumes sees the same numbers. `own`
    gives the groups of a step that this process owns, None where it shares them all (`Ownership.own`).
    """

    def __init__(self, order: Order, data: WeakDataset, own: Own | None = None) -> None:
        self._order, self._own = order, own
        self._is_own: list[bool] = []
        members = sum(len(groups.indices) for groups in data.groups)
        self._at_once = max(1, min(STEPS, MOST_MEMBERS * order.steps_per_epoch // max(members, 1)))
        self._data: WeakDataset | None = None
        self._place = (-1, -1)
        self._batches: list[Batch] = []

    def batch(self, data: WeakDataset, epoch: int, step: int) -> Batch:
        """The batch of a step of an epoch, of the data of this epoch."""
        place = (epoch, step // self._at_once)
        if data is not self._data or place != self._place:
            first = place[1] * self._at_once
            last = min(first + self._at_once, self._order.steps_per_epoch)
            chosen = [
                [groups.sort().values for groups in self._order.groups(epoch, number)] for number in range(first, last)
            ]
            owned = [None if self._own is None else self._own(data, groups) for groups in chosen]
            chosen = [groups if own is None else own for groups, own in zip(chosen, owned, strict=True)]
            self._is_own = [own is not None for own in owned]
            self._data, self._place, self._batches = data, place, data.numbered_steps(chosen)
        return self._batches[step % self._at_once]

    def is_own(self, step: int) -> bool:
        """Whether the batch of a step, after it was asked for, has only groups that this process owns."""
        return self._is_own[step % self._at_once]
