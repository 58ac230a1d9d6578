"""Groups of a kind in pieces, for queries about all groups or until one decides."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data._groups import Groups
from glws.kinds import AbstractSupervision

FIRST_PIECE = 64
MOST_NUMBERS = 2_000_000
"""Instances times classes of a piece, each group padded to the longest, are at most this many."""


def pieces(
    weak: AbstractSupervision, groups: Groups, numbers: Int[Tensor, "chosen"] | None = None
) -> Iterator[tuple[AbstractSupervision, Groups]]:
    """These groups, or all, in pieces of growing size.

    >>> from glws.kinds import Proportions
    >>> bags = Groups.of(torch.arange(600).view(300, 2))
    >>> [len(some) for some, _ in pieces(Proportions.of([1] * 300), bags)]
    [64, 128, 108]
    """
    left, most = torch.arange(len(groups)) if numbers is None else numbers, FIRST_PIECE
    while len(left):
        widths = groups.lengths[left[:most]].cummax(0).values * weak.num_classes
        fitting = int((widths * torch.arange(1, len(widths) + 1) <= MOST_NUMBERS).sum())
        some, left = left[: max(fitting, 1)], left[max(fitting, 1) :]
        yield weak[some], groups[some]
        most *= 2
