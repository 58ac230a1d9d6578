"""`UnlabeledUnlabeled`: which of two unlabeled sets a row is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes, shares
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._sets import AbstractRowsInSets, Part, unlabeled_part
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class UnlabeledUnlabeled(AbstractRowsInSets, AbstractTableKind):
    """Which of two unlabeled sets each row is from; their shares θ of positives are known. Groups of one instance.

        p(set u | y) = n_u θ_u(y) / Σ_v n_v θ_v(y),   θ_u(1) = θ_u, θ_u(0) = 1 - θ_u

    The set is a class seen through noise, and the predictions are those of both sets together. The shares must differ,
    or nothing tells the classes apart.

    >>> weak = UnlabeledUnlabeled.of([0, 0, 1, 1], priors=[0.8, 0.2])
    >>> weak.infer(torch.full((4, 1, 2), 0.5).log()).marginals[:, 0, 1]
    tensor([0.8000, 0.8000, 0.2000, 0.2000])
    """

    name: ClassVar[str] = "unlabeled_unlabeled"
    noun: ClassVar[str] = "row"
    columns: ClassVar[Columns] = ({"set": "text"},)
    options: ClassVar[tuple[str, ...]] = ("priors",)
    trains_in_sets: ClassVar[bool] = False

    size: ClassVar[int] = 1
    number: Int[Tensor, "groups"]
    """0 for the first set, 1 for the second."""
    priors: tuple[float, float] = field(metadata=SHARED)
    sizes: tuple[int, int] = field(metadata=SHARED)
    """How many rows the sets have, in all the data."""

    @classmethod
    def of(cls, number: Numbers, priors: Sequence[float]) -> UnlabeledUnlabeled:
        """From 0 and 1 for each row, and the share of positives in either set."""
        found = classes(number, "number", 2, hint="0 is the first set, 1 the second")
        values = shares(priors, "priors").tolist()
        if len(values) != 2 or values[0] == values[1]:
            raise DataError(f"expected two priors that differ, one for each set, found {values}")
        sizes = (int((found == 0).sum()), int((found == 1).sum()))
        if not min(sizes):
            raise DataError(f"both sets need rows, found {sizes[0]} and {sizes[1]}")
        return cls(found, (values[0], values[1]), sizes)

    @classmethod
    def depends_on_all(cls, options: Mapping[str, Any]) -> bool:
        """True: each set must be there, and its size counts."""
        return True

    @classmethod
    def from_columns(cls, request: KindRequest) -> UnlabeledUnlabeled:
        """The names of the sets, and their shares of class 1 by name."""
        if request.num_classes != 2:
            raise DataError(f"unlabeled_unlabeled is about 2 classes, found {request.num_classes}")
        names = np.array([_name(value) for value in request.weak["set"]])
        priors, found = request.options.get("priors"), sorted(set(names.tolist()))
        if not isinstance(priors, Mapping) or {_name(key) for key in priors} != set(found) or len(found) != 2:
            wanted = ", ".join(f"{name}: 0.{number}" for name, number in zip(found[:2], (8, 2), strict=False))
            raise DataError(
                "unlabeled_unlabeled needs the share of positives in each of two sets, "
                f"options: {{priors: {{{wanted}}}}}; found priors {priors!r} and the sets {', '.join(found[:5])}"
            )
        known = {_name(key): value for key, value in priors.items()}
        return cls.of((names == found[1]).astype(np.int64), [known[name] for name in found])

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Two."""
        return 2

    def log_table(self) -> Float[Tensor, "groups 2"]:
        """log p(set | y) for y = 0 and 1."""
        return torch.tensor(self._chances(), dtype=torch.float64, device=self.number.device)[self.number].log()

    def _chances(self) -> list[list[float]]:
        """For each set, p(set | y = 0) and p(set | y = 1)."""
        joint = [[size * (1 - prior), size * prior] for size, prior in zip(self.sizes, self.priors, strict=True)]
        totals = [sum(column) or 1.0 for column in zip(*joint, strict=True)]
        return [[value / total for value, total in zip(row, totals, strict=True)] for row in joint]

    def parts(self, generator: torch.Generator) -> tuple[Part, ...]:
        """Unlabeled sets with two priors."""
        both = ((self.number == which, self.priors[which]) for which in (0, 1))
        return tuple(unlabeled_part(chosen, prior, generator) for chosen, prior in both if bool(chosen.any()))

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """p(set | y)."""
        return self._chances()[int(self.number[group])][labels[0]]

    def describe(self, group: int, names: Names = None) -> str:
        """The set."""
        which = int(self.number[group])
        return f"a row of the {('first', 'second')[which]} set, with a share {self.priors[which]:g} of positives"


def _name(value: object) -> str:
    """A set's name as text: 2019 for 2019.0.

    >>> _name(2019.0), _name("A")
    ('2019', 'A')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
