"""`Constraints`: whatever the user can write down, as text or as an automaton, for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from glws.automata import Automaton, SumRange, constraint, sum_range
from glws.errors import DataError, GlwsError
from glws.inference import AbstractForm, Automata, KnownLabels, Sums
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._wording import Names

Classes = int | tuple[str, ...]
MOST_STEPS = 10_000
"""Sums of values that are further apart are left to automata."""
Values = tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, eq=False)
class Constraints(AbstractSupervision):
    """A constraint for each group, as a text of the constraint language or as an `Automaton`.

    A text is read for the length of its group, so that shares of `length` mean the group's own.

    `known` gives labels of some instances of a group, `{place in the group: label}`. Such instances need no features
    and no prediction: the constraint speaks of the whole group, the data set holds the other instances, in their order.

    >>> weak = Constraints.of(["count(cat) == 1", "majority(dog)"], classes=("cat", "dog"))
    >>> weak.automaton(1, length=4).count(4)
    5
    >>> sums = Constraints.of(["y[0] + y[1] == y[2]"] * 2, classes=10, known=[{2: 3}, {2: 17 % 10}])
    >>> list(sums.automaton(0, length=2).labelings(2))
    [(0, 3), (1, 2), (2, 1), (3, 0)]
    """

    name: ClassVar[str] = "constraints"
    noun: ClassVar[str] = "constraint"
    columns: ClassVar[Columns] = ({"constraint": "text"},)

    wanted: tuple[str | Automaton, ...]
    classes: Classes = field(metadata=SHARED)
    known: Int[Tensor, "groups places"]
    values: Values = field(default=(), metadata=SHARED)

    @classmethod
    def of(
        cls,
        wanted: Sequence[str | Automaton],
        classes: int | Sequence[str],
        known: Sequence[Mapping[int, int | str]] | None = None,
        values: Mapping[str, Sequence[float]] | None = None,
    ) -> Constraints:
        """From any sequence; `classes` is their number or their names, `values` the tables that texts may use."""
        if isinstance(wanted, str | Automaton):
            raise DataError("wanted has one constraint for each group; pass a list, also for one group")
        names = classes if isinstance(classes, int) else tuple(classes)
        for group, item in enumerate(wanted):
            if not isinstance(item, str | Automaton):
                raise DataError(f"group {group}: expected a text or an Automaton, found {type(item).__name__}")
        given = [{}] * len(wanted) if known is None else list(known)
        if len(given) != len(wanted):
            raise DataError(f"there are {len(wanted)} constraints but known labels of {len(given)} groups")
        tables = tuple((name, tuple(table)) for name, table in (values or {}).items())
        return cls(tuple(wanted), names, _label_table(given, names), tables)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Constraints:
        """The texts; they name classes as the table does, by number where it has only numbers."""
        classes: Any = request.num_classes if request.classes[0] == "0" else request.classes
        return cls.of([str(text) for text in request.weak["constraint"]], classes)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """An automaton for each group; `Sums` if all texts are ranges of one sum. Equal texts are read once."""
        sizes = self._sizes(lengths).tolist()
        form = self._sums(sizes) or self._automata(sizes)
        if not self.known.shape[1]:
            return form
        missing = max(max(sizes, default=0) - self.known.shape[1], 0)
        return KnownLabels(form, pad(self.known, (0, missing), value=-1))

    def _automata(self, sizes: Sequence[int]) -> AbstractForm:
        automata = [self._read(item, size) for item, size in zip(self.wanted, sizes, strict=True)]
        return Automata.of(automata, len(automata))

    def _sums(self, sizes: Sequence[int]) -> AbstractForm | None:
        """The sums of which all texts give the range, in linear time."""
        ranges: list[SumRange] = []
        for item, size in zip(self.wanted, sizes, strict=True):
            found = _read_sum(item, self.classes, size, self.values) if isinstance(item, str) else None
            if found is None or (ranges and found.values != ranges[0].values):
                return None
            ranges.append(found)
        if not ranges or max(ranges[0].values) - min(ranges[0].values) > MOST_STEPS:
            return None
        low, high = torch.tensor([(found.low, found.high) for found in ranges], dtype=torch.float64).T.unbind()
        return Sums(low.contiguous(), high.contiguous(), ranges[0].values)

    def check_readable(self, lengths: Int[Tensor, "groups"]) -> None:
        """Reads the text of every group, each once for each length."""
        seen = set()
        for group, pair in enumerate(zip(self.wanted, lengths.tolist(), strict=True)):
            if pair not in seen:
                seen.add(pair)
                try:
                    self._read(*pair)
                except GlwsError as error:
                    raise DataError(f"group {group}: {str(error).splitlines()[0]}, in {pair[0]!r}") from error

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """0 where the constraint holds, -inf where it does not; the log-weight of a weighted automaton."""
        row, others = self.known[group].tolist(), iter(labels)
        size = len(labels) + sum(label >= 0 for label in row)
        if any(label >= 0 for label in row[size:]):
            return -torch.inf
        row = (row + [-1] * size)[:size]
        whole = [next(others) if label < 0 else label for label in row]
        return self._read(self.wanted[group], size).log_weight(whole)

    def check(self, lengths: Sequence[int] | Tensor, num_classes: int, names: Names = None) -> None:
        """Also raises `DataError` where a known label has no place in its group."""
        sizes = self._sizes(torch.as_tensor(lengths)) if len(lengths) == len(self) else torch.zeros(0)
        for group, size in enumerate(sizes.tolist()):
            last = max((self.known[group] >= 0).nonzero()[:, 0].tolist(), default=-1)
            if last >= size:
                raise DataError(
                    f"group {group}: the label of instance {last} is known, but the group has {size} instances, "
                    "known ones included"
                )
        super().check(lengths, num_classes, names)

    def describe(self, group: int, names: Names = None) -> str:
        """The text itself, and how many labels are given."""
        item = self.wanted[group]
        given = int((self.known[group] >= 0).sum())
        labels = "" if not given else f" with {given} known label" + ("s" if given > 1 else "")
        return (f'"{item}"' if isinstance(item, str) else repr(item)) + labels

    def _sizes(self, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups"]:
        """Of the whole groups."""
        return lengths.cpu() + (self.known.cpu() >= 0).sum(1)

    def _read(self, item: str | Automaton, length: int) -> Automaton:
        return item if isinstance(item, Automaton) else _read_text(item, self.classes, length, self.values)


@lru_cache(maxsize=4096)
def _read_text(text: str, classes: Classes, length: int, values: Values) -> Automaton:
    return constraint(text, classes, length, values=dict(values))


@lru_cache(maxsize=4096)
def _read_sum(text: str, classes: Classes, length: int, values: Values) -> SumRange | None:
    return sum_range(text, classes, length, values=dict(values))


def _label_table(given: Sequence[Mapping[int, int | str]], classes: Classes) -> Int[Tensor, "groups places"]:
    """The known labels at their places, -1 elsewhere."""
    width = max((place + 1 for labels in given for place in labels), default=0)
    table = torch.full((len(given), width), -1)
    for group, labels in enumerate(given):
        for place, label in labels.items():
            table[group, _checked_place(group, place)] = _class_number(group, place, label, classes)
    return table


def _checked_place(group: int, place: int) -> int:
    if place < 0:
        raise DataError(f"group {group}: the place of a known label is counted from 0, found {place}")
    return place


def _class_number(group: int, place: int, label: int | str, classes: Classes) -> int:
    names = () if isinstance(classes, int) else classes
    number = names.index(label) if isinstance(label, str) and label in names else label
    size = classes if isinstance(classes, int) else len(classes)
    if isinstance(number, str) or not 0 <= number < size:
        shown = f"0..{size - 1}" + (f" or {', '.join(names)}" if 0 < len(names) <= 10 else "")
        raise DataError(f"group {group}: the known label of instance {place} is one of {shown}, found {label!r}")
    return int(number)
