"""`Constraints`: whatever the user can write down, as text or as an automaton, for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton, constraint
from glws.errors import DataError, GlwsError
from glws.inference import Automata
from glws.kinds._abstract import SHARED, AbstractSupervision
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._wording import Names

Classes = int | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constraints(AbstractSupervision):
    """A constraint for each group, as a text of the constraint language or as an `Automaton`.

    A text is read for the length of its group, so that shares of `length` mean the group's own.

    >>> weak = Constraints.of(["count(cat) == 1", "majority(dog)"], classes=("cat", "dog"))
    >>> weak.automaton(1, length=4).count(4)
    5
    """

    name: ClassVar[str] = "constraints"
    noun: ClassVar[str] = "constraint"
    columns: ClassVar[Columns] = ({"constraint": "text"},)

    wanted: tuple[str | Automaton, ...]
    classes: Classes = field(metadata=SHARED)

    @classmethod
    def of(cls, wanted: Sequence[str | Automaton], classes: int | Sequence[str]) -> Constraints:
        """From any sequence; `classes` is their number or their names."""
        if isinstance(wanted, str | Automaton):
            raise DataError("wanted has one constraint for each group; pass a list, also for one group")
        names = classes if isinstance(classes, int) else tuple(classes)
        for group, item in enumerate(wanted):
            if not isinstance(item, str | Automaton):
                raise DataError(f"group {group}: expected a text or an Automaton, found {type(item).__name__}")
        return cls(tuple(wanted), names)

    @classmethod
    def from_columns(cls, request: KindRequest) -> Constraints:
        """The texts; they name classes as the table does, by number where it has only numbers."""
        classes: Any = request.num_classes if request.classes[0] == "0" else request.classes
        return cls.of([str(text) for text in request.weak["constraint"]], classes)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    def form(self, lengths: Int[Tensor, "groups"]) -> Automata:
        """An automaton for each group; equal texts for equal lengths are read once."""
        sizes = lengths.tolist()
        automata = [self._read(item, size) for item, size in zip(self.wanted, sizes, strict=True)]
        return Automata.of(automata, len(automata))

    def best_log_weight(self, lengths: Int[Tensor, "groups"]) -> Float[Tensor, "groups"]:
        """0: a constraint holds or not. Not known where an automaton has weights."""
        weighted = [isinstance(item, Automaton) and item.is_weighted for item in self.wanted]
        return torch.where(torch.tensor(weighted, dtype=torch.bool), torch.inf, 0.0).double()

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
        return self._read(self.wanted[group], len(labels)).log_weight(labels)

    def describe(self, group: int, names: Names = None) -> str:
        """The text itself."""
        item = self.wanted[group]
        return f'"{item}"' if isinstance(item, str) else repr(item)

    def _read(self, item: str | Automaton, length: int) -> Automaton:
        return item if isinstance(item, Automaton) else _read_text(item, self.classes, length)


@lru_cache(maxsize=4096)
def _read_text(text: str, classes: Classes, length: int) -> Automaton:
    return constraint(text, classes, length)
