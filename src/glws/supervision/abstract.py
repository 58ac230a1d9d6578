"""What every kind of weak label is: an array of weak labels, one for each group, that knows what it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference import AbstractForm, Posterior, infer
from glws.supervision.wording import Names, plain

Kind = TypeVar("Kind", bound="AbstractSupervision")
SHARED = {"shared": True}
"""Metadata of a field that belongs to all groups together: `field(metadata=SHARED)`."""


class AbstractSupervision(ABC):
    """Weak labels of a number of groups.

    A kind is a frozen dataclass. Its fields are tensors or tuples with one entry for each group, except those marked
    with `metadata=SHARED`. It says what it knows twice: as a form that an engine answers fast, and as a plain weight of
    one labeling, which the tests compare with it.
    """

    noun: ClassVar[str] = "group"
    """What one of them is called where they are counted, as in "130 bags"."""

    num_classes: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # else dataclass writes one, which prints tensors
            cls.__repr__ = AbstractSupervision.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for name, value in self._values():
            if name not in self._shared() and not isinstance(value, Tensor | tuple):
                made, found = type(self).__name__, type(value).__name__
                raise DataError(f"{made}: {name} must be a tensor, found {found}; {made}.of reads lists and arrays")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={plain(value)}" for name, value in self._values())
        return f"{type(self).__name__}({values})"

    @abstractmethod
    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """What is known about groups of these lengths, for `glws.infer`."""

    @abstractmethod
    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """log p(w | y) of one labeling of one group, in plain Python: the definition."""

    def first_guess(self) -> Float[Tensor, "groups classes"] | None:
        """What each instance of a group may be taken for before anything is learned, None to start from what is known.

        For kinds that give all instances of a group the same posterior until the model tells them apart.
        """
        return None

    def told_shares(self) -> Float[Tensor, "classes"] | None:
        """How frequent the classes are among all instances, where whoever chose the groups tells it; None otherwise."""
        return None

    def known_counts(self, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups classes"] | None:
        """How often each class occurs in each group, where exactly that is known; None otherwise.

        From it, or from `known_presence`, the accuracy on single instances can be told without a single label.
        """
        return None

    def known_presence(self) -> Bool[Tensor, "groups classes"] | None:
        """Which classes occur in each group, where exactly that is known; None otherwise."""
        return None

    def interchangeable(self) -> Int[Tensor, "groups"] | None:
        """A number for each group, the same for groups of one population: their instances may be dealt out anew.

        None, the default, where a group is what it is. What is known of a sample of a population (`Unlabeled`) holds
        for every sample; learning from always the same ones would learn their accidents.
        """
        return None

    def describe(self, group: int, names: Names = None) -> str:
        """What is known about one group, in a few words; classes by their names, where these are given."""
        return f"the weak label of group {group}"

    def __len__(self) -> int:
        return next(len(value) for name, value in self._values() if name not in self._shared())

    def __getitem__(self: Kind, groups: Tensor | Sequence[int] | slice) -> Kind:
        chosen = groups if isinstance(groups, slice) else torch.as_tensor(groups).cpu()
        if isinstance(chosen, Tensor) and chosen.dtype != torch.bool:  # a mask chooses where it is True
            chosen = chosen.long()
        index = torch.arange(len(self))[chosen]
        return self._mapped(lambda value: _taken(value, index), skip=self._shared())

    def to(self: Kind, device: torch.device | str) -> Kind:
        """The same weak labels with their tensors on another device."""
        return self._mapped(lambda value: value.to(device) if isinstance(value, Tensor) else value)

    def automaton(self, group: int, length: int) -> Automaton:
        """The automaton of one group, for looking at and for engines that need it."""
        return self[[group]].form(torch.tensor([length])).automaton(0, length)

    def infer(
        self,
        log_probs: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        evidence: Tensor | None = None,
        engine: str = "auto",
    ) -> Posterior:
        """`glws.infer` with these weak labels."""
        return infer(log_probs, self, lengths, evidence, engine)

    def check(self, lengths: Sequence[int] | Tensor, num_classes: int, names: Names = None) -> None:
        """Raises `DataError` naming the first group that no labeling of its length can satisfy.

        `names` are those of the classes, for the message.
        """
        sizes = torch.as_tensor(lengths)
        if num_classes != self.num_classes:
            raise DataError(f"the weak labels are over {self.num_classes} classes, the model over {num_classes}")
        if len(sizes) != len(self):
            raise DataError(f"there are {len(self)} weak labels but {len(sizes)} groups")
        possible = self.possible(sizes)
        if not bool(possible.all()):
            group = int((~possible).nonzero()[0])
            raise DataError(
                f"group {group}: {self.describe(group, names)} cannot hold in a group of {_instances(sizes[group])}"
            )

    def possible(self, lengths: Int[Tensor, "groups"]) -> Tensor:
        """Which groups some labeling of their length satisfies: those with a likelihood under even predictions."""
        even = torch.zeros(len(self), int(lengths.max()) if len(lengths) else 0, self.num_classes, dtype=torch.float64)
        return ~self.infer(even, lengths).impossible

    def _values(self) -> list[tuple[str, Any]]:
        return [(item.name, getattr(self, item.name)) for item in self._fields()]

    def _shared(self) -> set[str]:
        return {item.name for item in self._fields() if item.metadata.get("shared")}

    def _fields(self) -> tuple[Field[Any], ...]:
        return fields(self)  # type: ignore[arg-type]  # kinds are dataclasses

    def _mapped(self: Kind, change: Callable[[Any], Any], skip: set[str] | None = None) -> Kind:
        changed = {name: change(value) for name, value in self._values() if name not in (skip or ())}
        return replace(self, **changed)  # type: ignore[type-var]


def _taken(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[index.to(value.device)]
    return tuple(value[number] for number in index.tolist())


def _instances(length: Tensor) -> str:
    number = int(length)
    return f"{number} instance" if number == 1 else f"{number} instances"
