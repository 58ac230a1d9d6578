"""Random draws from the instances of a class: exact numbers, with or without replacement, or an error."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from glws.errors import DataError
from glws.kinds import Numbers
from glws.kinds._arrays import classes

Replacement = Literal["auto", "never", "always"]
REPLACEMENTS = ("auto", "never", "always")


class Pool(NamedTuple):
    """The instances of one class, and their name in messages."""

    members: Int[Tensor, "members"]
    name: str

    def __len__(self) -> int:
        return len(self.members)

    def without(self, taken: Int[Tensor, "taken"]) -> Pool:
        """The instances that are not in `taken`."""
        return Pool(self.members[~torch.isin(self.members, taken)], f"{self.name} left over")


class Pools(NamedTuple):
    """The instances of two classes by their number."""

    positives: Pool
    negatives: Pool

    @property
    def share(self) -> float:
        """The share of positives: the natural prior."""
        return len(self.positives) / (len(self.positives) + len(self.negatives))

    def without(self, taken: Int[Tensor, "taken"]) -> Pools:
        """The instances that are not in `taken`."""
        return Pools(self.positives.without(taken), self.negatives.without(taken))


def binary_pools(labels: Numbers) -> tuple[Int[Tensor, "instances"], Pools]:
    """Labels of 0 and 1 as a tensor, and the instances of each; at least one label."""
    true = classes(labels, "labels", 2)
    if not len(true):
        raise DataError("there are no labels to draw from")
    positives, negatives = (true == 1).nonzero()[:, 0], (true == 0).nonzero()[:, 0]
    return true, Pools(Pool(positives, "positives"), Pool(negatives, "negatives"))


def draw(pool: Pool, number: int, replacement: Replacement, generator: torch.Generator) -> Int[Tensor, "number"]:
    """`number` members in random order, distinct unless there are too few ("auto") or "always"."""
    if distinct(pool, number, replacement):
        return shuffled(pool.members, generator)[:number]
    return pool.members[integers(len(pool), number, generator)]


def distinct(pool: Pool, number: int, replacement: Replacement) -> bool:
    """Whether a draw of this size takes each member at most once; raises if it is not possible."""
    if replacement not in REPLACEMENTS:
        raise DataError(f"replacement must be one of {', '.join(REPLACEMENTS)}, found {replacement!r}")
    if replacement == "never" and number > len(pool):
        raise DataError(f"{number} {pool.name} are needed without replacement, but there are only {len(pool)}")
    if number > 0 and not len(pool):
        raise DataError(f"{number} {pool.name} are needed, but there are none")
    return replacement != "always" and number <= len(pool)


def integers(below: int, number: int, generator: torch.Generator) -> Int[Tensor, "number"]:
    """`number` independent whole numbers from 0 to below - 1; an empty range allows none."""
    return torch.randint(max(below, 1), (number,), generator=generator)


def shuffled(values: Tensor, generator: torch.Generator) -> Tensor:
    """The same entries in random order."""
    return values[torch.randperm(len(values), generator=generator)]


def nearest(value: float) -> int:
    """The nearest whole number, halves up; products slightly too small, like 0.29 · 50, count as whole."""
    return math.floor(value + 0.5 + 1e-9)


def down(value: float) -> int:
    """Rounded down, where a product like 0.29 · 100 must not lose one by floating point."""
    return math.floor(value + 1e-9)


def checked_prior(prior: float, name: str = "prior") -> float:
    """The prior, if it is a share; raises otherwise."""
    if not 0 <= prior <= 1:
        raise DataError(f"{name} must be within 0 and 1, found {prior}")
    return prior


def checked_number(number: int, name: str, least: int = 1) -> int:
    """The number, if it is large enough; raises otherwise."""
    if number < least:
        raise DataError(f"{name} must be at least {least}, found {number}")
    return number
