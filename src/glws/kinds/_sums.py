"""`Sums`: the sum of a value per class over the labels of a group, such as the sum of digits or a total price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import Sums as SumsForm
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._arrays import Numbers, reals, refuse, same_length, true_labels
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._wording import Names

Values = int | Sequence[float]
"""The value of each class; a number of classes stands for the values 0, 1, 2, ..."""
MOST_STEPS = 10_000
"""Values that are further apart are refused: time and memory grow with their distance."""


@dataclass(frozen=True, eq=False)
class Sums(AbstractSupervision):
    """The sum of a value per class: at least `low` and at most `high`, or near it.

        p(w | y) = 1 where low <= Σ_j values[y_j] <= high, else exp(-distance / scale), or 0 with scale 0

    `of` gives exact sums, `between` ranges (`-inf` and `inf` are no bound). `scale` is that of two-sided exponential
    (Laplace) noise on the sum. Time and memory are linear in the size of the group.

    >>> weak = Sums.of([3], values=10)
    >>> weak.infer(torch.full((1, 2, 10), 0.1).log()).marginals[0, 0, :5]
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.0000])
    """

    name: ClassVar[str] = "sums"
    noun: ClassVar[str] = "sum"
    columns: ClassVar[Columns] = ({"sum": "number"}, {"low": "number", "high": "number"})
    options: ClassVar[tuple[str, ...]] = ("values", "scale")

    low: Float[Tensor, "groups"]
    high: Float[Tensor, "groups"]
    values: tuple[float, ...] = field(metadata=SHARED)
    scale: float = field(default=0.0, metadata=SHARED)

    @classmethod
    def of(cls, sums: Numbers, values: Values, scale: float = 0.0) -> Sums:
        """Exactly these sums, or these with noise."""
        read = reals(sums, "sums")
        return cls._checked(read, read, values, scale)

    @classmethod
    def between(cls, low: Numbers, high: Numbers, values: Values, scale: float = 0.0) -> Sums:
        """At least `low` and at most `high`."""
        least, most = reals(low, "low"), reals(high, "high")
        same_length("low and high", least, most)
        refuse(least > most, lambda group: f"the range from {float(least[group])} to {float(most[group])} is empty")
        return cls._checked(least, most, values, scale)

    @classmethod
    def _checked(cls, low: Tensor, high: Tensor, values: Values, scale: float) -> Sums:
        table = tuple(range(values)) if isinstance(values, int) else tuple(values)
        if not table or not all(math.isfinite(value) for value in table):
            raise DataError(f"values must be one finite number for each class, found {list(table)}")
        if not (math.isfinite(scale) and scale >= 0):
            raise DataError(f"scale must be a finite number >= 0, found {scale}")
        if scale > 0 and bool((low.isinf() & high.isinf()).any()):
            raise DataError("a sum without bounds has no noise; leave the group out")
        steps, _ = _in_steps(table)
        if max(steps) - min(steps) > MOST_STEPS:
            raise DataError(
                f"values are {max(steps) - min(steps):,} steps apart, at most {MOST_STEPS:,} are possible; round them"
            )
        return cls(low, high, table, float(scale))

    @classmethod
    def from_labels(
        cls, labels: Numbers, lengths: Numbers | None = None, values: Values = 2, scale: float = 0.0
    ) -> Sums:
        """The sums of groups with these true labels, [groups, instances] with padding."""
        table = torch.tensor(tuple(range(values)) if isinstance(values, int) else tuple(values), dtype=torch.float64)
        read = true_labels(labels, lengths, len(table))
        sizes = torch.full((len(read),), read.shape[1]) if lengths is None else torch.as_tensor(lengths)
        real = torch.arange(read.shape[1]) < sizes[:, None]
        return cls.of(torch.where(real, table[read], 0.0).sum(1), table.tolist(), scale)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Sums:
        """A sum or a range; classes whose names are numbers have these as values, unless `values` gives others."""
        values, scale = _table(request), float(request.options.get("scale", 0.0))
        if "sum" in request.weak:
            return cls.of(request.weak["sum"], values, scale)
        return cls.between(request.weak["low"], request.weak["high"], values, scale)

    @classmethod
    def weaken(
        cls, labels: Tensor, num_classes: int, *, generator: torch.Generator, group_size: int = 4, scale: float = 0.0
    ) -> tuple[Tensor, Sums]:
        """Groups of `group_size` instances at random, each instance in one, and the sums of their class numbers."""
        count = len(labels) // group_size
        groups = torch.randperm(len(labels), generator=generator)[: count * group_size].view(count, group_size)
        sums = labels[groups].double().sum(1)
        if scale > 0:
            signs = torch.rand(count, generator=generator, dtype=torch.float64) - 0.5
            sums = (sums - scale * signs.sign() * (-2 * signs.abs()).log1p()).round()
        return groups, cls.of(sums, num_classes, scale)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.values)

    def form(self, lengths: Int[Tensor, "groups"]) -> SumsForm:
        """By the engine of sums, in whole steps of the values."""
        steps, unit = _in_steps(self.values)
        return SumsForm(self.low * unit, self.high * unit, steps, self.scale * unit)

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        total = float(sum(Fraction(str(self.values[label])) for label in labels))
        distance = max(float(self.low[group]) - total, total - float(self.high[group]), 0.0)
        if distance < 1e-9:
            return 0.0
        return -distance / self.scale if self.scale > 0 else -math.inf

    def describe(self, group: int, names: Names = None) -> str:
        """The sum or the range."""
        low, high = float(self.low[group]), float(self.high[group])
        near = "near " if self.scale > 0 else ""
        return f"sum {near}{low:g}" if low == high else f"sum {near}{low:g} to {high:g}"


def _in_steps(values: Sequence[float]) -> tuple[tuple[int, ...], int]:
    """The values as whole multiples of a common part of one, and that part: 0.5 and 2.25 are 2 and 9 fourths."""
    exact = [Fraction(str(value)) for value in values]
    unit = math.lcm(*(value.denominator for value in exact))
    return tuple(int(value * unit) for value in exact), unit


def _table(request: KindRequest) -> Values:
    """The option `values`, as a list or by name of the class; else the names of the classes as numbers."""
    given: Any = request.options.get("values")
    if isinstance(given, Mapping):
        missing = [name for name in request.classes if name not in {str(key) for key in given}]
        if missing:
            raise DataError(f"option values: class {missing[0]!r} has no value")
        by_name = {str(key): float(value) for key, value in given.items()}
        return [by_name[name] for name in request.classes]
    if given is not None:
        if not isinstance(given, Sequence) or len(given) != request.num_classes:
            raise DataError(f"option values: expected one number for each of {request.num_classes} classes")
        return [float(value) for value in given]
    try:
        return [float(name) for name in request.classes]
    except ValueError:
        example = ", ".join(f"{name}: {number}" for number, name in enumerate(request.classes[:2]))
        raise DataError(
            f"class names are not numeric, so give their values: options: {{values: {{{example}}}}}"
        ) from None
