"""Pairs with a similarity confidence: Sconf and its corrections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glws.kinds import SimilarityConfidence
from glws.methods._recipe import Recipe
from glws.methods._risks import (
    AbstractBinaryMethod,
    check_choice,
    check_uneven_prior,
    corrected,
    mean,
    pair_scores,
    surrogate,
)
from glws.methods._step import Step

SconfCorrection = Literal["none", "relu", "abs", "released_relu", "released_abs"]


@dataclass(frozen=True)
class Sconf(AbstractBinaryMethod):
    """The risk of pairs with a similarity confidence s (Cao et al., ICML 2021, arXiv 2102.06879).

    With π the share of positives, Δ = 2π - 1, and the logistic losses ℓ₊, ℓ₋ of a score z = f1 - f0:

        A = mean (s - (1-π)) (ℓ₊(z) + ℓ₊(z')) / 2Δ      estimates π E₊ ℓ₊(z)
        B = mean (π - s) (ℓ₋(z) + ℓ₋(z')) / 2Δ          estimates (1-π) E₋ ℓ₋(z)

    "none": A + B, unbiased for pairs that are drawn independently with prior π, if s is a probability under that prior;
    "relu" (NN in the paper): max(0, A) + max(0, B); "abs": |A| + |B|. The prior may not be 1/2; near it the variance is
    large.

    The released GLWS code names its forms differently: its "NN Abs" is "abs" here, its "Abs" is "released_abs",
    A/2 + |A| + B/2 + |B|, and its "ReLU" is "released_relu", A/2 + max(0, A) + B/2 + max(0, B), which has no lower
    bound; they are here to reproduce its numbers. It trains f1 alone, but evaluates f1 > f0; here both are z.
    """

    summary: ClassVar[str] = "risk of pairs with a similarity confidence (Cao et al., 2021)"
    takes: ClassVar[str] = "pairs with a similarity confidence"
    kinds: ClassVar[tuple[tuple[type[SimilarityConfidence], ...], ...]] = ((SimilarityConfidence,),)
    needs_prior: ClassVar[bool] = True

    prior: float
    correction: SconfCorrection = "none"
    view: str = "weak"

    def __post_init__(self) -> None:
        check_uneven_prior(self.prior)
        check_choice("correction", self.correction, get_args(SconfCorrection))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The two partial risks, each corrected."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, SimilarityConfidence)
        scores = pair_scores(step.logits(self.view), part)
        risks = similarity_confidence_risks(scores, part.weak.confidence.to(scores), self.prior)
        return torch.stack([corrected_similarity_risk(risk, self.correction) for risk in risks]).sum()

    def recipe(self) -> Recipe | None:
        """MNIST."""
        return Recipe(
            "MNIST with an MLP: the demo of Cao et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "weight_decay": 0.001,
                "decay_biases": True,
                "schedule": "multistep",
                "milestones": (1 / 3, 2 / 3),
                "decay": 0.1,
                "batch_size": 3000,
            },
            {"hidden": [500, 500]},
        )


def similarity_confidence_risks(
    scores: Float[Tensor, "pairs 2"], confidence: Float[Tensor, "pairs"], prior: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """A and B of `Sconf`: the terms of the positives and of the negatives in the risk.

    >>> scores = torch.tensor([[-2.0, -1.5], [1.0, -2.0]])
    >>> similarity_confidence_risks(scores, torch.tensor([0.05, 0.9]), prior=0.7)
    (tensor(0.3169), tensor(-0.0466))
    """
    gap = 2 * prior - 1
    positive = (confidence - (1 - prior)) / gap * surrogate(scores).mean(1)
    negative = (prior - confidence) / gap * surrogate(-scores).mean(1)
    return mean(positive), mean(negative)


def corrected_similarity_risk(risk: Float[Tensor, ""], correction: SconfCorrection) -> Float[Tensor, ""]:
    """`corrected`, and the two forms of the released code: half of the risk more."""
    if correction == "released_relu":
        return risk / 2 + corrected(risk, "relu")
    if correction == "released_abs":
        return risk / 2 + corrected(risk, "abs")
    return corrected(risk, correction)
