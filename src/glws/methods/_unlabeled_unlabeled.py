"""UU learning: two unlabeled sets with different shares of positives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import AbstractSupervision, Unlabeled
from glws.methods._abstract import AbstractMethod
from glws.methods._positive_unlabeled import (
    RiskParts,
    check_unlabeled,
    members,
    no_loss,
    parts_of,
    positive_share,
    unlabeled_share,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import Correction, Surrogate, check_choice, check_prior, corrected, margin, mean, surrogate
from glws.methods._step import Step


@dataclass(frozen=True)
class UnlabeledUnlabeled(AbstractMethod):
    """The risk from two unlabeled sets with shares θ ≠ θ' of positives; π is the class prior in use.

        R₊ = (1-θ')π/D E_X[ℓ(g)] - (1-θ)π/D E_X'[ℓ(g)]                 → π E₊[ℓ(g)]          D = θ - θ'
        R₋ = θ(1-π)/D E_X'[ℓ(-g)] - θ'(1-π)/D E_X[ℓ(-g)]               → (1-π) E₋[ℓ(-g)]

    Unbiased: R₊ + R₋ (Lu et al., ICLR 2019). Corrected: f(R₊) + f(R₋) (Lu et al., AISTATS 2020), with f(t) = t for
    t ≥ 0 and, below, 0 ("relu"), |t| ("abs"), or `slope` · t ("leaky", slope ≤ 0). ReLU stalls if both are negative.

    `prior` is π, the share of positives where the classifier will be used; the shares of the two sets are part of the
    data and do not determine it. It has no default: the mean of the two sets is a common mistake. Either set may have
    the larger share. A batch without instances of one of the sets has loss 0.
    """

    summary: ClassVar[str] = "risk from two unlabeled sets (Lu et al., ICLR 2019), corrected (AISTATS 2020)"
    takes: ClassVar[str] = "two sets of unlabeled instances"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((Unlabeled, Unlabeled),)
    needs_prior: ClassVar[bool] = True

    prior: float
    correction: Correction | Literal["leaky"] = "none"
    slope: float = -0.1
    surrogate: Surrogate = "sigmoid"
    view: str = "weak"

    def __post_init__(self) -> None:
        check_prior(self.prior)
        check_choice("surrogate", self.surrogate, get_args(Surrogate))
        check_choice("correction", self.correction, (*get_args(Correction), "leaky"))
        if self.slope > 0:
            raise DataError(f"slope must be at most 0, found {self.slope:g}")

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless there are two unlabeled sets with different shares."""
        super().check(data)
        check_unlabeled(self, data)
        parts = zip(data.weak, data.groups, strict=True)
        first, second = (positive_share(weak, groups.lengths) for weak, groups in parts if isinstance(weak, Unlabeled))
        if abs(first - second) < 1e-9:
            name = type(self).__name__
            raise DataError(f"{name} needs sets with different shares of positives, found {first:g} in both")

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The corrected risk of the batch."""
        scores = margin(step.logits(self.view))
        sets = parts_of(step.batch, Unlabeled)
        first, second = (scores[members(part).to(scores.device)] for part in sets)
        if not len(first) or not len(second):
            return no_loss(scores)
        shares = (unlabeled_share(sets[0]), unlabeled_share(sets[1]))
        parts = two_set_parts(first, second, shares, self.prior, self.surrogate)
        return self.correct(parts.positive) + self.correct(parts.negative)

    def correct(self, risk: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """f of the risk of one class."""
        if self.correction == "leaky":
            return torch.where(risk < 0, self.slope * risk, risk)
        return corrected(risk, self.correction)

    def recipe(self) -> Recipe | None:
        """The recipe for MNIST.

        The logistic loss has a tenth of the rate. Keras doubles the weight in a penalty.
        """
        rate = 1e-4 if self.surrogate == "logistic" else 1e-3
        return Recipe(
            "MNIST with an MLP: the code of Lu et al.",
            {
                "optimizer": "sgd",
                "learning_rate": rate,
                "momentum": 0.0,
                "weight_decay": 0.0002,
                "schedule": "constant",
            },
            {"hidden": [300, 300, 300, 300], "batch_norm": True},
        )


def two_set_parts(
    first: Float[Tensor, "first"],
    second: Float[Tensor, "second"],
    shares: tuple[float, float],
    prior: float,
    loss: Surrogate,
) -> RiskParts:
    """R₊ and R₋ of the scores of two sets with these shares of positives, as above.

    With shares 1 and π it is the risk of positive and unlabeled data.

    >>> parts = two_set_parts(torch.tensor([1.5, 0.8]), torch.tensor([-1.0, 0.3]), (0.8, 0.2), 0.4, "sigmoid")
    >>> [round(float(part), 4) for part in parts]
    [0.0542, 0.1866]
    """
    weights = two_set_weights(shares, prior)
    positive = weights[0] * mean(surrogate(first, loss)) - weights[3] * mean(surrogate(second, loss))
    negative = weights[2] * mean(surrogate(-second, loss)) - weights[1] * mean(surrogate(-first, loss))
    return RiskParts(positive, negative)


def two_set_weights(shares: tuple[float, float], prior: float) -> tuple[float, float, float, float]:
    """The weights a = (1-θ')π/D, b = θ'(1-π)/D, c = θ(1-π)/D, d = (1-θ)π/D.

    >>> [round(weight, 6) for weight in two_set_weights((0.8, 0.2), 0.4)]
    [0.533333, 0.2, 0.8, 0.133333]
    """
    first, second = shares
    return tuple(  # type: ignore[return-value]
        weight / (first - second)
        for weight in ((1 - second) * prior, second * (1 - prior), first * (1 - prior), (1 - first) * prior)
    )
