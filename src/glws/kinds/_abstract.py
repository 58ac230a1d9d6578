"""What every kind of weak label is: an array of weak labels, one for each group, that knows what it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from functools import cache
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference import AbstractForm, Posterior, infer
from glws.kinds._bag_rule import BagRule
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._narrowing import Narrowed, by_automata, numbered_rows
from glws.kinds._projections import AbstractProjection
from glws.kinds._wording import Names, plain

Kind = TypeVar("Kind", bound="AbstractSupervision")
SHARED = {"shared": True}
"""Metadata of a field that belongs to all groups together: `field(metadata=SHARED)`."""


class AbstractSupervision(ABC):
    """Weak labels of a number of groups.

    A kind is a frozen dataclass. Its fields are tensors or tuples with one entry for each group, except those marked
    with `metadata=SHARED`. It says what it knows twice: as a form that an engine answers fast, and as a plain weight of
    one labeling, which the tests compare with it.
    """

    name: ClassVar[str] = ""
    """The word for it after `kind:`; empty for a kind that columns cannot give."""
    noun: ClassVar[str] = "group"
    """What one of them is called where they are counted, as in "130 bags"."""
    columns: ClassVar[Columns] = ()
    """The sets of weak values that it can be given by, and how the column of each is read (`READINGS`)."""
    options: ClassVar[tuple[str, ...]] = ()
    """What may stand under `options:`."""
    size: ClassVar[int | None] = None
    """How many instances each of its groups has; None where groups may have any number."""
    may_be_unknown: ClassVar[bool] = False
    """Whether a weak value may be -1, None or NaN, for a group of which it tells nothing."""
    takes_single_rows: ClassVar[bool] = False
    """Whether a row without a group is a group of its own."""
    is_multiclass: ClassVar[bool] = False
    """Whether it tells something of several classes at once, which `per_class` takes apart."""
    is_evidence: ClassVar[bool] = False
    """Whether it has a table for single instances that is evidence in groups of other kinds (`glws.data.united`)."""

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
        values = [(name, plain(value)) for name, value in self._values() if name != "learn" or value is not None]
        shown = ", ".join(f"{name}={text}" for name, text in values if text not in ("[]", "[[]]"))
        return f"{type(self).__name__}({shown})"

    @abstractmethod
    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The weak labels of groups of these lengths as a form, for `glws.infer`."""

    @abstractmethod
    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """log p(w | y) of one labeling of one group, in plain Python: the definition."""

    @classmethod
    def from_columns(cls, request: KindRequest) -> AbstractSupervision:
        """The weak labels of a table or of `y`: from the values of one of the sets of `columns`, one to a group.

        Options are plain values as YAML gives them. It may be another class, where one word stands for several.
        """
        raise DataError(f"{cls.__name__} cannot be read from columns: it does not define from_columns")

    @classmethod
    def depends_on_all(cls, options: Mapping[str, Any]) -> bool:
        """Whether `from_columns` learns from all groups together, so that a part of them would be read differently."""
        return False

    @classmethod
    def weaken(cls, *given: Any, **options: Any) -> tuple[Any, AbstractSupervision]:
        """A simulator: groups and their weak labels, from fully labeled data, for `glws train --kind`.

            def weaken(cls, labels, num_classes, *, generator, num_groups: int = 50)

        `labels` are the true class numbers [instances]. Groups are lists of instance numbers, or a tensor [groups,
        instances]. What is random is drawn from `generator`. Further arguments are options with defaults: their types
        say what may be chosen under `data.options`.
        """
        raise DataError(f"{cls.__name__} cannot be drawn from labels: it does not define weaken")

    def initial_posterior(self) -> Float[Tensor, "groups classes"] | None:
        """The initial posterior of the instances of each group; None to start from the weak label alone.

        For kinds that give all instances of a group the same posterior until the model tells them apart.
        """
        return None

    def class_prior(self) -> Float[Tensor, "classes"] | None:
        """The class prior among all instances, if selection bias requires it; None otherwise."""
        return None

    def known_counts(self, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups classes"] | None:
        """How often each class occurs in each group, where exactly that is known; None otherwise.

        From it, or from `known_presence`, the accuracy on single instances can be estimated without a single label.
        """
        return None

    def known_presence(self) -> Bool[Tensor, "groups classes"] | None:
        """Which classes occur in each group, where exactly that is known; None otherwise."""
        return None

    def bag_rule(self) -> BagRule | None:
        """The questions about a whole group that its weak label answers; None where it answers none."""
        return None

    def bag_marks(self) -> Int[Tensor, "groups questions"] | None:
        """The answers to the questions of `bag_rule`: 1 yes, 0 no, -1 unknown."""
        return None

    def exchangeable_sets(self) -> Int[Tensor, "groups"] | None:
        """A number for each group, the same for groups of one population: their instances may be regrouped.

        None, the default, if groups are fixed. The weak label of a sample of a population (`Unlabeled`) holds
        for every sample; learning from always the same ones would learn their accidents.
        """
        return None

    @property
    def num_labels(self) -> int | None:
        """How many instances it gives the true label of; None, the default, where it tells other facts."""
        return None

    def per_class(self) -> AbstractSupervision:
        """Each class against the rest, for kinds that are `is_multiclass`: class k of group g at place g K + k."""
        raise DataError(f'{type(self).__name__} says nothing about several classes at once; use multiclass="auto"')

    def solved_by(self: Kind, method: Any) -> Kind:
        """The same weak labels, answered exactly ("exact") or by an approximation ("tilted"), if there is one."""
        raise DataError(f'{type(self).__name__} says nothing about several classes at once; use multiclass="auto"')

    def describe(self, group: int, names: Names = None) -> str:
        """The weak label of one group in a few words, with the names of the classes if given."""
        return f"the weak label of group {group}"

    def __len__(self) -> int:
        value: Tensor | tuple[Any, ...] = getattr(self, _layout(type(self))[1][0])
        return value.shape[0] if isinstance(value, Tensor) else len(value)

    def __getitem__(self: Kind, groups: Tensor | Sequence[int] | slice) -> Kind:
        if isinstance(groups, slice):
            return self._mapped(lambda value: value[groups], skip=self._shared())
        chosen = torch.as_tensor(groups).cpu()
        if chosen.dtype != torch.bool:  # a mask chooses where it is True
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

    def check_readable(self, lengths: Int[Tensor, "groups"]) -> None:  # noqa: B027
        """Raises `DataError` naming the first group whose weak label cannot be read, for kinds that read texts."""

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

    def possible(self, lengths: Int[Tensor, "groups"]) -> Bool[Tensor, "groups"]:
        """Which groups some labeling of their length satisfies; an undecided group passes."""
        return self.feasible(lengths).possible

    def feasible(self, lengths: Int[Tensor, "groups"]) -> Narrowed:
        """`narrowed` where each member may have every class, without the members: each different group is asked once.

        `allowed` is [groups, classes] here: the classes that some member of the group may have.
        """
        sizes = lengths.cpu().long()
        first, index = self.distinct(sizes)
        chosen, members = self[first].to("cpu"), sizes[first]
        found = chosen.narrowed(torch.ones(int(members.sum()), self.num_classes, dtype=torch.bool), members)
        group = torch.arange(len(first)).repeat_interleave(members)
        some = torch.zeros(len(first), self.num_classes, dtype=torch.int64).index_add_(0, group, found.allowed.long())
        return Narrowed(some[index] > 0, found.possible[index], found.decided[index])

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """The classes that each member may have in a labeling of allowed classes that its group's weak label satisfies.

        `allowed` has one row for each member, group after group, none of it padding. Kinds answer in closed form; this
        default follows automata, within a budget, and says which groups it left undecided. A projection rules nothing
        out.
        """
        if len(self) and isinstance(self[:1].form(lengths[:1]), AbstractProjection):
            every = torch.ones(len(self), dtype=torch.bool)
            return Narrowed(allowed, every, every)
        return by_automata(allowed, lengths, self.distinct(lengths)[1], self.automaton)

    def distinct(self, lengths: Int[Tensor, "groups"]) -> tuple[Int[Tensor, "distinct"], Int[Tensor, "groups"]]:
        """One group for each different pair of weak label and length, and for each group the number of its pair.

        >>> from glws.kinds import Proportions
        >>> Proportions.of([1, 1, 2, 1]).distinct(torch.tensor([3, 3, 3, 4]))
        (tensor([0, 2, 3]), tensor([0, 0, 1, 2]))
        """
        own = [column for name, value in self._values() if name not in self._shared() for column in _columns(value)]
        return numbered_rows([lengths, *own])

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor] | None:
        """How many members of each class the weak label states, as the ends of a range [groups, classes].

        None, the default, where it states no number. Noise is left out: the number is taken as it was reported.
        """
        return None

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in _layout(type(self))[0]]

    def _shared(self) -> frozenset[str]:
        return _layout(type(self))[2]

    def _mapped(self: Kind, change: Callable[[Any], Any], skip: frozenset[str] = frozenset()) -> Kind:
        """With changed fields, which need no check: they were checked before."""
        changed: Kind = object.__new__(type(self))
        for name, value in self._values():
            object.__setattr__(changed, name, value if name in skip else change(value))
        return changed


@cache
def _layout(kind: type[AbstractSupervision]) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """The names of all fields, of those with an entry for each group, and of those shared by all groups."""
    every: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]  # kinds are dataclasses
    shared = frozenset(item.name for item in every if item.metadata.get("shared"))
    names = tuple(item.name for item in every)
    return names, tuple(name for name in names if name not in shared), shared


def _taken(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[index.to(value.device)]
    return tuple(value[number] for number in index.tolist())


def _columns(value: Any) -> list[Tensor]:
    """One entry of a field for each group, as columns of numbers that are equal where the entries are."""
    if isinstance(value, Tensor):
        return list(value.cpu().reshape(len(value), -1).T) if value.numel() else []
    numbers: dict[Any, int] = {}
    keys = [item if isinstance(item, str) else id(item) for item in value]
    return [torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)]


def _instances(length: Tensor) -> str:
    number = int(length)
    return f"{number} instance" if number == 1 else f"{number} instances"
