"""`MeanProportion`: match the mean prediction of a bag with its class shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.data import BatchPart, WeakDataset
from glws.errors import DataError
from glws.inference import padding_mask
from glws.kinds import AbstractSupervision, ClassCounts, Proportions
from glws.methods._abstract import AbstractMethod
from glws.methods._risks import check_choice
from glws.methods._step import Step

Distance = Literal["cross_entropy", "kl", "squared", "absolute"]


@dataclass(frozen=True)
class MeanProportion(AbstractMethod):
    """Proportion matching (Ardehaly and Culotta, ICDM workshops 2017), also the bag term of LLP-VAT.

        p̄ = mean over the bag of p(x_i),  ρ = counts / length,  loss = mean over bags of distance(ρ, p̄)

    `distance`: "cross_entropy" -Σ ρ_c log p̄_c, "kl" Σ ρ_c log(ρ_c / p̄_c) (the same gradient, 0 at the fit), "squared"
    Σ (ρ_c - p̄_c)², "absolute" Σ |ρ_c - p̄_c|. `Proportions` have two shares, the counted classes and the others.
    It is not a likelihood: all predictions with the right mean, confident or not, have the same loss.
    """

    summary: ClassVar[str] = "mean prediction of a bag against its class shares"
    takes: ClassVar[str] = "bags with counts"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((Proportions,), (ClassCounts,))

    view: str = "weak"
    distance: Distance = "cross_entropy"

    def __post_init__(self) -> None:
        check_choice("distance", self.distance, get_args(Distance))

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless there is one kind, with exact counts."""
        super().check(data)
        check_exact_counts(self, data)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The distance, mean over bags."""
        (part,) = step.batch.parts
        return proportion_loss(part, step.logits(self.view).log_softmax(-1), self.distance)


def proportion_loss(
    part: BatchPart, log_probs: Float[Tensor, "rows classes"], distance: Distance = "cross_entropy"
) -> Float[Tensor, ""]:
    """The distance of class shares from mean predictions, mean over the bags that are not empty."""
    assert isinstance(part.weak, Proportions | ClassCounts)
    lengths = part.lengths.to(log_probs.device)
    log_mean = log_mean_prediction(part.gather(log_probs), lengths)
    if isinstance(part.weak, Proportions):
        log_mean = _two_sides(log_mean, part.weak.counted.to(log_mean.device))
        counts = torch.stack([part.lengths.to(part.weak.low.device) - part.weak.low, part.weak.low], 1)
    else:
        counts = part.weak.counts
    shares = counts.to(log_mean) / lengths.clamp_min(1)[:, None]
    each = torch.where(lengths > 0, DISTANCES[distance](shares, log_mean).sum(1), 0.0)
    return each.sum() / (lengths > 0).sum().clamp_min(1)


def log_mean_prediction(
    log_probs: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
) -> Float[Tensor, "groups classes"]:
    """log p̄: the log of the mean probability of each class over a group; undefined for empty groups.

    >>> log_mean_prediction(torch.tensor([[[0.2, 0.8], [0.4, 0.6]]]).log(), torch.tensor([2])).exp()
    tensor([[0.3000, 0.7000]])
    """
    sizes = lengths.clamp_min(1)
    inside = torch.where(padding_mask(log_probs, sizes)[:, :, None], log_probs, -torch.inf)
    return inside.logsumexp(1) - sizes[:, None].to(log_probs).log()


def check_exact_counts(method: AbstractMethod, data: WeakDataset) -> None:
    """Raise `DataError` with the first group whose counts are a range."""
    for weak in data.weak:
        if isinstance(weak, Proportions) and not torch.equal(weak.low, weak.high):
            group = int((weak.low != weak.high).nonzero()[0])
            name = type(method).__name__
            raise DataError(f"{name} learns from exact counts, found {weak.describe(group)} in group {group}")


def _two_sides(
    log_mean: Float[Tensor, "groups classes"], counted: Bool[Tensor, "classes"]
) -> Float[Tensor, "groups 2"]:
    """The log-means of all classes that are not counted together, and of those that are."""
    sides = [torch.where(side, log_mean, -torch.inf).logsumexp(1) for side in (~counted, counted)]
    return torch.stack(sides, 1)


def _cross_entropy(shares: Tensor, log_mean: Tensor) -> Tensor:
    return -torch.where(shares > 0, shares * log_mean, 0.0)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy,
    "kl": lambda shares, log_mean: torch.special.xlogy(shares, shares) + _cross_entropy(shares, log_mean),
    "squared": lambda shares, log_mean: (shares - log_mean.exp()) ** 2,
    "absolute": lambda shares, log_mean: (shares - log_mean.exp()).abs(),
}
