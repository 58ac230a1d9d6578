"""`Triplets`: which of two instances is more like a third."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.inference import Closeness, Posterior
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes, rates, true_labels
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._noise import MOST, LearnsNoise, changed, likelihood_share, possible_groups, share
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class Triplets(AbstractTableKind, LearnsNoise):
    """Groups of three: whether the anchor, the first instance, is closer to the second (`closer` 1) or the third (2).

        p(w | y) = 1    where the anchor has the label of the closer one and not of the other
                   1/2  where it has the label of both or of neither: the answer says nothing
                   0    where it has the label of the other one only

    With probability `flip` the answer is the wrong one. Classes are known up to a permutation.

    >>> weak = Triplets.of([1], num_classes=2)
    >>> weak.automaton(0, 3).weight([0, 0, 1]), weak.automaton(0, 3).weight([0, 1, 1])
    (1.0, 0.5)
    """

    name: ClassVar[str] = "triplets"
    noun: ClassVar[str] = "triplet"
    columns: ClassVar[Columns] = ({"closer": "second or third"},)
    options: ClassVar[tuple[str, ...]] = ("flip",)

    size: ClassVar[int] = 3
    closer: Int[Tensor, "groups"]
    flip: Float[Tensor, "1"] = field(metadata=SHARED)
    num_classes: int = field(default=2, metadata=SHARED)

    @classmethod
    def of(cls, closer: Numbers, num_classes: int, flip: float = 0.0) -> Triplets:
        """From the place of the closer instance in its group, 1 or 2."""
        return cls(
            classes(closer, "closer", 3, least=1, hint="1 where the second is closer, 2 the third"),
            rates(flip, "flip", 1),
            num_classes,
        )

    @classmethod
    def from_labels(
        cls, labels: Numbers, num_classes: int, flip: float = 0.0, generator: torch.Generator | None = None
    ) -> Triplets:
        """The answers for these true labels, [groups, 3]; drawn where neither is closer."""
        true = true_labels(labels, None, num_classes)
        like_second, like_third = true[:, 0] == true[:, 1], true[:, 0] == true[:, 2]
        coin = torch.randint(1, 3, (len(true),), generator=generator)
        closer = torch.where(like_second == like_third, coin, torch.where(like_second, 1, 2))
        wrong = torch.rand(len(true), generator=generator) < rates(flip, "flip", 1)
        return cls.of(torch.where(wrong, 3 - closer, closer), num_classes, flip)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Triplets:
        """Which of the two others is closer to the first."""
        return cls.of(request.weak["closer"], request.num_classes, **request.options)

    def form(self, lengths: Int[Tensor, "groups"]) -> Closeness:
        """By the two agreements with the first, without a table."""
        return Closeness(self._log_weights(), self.num_classes)

    def _log_weights(self) -> Float[Tensor, "groups 3"]:
        right, wrong, tie = (1 - self.flip).log(), self.flip.log(), torch.full_like(self.flip, 0.5).log()
        return torch.stack([torch.cat([right, wrong, tie]), torch.cat([wrong, right, tie])])[self.closer - 1]

    def log_table(self) -> Float[Tensor, "groups classes classes classes"]:
        """log of the weights above, with the wrong answer mixed in."""
        return self.form(torch.full_like(self.closer, 3)).table().log_weights

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        anchor, second, third = labels
        closer, other = (second, third) if int(self.closer[group]) == 1 else (third, second)
        flip = float(self.flip)
        if (anchor == closer) == (anchor == other):
            return 0.5
        return 1 - flip if anchor == closer else flip

    def describe(self, group: int, names: Names = None) -> str:
        """Which is closer."""
        return f"a triplet whose first is closer to its {'second' if int(self.closer[group]) == 1 else 'third'}"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2"]:
        """How many answers were wrong, and how many right."""
        other = replace(self, closer=3 - self.closer, flip=torch.zeros_like(self.flip))
        wrong = likelihood_share(other, posterior, self.flip.log())
        return torch.stack([wrong.sum(), (possible_groups(posterior) - wrong).sum()])

    def relearned(self, counts: Float[Tensor, "2"]) -> Triplets:
        """With the share of wrong answers."""
        return changed(self, flip=share(counts[:1], counts.sum(), self.flip))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A rate that is rather too high."""
        return {"flip": 0.3}

    def bounded(self) -> Triplets:
        """An answer speaks for what it says."""
        return changed(self, flip=self.flip.clamp_max(MOST / 2))

    def noise(self, names: Names = None) -> dict[str, float]:
        """The flip rate."""
        return {"flip": float(self.flip)}

    def noise_counts(self) -> Float[Tensor, "2"]:
        """One answer, wrong at the present rate."""
        return torch.cat([self.flip, 1 - self.flip])
