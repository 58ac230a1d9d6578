"""Kinds of rows that a network learns from in sets: labels or pairs, and unlabeled sets with a class prior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from glws._reprs import short_repr
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._unlabeled import Count, Unlabeled

SET_SIZE = 64
"""The most rows of an unlabeled set; new sets are drawn in every epoch."""


class Part(NamedTuple):
    """Groups of a simpler kind: for each, the numbers of the groups it unites, and their weak labels."""

    def __repr__(self) -> str:
        return short_repr(self)

    groups: Sequence[Int[Tensor, "united"]]
    weak: AbstractSupervision


class AbstractRowsInSets(AbstractSupervision):
    """Weak labels of single rows or pairs, of one sample or two, which tell of unlabeled rows as sets too.

    Its own likelihood is that of each row or pair by itself: it scores held-out rows, gives posteriors, and trains
    classifiers of scikit-learn. Networks learn from `parts`: a flexible network would memorize which rows are
    labeled, while the count of positives in a random set rules out no single row.
    """

    form_tells_all: ClassVar[bool] = True
    """Whether its form tells all that the parts tell; a prior of unlabeled rows may be in the parts only."""
    trains_in_sets: ClassVar[bool] = True
    """Whether parts are the default for networks; otherwise they are for methods that need them."""

    @abstractmethod
    def parts(self, generator: torch.Generator) -> tuple[Part, ...]:
        """The same data as existing kinds."""


def single_groups(chosen: Tensor) -> list[Int[Tensor, "1"]]:
    """The groups where a mask is true, each by itself."""
    return list(chosen.cpu().nonzero())


def unlabeled_part(chosen: Tensor, prior: float, generator: torch.Generator, count: Count = "binomial") -> Part:
    """The groups where a mask is true, in random sets with a share of positives.

    Without labels to start from, `count="expected"` does not get stuck in predicting one class.
    """
    numbers = chosen.cpu().nonzero()[:, 0]
    shuffled = numbers[torch.randperm(len(numbers), generator=generator)]
    sets = shuffled.tensor_split(-(-len(numbers) // SET_SIZE))
    return Part(sets, Unlabeled.of([prior] * len(sets), count))
