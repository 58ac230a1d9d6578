"""`UUM`: cross-entropy weighted by the posterior of each label of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from glws._objective import unchecked_em_loss
from glws.inference import Posterior, infer
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Method,
    MultiInstance,
    PairSimilarity,
    PresentClasses,
    Proportions,
)
from glws.methods._abstract import AbstractMethod, Setup
from glws.methods._recipe import Recipe
from glws.methods._step import State, Step


@dataclass(frozen=True)
class UUM(AbstractMethod):
    """The universal unbiased method for aggregate observations (Wei, Feng, Han, Liu, Niu, Zhu, Shen, ICML 2023).

        loss = mean over groups of (1/m) Σ_i Σ_j W_ij ℓ_j(x_i)      W_ij = P(y_i = j | x_1..x_m, w), held constant

    with ℓ the cross-entropy. If W comes from the true class probabilities this is an unbiased estimate of the
    supervised risk; W comes from the network itself: its outputs in this very step, for the trained view or for
    `weight_view`, or with `stored` its outputs when it last saw the instance (the current ones the first time). With W
    from the same outputs the gradient is 1/m times that of the likelihood of w. `likelihood_epochs` start with that
    likelihood, -log p(w | x), itself.

    Ours: W is the posterior of the kind (`glws.infer`), exact, for several classes the joint one; labelings are not
    listed. Only counts of all classes may be too many: `counts` "auto" solves groups of up to 65,536 count vectors
    Π_k (n_k + 1) exactly, larger ones by a corrected tilt, an approximation whose sums over a group are the counts;
    "exact" is always exact, "tilted" never. The log has the exact share ("exact_groups"). Stored outputs belong to an
    instance, not to its place in a group, so that overlapping groups update each other's.
    """

    summary: ClassVar[str] = "posterior-weighted cross-entropy of groups (Wei et al., ICML 2023)"
    takes: ClassVar[str] = "groups with presence labels, counts or similarity"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = (
        (MultiInstance,),
        (PresentClasses,),
        (Proportions,),
        (ClassCounts,),
        (PairSimilarity,),
    )

    view: str = "weak"
    weight_view: str | None = None
    stored: bool = False
    likelihood_epochs: int = 0
    counts: Method = "auto"

    def init(self, setup: Setup) -> State:
        """With `stored`, log-probabilities of every instance, and whether they exist."""
        if not self.stored:
            return {}
        size = len(setup.data.instances)
        table = torch.zeros(size, setup.num_classes, device=setup.device)
        return {"log_probs": table, "seen": torch.zeros(size, dtype=torch.int64, device=setup.device)}

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The weighted cross-entropy, or the likelihood in the first epochs."""
        (part,) = step.batch.parts
        weak, log_probs = self._solved(part.weak), part.gather(step.logits(self.view).log_softmax(-1))
        if step.progress.epoch < self.likelihood_epochs:
            answer = unchecked_em_loss(log_probs, weak, part.lengths)
            _note_errors(step, weak, answer.posterior)
            return answer.supervised
        weights = infer(part.gather(self._weight_model(step)), weak, part.lengths)
        _note_errors(step, weak, weights)
        return weighted_cross_entropy(log_probs, weights)

    def update(self, step: Step) -> None:
        """Store the outputs of this step."""
        if self.stored:
            numbers = step.batch.numbers.to(step.state["seen"].device)
            answers = step.detached(self.view).log_softmax(-1)
            step.state["log_probs"][numbers] = answers.to(step.state["log_probs"])
            step.state["seen"][numbers] = 1

    def _solved(self, weak: AbstractSupervision) -> AbstractSupervision:
        """Counts of all classes, solved as the option `counts` says."""
        return weak.solved_by(self.counts) if isinstance(weak, ClassCounts) else weak

    def _weight_model(self, step: Step) -> Float[Tensor, "rows classes"]:
        """Log-probabilities that the weights are computed from, without gradient."""
        if not self.stored:
            return step.detached(self.weight_view or self.view).log_softmax(-1)
        now = step.detached(self.view).log_softmax(-1)
        numbers = step.batch.numbers.to(step.state["seen"].device)
        is_stored, stored = step.state["seen"][numbers] > 0, step.state["log_probs"][numbers]
        return torch.where(is_stored[:, None], stored.to(now), now)

    def recipe(self) -> Recipe | None:
        """The values of the published commands."""
        return Recipe(
            "the published commands of Wei et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "batch_size": 128,
            },
        )


def weighted_cross_entropy(
    log_probs: Float[Tensor, "groups instances classes"], weights: Posterior
) -> Float[Tensor, ""]:
    """-Σ_ij W_ij log p_i(j) / m, mean over the groups that are possible and not empty.

    >>> log_probs = torch.tensor([[[0.8, 0.2], [0.5, 0.5]]]).log()
    >>> weighted_cross_entropy(log_probs, infer(log_probs, MultiInstance.of([0])))
    tensor(0.4581)
    """
    target = weights.marginals.to(log_probs.dtype)
    each = -torch.where(target > 0, target * log_probs, 0.0).sum((1, 2)) / weights.lengths.clamp_min(1)
    counted = ~weights.impossible & (weights.lengths > 0)
    return torch.where(counted, each, 0.0).sum() / counted.sum().clamp_min(1)


def _note_errors(step: Step, weak: AbstractSupervision, posterior: Posterior) -> None:
    """Log the share of exact groups and the error of the others, for counts of all classes."""
    if isinstance(weak, ClassCounts):
        error = torch.zeros(1) if posterior.error is None else posterior.error
        step.note("exact_groups", (error == 0).double().mean())
        if posterior.error is not None:
            step.note("approximation_error", error.max())
