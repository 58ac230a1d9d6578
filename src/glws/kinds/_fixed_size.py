"""What the kinds about one, two or three instances share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference import AbstractForm, TableWeights
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._narrowing import Narrowed, by_table


class AbstractFixedSize(AbstractSupervision):
    """Weak labels of groups that all have `size` instances; a group of another size satisfies none."""

    size: ClassVar[int]

    @abstractmethod
    def weight(self, group: int, labels: Sequence[int]) -> float:
        """p(w | y) of one labeling of `size` instances, in plain Python: the definition."""

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """log p(w | y); -inf for a labeling of another size."""
        weight = self.weight(group, labels) if len(labels) == self.size else 0.0
        return math.log(weight) if weight > 0 else -math.inf


class AbstractTableKind(AbstractFixedSize):
    """Weak labels whose weights are written down in a table [groups, classes, ..., classes]."""

    @abstractmethod
    def log_table(self) -> Float[Tensor, "groups *classes"]:
        """log p(w | y) for every labeling."""

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The table."""
        return TableWeights(self.log_table())

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the entries of the table."""
        return by_table(allowed, lengths, self.size, lambda groups: self[groups].log_table() > -torch.inf)
