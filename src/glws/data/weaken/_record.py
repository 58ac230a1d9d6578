"""`Weakened`: the result of simulating a setting on fully labeled data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glws._reprs import short_repr
from glws.data._dataset import WeakDataset
from glws.data._groups import Groups
from glws.kinds import AbstractSupervision


@dataclass(frozen=True, eq=False)
class Weakened:
    """Groups of instances, their weak labels, and the counts and shares of the draw.

    Settings with several kinds (positive and unlabeled data, say) have a tuple of groups and a tuple of kinds of
    the same length. `statistics` is for reports and tests: it is computed from the true labels, so
    it must not be used in training, except for the priors that the setting reveals anyway.
    """

    __repr__ = short_repr

    groups: Groups | tuple[Groups, ...]
    weak: AbstractSupervision | tuple[AbstractSupervision, ...]
    statistics: Mapping[str, float]

    def dataset(self, instances: Any) -> WeakDataset:
        """A data set for training: the instances (numbered as the labels were) with these groups.

        >>> import torch
        >>> from glws.data.weaken import complementary_labels
        >>> record = complementary_labels([0, 2, 1], 3, generator=torch.Generator().manual_seed(0))
        >>> len(record.dataset(torch.randn(3, 5)))
        3
        """
        return WeakDataset(instances, self.groups, self.weak)
