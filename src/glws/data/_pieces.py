"""Groups of a kind a few at a time, for questions that are asked of all of them or until one answers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data._groups import Groups
from glws.kinds import AbstractSupervision

FIRST_PIECE = 64
MOST_NUMBERS = 2_000_000
"""The groups of a piece, each padded to the longest, have no more instances times classes than this."""


def pieces(
    weak: AbstractSupervision, groups: Groups, numbers: Int[Tensor, "chosen"] | None = None
) -> Iterator[tuple[AbstractSupervision, Groups]]:
    """These groups, or all: a few, then ever more at once, as far as they fit.

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
