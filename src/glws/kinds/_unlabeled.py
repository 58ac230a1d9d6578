"""`Unlabeled`: groups of which only the class prior is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, Counts, Exactly, Sampled, Weighted, hypergeometric, only_counted
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._arrays import (
    Numbers,
    class_mask,
    label_counts,
    reals,
    refuse,
    same_length,
    shares,
    true_labels,
    whole_numbers,
)
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._expected_count import ExpectedCount
from glws.kinds._narrowing import Narrowed, by_counted, counts_of_classes
from glws.kinds._projections import MESSAGE
from glws.kinds._wording import Names, of_classes

Count = Literal["expected", "hard", "floor", "stochastic", "binomial", "hypergeometric", "dataset"]
"""How a class prior becomes a weight of the count in a set; see `Unlabeled`."""
SHARES = "the share of the counted class in each group, percentages divided by 100; all classes are UnlabeledClasses.of"
WITHOUT_POPULATION = ("expected", "hard", "floor", "stochastic", "binomial")


@dataclass(frozen=True, eq=False)
class Unlabeled(AbstractSupervision):
    """Groups (usually batches) of n unlabeled instances with a share `prior` of the counted class: PU, UU, SDU data.

    What the prior says about the number m of counted labels in one group depends on how the group came about:

    `count="expected"`, the default: m is prior · n on average only. The predictions are tilted together until their
        mean is the prior; a projection (`ExpectedCount`), robust from a cold start, no automaton.
    `count="binomial"`: the group is drawn independently; p(w | y) = Binomial(m; n, prior).
    `count="hypergeometric"`: drawn without replacement from a population whose number of counted instances is known.
    `count="dataset"`: the population as a whole has exactly prior · population of them; the rest of it, as predicted,
        has the given mean and variance, so log p(w | y) = -(prior · population - m - mean)² / (2 variance).
    `count="hard"`: m is prior · n rounded to the nearest number. True only of groups made so: otherwise the labels of
        several instances in each group are contradicted, and predictions made while all are alike never part.
    `count="stochastic"`: rounded up or down by chance, once for each group, so that the mean is right.
    `count="floor"`: rounded down, as the released code does: the prior is taken up to 1/n too small.

    >>> weak = Unlabeled.of([0.5], count="binomial")
    >>> weak.infer(torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]]).log()).marginals[0, :, 1]
    tensor([0.9196, 0.1732, 0.6198, 0.2748])
    """

    name: ClassVar[str] = "unlabeled"
    noun: ClassVar[str] = "unlabeled group"
    columns: ClassVar[Columns] = ({"prior": "share"},)
    options: ClassVar[tuple[str, ...]] = ("counted", "count")

    prior: Float[Tensor, "groups"]
    offset: Float[Tensor, "groups"]
    population: Float[Tensor, "groups"]
    rest: Float[Tensor, "groups 2"]
    counted: Bool[Tensor, "classes"] = field(metadata=SHARED)
    count: Count = field(default="expected", metadata=SHARED)

    @classmethod
    def of(
        cls,
        prior: Numbers,
        count: Count = "expected",
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        generator: torch.Generator | None = None,
    ) -> Unlabeled:
        """From the share of the counted class(es) for each group; `generator` is for stochastic rounding."""
        if not isinstance(count, str) or count not in WITHOUT_POPULATION:
            raise DataError(
                f"count must be one of {', '.join(WITHOUT_POPULATION)} here, found {count!r}; "
                "the first argument is the prior of each group, and sizes are those of the groups"
            )
        values = shares(prior, "prior", hint=SHARES)
        offset, nobody = _offset(count, len(values), generator), torch.zeros_like(values)
        return cls(values, offset, nobody, nobody[:, None].expand(-1, 2), class_mask(counted, num_classes), count)

    @classmethod
    def hypergeometric(
        cls, prior: Numbers, population: Numbers, counted: int | Sequence[int] = 1, num_classes: int = 2
    ) -> Unlabeled:
        """Groups drawn without replacement from `population` instances with round(prior · population) counted."""
        values, sizes = shares(prior, "prior"), whole_numbers(population, "population").double()
        same_length("prior and population", values, sizes)
        nothing = torch.zeros_like(values)
        rest, mask = nothing[:, None].expand(-1, 2), class_mask(counted, num_classes)
        return cls(values, nothing, sizes, rest, mask, "hypergeometric")

    @classmethod
    def dataset(
        cls,
        prior: Numbers,
        population: Numbers,
        rest_mean: Numbers,
        rest_variance: Numbers,
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
    ) -> Unlabeled:
        """Groups of a population with exactly prior · population counted instances. Of the instances outside the
        group, `rest_mean` is Σ p and `rest_variance` Σ p (1 - p), from a memory of predictions."""
        values, sizes = shares(prior, "prior"), reals(population, "population")
        rest = torch.stack([reals(rest_mean, "rest_mean"), reals(rest_variance, "rest_variance")], 1)
        same_length("prior, population and the rest", values, sizes, rest)
        refuse(rest[:, 1] <= 0, lambda group: f"rest_variance must be above 0, found {float(rest[group, 1]):g}")
        return cls(values, torch.zeros_like(values), sizes, rest, class_mask(counted, num_classes), "dataset")

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        lengths: Numbers | None = None,
        count: Count = "expected",
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        generator: torch.Generator | None = None,
    ) -> Unlabeled:
        """All groups with one prior: the share of the counted classes in all these true labels together."""
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes).double()
        share = float((occurs * class_mask(counted, num_classes)).sum() / occurs.sum().clamp_min(1))
        return cls.of([share] * len(occurs), count, counted, num_classes, generator)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Unlabeled:
        """The share of the counted class."""
        return cls.of(request.weak["prior"], **request.counted())

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.counted)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The tilt, or weights on the count."""
        counted = self.counted.expand(len(self), -1)
        if self.count == "expected":
            return ExpectedCount(counted, self.prior)
        weights = self._weights(lengths.to(self.prior.device))
        return Counts(counted, weights, only_counted(self.counted.cpu().numpy()))

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """The weight of the number of counted labels."""
        found = sum(bool(self.counted[label]) for label in labels)
        return _log_weight(self, group, found, len(labels))

    def initial_posterior(self) -> Float[Tensor, "groups classes"]:
        """The prior, shared out among the counted classes; the rest among the others."""
        counted = self.counted.to(self.prior)
        inside, outside = counted / counted.sum(), (1 - counted) / (1 - counted).sum().clamp_min(1)
        return self.prior[:, None] * inside + (1 - self.prior[:, None]) * outside

    def exchangeable_sets(self) -> Int[Tensor, "groups"] | None:
        """Groups with the same prior are samples of one population, unless the rest of it is given."""
        return None if self.count == "dataset" else torch.unique(self.prior, return_inverse=True)[1]

    def describe(self, group: int, names: Names = None) -> str:
        """The prior."""
        return f"a share of {float(self.prior[group]):g} {of_classes(self.counted, names)}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the range of counts that have any weight."""
        return by_counted(allowed, lengths, self.counted, *self._range(lengths))

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The prior, times the number of members."""
        expected = self.prior * lengths
        return counts_of_classes(self.counted, expected, expected, lengths)

    def _range(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The smallest and the largest count of counted members that is possible."""
        nothing = torch.zeros_like(self.prior)
        if self.count == "dataset":
            return nothing, lengths.double()
        if self.count == "binomial":
            return torch.where(self.prior < 1, nothing, lengths), torch.where(self.prior > 0, lengths, nothing)
        if self.count == "hypergeometric":
            total = (self.prior * self.population).round()
            return (lengths - self.population + total).clamp_min(0), torch.minimum(total, lengths)
        wanted = self.prior * lengths
        count = wanted if self.count == "expected" else _rounded(wanted, self.offset)
        return count, count

    def _weights(self, lengths: Int[Tensor, "groups"]) -> Exactly | Sampled | Weighted:
        if self.count == "binomial":
            return Sampled(self.prior)
        total = self.prior * self.population
        if self.count == "hypergeometric":
            return hypergeometric(lengths, self.population.long(), total.round().long())
        if self.count == "dataset":
            numbers = torch.arange(max(lengths.tolist(), default=0) + 1, device=lengths.device)
            short = total[:, None] - self.rest[:, :1] - numbers
            return Weighted(-(short**2) / (2 * self.rest[:, 1:]))
        return Exactly(_rounded(self.prior * lengths, self.offset))


def _rounded(wanted: Tensor, offset: Tensor) -> Int[Tensor, "groups"]:
    """floor(wanted + offset), where a product like 0.29 · 100 is not to lose one by rounding."""
    return (wanted + offset + 1e-9).floor().long()


def _offset(count: Count, groups: int, generator: torch.Generator | None) -> Float[Tensor, "groups"]:
    """What is added before rounding down: 1/2, nothing, or anything below 1."""
    if count == "stochastic":
        return torch.rand(groups, generator=generator, dtype=torch.float64) * (1 - 1e-6)
    return torch.full((groups,), 0.5 if count == "hard" else 0.0, dtype=torch.float64)


def _log_weight(weak: Unlabeled, group: int, found: int, length: int) -> float:
    """log p(w | found counted labels of length), in plain numbers."""
    prior, population = float(weak.prior[group]), float(weak.population[group])
    if weak.count == "expected":
        raise DataError(f'Unlabeled with count="expected" {MESSAGE}')
    if weak.count == "dataset":
        mean, variance = weak.rest[group].tolist()
        return float(-((prior * population - found - mean) ** 2) / (2 * variance))
    if weak.count == "binomial":
        weight = math.comb(length, found) * prior**found * (1 - prior) ** (length - found)
    elif weak.count == "hypergeometric":
        total, counted = int(population), round(prior * population)
        ways = math.comb(counted, found) * math.comb(total - counted, length - found)
        weight = ways / max(math.comb(total, length), 1)
    else:
        weight = float(found == math.floor(prior * length + float(weak.offset[group]) + 1e-9))
    return math.log(weight) if weight > 0 else -math.inf
