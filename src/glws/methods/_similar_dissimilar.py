"""SU, DU, SD and SDU learning: similar or dissimilar pairs, and unlabeled instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from jaxtyping import Float
from torch import Tensor

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import AbstractSupervision, PairSimilarity, Unlabeled
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
from glws.methods._risks import (
    Correction,
    Surrogate,
    check_choice,
    check_uneven_prior,
    corrected_sum,
    margin,
    mean,
    surrogate,
)
from glws.methods._step import Step

Weights = tuple[float, float, float]
"""γ: the weights of the SU, the DU and the SD risk."""

SU: Weights = (1.0, 0.0, 0.0)
DU: Weights = (0.0, 1.0, 0.0)
SD: Weights = (0.0, 0.0, 1.0)
EQUAL: Weights = (1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True)
class SimilarDissimilarUnlabeled(AbstractMethod):
    """The risk of a classifier from similar pairs (S), dissimilar pairs (D), unlabeled instances (U), or two of these.

        SU (Bao et al., ICML 2018)     π_S E_S[L̃(g)] + E_U[L(g, -1)]
        DU                            -π_D E_D[L̃(g)] + E_U[L(g, +1)]
        SD                             π_S E_S[L(g, +1)] + π_D E_D[L(g, -1)]
        SDU (Shimada et al., Neural Computation 2021)     γ₁ SU + γ₂ DU + γ₃ SD

        L(z, t) = (π ℓ(tz) - (1-π) ℓ(-tz)) / (2π-1)     L̃(z) = (ℓ(z) - ℓ(-z)) / (2π-1)     π_S = π² + (1-π)² = 1 - π_D

    Means are over the instances of pairs. `weights` are γ. By default each batch has the mean of the three risks,
    or SU or DU if it holds one sort of pairs; all are unbiased. `weights=SD` leaves the unlabeled instances out. A
    batch that lacks instances for a risk has loss 0.

    On pairs alone SD is `RiskSD`. `prior` overrides π, the share of positives among the unlabeled; at 1/2 the classes
    are not identifiable. The terms grow like 1 / (2π-1), and a flexible network pushes the estimate far below 0:
    `correction` is applied to the estimates of π E₊[ℓ(g)] and (1-π) E₋[ℓ(-g)], as in corrected UU learning; "none" is
    as published.
    """

    summary: ClassVar[str] = "risk from similar and dissimilar pairs and unlabeled data (Bao 2018; Shimada 2021)"
    takes: ClassVar[str] = "similar or dissimilar pairs beside unlabeled instances"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((PairSimilarity, Unlabeled),)

    weights: Weights | None = None
    surrogate: Surrogate = "double_hinge"
    correction: Correction = "none"
    prior: float | None = None
    view: str = "weak"

    def __post_init__(self) -> None:
        if self.prior is not None:
            check_uneven_prior(self.prior)
        check_choice("surrogate", self.surrogate, get_args(Surrogate))
        check_choice("correction", self.correction, get_args(Correction))
        if self.weights is not None and (min(self.weights) < 0 or abs(sum(self.weights) - 1) > 1e-6):
            raise DataError(f"weights must not be negative and must sum to 1, found {self.weights}")

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless pairs are without noise, of the needed sorts, and the prior is not 1/2."""
        super().check(data)
        check_unlabeled(self, data)
        for weak, groups in zip(data.weak, data.groups, strict=True):
            if isinstance(weak, Unlabeled) and self.prior is None:
                check_uneven_prior(positive_share(weak, groups.lengths))
            if isinstance(weak, PairSimilarity):
                self._check_pairs(weak)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The corrected risk of the batch."""
        scores = margin(step.logits(self.view))
        (pairs,), (unlabeled,) = parts_of(step.batch, PairSimilarity), parts_of(step.batch, Unlabeled)
        assert isinstance(pairs.weak, PairSimilarity)
        same = pairs.weak.same.to(pairs.rows.device)
        rows = (pairs.rows[same].flatten(), pairs.rows[~same].flatten(), members(unlabeled))
        sets = [scores[each.to(scores.device)] for each in rows]
        weights = _usable(len(sets[0]), len(sets[1])) if self.weights is None else self.weights
        if any(needed and not len(each) for needed, each in zip(_needed(weights), sets, strict=True)):
            return no_loss(scores)
        prior = unlabeled_share(unlabeled) if self.prior is None else self.prior
        parts = pair_parts(sets[0], sets[1], sets[2], prior, weights, self.surrogate)
        return corrected_sum(parts, self.correction)

    def _check_pairs(self, weak: PairSimilarity) -> None:
        name = type(self).__name__
        if bool(weak.flip.any()):
            raise DataError(f"{name} takes pairs without noise, found flip rates {weak.flip.tolist()}")
        sorts = {"similar": bool(weak.same.any()), "dissimilar": bool((~weak.same).any())}
        for needed, (sort, there) in zip(_needed(self.weights or (0.0, 0.0, 0.0)), sorts.items(), strict=False):
            if needed and not there:
                raise DataError(f"{name} with weights {self.weights} needs {sort} pairs, found none")


def pair_parts(
    similar: Float[Tensor, "similar"],
    dissimilar: Float[Tensor, "dissimilar"],
    unlabeled: Float[Tensor, "unlabeled"],
    prior: float,
    weights: Weights,
    loss: Surrogate,
) -> RiskParts:
    """Estimates of π E₊[ℓ(g)] and (1-π) E₋[ℓ(-g)], from scores of the instances in pairs and of the unlabeled.

    >>> import torch
    >>> scores = torch.tensor([1.2, 0.8, -0.6, -1.5]), torch.tensor([0.9, -0.7, -0.2, 1.1]), torch.tensor([0.4])
    >>> [round(float(part), 6) for part in pair_parts(*scores, 0.7, SD, "double_hinge")]
    [0.490875, 0.227625]
    """
    sets = (similar, dissimilar, unlabeled)
    positive, negative = pair_coefficients(prior, weights)
    return RiskParts(
        _weighted([surrogate(scores, loss) for scores in sets], positive),
        _weighted([surrogate(-scores, loss) for scores in sets], negative),
    )


def pair_coefficients(prior: float, weights: Weights) -> tuple[Weights, Weights]:
    """The factors of the means of ℓ(g), and of ℓ(-g), over S, D and U in the two parts.

    Each row is unbiased: S, D and U have shares of positives π² / π_S, 1/2 and π.
    """
    other, double = 1 - prior, 2 * prior - 1
    similar, dissimilar = prior**2 + other**2, 2 * prior * other
    first, second, third = (weight / double for weight in weights)
    positive = (
        similar * (first + prior * third),
        -dissimilar * (second + other * third),
        prior * second - other * first,
    )
    negative = (
        -similar * (first + other * third),
        dissimilar * (second + prior * third),
        prior * first - other * second,
    )
    return positive, negative


def _weighted(losses: list[Tensor], coefficients: Weights) -> Float[Tensor, ""]:
    terms = [factor * mean(values) for factor, values in zip(coefficients, losses, strict=True)]
    return terms[0] + terms[1] + terms[2]


def _needed(weights: Weights) -> tuple[bool, bool, bool]:
    """Whether S, D and U are needed."""
    first, second, third = (weight > 0 for weight in weights)
    return first or third, second or third, first or second


def _usable(num_similar: int, num_dissimilar: int) -> Weights:
    """Equal weights of all risks that are available for a batch with these numbers of instances in pairs."""
    if num_similar and num_dissimilar:
        return EQUAL
    return SU if num_similar else DU
