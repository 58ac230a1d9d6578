"""Positives with a confidence: Pconf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError
from glws.kinds import PositiveConfidence
from glws.methods._risks import AbstractBinaryMethod, margin, mean, surrogate
from glws.methods._step import Step

LEAST_FLOOR = 1e-4


@dataclass(frozen=True)
class Pconf(AbstractBinaryMethod):
    """The risk of positives with a confidence r = P(positive) (Ishida et al., NeurIPS 2018, arXiv 1710.07138).

        L = mean [ℓ₊(z) + (1 - r) / r · ℓ₋(z)] = mean [ℓ₋(z) / r - z],    logistic losses of z = f1 - f0

    Over positives its expectation, times the prior, is the supervised risk; the prior is a factor and need not be
    known. r is at least `floor`, since 1 / r is a weight. If negatives are drawn too (`positives_only=False`
    of `glws.data.weaken.positive_confidence`, as in the released GLWS code) the best prediction for each instance is
    still r, but the instances are weighted by 1 / r: certain negatives most. Confidences of 1 say nothing
    about negatives: a saturated model then predicts positive everywhere.
    """

    summary: ClassVar[str] = "risk of positives with their confidence (Ishida et al., 2018)"
    takes: ClassVar[str] = "positives with their confidence"
    kinds: ClassVar[tuple[tuple[type[PositiveConfidence], ...], ...]] = ((PositiveConfidence,),)

    floor: float = 1e-2
    view: str = "weak"

    def __post_init__(self) -> None:
        if not LEAST_FLOOR <= self.floor < 1:
            raise DataError(
                f"floor, the least confidence, must be at least {LEAST_FLOOR} and below 1, found {self.floor}"
            )

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The risk, in the second form."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, PositiveConfidence)
        scores = margin(part.gather(step.logits(self.view))).reshape(len(part.rows))
        confidence = part.weak.confidence.to(scores).clamp_min(self.floor)
        return mean(surrogate(-scores) / confidence - scores)
