"""Pairs with a confidence difference: ConfDiff and its corrections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from jaxtyping import Float
from torch import Tensor

from glws.kinds import ConfidenceDifference
from glws.methods._recipe import Recipe
from glws.methods._risks import (
    AbstractBinaryMethod,
    Correction,
    check_choice,
    check_prior,
    corrected_sum,
    mean,
    pair_scores,
    surrogate,
)
from glws.methods._step import Step


@dataclass(frozen=True)
class ConfDiff(AbstractBinaryMethod):
    """The risk of pairs with a confidence difference c = r' - r (Wang et al., NeurIPS 2023, arXiv 2310.05632).

    With π the share of positives and the logistic losses ℓ₊, ℓ₋ of a score z = f1 - f0:

        T1 = mean (π - c) ℓ₊(z),       T2 = mean (1-π + c) ℓ₋(z)
        T3 = mean (π + c) ℓ₊(z'),      T4 = mean (1-π - c) ℓ₋(z')

    and L = (g(T1) + g(T2) + g(T3) + g(T4)) / 2, with g by `correction`: the identity, max(0, T) or |T|. Without
    correction it is unbiased for pairs that are drawn independently with prior π, if r is a probability under that
    prior. c is second minus first, with its sign: reversed, the classes are exchanged. The released
    GLWS code trains f1 alone and clips c to be positive, which is biased; here z is also what is evaluated.
    """

    summary: ClassVar[str] = "risk of pairs with a difference of confidences (Wang et al., 2023)"
    takes: ClassVar[str] = "pairs with a difference of confidences"
    kinds: ClassVar[tuple[tuple[type[ConfidenceDifference], ...], ...]] = ((ConfidenceDifference,),)
    needs_prior: ClassVar[bool] = True

    prior: float
    correction: Correction = "none"
    view: str = "weak"

    def __post_init__(self) -> None:
        check_prior(self.prior)
        check_choice("correction", self.correction, get_args(Correction))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """Half the sum of the four partial risks, each corrected."""
        (part,) = step.batch.parts
        assert isinstance(part.weak, ConfidenceDifference)
        scores = pair_scores(step.logits(self.view), part)
        risks = confidence_difference_risks(scores, part.weak.difference.to(scores), self.prior)
        return corrected_sum(risks, self.correction) / 2

    def recipe(self) -> Recipe | None:
        """The recipe for MNIST.

        Their MLP has one hidden layer of 300 units three times, unlike any network here.
        """
        return Recipe(
            "MNIST: the code of Wang et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "weight_decay": 1e-05,
                "decay_biases": True,
                "schedule": "constant",
                "batch_size": 256,
            },
        )


def confidence_difference_risks(
    scores: Float[Tensor, "pairs 2"], difference: Float[Tensor, "pairs"], prior: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]]:
    """T1 to T4 of `ConfDiff`.

    >>> import torch
    >>> scores = torch.tensor([[-3.0, 2.0], [0.5, -0.2]])
    >>> [round(float(risk), 4) for risk in confidence_difference_risks(scores, torch.tensor([0.8, 0.1]), prior=0.4)]
    [-0.5386, 0.3749, 0.2757, -0.0632]
    """
    first, second = scores.unbind(1)
    return (
        mean((prior - difference) * surrogate(first)),
        mean((1 - prior + difference) * surrogate(-first)),
        mean((prior + difference) * surrogate(second)),
        mean((1 - prior - difference) * surrogate(-second)),
    )
