"""Instances that stay in a file are read while earlier steps are computed."""

from __future__ import annotations

import torch

from glws.data import WeakDataset
from glws.training._order import Order

MOST_AHEAD = 8
"""The most steps from the reading of an instance to its use; it is about a block, which all have room for."""


def read_ahead(data: WeakDataset, order: Order, epoch: int, step: int) -> None:
    """Tells instances that want to know (`expect`) which of them will be needed some steps from now."""
    expect = getattr(data.instances, "expect", None)
    if expect is None:
        return
    bounds, rows = data.instances.block_bounds, sum(len(groups.indices) for groups in data.groups)  # type: ignore[attr-defined]
    of_block = len(data.instances) / (len(bounds) - 1)
    ahead = max(1, min(MOST_AHEAD, int(of_block * order.steps_per_epoch / max(rows, 1))))
    later = step + ahead
    chosen = order.groups(epoch + later // order.steps_per_epoch, later % order.steps_per_epoch)
    expect(torch.cat([groups[numbers].indices for groups, numbers in zip(data.groups, chosen, strict=True)]))
