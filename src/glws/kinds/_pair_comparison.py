"""`PairComparison`: which of two instances is of the higher class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, Answer, Posterior, TableWeights, resized
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes, rates, true_labels
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._noise import MOST, LearnsNoise, changed, likelihood_share, possible_groups, share
from glws.kinds._projections import MESSAGE, AbstractProjection
from glws.kinds._wording import Names

Ties = Literal["half", "paper", "code"]
"""The weight of a tie in an ordered pair; see `PairComparison`."""
TIE_WEIGHTS = {"half": 0.5, "paper": 1.0, "code": 1.0}


@dataclass(frozen=True, eq=False)
class PairComparison(AbstractTableKind, LearnsNoise):
    """Which instance of a pair is at least as positive as the other: `winner` 0 (the first) or 1. Classes are ordered.

    With w the winner and v the other:

        p(w | y) = 1 for y_w > y_v,    tie for y_w = y_v,    0 for y_w < y_v

    `ties="half"`, the default: equal labels come in either order with the same probability, so tie = 1/2. For two
    classes Z = (1 + q - q') / 2, which no constant prediction makes large.

    `ties="paper"`: tie = 1, the paper's figure. These weights are no probabilities of the observed order: a constant
    prediction has Z = 1, the best there is, and training ends there unless the classes are balanced.

    `ties="code"`: what the released training step computes: the predictions are normalized over the two *instances*
    for each class instead of over the classes, then weighted as in the paper. The targets depend only on which of the
    two has the higher log-probability: a soft ranking rule. Only its marginals mean something; leave its likelihood
    out of the loss, as the released code does. To reproduce released numbers give `infer` logits instead of log_probs.

    With probability `flip` the order is reported the wrong way round.

    >>> PairComparison.of([0]).automaton(0, 2).weight([1, 1])
    0.5
    """

    name: ClassVar[str] = "pair_comparison"
    noun: ClassVar[str] = "pair"
    columns: ClassVar[Columns] = ({}, {"winner": "first or second"})
    options: ClassVar[tuple[str, ...]] = ("ties", "flip")

    size: ClassVar[int] = 2
    winner: Int[Tensor, "groups"]
    flip: Float[Tensor, "1"] = field(metadata=SHARED)
    num_classes: int = field(default=2, metadata=SHARED)
    ties: Ties = field(default="half", metadata=SHARED)

    @classmethod
    def of(cls, winner: Numbers, num_classes: int = 2, ties: Ties = "half", flip: float = 0.0) -> PairComparison:
        """From the number of the winner, 0 or 1, of each pair; `PairComparison.of([0] * n)` for sorted pairs."""
        if ties not in TIE_WEIGHTS:
            raise DataError(f"ties must be one of {', '.join(TIE_WEIGHTS)}, found {ties!r}")
        return cls(
            classes(winner, "winner", 2, hint="0 where the first is higher, 1 where the second is"),
            rates(flip, "flip", 1),
            num_classes,
            ties,
        )

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        num_classes: int = 2,
        ties: Ties = "half",
        flip: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> PairComparison:
        """The order of these pairs of true labels, [groups, 2]; drawn where they are equal."""
        true = true_labels(labels, None, num_classes)
        coin = torch.randint(2, (len(true),), generator=generator)
        winner = torch.where(true[:, 0] == true[:, 1], coin, (true[:, 1] > true[:, 0]).long())
        wrong = torch.rand(len(true), generator=generator) < rates(flip, "flip", 1)
        return cls.of(torch.where(wrong, 1 - winner, winner), num_classes, ties, flip)

    @classmethod
    def from_columns(cls, request: KindRequest) -> PairComparison:
        """The winners; without that column, the first of each pair."""
        winner = request.weak.get("winner", np.zeros(len(request.lengths), np.int64))
        return cls.of(winner, request.num_classes, **request.options)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The table, or the released rule."""
        return ReleasedComparison(self.log_table()) if self.ties == "code" else super().form(lengths)

    def log_table(self) -> Float[Tensor, "groups classes classes"]:
        """log of the weights above, with the wrong way round mixed in."""
        labels = torch.arange(self.num_classes, device=self.winner.device)
        higher = (labels[:, None] > labels).double()
        first = higher + TIE_WEIGHTS[self.ties] * torch.eye(self.num_classes, device=self.winner.device).double()
        mixed = (1 - self.flip) * first + self.flip * first.T
        return torch.stack([mixed, mixed.T])[self.winner].log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        if self.ties == "code":
            raise DataError(f'PairComparison with ties="code" {MESSAGE}')
        won, lost = labels if int(self.winner[group]) == 0 else reversed(labels)
        flip = float(self.flip)
        return TIE_WEIGHTS[self.ties] if won == lost else 1 - flip if won > lost else flip

    def describe(self, group: int, names: Names = None) -> str:
        """Who won."""
        return f"a pair whose {'second' if int(self.winner[group]) else 'first'} is at least as high"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2"]:
        """How many orders were reported the wrong way round, and how many right."""
        swapped = replace(self, winner=1 - self.winner, flip=torch.zeros_like(self.flip))
        wrong = likelihood_share(swapped, posterior, self.flip.log())
        return torch.stack([wrong.sum(), (possible_groups(posterior) - wrong).sum()])

    def relearned(self, counts: Float[Tensor, "2"]) -> PairComparison:
        """With the share of wrong orders."""
        return changed(self, flip=share(counts[:1], counts.sum(), self.flip))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A rate that is rather too high."""
        return {"flip": 0.3}

    def bounded(self) -> PairComparison:
        """An answer speaks for what it says."""
        return changed(self, flip=self.flip.clamp_max(MOST / 2))

    def noise(self, names: Names = None) -> dict[str, float]:
        """The flip rate."""
        return {"flip": float(self.flip)}

    def noise_counts(self) -> Float[Tensor, "2"]:
        """One answer, wrong at the present rate."""
        return torch.cat([self.flip, 1 - self.flip])


@dataclass(frozen=True, eq=False)
class ReleasedComparison(AbstractProjection):
    """Pairs whose predictions are normalized over the two instances, class by class, before the weights."""

    log_weights: Float[Tensor, "groups classes classes"]

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The posterior of the table under u_j(k) = φ_j(k) / (φ_1(k) + φ_2(k))."""
        relative = resized(potentials.double(), 2).log_softmax(1).nan_to_num(nan=-torch.inf)
        log_z, marginals = TableWeights(self.log_weights).solve(relative, lengths)
        return log_z.to(potentials.dtype), resized(marginals, potentials.shape[1]).to(potentials.dtype)
