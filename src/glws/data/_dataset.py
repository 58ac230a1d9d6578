"""`WeakDataset`: instances, groups and weak labels; batches load an instance once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import default_collate

from glws._reprs import html_table, short_repr
from glws.data._batch import Batch, numbered_batches
from glws.data._groups import Groups
from glws.data._inputs import Inputs, NamedInstances
from glws.data.sources._images import ImageFiles
from glws.errors import DataError
from glws.kinds import AbstractSupervision


class Instances(Protocol):
    """A source of instances: it has a length and returns a tensor for a list of numbers."""

    def __len__(self) -> int:
        """Number of instances."""

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen instances, stacked."""


@dataclass(frozen=True, eq=False)
class TensorInstances:
    """Instances in memory; the first axis is the instance."""

    __repr__ = short_repr

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen instances."""
        return self.values[numbers.to(self.values.device)]


@dataclass(frozen=True, eq=False)
class SparseInstances:
    """The rows of a sparse matrix of scipy; only those that are taken become dense.

    >>> from scipy.sparse import csr_array
    >>> SparseInstances(csr_array([[0.0, 2.0], [3.0, 0.0]])).take(torch.tensor([1, 0]))
    tensor([[3., 0.],
            [0., 2.]], dtype=torch.float64)
    """

    __repr__ = short_repr

    rows: Any

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen rows."""
        return torch.from_numpy(self.rows[numbers.cpu().numpy()].toarray())


@dataclass(frozen=True, eq=False)
class DatasetInstances:
    """Instances of a torch Dataset, read one by one; the label of a pair (instance, label) is ignored.

    `collate` puts a list of instances together; without it tensors are stacked, and mappings of tensors name by name.
    """

    dataset: Any
    collate: Callable[[list[Any]], Any] | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen instances, stacked."""
        found = [self.dataset[number] for number in numbers.tolist()]
        items = [item[0] if isinstance(item, tuple) else item for item in found]
        if self.collate is None and not isinstance(items[0], Mapping):
            return torch.stack([torch.as_tensor(item) for item in items])
        batch: Any = (self.collate or default_collate)(items)
        return Inputs(batch) if isinstance(batch, Mapping) else batch  # type: ignore[return-value]


SHOWN_GROUPS = 3


class WeakDataset:
    """Instances, groups of them, and the weak label of each group.

    `instances` are a tensor, an array, a sparse matrix, a torch Dataset, a folder of images (its path), or anything
    with `len` and `take(numbers)`. `groups` and `weak` are one of each, or lists of equal length: several kinds of
    weak labels for the same instances, each with its own groups. `evidence` is evidence about single instances, log
    e(k) as [instances, classes], independent of the groups.

    >>> from glws.kinds import Labels, Proportions
    >>> x = torch.randn(6, 3)
    >>> data = WeakDataset(x, [[[0, 1, 2], [2, 3]], [[4], [5]]], [Proportions.of([1, 2]), Labels.of([0, 1], 2)])
    >>> batch = next(data.batches(1, torch.Generator().manual_seed(0)))
    >>> [part.rows.shape[0] for part in batch.parts], len(batch.instances)
    ([2, 2], 6)
    """

    def __init__(
        self,
        instances: Any,
        groups: Any,
        weak: AbstractSupervision | Sequence[AbstractSupervision],
        evidence: Tensor | None = None,
        check: bool = True,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.instances = instances_of(instances, collate)
        self.evidence = evidence
        self.weak = (weak,) if isinstance(weak, AbstractSupervision) else tuple(weak)
        tables = [groups] if isinstance(weak, AbstractSupervision) else list(groups)
        if len(tables) != len(self.weak):
            raise DataError(f"there are {len(self.weak)} kinds of weak labels but {len(tables)} lists of groups")
        self.groups = tuple(Groups.of(part) for part in tables)
        if check:
            self.check()

    def __repr__(self) -> str:
        kinds = zip(self.groups, self.weak, strict=True)
        parts = ", ".join(f"{type(weak).__name__} of {len(groups):,} groups" for groups, weak in kinds)
        return f"WeakDataset({len(self.instances):,} instances, {self.weak[0].num_classes} classes: {parts})"

    def _repr_html_(self) -> str:
        rows = []
        for groups, weak in zip(self.groups, self.weak, strict=True):
            sizes = f"{int(groups.lengths.min())} to {int(groups.lengths.max())}" if len(groups) else ""
            some = "; ".join(weak.describe(number) for number in range(min(len(weak), SHOWN_GROUPS)))
            rows.append([type(weak).__name__, f"{len(groups):,}", sizes, some])
        title = f"{len(self.instances):,} instances, {self.weak[0].num_classes} classes"
        return html_table(title, ["weak labels", "groups", "instances in each", "the first"], rows)

    def check(self) -> None:
        """Raise `DataError` with the first infeasible group."""
        if self.evidence is not None and len(self.evidence) != len(self.instances):
            raise DataError(f"there are {len(self.instances)} instances but {len(self.evidence)} rows of evidence")
        for groups, weak in zip(self.groups, self.weak, strict=True):
            if len(groups) != len(weak):
                raise DataError(f"{type(weak).__name__}: there are {len(groups)} groups but {len(weak)} weak labels")
            groups.check(len(self.instances))
            weak.check(groups.lengths, weak.num_classes)

    def __len__(self) -> int:
        """Number of groups of all kinds."""
        return sum(len(groups) for groups in self.groups)

    def __getitem__(self, number: int) -> Batch:
        """The batch of one group, counted over all kinds; torch's loaders put these together."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} groups, asked for number {number}")
        place, chosen = number % len(self), []
        for groups in self.groups:
            chosen.append(torch.arange(len(groups))[place : place + 1] if place >= 0 else torch.arange(0))
            place = place - len(groups) if place >= len(groups) else -1
        return self.batch(chosen)

    def batch(
        self,
        chosen: Sequence[Int[Tensor, "groups"]],
        own: Callable[[Int[Tensor, "rows"]], slice] | None = None,
    ) -> Batch:
        """The chosen groups of each kind; every distinct instance is loaded once.

        `own` selects the instances (their sorted numbers) that this process loads, if several processes share the work.
        """
        return self.loaded(self.numbered(chosen), own)

    def loaded(self, batch: Batch, own: Callable[[Int[Tensor, "rows"]], slice] | None = None) -> Batch:
        """A batch of `numbered` with its instances."""
        numbers = batch.numbers if own is None else batch.numbers[own(batch.numbers)]
        return replace(batch, instances=self.instances.take(numbers))

    def numbered(self, chosen: Sequence[Int[Tensor, "groups"]]) -> Batch:
        """The batch with instance numbers instead of instances."""
        return self.numbered_steps([chosen])[0]

    def numbered_steps(self, steps: Sequence[Sequence[Int[Tensor, "groups"]]]) -> list[Batch]:
        """`numbered` for several steps, which share the work that does not depend on the number of groups."""
        return numbered_batches(self.groups, self.weak, steps, self.evidence)

    def subset(self, chosen: Sequence[Int[Tensor, "groups"]]) -> WeakDataset:
        """The same instances with some of the groups of each kind."""
        groups = [part[numbers] for part, numbers in zip(self.groups, chosen, strict=True)]
        weak = [part[numbers] for part, numbers in zip(self.weak, chosen, strict=True)]
        return WeakDataset(self.instances, groups, weak, self.evidence, check=False)

    def with_weak(self, weak: Sequence[AbstractSupervision]) -> WeakDataset:
        """The same instances and groups with other weak labels, such as those of learned noise."""
        return WeakDataset(self.instances, list(self.groups), list(weak), self.evidence, check=False)

    def regrouped(self, generator: torch.Generator) -> WeakDataset:
        """The data with the instances of exchangeable unlabeled sets redistributed among their groups.

        Only kinds with `exchangeable_sets` change; group sizes and weak labels stay.
        """
        regrouped = [_this_epoch(groups, weak, generator) for groups, weak in zip(self.groups, self.weak, strict=True)]
        return WeakDataset(self.instances, regrouped, self.weak, self.evidence, check=False)

    def batches(self, num_batches: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """One pass through all groups in this many batches, each with its share of every kind."""
        order = [_order(len(groups), generator) for groups in self.groups]
        shares = [numbers.tensor_split(num_batches) for numbers in order]
        for chosen in zip(*shares, strict=True):
            if any(len(numbers) for numbers in chosen):
                yield self.batch(chosen)


def _this_epoch(groups: Groups, weak: AbstractSupervision, generator: torch.Generator) -> Groups:
    population = weak.exchangeable_sets()
    if population is None:
        return groups
    member = population.cpu().repeat_interleave(groups.lengths)
    shuffled = torch.randperm(len(member), generator=generator)
    places = torch.argsort(member, stable=True)
    chosen = shuffled[torch.argsort(member[shuffled], stable=True)]
    indices = torch.empty_like(groups.indices)
    indices[places] = groups.indices[chosen]
    return Groups(groups.offsets, indices)


def _order(size: int, generator: torch.Generator | None) -> Int[Tensor, "groups"]:
    return torch.arange(size) if generator is None else torch.randperm(size, generator=generator)


def instance_shape(instances: Instances) -> tuple[int, ...]:
    """The shape of one instance.

    >>> instance_shape(TensorInstances(torch.zeros(5, 3)))
    (3,)
    """
    return tuple(instances.take(torch.zeros(1, dtype=torch.int64)).shape[1:])


def instances_of(instances: Any, collate: Callable[[list[Any]], Any] | None = None) -> Instances:
    """An instance source from a tensor, an array, named tensors, a torch Dataset, or the path of a folder."""
    if isinstance(instances, Inputs | Mapping) and not hasattr(instances, "toarray"):
        return NamedInstances(instances if isinstance(instances, Inputs) else Inputs(instances))
    if isinstance(instances, str | os.PathLike):
        return ImageFiles.in_folder(instances)
    if hasattr(instances, "toarray"):
        return SparseInstances(instances.tocsr())
    if isinstance(instances, Tensor) or hasattr(instances, "__array__"):
        return TensorInstances(torch.as_tensor(instances))
    if hasattr(instances, "take") and hasattr(instances, "__len__"):
        source: Instances = instances
        return source
    if hasattr(instances, "__getitem__") and hasattr(instances, "__len__"):
        return DatasetInstances(instances, collate)
    raise DataError(f"instances must be a tensor, an array or a torch Dataset, found {type(instances).__name__}")
