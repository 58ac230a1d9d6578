"""Cross-entropy on true labels: the ceiling of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glws.methods.abstract import AbstractMethod
from glws.methods.step import Step
from glws.supervision import Labels


@dataclass(frozen=True)
class Supervised(AbstractMethod):
    """Cross-entropy on the labels that are known; instances with label -1 are not looked at.

    `view` is the augmentation it trains on. A batch without any label has loss 0.
    """

    summary: ClassVar[str] = "cross-entropy on true labels"
    takes: ClassVar[str] = "true labels"
    kinds: ClassVar[tuple[tuple[type[Labels], ...], ...]] = ((Labels,),)

    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """-mean log p(y)."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, Labels)
        labels = part.weak.labels.to(step.logits(self.view).device)
        logits = step.logits(self.view)[part.rows[:, :1].flatten()]
        known = functional.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
        return known / (labels >= 0).sum().clamp_min(1)
