"""`ConfidenceDifference`: how much more positive the second of two instances is than the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, pairs_of_probabilities, reals, refuse
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._wording import Names

Convention = Literal["signed", "code"]
"""How a difference of confidences is read; see `ConfidenceDifference`."""
CONVENTIONS = ("signed", "code")


@dataclass(frozen=True, eq=False)
class ConfidenceDifference(AbstractTableKind):
    """c = P(second is positive) - P(first is positive), within -1 and 1, for pairs of two classes.

        p(w | y) = 1 - |c| for equal labels,    |c| for the unequal pair that the sign of c says,    0 for the other

    c > 0 says (0, 1), c < 0 says (1, 0); c = 0 says that the labels are equal. The sign is what tells the classes
    apart: keep it (second minus first).

    `convention="code"` does what the released code does: negative differences are lost (c is clipped to at least
    1e-8), and a positive one allows (1, 0), the wrong way round. It learns exchanged classes, which matched accuracy
    does not show.

    >>> ConfidenceDifference.of([-0.6]).automaton(0, 2).weight([1, 0])
    0.6
    """

    name: ClassVar[str] = "confidence_difference"
    noun: ClassVar[str] = "pair"
    columns: ClassVar[Columns] = ({"difference": "signed"},)
    options: ClassVar[tuple[str, ...]] = ("convention",)

    size: ClassVar[int] = 2
    difference: Float[Tensor, "groups"]
    convention: Convention = field(default="signed", metadata=SHARED)

    @classmethod
    def of(cls, difference: Numbers, convention: Convention = "signed") -> ConfidenceDifference:
        """From differences, second minus first."""
        if convention not in CONVENTIONS:
            raise DataError(f"convention must be one of {', '.join(CONVENTIONS)}, found {convention!r}")
        values = reals(difference, "difference")
        refuse(values.abs() > 1, lambda group: f"a difference is within -1 and 1, found {float(values[group]):g}")
        return cls(values, convention)

    @classmethod
    def from_probabilities(cls, probabilities: Numbers, convention: Convention = "signed") -> ConfidenceDifference:
        """What a model with these class probabilities, [groups, 2, 2], would say: c = p_2(1) - p_1(1)."""
        positive = pairs_of_probabilities(probabilities)[:, :, 1]
        return cls.of(positive[:, 1] - positive[:, 0], convention)

    @classmethod
    def from_columns(cls, request: KindRequest) -> ConfidenceDifference:
        """The differences."""
        return cls.of(request.weak["difference"], **request.options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    @property
    def signed(self) -> Float[Tensor, "groups"]:
        """The difference as it is read: second minus first, by either convention."""
        if self.convention == "signed":
            return self.difference
        return -self.difference.clamp(1e-8, 1 - 1e-8)

    def log_table(self) -> Float[Tensor, "groups 2 2"]:
        """log of the weights above."""
        up, down = self.signed.clamp_min(0.0), (-self.signed).clamp_min(0.0)
        tie = 1 - self.signed.abs()
        return torch.stack([tie, up, down, tie], 1).view(-1, 2, 2).log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        difference = float(self.signed[group])
        if labels[0] == labels[1]:
            return 1 - abs(difference)
        agrees = difference * (labels[1] - labels[0]) > 0
        return abs(difference) if agrees else 0.0

    def describe(self, group: int, names: Names = None) -> str:
        """The difference."""
        return f"a pair with confidence difference {float(self.difference[group]):g}"
