"""VPU: positive-unlabeled learning by a variational principle, without a class prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glws.methods._abstract import Epoch, Setup
from glws.methods._positive_unlabeled import (
    AbstractPositiveUnlabeled,
    mixed_scores,
    mixing_share,
    no_loss,
    sets_of,
    shuffled_numbers,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import margin
from glws.methods._step import State, Step


@dataclass(frozen=True)
class VPU(AbstractPositiveUnlabeled):
    """The variational PU risk with a mixup consistency term (Chen et al., NeurIPS 2020). No prior is used.

        φ = p(1 | x)        L = log E_U[φ] - E_P[log φ] + η mean_i (log t_i - log φ(x̃_i))²
        x̃_i = λ x_i(U) + (1-λ) x_i(P),  t_i = λ φ(x_i(U)) + 1-λ,  λ ~ Beta(a, a), one for each batch

    The least value of the first two terms is -KL(p_P || p_U), at φ proportional to the true p(1 | x): the scale of φ
    is arbitrary. So predictions are φ(x) over the largest φ of the training data, not φ: pass its logits to
    `log_probs` with the state. Each unlabeled instance is mixed with a positive in random order, repeated if
    there are fewer. `consistency` is η, `concentration` a. Gradients go through t_i as in the released code, unless
    `detach_target`. A batch without positives or without unlabeled instances has loss 0.
    """

    summary: ClassVar[str] = "variational PU risk with mixup, no prior (Chen et al., NeurIPS 2020)"

    consistency: float = 0.3
    concentration: float = 0.3
    detach_target: bool = False
    view: str = "weak"

    def init(self, setup: Setup) -> State:
        """The largest log φ of the training data: 0 until it is computed."""
        return {"log_greatest": torch.zeros((), device=setup.device)}

    def end_epoch(self, epoch: Epoch) -> None:
        """Compute the largest φ of the current network."""
        numbers = torch.unique(torch.cat([groups.indices for groups in epoch.data.groups]))
        log_phi = functional.logsigmoid(margin(epoch.predict(numbers)).detach())
        epoch.state["log_greatest"] = log_phi.max().to(epoch.state["log_greatest"])

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The variational risk and the consistency term."""
        log_phi = functional.logsigmoid(margin(step.logits(self.view)))
        positive, unlabeled, _ = sets_of(step.batch, log_phi.device)
        if not len(positive) or not len(unlabeled):
            return no_loss(log_phi)
        share = mixing_share(self.concentration, step.generator)
        partners = _partners(positive, len(unlabeled), step.generator)
        mixed = functional.logsigmoid(mixed_scores(step, self.view, unlabeled, partners, share))
        unmixed = log_phi[unlabeled].detach() if self.detach_target else log_phi[unlabeled]
        risk = variational_risk(log_phi[positive], log_phi[unlabeled])
        return risk + self.consistency * mixup_consistency(mixed, unmixed, share)

    def log_probs(self, logits: Float[Tensor, "rows 2"], state: State) -> Float[Tensor, "rows 2"]:
        """Log-probabilities of both classes from the network's logits: φ over the largest one, at most 1.

        >>> state = {"log_greatest": torch.tensor(-2.1)}
        >>> VPU().log_probs(torch.tensor([[0.0, -2.0], [0.0, -3.0]]), state)[:, 1].exp()
        tensor([0.9734, 0.3873])
        """
        log_share = (functional.logsigmoid(margin(logits)) - state["log_greatest"].to(logits)).clamp_max(0)
        return torch.stack([(-log_share.expm1()).log(), log_share], -1)

    def recipe(self) -> Recipe | None:
        """Fashion-MNIST."""
        return Recipe(
            "Fashion-MNIST: the code of Chen et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.0003,
                "weight_decay": 0.0,
                "betas": (0.5, 0.99),
                "schedule": "multistep",
                "milestones": (0.38, 0.78),
                "decay": 0.5,
            },
        )


def variational_risk(positive: Float[Tensor, "positives"], unlabeled: Float[Tensor, "unlabeled"]) -> Float[Tensor, ""]:
    """log E_U[φ] - E_P[log φ] of log φ; a constant added to all of them changes nothing.

    >>> variational_risk(torch.tensor([0.8, 0.6]).log(), torch.tensor([0.9, 0.2, 0.65, 0.4]).log())
    tensor(-0.2538)
    """
    return unlabeled.logsumexp(0) - math.log(len(unlabeled)) - positive.mean()


def mixup_consistency(
    mixed: Float[Tensor, "unlabeled"], unlabeled: Float[Tensor, "unlabeled"], share: float
) -> Float[Tensor, ""]:
    """mean (log(λ φ + 1-λ) - log φ(x̃))² of log φ at the mixed and at the unlabeled instances.

    >>> mixup_consistency(torch.tensor([0.85, 0.5]).log(), torch.tensor([0.9, 0.2]).log(), 0.3)
    tensor(0.0964)
    """
    shares = unlabeled.new_tensor([share, 1 - share]).log()
    return ((torch.logaddexp(shares[0] + unlabeled, shares[1]) - mixed) ** 2).mean()


def _partners(positive: Int[Tensor, "positives"], number: int, generator: torch.Generator) -> Int[Tensor, "number"]:
    """`number` positives in random order, repeated if there are too few."""
    order = positive[shuffled_numbers(len(positive), generator, positive.device)]
    return order[torch.arange(number, device=order.device) % len(order)]
