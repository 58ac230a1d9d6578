"""`Together`: several kinds of weak labels on the same groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, AbstractTabled, Automata, Selected, TableWeights
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._fixed_size import AbstractFixedSize
from glws.kinds._narrowing import Narrowed, by_automata, by_table, numbered_rows
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class Together(AbstractSupervision):
    """Several weak labels for each group, all of which hold, found independently of each other given the labels:

        p(w | y) = Π_i p(w_i | y)

    Tables multiply; everything else becomes the product of the automata, built once for each combination that occurs,
    with up to the product of their numbers of states. A projection (an expected count, soft targets) has no automaton
    and cannot take part: add its loss to the others instead.

    >>> from glws.kinds._proportions import Proportions
    >>> weak = Together.of(Proportions.of([2]), Proportions.between([1], [3], counted=0))
    >>> weak.describe(0)
    'exactly 2 of class 1 and between 1 and 3 of class 0'
    """

    parts: tuple[AbstractSupervision, ...]

    @classmethod
    def of(cls, *parts: AbstractSupervision) -> Together:
        """From kinds with as many groups and as many classes each."""
        if not parts:
            raise DataError("Together needs at least one kind of weak labels")
        for part in parts:
            if not isinstance(part, AbstractSupervision):
                raise DataError(
                    f"Together.of takes kinds of weak labels, found {type(part).__name__}; of a list pass *list"
                )
            if getattr(part, "learn", None) is not None:
                raise DataError(
                    f"Together takes noise of {type(part).__name__} as given; to learn it, pass the kinds as a list"
                )
        for name, found in (("groups", {len(part) for part in parts}), ("classes", {p.num_classes for p in parts})):
            if len(found) > 1:
                raise DataError(f"the parts speak of different numbers of {name}: {sorted(found)}")
        return cls(parts)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.parts[0].num_classes

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, groups: Tensor | Sequence[int] | slice) -> Together:
        return self._each(lambda part: part[groups])

    def to(self, device: torch.device | str) -> Together:
        """The same weak labels with their tensors on another device."""
        return self._each(lambda part: part.to(device))

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The product of the tables, or of the automata."""
        forms = [_as_table(part.form(lengths)) for part in self.parts]
        chosen = [form.selection for form in forms if form.selection is not None]
        if len(chosen) > 1:
            raise DataError("groups can be chosen by one of their weak labels only, found several with a share")
        return Selected(self._form(forms, lengths), chosen[0]) if chosen else self._form(forms, lengths)

    def _form(self, forms: Sequence[AbstractForm], lengths: Int[Tensor, "groups"]) -> AbstractForm:
        tables = [form for form in forms if isinstance(form, TableWeights)]
        if len(tables) == len(forms) and len({table.size for table in tables}) == 1:
            return TableWeights(sum((table.log_weights for table in tables[1:]), tables[0].log_weights))
        return _product([_distinct(form, lengths.cpu()) for form in forms])

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the product of the tables; or part by part until nothing changes, and then by products of automata."""
        tables = [part for part in self.parts if isinstance(part, AbstractFixedSize)]
        if len(tables) == len(self.parts) and len({table.size for table in tables}) == 1:
            return by_table(allowed, lengths, tables[0].size, lambda groups: _support(self[groups], lengths[groups]))
        possible, before = torch.ones(len(self), dtype=torch.bool), None
        while before is None or not torch.equal(before, allowed):
            before = allowed
            for part in self.parts:
                found = part.narrowed(allowed, lengths)
                allowed, possible = found.allowed, possible & found.possible
        found = by_automata(allowed, lengths, self.distinct(lengths)[1], self.automaton)
        return found._replace(possible=found.possible & possible)

    def distinct(self, lengths: Int[Tensor, "groups"]) -> tuple[Int[Tensor, "distinct"], Int[Tensor, "groups"]]:
        """Groups that are alike in each part."""
        return numbered_rows([part.distinct(lengths)[1] for part in self.parts])

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """The sum of the parts."""
        return sum(part.log_weight(group, labels) for part in self.parts)

    def describe(self, group: int, names: Names = None) -> str:
        """All of them."""
        return " and ".join(part.describe(group, names) for part in self.parts)

    def _each(self, change: Callable[[AbstractSupervision], AbstractSupervision]) -> Together:
        return Together(tuple(change(part) for part in self.parts))


def _support(weak: Together, lengths: Int[Tensor, "groups"]) -> Bool[Tensor, "groups *classes"]:
    form = weak.form(lengths)
    assert isinstance(form, TableWeights)
    return form.log_weights > -torch.inf


def _as_table(form: AbstractForm) -> AbstractForm:
    return form.table() if isinstance(form, AbstractTabled) else form


def _distinct(form: AbstractForm, lengths: Int[Tensor, "groups"]) -> Automata:
    """One automaton for each different row of a form's tensors, lengths included."""
    if isinstance(form, Automata):
        return form
    parts = [lengths[:, None], *(values.cpu() for values in _tensors(form))]
    rows, index = torch.unique(torch.cat([part.double() for part in parts], 1), dim=0, return_inverse=True)
    examples = torch.zeros(len(rows), dtype=torch.int64).scatter_(0, index, torch.arange(len(lengths)))
    return Automata(tuple(form.automaton(group, int(lengths[group])) for group in examples.tolist()), index)


def _tensors(record: Any) -> list[Tensor]:
    """The tensors of a form and of what is within it, each as one row for a group."""
    values = [getattr(record, item.name) for item in fields(record)]
    nested = [_tensors(value) for value in values if is_dataclass(value)]
    own = [value[:, None].flatten(1) for value in values if isinstance(value, Tensor)]
    return own + [value for part in nested for value in part]


def _product(forms: Sequence[Automata]) -> Automata:
    """One product for each combination of automata that occurs."""
    rows, index = torch.unique(torch.stack([form.index.cpu() for form in forms], 1), dim=0, return_inverse=True)
    products = [
        reduce(lambda left, right: left & right, (form.automata[i] for form, i in zip(forms, row, strict=True)))
        for row in rows.tolist()
    ]
    return Automata(tuple(products), index)
