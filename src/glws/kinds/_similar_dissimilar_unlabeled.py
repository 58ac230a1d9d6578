"""`SimilarDissimilarUnlabeled`: pairs of the same or different classes, and unlabeled rows with a class prior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton, anything, string
from glws.errors import DataError
from glws.inference import Automata
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes_or_unknown
from glws.kinds._class_prior import checked_prior
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._pair_similarity import PairSimilarity
from glws.kinds._sets import AbstractRowsInSets, Part, single_groups, unlabeled_part
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class SimilarDissimilarUnlabeled(AbstractRowsInSets):
    """Pairs with 1 (same class) or 0 (different), and unlabeled rows with -1, of two classes with prior π.

        p(w | y) = [w = [y_1 = y_2]] for a pair, and 1 for an unlabeled row

    Pairs tell which rows are alike, and the prior which class is which; it must not be 1/2. Networks learn from
    `PairSimilarity` and `Unlabeled` sets.

    >>> weak = SimilarDissimilarUnlabeled.of([1, 0, -1], prior=0.3)
    >>> [weak.describe(group) for group in range(3)]
    ['a pair of the same class', 'a pair of different classes', 'an unlabeled row']
    """

    name: ClassVar[str] = "similar_dissimilar_unlabeled"
    noun: ClassVar[str] = "pair or row"
    columns: ClassVar[Columns] = ({"same": "flag or none"},)
    options: ClassVar[tuple[str, ...]] = ("prior",)
    may_be_unknown: ClassVar[bool] = True
    takes_single_rows: ClassVar[bool] = True
    form_tells_all: ClassVar[bool] = False

    same: Int[Tensor, "groups"]
    prior: float = field(metadata=SHARED)

    @classmethod
    def of(cls, same: Numbers, prior: float) -> SimilarDissimilarUnlabeled:
        """From 1, 0 and -1 (None, NaN) for each group, and the share of positives among the unlabeled rows."""
        number, _ = checked_prior(prior)
        if number is None or number == 0.5:
            raise DataError(f"prior must be a number between 0 and 1 other than 0.5, found {prior!r}")
        return cls(classes_or_unknown(same, "same", 2, hint="1 is the same class, 0 different, None unlabeled"), number)

    @classmethod
    def from_columns(cls, request: KindRequest) -> SimilarDissimilarUnlabeled:
        """The marks, and the prior among the options."""
        if request.num_classes != 2:
            raise DataError(f"similar_dissimilar_unlabeled is about 2 classes, found {request.num_classes}")
        if "prior" not in request.options:
            raise DataError("similar_dissimilar_unlabeled needs the share of positives, options: {prior: 0.3}")
        found = cls.of(request.weak["same"], request.options["prior"])
        wrong = (found.same >= 0).numpy() != (request.lengths == 2)
        if wrong.any():
            group = int(wrong.nonzero()[0][0])
            said = "a pair" if int(found.same[group]) >= 0 else "one unlabeled row"
            raise DataError(f"group {group}: {said}, by its mark, but it has {request.lengths[group]} rows")
        return found

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    def class_prior(self) -> Float[Tensor, "classes"]:
        """The prior of the unlabeled rows."""
        return torch.tensor([1 - self.prior, self.prior], dtype=torch.float64)

    def form(self, lengths: Int[Tensor, "groups"]) -> Automata:
        """One of three automata for each group."""
        return Automata(_automata(), self.same + 1)

    def parts(self, generator: torch.Generator) -> tuple[Part, ...]:
        """Pairs, and sets of unlabeled rows."""
        is_pair = self.same >= 0
        found: list[Any] = []
        if bool(is_pair.any()):
            found.append(Part(single_groups(is_pair), PairSimilarity.of(self.same[is_pair] == 1)))
        if bool((~is_pair).any()):
            found.append(unlabeled_part(~is_pair, self.prior, generator, "expected"))
        return tuple(found)

    def possible(self, lengths: Int[Tensor, "groups"]) -> Bool[Tensor, "groups"]:
        """Pairs have two rows."""
        return (self.same < 0) | (lengths.to(self.same.device) == 2)

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        mark = int(self.same[group])
        return 0.0 if mark < 0 or (len(labels) == 2 and (labels[0] == labels[1]) == bool(mark)) else -math.inf

    def describe(self, group: int, names: Names = None) -> str:
        """Same, different or unlabeled."""
        return ("a pair of different classes", "a pair of the same class", "an unlabeled row")[int(self.same[group])]


def _automata() -> tuple[Automaton, Automaton, Automaton]:
    """Anything; two labels that differ; two that are equal."""
    different, same = ([(0, 1), (1, 0)], [(0, 0), (1, 1)])
    first, second = (string(pairs[0], 2) | string(pairs[1], 2) for pairs in (different, same))
    return anything(2), first.minimize(), second.minimize()
