"""Methods for candidate sets: CC, RC, PRODEN, LWS and LWC, RCR.

Notation: S_i the candidates of instance x_i, p = softmax of its K logits, means over the weak labels of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError
from glws.inference import log_sum_of_others
from glws.methods._abstract import Setup
from glws.methods._confidence_table import (
    CONFIDENCES,
    AbstractCandidateMethod,
    candidates_of,
    excluded_losses,
    for_groups,
    read_confidences,
    shares_within,
    uniform_confidences,
    weighted_cross_entropy,
    within,
    write_confidences,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import mean
from glws.methods._step import State, Step


@dataclass(frozen=True)
class CC(AbstractCandidateMethod):
    """The classifier-consistent method: the likelihood of the candidate set.

    Feng, Lv, Han, Xu, Niu, Geng, An, Sugiyama, "Provably Consistent Partial-Label Learning", NeurIPS 2020:

        loss = -mean_i log Σ_{j in S_i} p_j(x_i)

    It is the likelihood if every set that holds the class is equally likely; the paper's constant
    log(2^(K-1) - 1) is left out. A set of all classes has loss 0. The same as L_S of `GLWS` on one view.
    """

    summary: ClassVar[str] = "likelihood of the candidate set, CC (Feng et al., NeurIPS 2020)"

    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """-mean log of the predicted probability of the set."""
        log_probs = for_groups(step, step.logits(self.view)).log_softmax(1)
        return mean(-within(log_probs, candidates_of(step, log_probs)).log_likelihood)


@dataclass(frozen=True)
class WeightedCandidates(AbstractCandidateMethod):
    """PRODEN and RC: cross-entropy with every candidate, weighted by previous predictions of the network.

        loss = -mean_i Σ_j w_ij log p_j(x_i)        w_ij first 1 / |S_i|, then p_j / Σ_{k in S_i} p_k, held constant

    They differ in when the weights for the next visit of an instance are computed. "same_pass" is PRODEN: from the
    predictions that the loss was computed with (Lv, Xu, Feng, Niu, Geng, Sugiyama, "Progressive Identification of True
    Labels for Partial-Label Learning", ICML 2020). "fresh_pass" is RC, the risk-consistent method of Feng et al.,
    NeurIPS 2020: from a second pass over the batch after the optimizer's step, with the network in training mode.

    The mask is that of the candidates at every visit: a weight of 0 may grow again (in the authors'
    code of PRODEN it may not). The factor 1/2 of RC's risk, which changes no minimizer, is left out.
    """

    summary: ClassVar[str] = "candidates weighted by predictions, PRODEN (Lv et al., 2020), RC (Feng et al., 2020)"

    weights_from: Literal["same_pass", "fresh_pass"] = "same_pass"
    view: str = "weak"

    def init(self, setup: Setup) -> State:
        """Uniform confidences over the candidates of each set."""
        return uniform_confidences(setup)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """Cross-entropy with the stored weights."""
        log_probs = for_groups(step, step.logits(self.view)).log_softmax(1)
        return weighted_cross_entropy(log_probs, read_confidences(step, log_probs))

    def update(self, step: Step) -> None:
        """Store the shares of the candidates in the predictions of this pass, or of a fresh one."""
        logits = step.detached(self.view) if self.weights_from == "same_pass" else step.fresh(self.view)
        rows = for_groups(step, logits)
        write_confidences(step, shares_within(rows, candidates_of(step, rows)))

    def recipe(self) -> Recipe | None:
        """The recipe of PRODEN for CIFAR-10; RC searched its values on a grid."""
        if self.weights_from == "fresh_pass":
            return None
        return Recipe(
            "CIFAR-10 with a ResNet: the code of Lv et al.",
            {
                "optimizer": "sgd",
                "learning_rate": 0.05,
                "momentum": 0.9,
                "nesterov": False,
                "decay_biases": True,
                "weight_decay": 0.001,
                "schedule": "constant",
                "batch_size": 256,
            },
        )


@dataclass(frozen=True)
class LeveragedWeighted(AbstractCandidateMethod):
    """LWS and LWC, the leveraged weighted loss: high scores for candidates, low for others.

    Wen, Cui, Hang, Liu, Wang, Lin, "Leveraged Weighted Loss for Partial Label Learning", ICML 2021, with β `leverage`:

        loss = mean_i [ Σ_{j in S_i} w_ij ψ(z_j) + β Σ_{j not in S_i} w_ij ψ(-z_j) ]

    "lws" is the sigmoid form, ψ(z) = σ(-z); in the cross-entropy form "lwc" the two terms are -log p_j and
    -log(1 - p_j). The weights are first 1/K, then, from a second pass over the batch after the optimizer's step, p_j
    normalized among the candidates and among the others separately (0 if there are no others). The sigmoid
    is flat far from 0: a class that large first steps made the top choice for all instances, or for none, stays so for
    long. It needs smaller steps than the others.

    "glws" is the loss that the code released with the paper of GLWS calls LWS: the cross-entropy form with constant
    weights 1 / |S_i| for candidates and 0 for others, which is plain averaging over the candidates.
    """

    summary: ClassVar[str] = "leveraged weighted loss, LWS and LWC (Wen et al., ICML 2021)"

    variant: Literal["lws", "lwc", "glws"] = "lws"
    leverage: float = 1.0
    view: str = "weak"

    def init(self, setup: Setup) -> State:
        """Uniform weights over all classes, or over all candidates."""
        even = uniform_confidences(setup)[CONFIDENCES]
        return {CONFIDENCES: even if self.variant == "glws" else torch.full_like(even, 1 / setup.num_classes)}

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The weighted losses of candidates and of the others."""
        logits = for_groups(step, step.logits(self.view))
        high, low = self._losses(logits)
        losses = torch.where(candidates_of(step, logits), high, self.leverage * low)
        return mean((read_confidences(step, logits) * losses).sum(1))

    def update(self, step: Step) -> None:
        """Store the shares of each class in its group, from fresh predictions."""
        if self.variant == "glws":
            return
        logits = for_groups(step, step.fresh(self.view))
        candidates = candidates_of(step, logits)
        write_confidences(step, shares_within(logits, candidates) + shares_within(logits, ~candidates))

    def _losses(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each class as a candidate, and as one of the others."""
        if self.variant == "lws":
            return torch.sigmoid(-logits), torch.sigmoid(logits)
        log_probs = logits.log_softmax(1)
        return -log_probs, -log_sum_of_others(log_probs)

    def recipe(self) -> Recipe | None:
        """The recipe for CIFAR-10, by loss. Their rate falls in each epoch, not in steps."""
        rate, decay = (0.05, 1e-3) if self.variant == "lws" else (0.01, 1e-2)
        return Recipe(
            "CIFAR-10: the code of Wen et al.",
            {
                "optimizer": "sgd",
                "learning_rate": rate,
                "momentum": 0.9,
                "nesterov": False,
                "decay_biases": True,
                "weight_decay": decay,
                "schedule": "multistep",
                "milestones": (0.2, 0.4, 0.6, 0.8),
                "decay": 0.5,
                "batch_size": 256,
            },
        )


@dataclass(frozen=True)
class RCR(AbstractCandidateMethod):
    """Consistency regularization: exclude classes outside the set, and agree with earlier predictions in all views.

    Wu, Wang, Zhang, "Revisiting Consistency Regularization for Deep Partial Label Learning", ICML 2022:

        loss = -mean_i Σ_{j not in S_i} log(1 - p_j(first view)) + λ_t mean_i Σ_views KL(c_i | p(view))

    λ_t = weight · min(t / ramp_epochs, 1) in epoch t, counted from 0. The confidences c are first 1 / |S_i|, then, from
    the same passes and held constant, the geometric mean over the views, restricted to the candidates and normalized.

    Each view is a batch of its own. The code released with the paper of GLWS takes the mean over views
    instead of the sum, so that its weight is a third of this one's, and all views as one batch.
    """

    summary: ClassVar[str] = "consistency of three views on the candidates, RCR (Wu et al., ICML 2022)"

    weight: float = 1.0
    ramp_epochs: int = 100
    views: tuple[str, ...] = ("weak", "strong", "strong_2")

    def __post_init__(self) -> None:
        if not self.views:
            raise DataError('RCR: views must name at least one view, such as ("weak", "strong"), found none')

    def init(self, setup: Setup) -> State:
        """Uniform confidences over the candidates of each set."""
        return uniform_confidences(setup)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The loss of the excluded classes, and the consistency with its ramp."""
        views = [for_groups(step, step.logits(view)).log_softmax(1) for view in self.views]
        confidences = read_confidences(step, views[0])
        excluded = mean(excluded_losses(views[0], candidates_of(step, views[0])))
        consistency = torch.stack([mean(_divergence(confidences, log_probs)) for log_probs in views]).sum()
        step.note("excluded", excluded)
        step.note("consistency", consistency)
        return excluded + self._weight_in(step.progress.epoch) * consistency

    def update(self, step: Step) -> None:
        """Store the geometric mean of the views, restricted to the candidates."""
        views = [for_groups(step, step.detached(view)).log_softmax(1) for view in self.views]
        average = torch.stack(views).mean(0)
        write_confidences(step, shares_within(average, candidates_of(step, average)))

    def _weight_in(self, epoch: int) -> float:
        return self.weight * min(epoch / self.ramp_epochs, 1.0) if self.ramp_epochs else self.weight

    def recipe(self) -> Recipe | None:
        """CIFAR-10."""
        return Recipe(
            "CIFAR-10: the code of Wu et al.",
            {
                "optimizer": "sgd",
                "learning_rate": 0.1,
                "momentum": 0.9,
                "nesterov": False,
                "decay_biases": True,
                "weight_decay": 0.0001,
                "schedule": "multistep",
                "milestones": (0.5, 0.75),
                "decay": 0.1,
                "batch_size": 64,
            },
        )


def _divergence(
    confidences: Float[Tensor, "groups classes"], log_probs: Float[Tensor, "groups classes"]
) -> Float[Tensor, "groups"]:
    """KL(c | p) = Σ_j c_j (log c_j - log p_j), with 0 log 0 = 0."""
    return (torch.xlogy(confidences, confidences) - confidences * log_probs).sum(1)
