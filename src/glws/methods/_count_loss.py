"""`CountLoss`: the likelihood of an observed count: some or none, how many, what share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._objective import unchecked_em_loss
from glws.data import BatchPart
from glws.inference import binomial, infer
from glws.kinds import AbstractSupervision, ClassCounts, Labels, MultiInstance, PresentClasses, Proportions, Unlabeled
from glws.methods._abstract import AbstractMethod
from glws.methods._risks import check_choice, mean
from glws.methods._step import Step

PriorForm = Literal["distribution", "expectation", "truncated"]


@dataclass(frozen=True)
class CountLoss(AbstractMethod):
    """Count Loss (Shukla, Zeng, Ahmed, Van den Broeck, NeurIPS 2023): -log p(count), the instances independent.

        bags, some or none:  -log P(S >= 1), -log P(S = 0)      S = number of positives of the bag, Poisson-binomial
        bags, a count:       -log P(S = k)
        labels and bags of unlabeled instances:  mean -log p(y) + the loss of the bag, given its prior π

    Several classes (`PresentClasses`, `ClassCounts`): the mean over classes of each against the rest. Means over bags.

    `prior_form` is the loss of a bag of n for its prior: "distribution" KL(Binomial(n, π) ‖ P(S = ·)), "expectation"
    -log P(S = round(π n)), "truncated" the same with π n rounded down.

    Ours: P is exact and in logs throughout (-log Z of the kind, `glws.infer`), so very wrong bags keep their gradient.
    The released routine for "exactly k" gives P(S <= k), and its KL is divided by n + 1. Every group of unlabeled
    instances is a bag of its own, whatever its `count`; both terms have weight 1.
    """

    summary: ClassVar[str] = "likelihood of counts (Shukla et al., NeurIPS 2023)"
    takes: ClassVar[str] = "bags with presence labels or counts, or labels and unlabeled bags with a class prior"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = (
        (MultiInstance,),
        (PresentClasses,),
        (Proportions,),
        (ClassCounts,),
        (Labels, Unlabeled),
    )

    view: str = "weak"
    prior_form: PriorForm = "distribution"

    def __post_init__(self) -> None:
        check_choice("prior_form", self.prior_form, get_args(PriorForm))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The sum of the losses of the kinds."""
        log_probs = step.logits(self.view).log_softmax(-1)
        losses = [self._part(part, log_probs) for part in step.batch.parts]
        return torch.stack(losses).sum()

    def _part(self, part: BatchPart, log_probs: Float[Tensor, "rows classes"]) -> Float[Tensor, ""]:
        weak, inside = part.weak, part.gather(log_probs)
        if isinstance(weak, Labels):
            is_labeled = weak.labels >= 0
            return mean(-infer(inside[is_labeled.to(inside.device)], weak[is_labeled]).log_likelihood)
        if isinstance(weak, Unlabeled) and self.prior_form == "distribution":
            return mean(divergence_from_binomial(inside, weak, part.lengths))
        if isinstance(weak, Unlabeled):
            weak = _rounded(weak, self.prior_form)
        multiclass: Literal["per_class", "auto"] = "per_class" if weak.is_multiclass else "auto"
        return unchecked_em_loss(inside, weak, part.lengths, multiclass=multiclass).supervised


def divergence_from_binomial(
    log_probs: Float[Tensor, "groups instances classes"], weak: Unlabeled, lengths: Int[Tensor, "groups"]
) -> Float[Tensor, "groups"]:
    """KL(Binomial(n, π) ‖ P(S = ·)) of each group, with S the predicted number of counted labels.

    Each of the n + 1 counts is one call of the exact engine: O(n²) for a group.

    >>> log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]], dtype=torch.float64).log()
    >>> divergence_from_binomial(log_probs, Unlabeled.of([0.4]), torch.tensor([2])).abs() < 1e-12
    tensor([True])
    """
    groups = len(log_probs)
    sizes = lengths.to(log_probs.device)
    log_wanted = binomial(sizes, weak.prior.to(sizes.device)).log_weights
    columns = log_wanted.shape[1]
    numbers = torch.arange(columns, device=sizes.device).repeat(groups)
    exact = Proportions(numbers, numbers, weak.counted)
    fit = infer(log_probs.repeat_interleave(columns, 0), exact, sizes.repeat_interleave(columns))
    log_found = fit.log_likelihood.view(groups, columns)
    wanted = log_wanted > -torch.inf
    log_ratio = torch.where(wanted, log_wanted.to(log_found), 0.0) - torch.where(wanted, log_found, 0.0)
    return (log_wanted.exp().to(log_found) * log_ratio).sum(1)


def _rounded(weak: Unlabeled, prior_form: PriorForm) -> Unlabeled:
    """The same groups with exactly π n counted labels, rounded to the nearest whole number or down."""
    if prior_form == "expectation":
        return replace(weak, count="hard", offset=torch.full_like(weak.prior, 0.5))
    return replace(weak, count="floor", offset=torch.zeros_like(weak.prior))
