"""`PositiveConfidence`: how sure somebody is that an instance is positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, shares
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._projections import MESSAGE
from glws.kinds._soft_labels import READINGS, Reading, SoftTargets, checked_reading
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class PositiveConfidence(AbstractTableKind):
    """A confidence r that the instance is of class 1, of two classes. Groups of one instance. Two readings:

    `reading="evidence"`, the paper's and the default: p(w | y) = r for class 1 and 1 - r for class 0, so that
    q(1) = σ(z + logit r) for a score z. Each step of EM adds logit r once more: training ends at the hard label
    [r > 1/2].

    `reading="target"`: q(1) = r, training is binary cross-entropy with r as its target: the calibrated choice, and a
    projection without an automaton.

    r is clipped to within `clip` of 0 and 1, since a confidence of exactly 0 or 1 silences the prediction for good.

    >>> PositiveConfidence.of([0.9, 0.5]).automaton(0, 1).weight([1])
    0.9
    """

    name: ClassVar[str] = "positive_confidence"
    noun: ClassVar[str] = "confidence"
    columns: ClassVar[Columns] = ({"confidence": "share"},)
    options: ClassVar[tuple[str, ...]] = ("reading", "clip")

    size: ClassVar[int] = 1
    confidence: Float[Tensor, "groups"]
    reading: Reading = field(default="evidence", metadata=SHARED)

    @classmethod
    def of(cls, confidence: Numbers, reading: Reading = "evidence", clip: float = 1e-4) -> PositiveConfidence:
        """From confidences within 0 and 1."""
        values = shares(confidence, "confidence", hint="the probability of class 1; of logits pass sigmoid()").clamp(
            clip, 1 - clip
        )
        return cls(values, checked_reading(reading, READINGS))

    @classmethod
    def from_columns(cls, request: KindRequest) -> PositiveConfidence:
        """The confidences."""
        return cls.of(request.weak["confidence"], **request.options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """Weights, or targets."""
        return SoftTargets(self._both()) if self.reading == "target" else super().form(lengths)

    def log_table(self) -> Float[Tensor, "groups 2"]:
        """log (1 - r), log r."""
        return torch.stack([(-self.confidence).log1p(), self.confidence.log()], 1)

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """r or 1 - r."""
        if self.reading == "target":
            raise DataError(f'PositiveConfidence with reading="target" {MESSAGE}')
        confidence = float(self.confidence[group])
        return confidence if labels[0] == 1 else 1 - confidence

    def describe(self, group: int, names: Names = None) -> str:
        """The confidence."""
        return f"one label, positive with confidence {float(self.confidence[group]):g}"

    def _both(self) -> Float[Tensor, "groups 2"]:
        return torch.stack([1 - self.confidence, self.confidence], 1)
