"""Dist-PU: match the class prior on unlabeled data, with entropy minimization and mixup."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glws.methods._abstract import Epoch, Setup
from glws.methods._positive_unlabeled import (
    AbstractPositiveUnlabeled,
    Sets,
    check_optional_prior,
    mixed_scores,
    mixing_share,
    no_loss,
    sets_of,
    shuffled_numbers,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import check_choice, margin, mean
from glws.methods._step import Progress, State, Step

Scaling = Literal["released", "paper"]


@dataclass(frozen=True)
class DistPU(AbstractPositiveUnlabeled):
    """Label distribution alignment with entropy and mixup (Zhao et al., CVPR 2022), s = p(1 | x).

        L_lab = |1 - E_P[s]| + |E_U[s] - π| / 2π        (scaling "paper": 2π times that)
        first stage:   L_lab + μ₁ E_U[H(s)]
        second stage:  L_lab + μ(e) E_U[H(s)] + ν L_mix + κ mean H(s̃),   μ(e) = μ₂ (1 - cos(e/E₂ · π/2))
        L_mix = λ mean BCE(s̃_i, t_i) + (1-λ) mean BCE(s̃_i, t_τi)   at x̃_i = λ x_i + (1-λ) x_τi

    λ ~ Beta(a, a), one for each batch, and τ a random order of its positives and unlabeled instances together. Targets
    t are 1 for positives and a stored s for the others: all are stored at the start of the second stage, in
    the plain view, and those of a batch again after its step. The first stage takes `first_stage` of the epochs.

    `first_entropy` is μ₁, `second_entropy` μ₂, `mixup` ν, `mixed_entropy` κ, `concentration` a; `prior` overrides π. A
    batch without positives, or without unlabeled instances, lacks their terms.

    Differences: nothing is clamped, as losses are functions of logits; the optimizer continues in the second stage,
    where the released code creates a new one with a smaller step. The paper's λ = max(λ, 1-λ) has no effect: exchanging
    λ with 1-λ and τ with its inverse is the same loss, and they are equally likely.
    """

    summary: ClassVar[str] = "label distribution alignment with entropy and mixup (Zhao et al., CVPR 2022)"

    first_stage: float = 0.5
    first_entropy: float = 0.002
    second_entropy: float = 0.004
    mixup: float = 5.0
    mixed_entropy: float = 0.04
    concentration: float = 6.0
    scaling: Scaling = "released"
    prior: float | None = None
    view: str = "weak"

    def __post_init__(self) -> None:
        check_optional_prior(self.prior)
        check_choice("scaling", self.scaling, get_args(Scaling))

    def init(self, setup: Setup) -> State:
        """A stored s for each instance; not computed yet."""
        return {"remembered": torch.full((len(setup.data.instances),), 0.5, device=setup.device)}

    def begin_epoch(self, epoch: Epoch) -> None:
        """Store all predictions at the start of the second stage."""
        if epoch.progress.epoch == self.first_epochs(epoch.progress):
            numbers = torch.unique(torch.cat([groups.indices for groups in epoch.data.groups]))
            self._remember(epoch.state, numbers, epoch.predict(numbers))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The loss of the stage."""
        scores = margin(step.logits(self.view))
        sets = sets_of(step.batch, scores.device)
        prior = sets.share if self.prior is None else self.prior
        aligned = label_distribution_loss(scores[sets.positive], scores[sets.unlabeled], prior, self.scaling)
        weight = self.entropy_weight(step.progress)
        total = aligned + weight * mean(binary_entropy(scores[sets.unlabeled]))
        second = step.progress.epoch >= self.first_epochs(step.progress)
        return total + self._mixed(step, sets) if second else total

    def update(self, step: Step) -> None:
        """Store the predictions of the batch."""
        if step.progress.epoch >= self.first_epochs(step.progress):
            self._remember(step.state, step.batch.numbers, step.detached(self.view))

    def first_epochs(self, progress: Progress) -> int:
        """The number of epochs of the first stage."""
        return math.ceil(self.first_stage * progress.num_epochs)

    def entropy_weight(self, progress: Progress) -> float:
        """μ₁, then μ(e) that rises from 0.

        >>> DistPU().entropy_weight(Progress(epoch=90, num_epochs=120))
        0.00117...
        """
        first = self.first_epochs(progress)
        if progress.epoch < first:
            return self.first_entropy
        share = (progress.epoch - first) / (progress.num_epochs - first)
        return self.second_entropy * (1 - math.cos(share * math.pi / 2))

    def _mixed(self, step: Step, sets: Sets) -> Float[Tensor, ""]:
        """ν L_mix + κ mean H(s̃)."""
        rows = torch.cat([sets.positive, sets.unlabeled])
        if not len(rows):
            return no_loss(step.logits(self.view))
        remembered = step.state["remembered"][step.batch.numbers.to(rows.device)[sets.unlabeled]]
        targets = torch.cat([remembered.new_ones(len(sets.positive)), remembered])
        partners = shuffled_numbers(len(rows), step.generator, rows.device)
        share = mixing_share(self.concentration, step.generator)
        scores = mixed_scores(step, self.view, rows, rows[partners], share)
        fit = mixup_loss(scores, targets, targets[partners], share)
        return self.mixup * fit + self.mixed_entropy * binary_entropy(scores).mean()

    def _remember(self, state: State, numbers: Int[Tensor, "rows"], logits: Float[Tensor, "rows 2"]) -> None:
        remembered = state["remembered"]
        remembered[numbers.to(remembered.device)] = margin(logits).detach().sigmoid().to(remembered)

    def recipe(self) -> Recipe | None:
        """The recipe for CIFAR-10, the first of two stages."""
        return Recipe(
            "CIFAR-10, first stage: the code of Zhao et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.0005,
                "weight_decay": 0.005,
                "decay_biases": True,
                "schedule": "cosine",
                "final_learning_rate": 0.0,
            },
        )


def label_distribution_loss(
    positive: Float[Tensor, "positives"], unlabeled: Float[Tensor, "unlabeled"], prior: float, scaling: Scaling
) -> Float[Tensor, ""]:
    """|1 - E_P[s]| + |E_U[s] - π| / 2π of scores, s = σ(score); 2π times that in the paper's scaling.

    >>> label_distribution_loss(torch.tensor([0.8, 0.6]).logit(), torch.tensor([0.9, 0.2]).logit(), 0.4, "released")
    tensor(0.4875)
    """
    short = mean(torch.sigmoid(-positive)).abs()
    excess = (torch.sigmoid(unlabeled).mean() - prior).abs() if len(unlabeled) else no_loss(unlabeled)
    if scaling == "paper":
        return 2 * prior * short + excess
    return short + (excess / (2 * prior) if len(unlabeled) else excess)


def binary_entropy(scores: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """-s log s - (1-s) log(1-s) with s = σ(score)."""
    positive, negative = torch.sigmoid(scores), torch.sigmoid(-scores)
    return positive * functional.softplus(-scores) + negative * functional.softplus(scores)


def mixup_loss(
    scores: Float[Tensor, "mixed"], targets: Float[Tensor, "mixed"], others: Float[Tensor, "mixed"], share: float
) -> Float[Tensor, ""]:
    """λ mean BCE(s̃, t) + (1-λ) mean BCE(s̃, t'), which is the BCE with λ t + (1-λ) t'."""
    mixed = (share * targets + (1 - share) * others).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, mixed)
