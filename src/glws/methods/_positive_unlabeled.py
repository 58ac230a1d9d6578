"""Positive-unlabeled data: shared parts of its methods, and the unbiased and the non-negative risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.data import Batch, BatchPart, WeakDataset
from glws.errors import DataError
from glws.inference import padding_mask
from glws.kinds import AbstractSupervision, Labels, Unlabeled
from glws.methods._abstract import AbstractMethod
from glws.methods._recipe import Recipe
from glws.methods._risks import Surrogate, check_choice, check_prior, check_two_classes, margin, mean, surrogate
from glws.methods._step import Step


class RiskParts(NamedTuple):
    """A risk by class: estimates of π E₊[ℓ(g)] and of (1-π) E₋[ℓ(-g)], both of which are at least 0."""

    positive: Float[Tensor, ""]
    negative: Float[Tensor, ""]


class Sets(NamedTuple):
    """Rows of labeled positives and of unlabeled instances, and the latter's share of positives."""

    positive: Int[Tensor, "positives"]
    unlabeled: Int[Tensor, "unlabeled"]
    share: float


def positive_unlabeled_parts(
    positive: Float[Tensor, "positives"], unlabeled: Float[Tensor, "unlabeled"], prior: float, loss: Surrogate
) -> RiskParts:
    """The risk of scores of positives and of unlabeled instances with a share `prior` of positives.

        positive = π E_P[ℓ(g)]        negative = E_U[ℓ(-g)] - π E_P[ℓ(-g)]

    >>> parts = positive_unlabeled_parts(torch.tensor([2.0, 0.5, -1.0]), torch.tensor([1.5, -0.5]), 0.4, "sigmoid")
    >>> [round(float(part), 4) for part in parts]
    [0.1637, 0.3613]
    """
    fit = prior * mean(surrogate(positive, loss))
    return RiskParts(fit, mean(surrogate(-unlabeled, loss)) - prior * mean(surrogate(-positive, loss)))


class AbstractPositiveUnlabeled(AbstractMethod):
    """A method for `Labels`, all of class 1, with `Unlabeled` groups, which have the share of positives."""

    takes: ClassVar[str] = "labeled positives beside unlabeled instances"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((Labels, Unlabeled),)

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless all labels are positive, and both classes are among the unlabeled."""
        super().check(data)
        check_unlabeled(self, data)
        for weak in data.weak:
            if isinstance(weak, Labels) and bool((weak.labels != 1).any()):
                group = int((weak.labels != 1).nonzero()[0])
                name = type(self).__name__
                raise DataError(f"{name} takes labels of class 1 only, found {weak.describe(group)} in group {group}")


@dataclass(frozen=True)
class PositiveUnlabeled(AbstractPositiveUnlabeled):
    """The risk of a classifier, estimated without negatives; not below 0 if `nonnegative` (nnPU).

        uPU (du Plessis et al., ICML 2015)     R = π E_P[ℓ(g)] + r,   r = E_U[ℓ(-g)] - π E_P[ℓ(-g)]
        nnPU (Kiryo et al., NeurIPS 2017)      R = π E_P[ℓ(g)] + max(r, -β)

    r estimates the risk of the negatives, which is not negative. A flexible network nevertheless pushes its estimate
    below 0; in batches where r < -β, nnPU takes a step up along γ r alone (their algorithm 1). The loss is then -γ r,
    so it does not measure progress: `risk` in the log is the value of R.

    `surrogate` is ℓ: "sigmoid" is that of nnPU; the convex uPU takes "logistic" or "double_hinge". `prior` overrides π,
    the share of positives among the unlabeled. A batch without positives or without unlabeled instances has loss 0.
    The score is the difference of two logits, where the papers have networks with one output.
    """

    summary: ClassVar[str] = "unbiased (du Plessis et al., 2015) or non-negative (Kiryo et al., 2017) PU risk"

    nonnegative: bool = True
    surrogate: Surrogate = "sigmoid"
    beta: float = 0.0
    gamma: float = 1.0
    prior: float | None = None
    view: str = "weak"

    def __post_init__(self) -> None:
        check_optional_prior(self.prior)
        check_choice("surrogate", self.surrogate, get_args(Surrogate))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The risk of the batch, or -γ r if r < -β."""
        scores = margin(step.logits(self.view))
        sets = sets_of(step.batch, scores.device)
        if not len(sets.positive) or not len(sets.unlabeled):
            return no_loss(scores)
        prior = sets.share if self.prior is None else self.prior
        fit, rest = positive_unlabeled_parts(scores[sets.positive], scores[sets.unlabeled], prior, self.surrogate)
        if not self.nonnegative:
            return fit + rest
        step.note("risk", fit + rest.clamp_min(-self.beta))
        return torch.where(rest.detach() < -self.beta, -self.gamma * rest, fit + rest)

    def recipe(self) -> Recipe | None:
        """MNIST."""
        return Recipe(
            "MNIST with an MLP: the code of Kiryo et al.",
            {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "weight_decay": 0.005,
                "betas": (0.9, 0.999),
                "decay_biases": True,
                "schedule": "constant",
            },
            {"hidden": [300, 300, 300, 300], "batch_norm": True},
        )


def check_unlabeled(method: AbstractMethod, data: WeakDataset) -> None:
    """Raise `DataError` unless there are two classes, one of them counted, and both among the unlabeled."""
    check_two_classes(method, data)
    name = type(method).__name__
    for groups, weak in zip(data.groups, data.weak, strict=True):
        if isinstance(weak, Unlabeled):
            if int(weak.counted.sum()) != 1:
                raise DataError(f"{name} needs the share of one class, found that of {int(weak.counted.sum())} of 2")
            if not len(groups.indices):
                raise DataError(f"{name} needs unlabeled instances, found none")
            check_prior(positive_share(weak, groups.lengths))


def check_optional_prior(prior: float | None) -> None:
    """Raise `DataError` unless the prior is None or strictly between 0 and 1."""
    if prior is not None:
        check_prior(prior)


def positive_share(weak: Unlabeled, lengths: Int[Tensor, "groups"]) -> float:
    """The share of class 1 in all these groups together.

    >>> positive_share(Unlabeled.of([0.2, 0.5], counted=0), torch.tensor([20, 10]))
    0.7
    """
    counts = weak.prior * lengths.to(weak.prior)
    share = float(counts.sum() / lengths.sum().clamp_min(1))
    return share if bool(weak.counted[1]) else 1 - share


def parts_of(batch: Batch, kind: type[AbstractSupervision]) -> list[BatchPart]:
    """The parts of a batch of this kind, in the order of the data."""
    return [part for part in batch.parts if isinstance(part.weak, kind)]


def members(part: BatchPart) -> Int[Tensor, "members"]:
    """Rows of all instances of these groups, without padding; instances in two groups occur twice."""
    if part.rows.ndim == 1:
        return part.rows
    return part.rows[padding_mask(part.rows, part.lengths.to(part.rows.device))]


def unlabeled_share(part: BatchPart) -> float:
    """The share of class 1 among the unlabeled instances of a part."""
    assert isinstance(part.weak, Unlabeled)
    return positive_share(part.weak, part.lengths)


def sets_of(batch: Batch, device: torch.device) -> Sets:
    """The two sets of a batch of positive-unlabeled data."""
    (labeled,), (unlabeled,) = parts_of(batch, Labels), parts_of(batch, Unlabeled)
    return Sets(members(labeled).to(device), members(unlabeled).to(device), unlabeled_share(unlabeled))


def no_loss(values: Float[Tensor, "rows *others"]) -> Float[Tensor, ""]:
    """0 with gradient 0, for a batch that lacks instances of a set."""
    return values[:0].sum()


def mixing_share(concentration: float, generator: torch.Generator) -> float:
    """A sample of λ from Beta(a, a), by its quantile at a uniform number.

    >>> round(mixing_share(6.0, torch.Generator().manual_seed(0)), 4)
    0.7572
    """
    from scipy.special import betaincinv

    uniform = torch.rand((), generator=generator, device=generator.device, dtype=torch.float64)
    return float(betaincinv(concentration, concentration, float(uniform)))


def shuffled_numbers(number: int, generator: torch.Generator, device: torch.device) -> Int[Tensor, "number"]:
    """0..number-1 in random order, on this device."""
    return torch.randperm(number, generator=generator, device=generator.device).to(device)


def mixed_scores(
    step: Step, view: str, first: Int[Tensor, "mixed"], second: Int[Tensor, "mixed"], share: float
) -> Float[Tensor, "mixed"]:
    """The network's scores of λ x_i + (1-λ) x_j, with gradient, for rows i in `first` and j in `second`."""
    inputs = step.inputs(view)
    if len(inputs) != len(step.batch.numbers):
        found = f"{len(inputs)} of {len(step.batch.numbers)} instances of the batch are in this process"
        raise DataError(f"mixup pairs any two instances of a batch, but {found}; train in one process")
    mixed = share * inputs[first] + (1 - share) * inputs[second]
    return margin(step.network(mixed).logits)
