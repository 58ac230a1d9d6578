"""What was learned from, in words."""

from __future__ import annotations

from glws._messages import counted
from glws.data import WeakDataset


def learned_from(data: WeakDataset) -> str:
    """How much of each kind there is, and how many labels were seen.

    >>> import torch
    >>> from glws.kinds import Proportions
    >>> learned_from(WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.of([1, 0])))
    '2 bags (0 labeled rows)'
    """
    parts = [counted(len(weak), weak.noun) for weak in data.weak if weak.num_labels is None]
    labels = sum(weak.num_labels or 0 for weak in data.weak)
    rows = counted(labels, "labeled row")
    return f"{', '.join(parts)} ({rows})" if parts else rows
