"""`PairSimilarity`: whether two instances are of the same class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference import Agreement, Posterior
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, flags, rates, true_labels
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractFixedSize
from glws.kinds._narrowing import Narrowed, by_agreement
from glws.kinds._noise import (
    LearnsNoise,
    bounded_flip,
    changed,
    flip_counts,
    learned_flip,
    likelihood_share,
    log_report,
    possible_groups,
    report_counts,
    report_probability,
)
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class PairSimilarity(AbstractFixedSize, LearnsNoise):
    """Whether the two instances of a group have the same label, for any number of classes.

        p(w | y) = P(reported w | y_1 = y_2 or not)

    Without noise, 1 for the pairs of labels that agree with w and 0 for the others. `flip[0]` is the probability that
    different labels are reported as the same, `flip[1]` that the same are reported as different; one number stands for
    both. Nothing here names the classes: they are known up to a permutation, so evaluate after matching them, and
    start from predictions that are not all equal, where the likelihood is flat.

    >>> weak = PairSimilarity.of([True, False])
    >>> weak.infer(torch.tensor([[[0.2, 0.8], [0.7, 0.3]]] * 2).log()).marginals[:, 0, 1]
    tensor([0.6316, 0.9032])
    """

    name: ClassVar[str] = "pair_similarity"
    noun: ClassVar[str] = "pair"
    columns: ClassVar[Columns] = ({"same": "flag"},)
    options: ClassVar[tuple[str, ...]] = ("flip",)

    size: ClassVar[int] = 2
    same: Bool[Tensor, "groups"]
    flip: Float[Tensor, "2"] = field(metadata=SHARED)
    num_classes: int = field(default=2, metadata=SHARED)

    @classmethod
    def of(cls, same: Numbers, num_classes: int = 2, flip: float | Numbers = 0.0) -> PairSimilarity:
        """From true (same class) and false."""
        return cls(flags(same, "same", hint="1 is one class, 0 is different ones"), rates(flip, "flip", 2), num_classes)

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        num_classes: int = 2,
        flip: float | Numbers = 0.0,
        generator: torch.Generator | None = None,
    ) -> PairSimilarity:
        """What would be reported of these pairs of true labels, [groups, 2]."""
        true = true_labels(labels, None, num_classes)
        same, chances = true[:, 0] == true[:, 1], rates(flip, "flip", 2)
        wrong = torch.rand(len(same), generator=generator) < chances[same.long()]
        return cls(same ^ wrong, chances, num_classes)

    @classmethod
    def from_columns(cls, request: KindRequest) -> PairSimilarity:
        """Whether the two are of one class."""
        return cls.of(request.weak["same"], request.num_classes, **request.options)

    def form(self, lengths: Int[Tensor, "groups"]) -> Agreement:
        """By agreement, without a table."""
        report = log_report(self.same, self.flip)
        return Agreement(report[:, 1], report[:, 0], self.num_classes)

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By what may have been reported of equal and of different labels."""
        different, same = (log_report(self.same, self.flip) > -torch.inf).unbind(1)
        return by_agreement(allowed, lengths, same, different)

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        return report_probability(bool(self.same[group]), labels[0] == labels[1], self.flip)

    def describe(self, group: int, names: Names = None) -> str:
        """Same or different."""
        return f"a pair of {'the same class' if bool(self.same[group]) else 'different classes'}"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2 2"]:
        """How many pairs are different and the same (rows) and were reported so (columns)."""
        truly_same = replace(self, same=torch.ones_like(self.same), flip=torch.zeros_like(self.flip))
        truth = likelihood_share(truly_same, posterior, log_report(self.same, self.flip)[:, 1])
        return report_counts(self.same, truth, possible_groups(posterior))

    def relearned(self, counts: Float[Tensor, "2 2"]) -> PairSimilarity:
        """With the shares of wrong reports."""
        return changed(self, flip=learned_flip(counts, self.flip))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A rate that is rather too high."""
        return {"flip": 0.3}

    def bounded(self) -> PairSimilarity:
        """A report speaks for what it says."""
        return changed(self, flip=bounded_flip(self.flip))

    def noise(self, names: Names = None) -> dict[str, float]:
        """Both flip rates."""
        return dict(zip(("different reported as same", "same reported as different"), self.flip.tolist(), strict=True))

    def noise_counts(self) -> Float[Tensor, "2 2"]:
        """One group of each truth."""
        return flip_counts(self.flip)
