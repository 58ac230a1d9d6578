"""Similar or dissimilar pairs: the SD risk, and two losses of pairs for any number of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glws._objective import unchecked_em_loss
from glws.kinds import PairSimilarity
from glws.methods._abstract import AbstractMethod
from glws.methods._recipe import Recipe
from glws.methods._risks import (
    AbstractBinaryMethod,
    Correction,
    Surrogate,
    check_choice,
    check_uneven_prior,
    corrected_sum,
    mean,
    pair_scores,
)
from glws.methods._similar_dissimilar import SD, pair_parts
from glws.methods._step import Step


@dataclass(frozen=True)
class RiskSD(AbstractBinaryMethod):
    """The unbiased risk of similar and dissimilar pairs (Shimada et al., Neural Computation 2021, arXiv 1904.11717).

    With π the share of positives, Δ = 2π - 1, s = π² + (1-π)² the share of similar pairs, and ℓ(z, ±1) a loss:

        L = s · mean over similar pairs of [ℒ(z, +1) + ℒ(z', +1)] / 2
          + (1 - s) · mean over dissimilar pairs of [ℒ(z, -1) + ℒ(z', -1)] / 2
        ℒ(z, t) = [π ℓ(z, t) - (1 - π) ℓ(z, -t)] / Δ

    Its expectation is the supervised risk. The sign of Δ alone determines which class is which, so the prior must not
    be 1/2. The two means are computed separately: the shares of the pairs in the data need not be those of the prior. A
    batch without similar (or dissimilar) pairs leaves that term out. The loss may be negative and, for π < 1/2, has no
    lower bound; `correction` is that of `SimilarDissimilarUnlabeled`, whose SD risk this is, and "none" as published.
    The paper fits linear models; here z = f1 - f0 of the two logits, which is also what is evaluated.

    >>> RiskSD(prior=0.5)
    Traceback (most recent call last):
    glws.errors.DataError: the prior must differ from 1/2 by 0.01 or more (the risk is divided by 2π - 1), found 0.5
    """

    summary: ClassVar[str] = "unbiased risk of similar and dissimilar pairs (Shimada et al., 2021)"
    takes: ClassVar[str] = "similar or dissimilar pairs"
    kinds: ClassVar[tuple[tuple[type[PairSimilarity], ...], ...]] = ((PairSimilarity,),)
    needs_prior: ClassVar[bool] = True

    prior: float
    surrogate: Surrogate = "double_hinge"
    correction: Correction = "none"
    view: str = "weak"

    def __post_init__(self) -> None:
        check_uneven_prior(self.prior)
        check_choice("surrogate", self.surrogate, get_args(Surrogate))
        check_choice("correction", self.correction, get_args(Correction))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The corrected risk of the batch."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, PairSimilarity)
        scores = pair_scores(step.logits(self.view), part)
        same = part.weak.same.to(scores.device)
        similar, dissimilar, none = (scores[chosen].flatten() for chosen in (same, ~same, same & ~same))
        parts = pair_parts(similar, dissimilar, none, self.prior, SD, self.surrogate)
        return corrected_sum(parts, self.correction)


@dataclass(frozen=True)
class MCL(AbstractMethod):
    """Meta classification likelihood, that of similar or dissimilar (Hsu et al., ICLR 2019, arXiv 1901.00544).

        L = -mean [s log ŝ + (1 - s) log (1 - ŝ)],    ŝ = Σ_k p(k) p'(k)

    That is -log Z of `PairSimilarity`, for any number of classes, with its noise if it has any. The classes are
    identifiable up to permutation. The original takes all pairs within a batch of labeled data and clamps ŝ; here the
    pairs are those of the data, in logs.
    """

    summary: ClassVar[str] = "likelihood of similar and dissimilar pairs (Hsu et al., 2019)"
    takes: ClassVar[str] = "similar or dissimilar pairs"
    kinds: ClassVar[tuple[tuple[type[PairSimilarity], ...], ...]] = ((PairSimilarity,),)

    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """-mean log Z."""
        (part,) = step.batch.parts
        log_probs = part.gather(step.logits(self.view).log_softmax(-1))
        return unchecked_em_loss(log_probs, part.weak, part.lengths).supervised

    def recipe(self) -> Recipe | None:
        """The recipe for MNIST.

        They compared all pairs of 100 instances, which is no batch size of pairs.
        """
        return Recipe(
            "MNIST: the code of Hsu et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "weight_decay": 0.0,
                "schedule": "multistep",
                "milestones": (1 / 3, 2 / 3),
                "decay": 0.1,
            },
        )


@dataclass(frozen=True)
class KCL(AbstractMethod):
    """Contrastive divergence of the predictions of a pair (Hsu & Kira, 2016, arXiv 1511.06321).

        similar: KL(p‖p') + KL(p'‖p),    not: [m - KL(p‖p')]₊ + [m - KL(p'‖p)]₊,    mean over pairs

    In each divergence the first distribution is held constant, as in the public code, which averages the two where they
    are added here (a factor 1/2). For any number of classes; identifiable up to permutation.
    """

    summary: ClassVar[str] = "contrastive divergence of the predictions of a pair (Hsu & Kira, 2016)"
    takes: ClassVar[str] = "similar or dissimilar pairs"
    kinds: ClassVar[tuple[tuple[type[PairSimilarity], ...], ...]] = ((PairSimilarity,),)

    distance: float = 2.0
    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The divergence, with m = `distance`."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, PairSimilarity)
        log_probs = part.gather(step.logits(self.view).log_softmax(-1))
        target = log_probs.detach()
        divergence = (target.exp() * (target - log_probs.flip(1))).sum(2)
        same = part.weak.same.to(log_probs.device)[:, None]
        return 2 * mean(torch.where(same, divergence, (self.distance - divergence).clamp_min(0)))

    def recipe(self) -> Recipe | None:
        """The recipe for MNIST.

        They compared all pairs of 100 instances, which is no batch size of pairs.
        """
        return Recipe(
            "MNIST: the code of Hsu et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "weight_decay": 0.0,
                "schedule": "multistep",
                "milestones": (1 / 3, 2 / 3),
                "decay": 0.1,
            },
        )
