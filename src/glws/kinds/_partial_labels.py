"""`PartialLabels`: a set of candidates that holds the class. `NoisyCandidates`: a set whose members come by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import one_hot

from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes, flags, rates, refuse, shares
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._noise import MOST, LearnsNoise, bounded_matrix, changed, share
from glws.kinds._wording import Names, called, listed

MASK = "a row for each instance with true or false for each class, no class numbers"
"""What to write instead of something that is no mask."""


@dataclass(frozen=True, eq=False)
class PartialLabels(AbstractTableKind, LearnsNoise):
    """A set of candidate classes for each instance. Groups of one instance.

    Given its size s < K, the set S holds the class with probability 1 - ε, and is otherwise any set as likely as any
    other; the constant that all classes share is left out, so that without misses Z is the predicted mass of the set:

        p(w | y) = 1 - ε  for y in S,        ε s / (K - s)  for y not in S

    ε is the miss rate, 0 unless given. For s = 1 this is a label that is wrong with probability ε. A set of all
    classes says nothing (weight 1), an empty one is refused.

    >>> weak = PartialLabels.complementary([0, 2], num_classes=3)
    >>> weak.candidates.int()
    tensor([[0, 1, 1],
            [1, 1, 0]], dtype=torch.int32)
    """

    name: ClassVar[str] = "partial_labels"
    noun: ClassVar[str] = "candidate set"
    columns: ClassVar[Columns] = ({"candidates": "set"}, {"excluded": "class"})
    options: ClassVar[tuple[str, ...]] = ("miss_rate",)

    size: ClassVar[int] = 1
    candidates: Bool[Tensor, "groups classes"]
    miss_rate: Float[Tensor, "1"] = field(metadata=SHARED)

    @classmethod
    def of(cls, candidates: Numbers, miss_rate: float = 0.0) -> PartialLabels:
        """From a mask [groups, classes]."""
        mask = flags(candidates, "candidates", 2, MASK)
        refuse(~mask.any(1), lambda group: "the set of candidates is empty")
        return cls(mask, rates(miss_rate, "miss_rate", 1))

    @classmethod
    def complementary(cls, excluded: Numbers, num_classes: int, miss_rate: float = 0.0) -> PartialLabels:
        """From one class for each instance that it is *not*: the candidates are all the others."""
        wrong = classes(excluded, "excluded", num_classes)
        return cls.of(~one_hot(wrong, num_classes).bool(), miss_rate)

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        num_classes: int,
        ratio: float,
        miss_rate: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> PartialLabels:
        """Every wrong class joins the true one with probability `ratio`; where the true class is missed, another
        that was not in the set takes its place."""
        true = one_hot(classes(labels, "labels", num_classes), num_classes).bool()
        mask = true | (torch.rand(true.shape, generator=generator) < rates(ratio, "ratio", 1))
        chosen = torch.where(mask, -1.0, torch.rand(true.shape, generator=generator)).argmax(1)
        missed = (torch.rand(len(true), generator=generator) < rates(miss_rate, "miss_rate", 1)) & ~mask.all(1)
        swapped = mask & ~true | one_hot(chosen, num_classes).bool()
        return cls.of(torch.where(missed[:, None], swapped, mask), miss_rate)

    @classmethod
    def from_columns(cls, request: KindRequest) -> PartialLabels:
        """The candidates, or one class that is excluded."""
        if "excluded" in request.weak:
            return cls.complementary(request.weak["excluded"], request.num_classes, **request.options)
        return cls.of(request.weak["candidates"], **request.options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.candidates.shape[1]

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """log of the weights above."""
        chosen = self.candidates.sum(1, keepdim=True).double()
        others = self.num_classes - chosen
        inside = torch.where(others == 0, 1.0, 1 - self.miss_rate)
        outside = self.miss_rate * chosen / others.clamp_min(1.0)
        return torch.where(self.candidates, inside, outside).log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        chosen, all_classes, miss = int(self.candidates[group].sum()), self.num_classes, float(self.miss_rate)
        if chosen == all_classes:
            return 1.0
        return 1 - miss if bool(self.candidates[group, labels[0]]) else miss * chosen / (all_classes - chosen)

    def describe(self, group: int, names: Names = None) -> str:
        """The set."""
        return f"one label of {listed(self.candidates[group], names)}"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2"]:
        """How many sets missed the class, and how many held it; sets of all classes tell nothing."""
        telling = ~self.candidates.all(1, keepdim=True)
        marginals = torch.where(telling, posterior.marginals[:, 0].double(), 0.0)
        held = torch.where(self.candidates, marginals, 0.0).sum()
        return torch.stack([marginals.sum() - held, held])

    def relearned(self, counts: Float[Tensor, "2"]) -> PartialLabels:
        """With the share of sets that missed as the miss rate."""
        return changed(self, miss_rate=share(counts[:1], counts.sum(), self.miss_rate))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A rate that is rather too high."""
        return {"miss_rate": 0.3}

    def bounded(self) -> PartialLabels:
        """A set speaks for its classes."""
        most = MOST * (1 - self.candidates.double().mean())
        return changed(self, miss_rate=self.miss_rate.minimum(most)) if len(self) else self

    def noise(self, names: Names = None) -> dict[str, float]:
        """The miss rate."""
        return {"miss rate": float(self.miss_rate)}

    def noise_counts(self) -> Float[Tensor, "2"]:
        """One set, missed at the present rate."""
        return torch.cat([self.miss_rate, 1 - self.miss_rate])


@dataclass(frozen=True, eq=False)
class NoisyCandidates(AbstractTableKind, LearnsNoise):
    """A set of classes for each instance, each there or not by its own chance. Groups of one instance.

    With T[y, k] the probability that class k is in the set when the true class is y, independently of the others:

        p(w | y) = Π_{k in S} T[y, k] · Π_{k not in S} (1 - T[y, k])

    For candidate sets with confusable classes, for the ticks of a crowd, for several weak labelers at once. T is given,
    or learned from an initial matrix; the set may be empty. `PartialLabels` without misses has a diagonal of 1
    and one common value elsewhere.

    >>> weak = NoisyCandidates.of([[1, 0]], inclusion=[[0.9, 0.2], [0.4, 0.7]])
    >>> weak.log_table().exp()
    tensor([[0.7200, 0.1200]], dtype=torch.float64)
    """

    noun: ClassVar[str] = "candidate set"

    size: ClassVar[int] = 1
    candidates: Bool[Tensor, "groups classes"]
    inclusion: Float[Tensor, "classes classes"] = field(metadata=SHARED)

    @classmethod
    def of(cls, candidates: Numbers, inclusion: Numbers) -> NoisyCandidates:
        """From a mask [groups, classes] and the matrix T, a row for each true class."""
        mask, matrix = flags(candidates, "candidates", 2, MASK), shares(inclusion, "inclusion", 2)
        if matrix.shape != (mask.shape[1], mask.shape[1]):
            raise DataError(f"inclusion must be [{mask.shape[1]}, {mask.shape[1]}], found {list(matrix.shape)}")
        return cls(mask, matrix)

    @classmethod
    def from_labels(
        cls, labels: Numbers, inclusion: Numbers, generator: torch.Generator | None = None
    ) -> NoisyCandidates:
        """Every class joins the set with its probability for the true class."""
        matrix = shares(inclusion, "inclusion", 2)
        rows = matrix[classes(labels, "labels", len(matrix))]
        return cls.of(torch.rand(rows.shape, generator=generator) < rows, matrix)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.candidates.shape[1]

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """log of the product above."""
        inside, outside = self.inclusion.log(), (-self.inclusion).log1p()
        return torch.where(self.candidates[:, None], inside, outside).sum(2)

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        chances: list[float] = self.inclusion[labels[0]].tolist()
        return math.prod(
            chance if inside else 1 - chance
            for chance, inside in zip(chances, self.candidates[group].tolist(), strict=True)
        )

    def describe(self, group: int, names: Names = None) -> str:
        """The set."""
        return f"one label with candidates {listed(self.candidates[group], names)}"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "classes classes_and_one"]:
        """For each true class how often each class was in the set, and how often the true class occurred."""
        marginals = posterior.marginals[:, 0].double()
        return torch.cat([marginals.T @ self.candidates.double(), marginals.sum(0)[:, None]], 1)

    def relearned(self, counts: Float[Tensor, "classes classes_and_one"]) -> NoisyCandidates:
        """With the shares of each true class."""
        return changed(self, inclusion=share(counts[:, :-1], counts[:, -1:], self.inclusion))

    def bounded(self) -> NoisyCandidates:
        """Each class in a set speaks most for itself."""
        return changed(self, inclusion=bounded_matrix(self.inclusion))

    def noise(self, names: Names = None) -> dict[str, float]:
        """Each entry of T."""
        return {
            f"{called(joined, names)} in sets of {called(truth, names)}": float(self.inclusion[truth, joined])
            for truth in range(self.num_classes)
            for joined in range(self.num_classes)
        }

    def noise_counts(self) -> Float[Tensor, "classes classes_and_one"]:
        """One set of each true class."""
        return torch.cat([self.inclusion, torch.ones_like(self.inclusion[:, :1])], 1)
