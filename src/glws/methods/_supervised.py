"""Cross-entropy on true labels: the upper bound of every table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glws.data import Batch
from glws.kinds import Labels
from glws.methods._abstract import AbstractMethod
from glws.methods._recording import Recording
from glws.methods._step import Progress, Step


@dataclass(frozen=True)
class Supervised(AbstractMethod):
    """Cross-entropy on the known labels; instances with label -1 are ignored.

    `view` is the augmentation it trains on. A batch without any label has loss 0.
    """

    summary: ClassVar[str] = "cross-entropy on true labels"
    takes: ClassVar[str] = "true labels"
    kinds: ClassVar[tuple[tuple[type[Labels], ...], ...]] = ((Labels,),)

    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """-mean log p(y)."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, Labels | _RecordedLabels)
        logits = step.logits(self.view)
        rows, labels = (values.to(logits.device) for values in (part.rows[:, :1].flatten(), part.weak.labels))
        return labeled_cross_entropy(logits[rows], labels)

    def recording(self, batch: Batch, progress: Progress) -> Recording | None:
        """The labels are all that it reads."""
        (part,) = batch.parts
        assert isinstance(part.weak, Labels)
        return Recording((self.view,), (_RecordedLabels(part.weak.labels),), lambda placed: placed)


@dataclass(frozen=True, eq=False)
class _RecordedLabels:
    """Labels as a graph reads them, in the place of `Labels`."""

    labels: Int[Tensor, "groups"]

    def is_capturable(self, device: torch.device) -> bool:
        """Always."""
        return True

    def tensors(self) -> list[Tensor]:
        """The labels."""
        return [self.labels]

    def with_tensors(self, left: Iterator[Tensor]) -> _RecordedLabels:
        """Other labels."""
        return _RecordedLabels(next(left))


def labeled_cross_entropy(logits: Float[Tensor, "rows classes"], labels: Int[Tensor, "rows"]) -> Float[Tensor, ""]:
    """-mean log p(y) over the rows with a label, not -1; 0 without any.

    >>> import torch
    >>> labeled_cross_entropy(torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log(), torch.tensor([0, -1])).neg().exp()
    tensor(0.2500)
    """
    total = functional.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
    return total / (labels >= 0).sum().clamp_min(1)
