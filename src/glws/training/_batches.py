"""The batches of an epoch, prepared for many steps at once."""

from __future__ import annotations

from glws.data import Batch, WeakDataset
from glws.training._order import Order

STEPS = 32
"""The most steps that are prepared at once; what they share is then hardly felt."""
MOST_MEMBERS = 1 << 16
"""The most members of groups that are prepared at once, unless a single step has more."""


class Prepared:
    """Batches with instance numbers instead of instances, those of the next steps kept.

    The groups of a step are sorted by number: where the groups follow each other in the data, so do the instances.
    Steps are prepared together in fixed ranges of an epoch, so that training that resumes sees the same numbers.
    """

    def __init__(self, order: Order, data: WeakDataset) -> None:
        self._order = order
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
            self._data, self._place, self._batches = data, place, data.numbered_steps(chosen)
        return self._batches[step % self._at_once]
