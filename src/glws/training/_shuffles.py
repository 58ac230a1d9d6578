"""Random orders of the groups of a kind: all alike, spread over the data, or block after block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

Shuffle = Callable[[int, torch.Generator], Int[Tensor, "size"]]
"""From the number of groups and where to draw from to their order."""

MOST_PARTS = 1024
"""Groups are spread over at most so many parts of the data."""
BLOCKS_AT_ONCE = 8
"""Blocks whose groups are mixed with each other."""


def shuffled(size: int, generator: torch.Generator) -> Int[Tensor, "size"]:
    """Every order alike."""
    return torch.randperm(size, generator=generator)


def spread(size: int, generator: torch.Generator) -> Int[Tensor, "size"]:
    """Consecutive groups come from all parts of the data, in every round one random group from each part.

    The parts, a power of two of about equal size, follow one another in bit-reversed order from a random start: so the
    groups of a step of any size are spread as evenly as can be.

    >>> order = spread(1000, torch.Generator().manual_seed(0))
    >>> [int((order[:16] // 250 == quarter).sum()) for quarter in range(4)]
    [4, 4, 4, 4]
    """
    bits = min(size, MOST_PARTS).bit_length() - 1 if size else 0
    parts = 1 << bits
    part = (torch.arange(size) * parts) // max(size, 1)
    mixed = torch.argsort(part[drawn := torch.randperm(size, generator=generator)], stable=True)
    first = torch.searchsorted(part, torch.arange(parts))
    turn = torch.arange(size) - first[part]
    start = int(torch.randint(parts, (1,), generator=generator))
    place = sum(((((part ^ start) >> bit) & 1) << (bits - 1 - bit) for bit in range(bits)), torch.zeros_like(part))
    return drawn[mixed][torch.argsort(turn * parts + place)]


@dataclass(frozen=True, eq=False)
class InBlocks:
    """Blocks in random order, whose groups are mixed with those of a few blocks before and after.

    `block` is the block of each group. A group stands where its block does, moved on by up to `at_once` blocks, all
    distances alike: so blocks are read one after the other, and that many of them have to be in memory.

    >>> order = InBlocks(torch.arange(6).repeat_interleave(2), 3)(12, torch.Generator().manual_seed(2))
    >>> (order // 2).tolist()
    [0, 1, 0, 3, 1, 3, 2, 2, 5, 4, 4, 5]
    """

    block: Int[Tensor, "groups"]
    at_once: int = BLOCKS_AT_ONCE

    def __call__(self, size: int, generator: torch.Generator) -> Int[Tensor, "size"]:
        """The order of one pass."""
        number = int(self.block.max()) + 1 if size else 0
        place = torch.empty(number, dtype=torch.int64)
        place[torch.randperm(number, generator=generator)] = torch.arange(number)
        moved = self.at_once * torch.rand(size, generator=generator, dtype=torch.float64)
        return torch.argsort(place[self.block] + moved, stable=True)


SHUFFLES: dict[str, Shuffle] = {"random": shuffled, "spread": spread}
"""By the name in `TrainingConfig.order`."""


def blocks_of(first: Int[Tensor, "groups"], bounds: Int[Tensor, "blocks_and_one"], at_once: int) -> Shuffle:
    """`InBlocks` for groups by their first instance, of instances whose blocks begin at these numbers."""
    return InBlocks(torch.searchsorted(bounds[1:], first, right=True), at_once)
