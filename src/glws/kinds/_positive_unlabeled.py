"""`PositiveUnlabeled`: some positives are labeled, everything else is unlabeled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, Selected, TableWeights
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, flags
from glws.kinds._class_prior import Prior, checked_prior
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._labels import Labels
from glws.kinds._narrowing import Narrowed, by_table
from glws.kinds._sets import AbstractRowsInSets, Part, single_groups, unlabeled_part
from glws.kinds._wording import Names, called

Scenario = Literal["single_training_set", "case_control"]
"""How positive and unlabeled rows were sampled; see `PositiveUnlabeled`."""
UNLABELED, WRITTEN_UNKNOWN = -1, -2
"""Marks of rows: nothing is written, and -1 is written, beside 1 (positive) and 0."""


@dataclass(frozen=True, eq=False)
class PositiveUnlabeled(AbstractRowsInSets, AbstractTableKind):
    """Whether a row is a labeled positive or unlabeled, of two classes. Groups of one instance.

    With n_P labeled and n_U unlabeled rows, and positives labeled regardless of their features:

    `scenario="single_training_set"`, the default: all rows are one sample of the population, `prior` is its share π of
        positives, labeled ones included. p(labeled | y = 1) = c = n_P / (π (n_P + n_U)), and 0 for y = 0.
    `scenario="case_control"`: the unlabeled rows are a sample of the population, with prior π, and the labeled ones a
        separate sample of its positives. A row is in the data with a probability in proportion to n_P / π + n_U if
        positive, and to n_U if negative; the likelihood is of rows that are in the data, p(w | x, in the data).

    Networks learn from it as `Labels` and `Unlabeled` sets (`parts`). Of these, a single training set and a
    case-control sample differ in the prior of the unlabeled rows: (π n - n_P) / n_U, and π.

    `prior` is a number, "estimate", or a range (a, b) that the estimate is kept in. An estimate needs the features:
    training makes it (`glws.selection.resolve_priors`).

    >>> weak = PositiveUnlabeled.of([1, 0, 0, 0], prior=0.5)
    >>> weak.infer(torch.full((4, 1, 2), 0.5).log()).marginals[:, 0, 1]
    tensor([1.0000, 0.3333, 0.3333, 0.3333])
    """

    name: ClassVar[str] = "positive_unlabeled"
    noun: ClassVar[str] = "row"
    columns: ClassVar[Columns] = ({"positive": "positive or none"},)
    options: ClassVar[tuple[str, ...]] = ("prior", "scenario", "unlabeled")
    may_be_unknown: ClassVar[bool] = True

    size: ClassVar[int] = 1
    labeled: Bool[Tensor, "groups"]
    prior: float | None = field(metadata=SHARED)
    """π, or None where it is still to be estimated."""
    limits: tuple[float, float] = field(default=(0.0, 1.0), metadata=SHARED)
    """What an estimate is kept in; of an estimate, the ends of its interval."""
    scenario: Scenario = field(default="single_training_set", metadata=SHARED)
    numbers: tuple[int, int] = field(default=(0, 0), metadata=SHARED)
    """How many rows are labeled and unlabeled, in all the data."""

    @classmethod
    def of(
        cls, labeled: Numbers, prior: Prior = "estimate", scenario: Scenario = "single_training_set"
    ) -> PositiveUnlabeled:
        """From true (a labeled positive) and false (unlabeled)."""
        marks = flags(labeled, "labeled", hint="1 is a labeled positive, 0 unlabeled")
        if scenario not in get_args(Scenario):
            raise DataError(f"scenario must be one of {', '.join(get_args(Scenario))}, found {scenario!r}")
        number, limits = checked_prior(prior)
        numbers = (int(marks.sum()), int((~marks).sum()))
        found = cls(marks, number, limits, scenario, numbers)
        found._check_numbers()
        return found

    def _check_numbers(self) -> None:
        positive, unlabeled = self.numbers
        if not positive or not unlabeled:
            found = "every row is labeled" if positive else "no row is labeled"
            raise DataError(f"positive-unlabeled data need labeled positives and unlabeled rows, but {found}")
        if self.scenario == "single_training_set" and self.prior is not None and self.prior < self.least_prior:
            raise DataError(
                f"prior {self.prior:g} is below {self.least_prior:.3g}, the share of labeled rows; it is the share of "
                "positives among all rows, labeled ones included (of the unlabeled only: scenario: case_control)"
            )

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        num_labeled: int,
        prior: Prior = "estimate",
        generator: torch.Generator | None = None,
    ) -> PositiveUnlabeled:
        """So many of the positives labeled, drawn at random; a single training set."""
        true = flags(labels, "labels")
        places = true.nonzero()[:, 0]
        if not 0 < num_labeled <= len(places):
            raise DataError(
                f"num_labeled must be from 1 to {len(places)}, the number of positives, found {num_labeled}"
            )
        marks = torch.zeros_like(true)
        marks[places[torch.randperm(len(places), generator=generator)[:num_labeled]]] = True
        return cls.of(marks, prior)

    @classmethod
    def depends_on_all(cls, options: Mapping[str, Any]) -> bool:
        """True: the prior of unlabeled rows follows from how many rows are labeled."""
        return True

    @classmethod
    def from_columns(cls, request: KindRequest) -> PositiveUnlabeled:
        """The marks: 1, and empty; -1 or 0 for unlabeled where `unlabeled` says so."""
        if request.num_classes != 2:
            raise DataError(f"positive_unlabeled is about 2 classes, found {request.num_classes}")
        options = {name: value for name, value in request.options.items() if name != "unlabeled"}
        return cls.of(labeled_rows(request.weak["positive"], request.options.get("unlabeled")), **options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    @property
    def num_labels(self) -> int:
        """How many positives are labeled."""
        return int(self.labeled.sum())

    @property
    def least_prior(self) -> float:
        """The smallest prior that these data allow: in a single training set, the share of labeled rows."""
        return self.numbers[0] / sum(self.numbers) if self.scenario == "single_training_set" else 0.0

    @property
    def needs_prior(self) -> bool:
        """Whether the prior is still to be estimated."""
        return self.prior is None

    def with_prior(self, estimate: float) -> PositiveUnlabeled:
        """The same rows with an estimate of the prior, kept within the limits."""
        low, high = max(self.limits[0], self.least_prior), self.limits[1]
        if low > high:
            raise DataError(
                f"the prior must be in {list(self.limits)}, but {low:.3g} of the rows are labeled positives"
            )
        kept = min(max(estimate, low), high)
        return replace(self, prior=min(max(kept, 1e-6), 1 - 1e-6))

    def population_prior(self, share: float) -> float:
        """The prior that a share of positives among the unlabeled rows amounts to."""
        positive, unlabeled = self.numbers
        return share if self.scenario == "case_control" else (positive + share * unlabeled) / (positive + unlabeled)

    def unlabeled_prior(self) -> float:
        """The share of positives among the unlabeled rows."""
        positive, unlabeled = self.numbers
        if self.scenario == "case_control":
            return self._prior()
        return (self._prior() * (positive + unlabeled) - positive) / unlabeled

    def parts(self, generator: torch.Generator) -> tuple[Part, ...]:
        """Labels of the positives, and sets of unlabeled rows."""
        singles = single_groups(self.labeled)
        labels = Part(singles, Labels.of([1] * len(singles), 2))
        if not bool((~self.labeled).any()):
            return (labels,)
        return labels, unlabeled_part(~self.labeled, self.unlabeled_prior(), generator)

    def class_prior(self) -> Float[Tensor, "classes"] | None:
        """The prior, where it is that of all rows."""
        if self.scenario == "case_control" or self.prior is None:
            return None
        return torch.tensor([1 - self.prior, self.prior], dtype=torch.float64)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The table; of a case-control sample, given that the row is in it."""
        table = TableWeights(self.log_table())
        if self.scenario == "single_training_set":
            return table
        in_data = torch.tensor(self._chances()[1], dtype=torch.float64, device=self.labeled.device).log()
        return Selected(table, TableWeights(in_data.expand(len(self), 2)))

    def log_table(self) -> Float[Tensor, "groups 2"]:
        """log p(w | y), or log p(w, in the data | y), for y = 0 and 1."""
        labeled, either = (torch.tensor(each, dtype=torch.float64) for each in self._chances())
        rows = torch.stack([either - labeled, labeled]).to(self.labeled.device)
        return rows[self.labeled.long()].log()

    def _chances(self) -> tuple[list[float], list[float]]:
        """For y = 0 and 1, the probability to be in the data and labeled, and to be in the data."""
        positive, unlabeled = self.numbers
        if self.scenario == "single_training_set":
            return [0.0, positive / (self._prior() * (positive + unlabeled))], [1.0, 1.0]
        share = unlabeled / (positive / self._prior() + unlabeled)
        return [0.0, 1 - share], [share, 1.0]

    def _prior(self) -> float:
        if self.prior is None:
            raise DataError("the prior is to be estimated from the features: call glws.selection.resolve_priors first")
        return self.prior

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """A labeled row is positive; an unlabeled one may be either while some positives are unlabeled."""
        all_labeled = self.prior is not None and self._chances()[0][1] == 1
        either = torch.tensor([[True, not all_labeled], [False, True]], device=self.labeled.device)
        return by_table(allowed, lengths, 1, lambda groups: either[self.labeled[groups].long()])

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """c or 1 - c for a positive, 0 or 1 for a negative; in a case-control sample in proportion to the numbers."""
        labeled, either = (chances[labels[0]] for chances in self._chances())
        return labeled if bool(self.labeled[group]) else either - labeled

    def describe(self, group: int, names: Names = None) -> str:
        """Labeled or not."""
        return f"a labeled {called(1, names)}" if bool(self.labeled[group]) else "an unlabeled row"


def labeled_rows(marks: Any, unlabeled: Any = None) -> list[bool]:
    """Which rows are labeled positives, from marks 1, 0, `UNLABELED` (empty) and `WRITTEN_UNKNOWN` (-1).

    >>> labeled_rows([1, UNLABELED]), labeled_rows([1, 0], unlabeled=0)
    ([True, False], [True, False])
    """
    if unlabeled is not None and (isinstance(unlabeled, bool) or unlabeled not in (0, -1)):
        raise DataError(f"unlabeled says what stands for an unlabeled row: 0 or -1; found {unlabeled!r}")
    read = np.asarray(marks).astype(np.int64)
    for mark, shown in ((0, 0), (WRITTEN_UNKNOWN, -1)):
        if unlabeled != shown and (read == mark).any():
            row = int(np.flatnonzero(read == mark)[0])
            raise DataError(
                f"group {row}: found {shown}; positive_unlabeled knows 1 and empty cells: if {shown} means unlabeled, "
                f"add the option unlabeled: {shown}; if it means negative, the kind is labels"
            )
    return (read == 1).tolist()  # type: ignore[no-any-return]
