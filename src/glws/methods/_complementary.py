"""Learning from complementary labels: the forward and the surrogate losses, and the unbiased risk.

A complementary label is a candidate set without one class. p = softmax of K logits, ȳ the excluded class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import PartialLabels
from glws.methods._abstract import Setup
from glws.methods._confidence_table import AbstractCandidateMethod, candidates_of, excluded_losses, for_groups, within
from glws.methods._recipe import Recipe
from glws.methods._risks import mean
from glws.methods._step import State, Step

SHARES = "excluded_shares"


@dataclass(frozen=True)
class ComplementaryLoss(AbstractCandidateMethod):
    """A loss of the prediction for the excluded class; also for several of them, or none.

        "forward"   -mean log [(1 - p_ȳ) / (K - 1)]     "log"   -mean log(1 - p_ȳ)     "exp"   mean exp(p_ȳ)

    "forward" is the likelihood of ȳ (Yu, Liu, Gong, Tao, "Learning with Biased Complementary Labels", ECCV 2018) if
    every wrong class is equally likely to be named; for s of them it is that of the set, Σ_{j in S} p_j / C(K-1, s).
    (With another matrix, `NoisyLabels` with the transition P(ȳ | y) has that likelihood.) "log" and "exp" are the
    surrogate losses SCL-NL and SCL-EXP (Chou, Niu, Lin, Sugiyama, "Unbiased Risk Estimators Can Mislead", ICML 2020),
    summed over the excluded classes. With one excluded class "forward", "log" and `CC` have the same gradient.
    """

    summary: ClassVar[str] = "a loss of the excluded class (Yu et al., ECCV 2018; Chou et al., ICML 2020)"

    variant: Literal["forward", "log", "exp"] = "forward"
    view: str = "weak"

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The mean of the chosen loss."""
        log_probs = for_groups(step, step.logits(self.view)).log_softmax(1)
        candidates = candidates_of(step, log_probs)
        if self.variant == "log":
            return mean(excluded_losses(log_probs, candidates))
        if self.variant == "exp":
            return mean(torch.where(candidates, 0.0, log_probs.exp().exp()).sum(1))
        return mean(_log_choices(candidates).to(log_probs) - within(log_probs, candidates).log_likelihood)

    def recipe(self) -> Recipe | None:
        """The recipe of the forward correction for MNIST."""
        if self.variant != "forward":
            return None
        return Recipe(
            "MNIST with an MLP: the code of Ishida et al.",
            {
                "optimizer": "adam",
                "learning_rate": 5e-05,
                "weight_decay": 0.0001,
                "decay_biases": True,
                "schedule": "constant",
                "batch_size": 256,
            },
            {"hidden": [500]},
        )


@dataclass(frozen=True)
class ComplementaryRisk(AbstractCandidateMethod):
    """The unbiased risk of complementary labels, class by class, with corrections for negative terms.

    Ishida, Niu, Menon, Sugiyama, "Complementary-Label Learning for Arbitrary Losses and Models", ICML 2019. With
    ℓ_k = -log p_k, m_jk the mean of ℓ_k over the instances of the batch with ȳ = j (0 if there are none), and π̄_j the
    frequency of ȳ = j in the data:

        R_k = -(K - 1) π̄_k m_kk + Σ_j π̄_j m_jk

    Σ_k R_k estimates the risk on true labels without bias, if each wrong class is equally likely to be excluded, and
    has no lower bound. Corrections: "none" descends Σ_k R_k (free); "non_negative" Σ_k max(0, R_k); "gradient_ascent"
    Σ_k R_k while all are non-negative, otherwise -Σ_k min(0, R_k), which raises the classes below 0 and leaves the
    others unchanged. `count_weighted` weights that sum by the number of ȳ = k in the batch, as the authors' code does.

    Exactly one class must be excluded for each instance. The log has the smallest R_k and the number of negative ones.
    """

    summary: ClassVar[str] = "unbiased risk of complementary labels (Ishida et al., ICML 2019)"
    takes: ClassVar[str] = "one complementary label for each instance"

    correction: Literal["none", "non_negative", "gradient_ascent"] = "none"
    count_weighted: bool = False
    view: str = "weak"

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless all classes but one are candidates of each instance."""
        super().check(data)
        excluded = (~_only(data).candidates).sum(1)
        wrong = (excluded != 1).nonzero()
        if len(wrong):
            group = int(wrong[0])
            raise DataError(
                f"group {group}: {type(self).__name__} takes one complementary label for each instance, found "
                f"{int(excluded[group])} excluded classes; ComplementaryLoss and CC take any number"
            )

    def init(self, setup: Setup) -> State:
        """The frequency of each class as the excluded one."""
        excluded = ~_only(setup.data).candidates
        return {SHARES: excluded.double().mean(0).to(setup.device, torch.float32)}

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The sum of the risks of the classes, corrected."""
        losses = -for_groups(step, step.logits(self.view)).log_softmax(1)
        excluded = (~candidates_of(step, losses)).int().argmax(1)
        risks = class_risks(losses, excluded, step.state[SHARES].to(losses))
        step.note("smallest_class_risk", risks.min())
        step.note("negative_class_risks", (risks < 0).sum().float())
        return self._corrected(risks, excluded)

    def _corrected(self, risks: Float[Tensor, "classes"], excluded: Int[Tensor, "groups"]) -> Float[Tensor, ""]:
        if self.correction == "none":
            return risks.sum()
        if self.correction == "non_negative":
            return risks.clamp_min(0).sum()
        counts = one_hot(excluded, len(risks)).sum(0).to(risks)
        weights = counts if self.count_weighted else torch.ones_like(risks)
        return torch.where((risks >= 0).all(), risks.sum(), -(weights * risks.clamp_max(0)).sum())

    def recipe(self) -> Recipe | None:
        """MNIST."""
        return Recipe(
            "MNIST with an MLP: the code of Ishida et al.",
            {
                "optimizer": "adam",
                "learning_rate": 5e-05,
                "weight_decay": 0.0001,
                "decay_biases": True,
                "schedule": "constant",
                "batch_size": 256,
            },
            {"hidden": [500]},
        )


def class_risks(
    losses: Float[Tensor, "groups classes"], excluded: Int[Tensor, "groups"], shares: Float[Tensor, "classes"]
) -> Float[Tensor, "classes"]:
    """R_k = -(K - 1) π̄_k m_kk + Σ_j π̄_j m_jk, with m_jk the mean loss of class k where class j is excluded.

    >>> class_risks(torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([0, 0]), torch.tensor([0.5, 0.5]))
    tensor([0.0000, 1.7500])
    """
    chosen = one_hot(excluded, len(shares)).to(losses)
    means = (chosen.T @ losses) / chosen.sum(0).clamp_min(1)[:, None]
    return shares @ means - (len(shares) - 1) * shares * means.diagonal()


def _only(data: WeakDataset) -> PartialLabels:
    (weak,) = data.weak
    assert isinstance(weak, PartialLabels)
    return weak


def _log_choices(candidates: Bool[Tensor, "groups classes"]) -> Float[Tensor, "groups"]:
    """log C(K - 1, s), the number of ways to name s wrong classes."""
    left = candidates.sum(1).double()
    total = torch.full_like(left, candidates.shape[1])
    return total.lgamma() - (total - left + 1).lgamma() - left.lgamma()
