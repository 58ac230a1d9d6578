"""`Proportions`: how many labels of a group are of one class. `ClassCounts`: of every class at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from glws.errors import DataError
from glws.inference import Between, Counts, Exactly, JointCounts, only_counted
from glws.inference._joint.limits import most_states
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._arrays import (
    Numbers,
    class_mask,
    label_counts,
    refuse,
    same_length,
    shares,
    true_labels,
    whole_counts,
    whole_numbers,
)
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._narrowing import Narrowed, by_counted, by_counts, counts_of_classes
from glws.kinds._wording import Names, called, of_classes

Method = Literal["auto", "exact", "tilted"]
"""How counts of several classes are answered; see `ClassCounts`."""
METHODS = ("auto", "exact", "tilted")
COUNTS = (
    "one whole count for each group; shares are Proportions.from_shares, counts of every class ClassCounts.of, counts "
    "with noise NoisyProportions.of"
)
"""What to write instead of numbers that are no counts."""


@dataclass(frozen=True, eq=False)
class Proportions(AbstractSupervision):
    """How many labels of a group are among the counted classes: at least `low` and at most `high`.

        p(w | y) = 1 where low <= #{j: y_j is counted} <= high, else 0

    `of` gives exact counts, `from_shares` shares of the group, `between` ranges, `around` counts known to within so
    many. For counts with random noise see `NoisyProportions`, for all classes at once `ClassCounts`.

    >>> weak = Proportions.of([2])
    >>> weak.infer(torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]]).log()).marginals[0, :, 1]
    tensor([0.9457, 0.1318, 0.7003, 0.2222])
    """

    name: ClassVar[str] = "proportions"
    noun: ClassVar[str] = "bag"
    columns: ClassVar[Columns] = (
        {"count": "count"},
        {"share": "share"},
        {"low": "count", "high": "count"},
        {"counts": "count of each class"},
    )
    options: ClassVar[tuple[str, ...]] = ("counted", "within")

    low: Int[Tensor, "groups"]
    high: Int[Tensor, "groups"]
    counted: Bool[Tensor, "classes"] = field(metadata=SHARED)

    @classmethod
    def of(cls, counts: Numbers, counted: int | Sequence[int] = 1, num_classes: int = 2) -> Proportions:
        """Exactly so many."""
        read = whole_counts(counts, "counts", hint=COUNTS)
        return cls(read, read, class_mask(counted, num_classes))

    @classmethod
    def between(
        cls, low: Numbers, high: Numbers, counted: int | Sequence[int] = 1, num_classes: int = 2
    ) -> Proportions:
        """At least `low` and at most `high`."""
        least, most = whole_numbers(low, "low", hint=COUNTS), whole_counts(high, "high", hint=COUNTS)
        same_length("low and high", least, most)
        refuse(least > most, lambda group: f"the range from {int(least[group])} to {int(most[group])} is empty")
        return cls(least, most, class_mask(counted, num_classes))

    @classmethod
    def around(
        cls, counts: Numbers, within: int, counted: int | Sequence[int] = 1, num_classes: int = 2
    ) -> Proportions:
        """Counts that are off by `within` at most."""
        read = whole_counts(counts, "counts", hint=COUNTS)
        return cls.between(read - within, read + within, counted, num_classes)

    @classmethod
    def from_shares(
        cls, proportions: Numbers, lengths: Numbers, counted: int | Sequence[int] = 1, num_classes: int = 2
    ) -> Proportions:
        """From the share of each group that is counted, within 0 and 1; the nearest whole count."""
        part, sizes = (
            shares(proportions, "proportions", hint="divide percentages by 100"),
            whole_numbers(lengths, "lengths"),
        )
        same_length("proportions and lengths", part, sizes)
        return cls.of((part * sizes).round(), counted, num_classes)

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        lengths: Numbers | None = None,
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
    ) -> Proportions:
        """The counts of groups with these true labels, [groups, instances] with padding."""
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes)
        return cls.of((occurs * class_mask(counted, num_classes)).sum(1), counted, num_classes)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Proportions | ClassCounts:
        """A count, a share or a range of one class; `ClassCounts` of a count of each."""
        weak = request.weak
        if "counts" in weak:
            return ClassCounts.of(weak["counts"])
        if "share" in weak:
            return cls.of(_whole_counts(weak["share"], request.lengths), **request.counted())
        if "low" in weak:
            return cls.between(weak["low"], weak["high"], **request.counted())
        if "within" in request.options:
            return cls.around(weak["count"], **request.counted())
        return cls.of(weak["count"], **request.counted())

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.counted)

    def form(self, lengths: Int[Tensor, "groups"]) -> Counts:
        """By the count engine."""
        known = Exactly(self.low) if torch.equal(self.low, self.high) else Between(self.low, self.high)
        return Counts(self.counted.expand(len(self), -1), known, only_counted(self.counted.cpu().numpy()))

    def known_counts(self, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups classes"] | None:
        """Of two classes, where no count is a range."""
        if self.num_classes != 2 or int(self.counted.sum()) != 1 or not torch.equal(self.low, self.high):
            return None
        return torch.where(self.counted, self.low[:, None], (lengths - self.low)[:, None])

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        count = sum(bool(self.counted[label]) for label in labels)
        return 0.0 if int(self.low[group]) <= count <= int(self.high[group]) else -math.inf

    def describe(self, group: int, names: Names = None) -> str:
        """The range."""
        low, high = int(self.low[group]), int(self.high[group])
        how_many = f"exactly {low}" if low == high else f"between {low} and {high}"
        return f"{how_many} {of_classes(self.counted, names)}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the range."""
        return by_counted(allowed, lengths, self.counted, self.low, self.high)

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The range."""
        return counts_of_classes(self.counted, self.low, self.high, lengths)


@dataclass(frozen=True, eq=False)
class ClassCounts(AbstractSupervision):
    """How many labels of a group are of each class, [groups, classes]; together as many as there are instances.

        p(w | y) = 1 where every class k occurs exactly counts[k] times, else 0

    Exact while there are few count vectors, Π_k (counts[k] + 1), or few that matter under the predictions. Beyond that
    approximate, with an estimate of the error (`Posterior.error`); `solved_by` asks for either. `per_class()` is the
    paper's reduction: each class against the rest, as if the counts of the others were not known.

    >>> weak = ClassCounts.of([[1, 0, 2]])
    >>> weak.automaton(0, 3).count(3)
    3
    """

    noun: ClassVar[str] = "bag"
    is_multiclass: ClassVar[bool] = True

    counts: Int[Tensor, "groups classes"]
    method: Method = field(default="auto", metadata=SHARED)

    @classmethod
    def of(cls, counts: Numbers) -> ClassCounts:
        """From whole numbers >= 0."""
        hint = "a row of whole counts for each group; class shares that hold on average are UnlabeledClasses.of"
        return cls(whole_counts(counts, "counts", 2, hint))

    @classmethod
    def from_labels(cls, labels: Numbers, lengths: Numbers | None = None, num_classes: int = 2) -> ClassCounts:
        """The counts of groups with these true labels, [groups, instances] with padding."""
        return cls.of(label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes))

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.counts.shape[1]

    def form(self, lengths: Int[Tensor, "groups"]) -> JointCounts:
        """By the joint counts."""
        return JointCounts(self.counts, self.method, most_states(self.counts))

    def known_counts(self, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups classes"] | None:
        """All of them."""
        return self.counts

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        found = [list(labels).count(number) for number in range(self.num_classes)]
        return 0.0 if found == self.counts[group].tolist() else -math.inf

    def describe(self, group: int, names: Names = None) -> str:
        """The counts of the classes that occur."""
        counts = enumerate(self.counts[group].tolist())
        word = "class " if names is None else ""
        occurring = [f"{count} × {word}{called(number, names)}" for number, count in counts if count]
        return f"exactly {', '.join(occurring) or 'nothing'}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the counts."""
        return by_counts(allowed, lengths, torch.arange(self.num_classes), self.counts, self.counts)

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The counts."""
        return self.counts, self.counts

    def solved_by(self, method: Method) -> ClassCounts:
        """The same counts, always answered exactly ("exact"), by the tilt ("tilted"), or as is best ("auto")."""
        if method not in METHODS:
            raise DataError(f"method must be one of {', '.join(METHODS)}, found {method!r}")
        return replace(self, method=method)

    def per_class(self) -> Proportions:
        """Each class against the rest: groups x classes of them, class k of group g at g K + k."""
        return Proportions(self.counts.flatten(), self.counts.flatten(), class_mask(1, 2).to(self.counts.device))


def _whole_counts(shares_of_groups: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Counts from shares that were rounded to two decimals or better; a share that is no whole count is refused."""
    exact = shares_of_groups * lengths
    allowed = np.where(lengths <= 100, np.maximum(0.005 * lengths, 0.05), 0.05) + 1e-9
    wrong = np.flatnonzero(np.abs(exact - np.round(exact)) > allowed)
    if len(wrong):
        group = wrong[0]
        found = f"a share of {shares_of_groups[group]:g} of {lengths[group]} instances"
        raise DataError(f"group {group}: {found} is no whole number")
    return np.asarray(np.round(exact))
