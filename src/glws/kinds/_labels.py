"""`Labels`: the class itself, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.kinds._abstract import SHARED
from glws.kinds._arrays import UNKNOWN, Numbers, classes, classes_or_unknown, rates
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._wording import Names, called


@dataclass(frozen=True, eq=False)
class Labels(AbstractTableKind):
    """The class of each instance, or `UNKNOWN` (-1, None, NaN). Groups of one instance.

        p(w | y) = [y = w], and 1 for every y where w is unknown

    With all classes known, -log Z is the cross-entropy; with some, this is semi-supervised data, and the posterior of
    an instance without a label is the prediction itself.

    >>> Labels.of([2, -1], num_classes=3).describe(0)
    'label 2'
    """

    name: ClassVar[str] = "labels"
    noun: ClassVar[str] = "label"
    columns: ClassVar[Columns] = ({"label": "class or none"},)
    may_be_unknown: ClassVar[bool] = True

    size: ClassVar[int] = 1
    labels: Int[Tensor, "groups"]
    num_classes: int = field(metadata=SHARED)

    @classmethod
    def of(cls, labels: Numbers, num_classes: int) -> Labels:
        """From class numbers; -1 (`glws.UNKNOWN`), None or NaN for none."""
        hint = "classes are numbered from 0, unknown is None; of a one-hot table pass argmax(1)"
        return cls(classes_or_unknown(labels, "labels", num_classes, hint=hint), num_classes)

    @classmethod
    def from_labels(
        cls, labels: Numbers, num_classes: int, known: float = 1.0, generator: torch.Generator | None = None
    ) -> Labels:
        """Each true label is kept with probability `known`, and hidden otherwise."""
        true = classes(labels, "labels", num_classes)
        kept = torch.rand(len(true), generator=generator) < rates(known, "known", 1)
        return cls(torch.where(kept, true, UNKNOWN), num_classes)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Labels:
        """The classes, by number."""
        return cls(torch.as_tensor(request.weak["label"]), request.num_classes)

    @property
    def num_labels(self) -> int:
        """How many are not `UNKNOWN`."""
        return int((self.labels >= 0).sum())

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """0 at the label and -inf elsewhere; 0 everywhere without a label."""
        numbers = torch.arange(self.num_classes, device=self.labels.device)
        allowed = (self.labels[:, None] == numbers) | (self.labels[:, None] < 0)
        return allowed.double().log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """1 for the label, and for every class of an unlabeled instance."""
        return float(int(self.labels[group]) in (UNKNOWN, labels[0]))

    def describe(self, group: int, names: Names = None) -> str:
        """The label."""
        label = int(self.labels[group])
        return "one unknown label" if label < 0 else f"label {called(label, names)}"
