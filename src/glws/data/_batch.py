"""`Batch`: the instances of a step, each once, and its groups of every kind; several are made at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from glws._reprs import short_repr
from glws.data._groups import Groups, padded_table
from glws.data._inputs import Inputs
from glws.inference import AbstractForm, to_device
from glws.kinds import AbstractSupervision, collated

SMALL_TABLE = 1 << 22


class _Rows(torch.autograd.Function):
    """`values[rows]` with a reproducible gradient.

    On a GPU it adds up the occurrences of a row by comparing all: two kernels, bit-for-bit reproducible, where torch
    would sort the row numbers.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.number = len(values)
        return values[rows]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        flat, places = gradient.reshape(-1, gradient.shape[-1]), rows.reshape(-1)
        is_small = gradient.is_cuda and ctx.number * flat.numel() <= SMALL_TABLE
        return (added_where_chosen if is_small else added_by_number)(flat, places, ctx.number), None


def _rows_of(values: Tensor, rows: Tensor) -> Tensor:
    if values.device.type == "cpu":  # its gradient is `added_by_number`
        return values.index_select(0, rows.reshape(-1)).view(*rows.shape, *values.shape[1:])
    laid_out: Tensor = _Rows.apply(values, rows.to(values.device))  # type: ignore[no-untyped-call]
    return laid_out


def added_where_chosen(values: Tensor, places: Tensor, number: int) -> Tensor:
    """The sum of the values of each place, by comparing all values with every place."""
    chosen = places == torch.arange(number, device=places.device)[:, None]
    return torch.where(chosen[:, :, None], values, 0.0).sum(1)


def added_by_number(values: Tensor, places: Tensor, number: int) -> Tensor:
    """The sum of the values of each place, value after value."""
    return values.new_zeros(number, values.shape[1]).index_add_(0, places, values)


@dataclass(frozen=True, eq=False)
class FormOfMany:
    """The form of the groups of several batches, computed when it is first asked for."""

    weak: AbstractSupervision
    lengths: Int[Tensor, "groups"]

    @cached_property
    def whole(self) -> AbstractForm:
        """The form of all groups."""
        return self.weak.form(self.lengths)


@dataclass(frozen=True, eq=False)
class BatchPart:
    """The groups of one kind in a batch: row numbers of instances, and weak labels.

    `rows` are padded, [groups, instances], or packed, [members], for groups of very different sizes. They are in order
    if they are 0, 1, 2 and so on up to the last row; the table is full if it is known to have no padding.
    """

    __repr__ = short_repr

    rows: Int[Tensor, "groups instances"] | Int[Tensor, "members"]
    lengths: Int[Tensor, "groups"]
    weak: AbstractSupervision
    groups: Int[Tensor, "groups"]
    are_in_order: bool = False
    is_full: bool = False
    source: FormOfMany | None = None
    first: int = 0

    def gather(self, log_probs: Float[Tensor, "rows classes"]) -> Float[Tensor, "groups instances classes"]:
        """Predictions for the distinct instances, arranged by group and padded."""
        return self.arranged(log_probs) if self.rows.ndim == 2 else _rows_of(log_probs, self.padded_rows)

    def arranged(self, log_probs: Float[Tensor, "rows classes"]) -> Tensor:
        """Predictions arranged by group for `glws.infer` and `glws.em_loss`: [members, classes] if packed."""
        if self.are_in_order and len(log_probs) == self.rows.numel():
            return log_probs.view(*self.rows.shape, *log_probs.shape[1:])
        return _rows_of(log_probs, self.rows)

    @property
    def form(self) -> AbstractForm:
        """The form of the weak labels for groups of these lengths."""
        if self.source is None:
            return self.weak.form(self.lengths)
        return self.source.whole.between(self.first, self.first + len(self.lengths))

    @property
    def padded_rows(self) -> Int[Tensor, "groups instances"]:
        """The row numbers as one table; padding repeats the first member."""
        return padded_table(self.rows, self.lengths) if self.rows.ndim == 1 else self.rows

    def padded_on(self, device: torch.device) -> BatchPart:
        """The part with padded row numbers on a device; weak labels stay where they are."""
        in_order = self.are_in_order and self.rows.ndim == 2
        return replace(self, rows=to_device(self.padded_rows, device), are_in_order=in_order)

    def to(self, device: torch.device | str) -> BatchPart:
        """The part with its row numbers and weak labels on another device."""
        return replace(self, rows=self.rows.to(device), weak=self.weak.to(device), source=None)


@dataclass(frozen=True, eq=False)
class Batch:
    """Distinct instances, each once, and their groups of every kind."""

    __repr__ = short_repr

    instances: Tensor
    numbers: Int[Tensor, "rows"]
    parts: tuple[BatchPart, ...]
    evidence: Float[Tensor, "rows classes"] | None = None

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device."""
        evidence = None if self.evidence is None else self.evidence.to(device)
        parts = tuple(part.to(device) for part in self.parts)
        return Batch(self.instances.to(device), self.numbers, parts, evidence)


Chosen = Sequence[Int[Tensor, "groups"]]
"""The numbers of the groups of each kind in one step."""


def numbered_batches(
    groups: Sequence[Groups],
    weak: Sequence[AbstractSupervision],
    steps: Sequence[Chosen],
    evidence: Float[Tensor, "instances classes"] | None = None,
) -> list[Batch]:
    """The batches of several steps, with instance numbers instead of instances.

    Every distinct instance of a step has one row; rows are sorted by number.
    """
    kinds = [
        _parts_of_kind(part, labels, [step[kind] for step in steps])
        for kind, (part, labels) in enumerate(zip(groups, weak, strict=True))
    ]
    of_steps = list(zip(*kinds, strict=True))
    numbers, rows, are_in_order = _distinct([[part.rows for part in parts] for parts in of_steps])
    return [
        Batch(
            own,
            own,
            tuple(
                replace(part, rows=places, are_in_order=in_order and len(parts) == 1)
                for part, places in zip(parts, tables, strict=True)
            ),
            None if evidence is None else evidence[own],
        )
        for own, tables, parts, in_order in zip(numbers, rows, of_steps, are_in_order, strict=True)
    ]


def _parts_of_kind(groups: Groups, weak: AbstractSupervision, steps: Chosen) -> list[BatchPart]:
    """The groups of one kind in each step; their rows are instance numbers as yet."""
    everything = steps[0] if len(steps) == 1 else torch.cat(list(steps))
    labels, tables = weak[everything], groups.arranged(steps)
    source = FormOfMany(labels, torch.cat([lengths for _, lengths in tables])) if len(steps) > 1 else None
    ends = list(accumulate(len(chosen) for chosen in steps))
    return [
        BatchPart(
            table, lengths, labels[end - len(chosen) : end], chosen, False, groups.is_regular, source, end - len(chosen)
        )
        for chosen, (table, lengths), end in zip(steps, tables, ends, strict=True)
    ]


def _distinct(
    steps: Sequence[Sequence[Int[Tensor, "..."]]],
) -> tuple[list[Int[Tensor, "rows"]], list[list[Int[Tensor, "..."]]], list[bool]]:
    """The distinct numbers in the tables of each step, their places among these, and whether they are 0, 1, 2, ..."""
    sizes = [table.numel() for tables in steps for table in tables]
    members = np.array([sum(table.numel() for table in tables) for tables in steps])
    everything = torch.cat([table.reshape(-1) for tables in steps for table in tables])
    step = torch.from_numpy(np.repeat(np.arange(len(steps)), members))
    span = int(everything.max()) + 1 if len(everything) else 1
    keys, places = torch.unique(everything + step * span, return_inverse=True)
    counts = torch.bincount(keys // span, minlength=len(steps))
    starts = counts.cumsum(0) - counts
    places = places - starts[step]
    own = np.arange(len(step)) - np.repeat(np.cumsum(members) - members, members)
    moved = np.bincount(step.numpy(), places.numpy() != own, len(steps))
    tables = iter(places.split(sizes))
    rows = [[next(tables).view_as(table) for table in own] for own in steps]
    return list((keys % span).split(counts.tolist())), rows, (moved == 0).tolist()


def collated_batches(batches: Sequence[Batch], *, collate_fn_map: Any = None) -> Batch:
    """One batch of several, instances after instances."""
    starts = np.cumsum([0, *(len(batch.numbers) for batch in batches)]).tolist()
    evidence = [batch.evidence for batch in batches]
    return Batch(
        _joined([batch.instances for batch in batches]),
        torch.cat([batch.numbers for batch in batches]),
        tuple(_joined_parts(parts, starts) for parts in zip(*(batch.parts for batch in batches), strict=True)),
        None if evidence[0] is None else torch.cat([each for each in evidence if each is not None]),
    )


def _joined(pieces: Sequence[Any]) -> Any:
    if not isinstance(pieces[0], Inputs):
        return torch.cat(list(pieces))
    return Inputs({name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]})


def _joined_parts(parts: Sequence[BatchPart], starts: Sequence[int]) -> BatchPart:
    """The groups of one kind; each row number is counted from the start of its batch."""
    width = max(part.rows.shape[1] for part in parts)
    rows = [
        torch.cat([part.rows, part.rows.new_zeros(len(part.rows), width - part.rows.shape[1])], 1) + start
        for part, start in zip(parts, starts, strict=False)
    ]
    lengths, groups = (torch.cat([getattr(part, name) for part in parts]) for name in ("lengths", "groups"))
    return BatchPart(torch.cat(rows), lengths, collated([part.weak for part in parts]), groups)


default_collate_fn_map[Batch] = collated_batches
