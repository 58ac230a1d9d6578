"""The groups of each step, as a function of the seed, the epoch and the step only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from glws._reprs import short_repr
from glws._seeds import derived_generator
from glws.data import Groups, Instances, WeakDataset
from glws.errors import ConfigError
from glws.training._shuffles import BLOCKS_AT_ONCE, SHUFFLES, Shuffle, blocks_of, shuffled

USUAL_INSTANCES, MOST_INSTANCES = 128, 4096
MOST_STEPS = 400
"""The default limit on steps per epoch, as long as a step has no more than `MOST_INSTANCES`."""


@dataclass(frozen=True)
class Order:
    """The groups of each step, for given numbers of groups of each kind and batch sizes.

    An epoch passes once, in a new random order, through the kind that needs most steps, in batches whose sizes differ
    by one at most. The other kinds repeat: after a pass they start again in another order, anywhere in the
    epoch; so their batches are always full.

    >>> order = Order(sizes=(5, 2), batch=(2, 1), seed=0)
    >>> order.steps_per_epoch, [[len(part) for part in order.groups(0, step)] for step in range(3)]
    (3, [[2, 1], [2, 1], [1, 1]])
    """

    __repr__ = short_repr

    sizes: tuple[int, ...]
    batch: tuple[int, ...]
    seed: int
    shuffles: tuple[Shuffle, ...] = ()

    @classmethod
    def of(
        cls,
        data: WeakDataset,
        batch_size: int | Sequence[int] | None,
        seed: int,
        step_instances: int | None = None,
        order: str | None = None,
    ) -> Order:
        """The order for a data set; the default batch size of each kind is `usual_batch`.

        With `step_instances` there are as many groups in a step as have about so many instances (`BudgetOrder`). That
        is the default for instances that ask for it, as those of slides do. `order` is one of `TrainingConfig`; by
        default groups of instances that lie in blocks are in that order, others in random order.
        """
        shuffles = tuple(_shuffle(groups, data.instances, order) for groups in data.groups)
        if step_instances is None and batch_size is None:
            step_instances = getattr(data.instances, "step_instances", None)
        if step_instances is not None:
            return replace(BudgetOrder.for_groups(data, batch_size, seed, step_instances), shuffles=shuffles)
        sizes = tuple(len(groups) for groups in data.groups)
        if batch_size is None:
            return cls(sizes, tuple(usual_batch(groups) for groups in data.groups), seed, shuffles)
        batch = (batch_size,) * len(sizes) if isinstance(batch_size, int) else tuple(batch_size)
        if len(batch) != len(sizes):
            raise ConfigError(
                f"`training.batch_size` must be one number, or one for each of the {len(sizes)} kinds of weak labels. "
                f"Got {list(batch)}."
            )
        return cls(sizes, batch, seed, shuffles)

    @cached_property
    def steps_per_epoch(self) -> int:
        """Number of steps of the kind with most batches."""
        return max((math.ceil(size / batch) for size, batch in zip(self.sizes, self.batch, strict=True)), default=0)

    def groups(self, epoch: int, step: int) -> list[Int[Tensor, "chosen"]]:
        """The groups of each kind in that step of that epoch."""
        return [self._chosen(kind, epoch, step) for kind in range(len(self.sizes))]

    def _chosen(self, kind: int, epoch: int, step: int) -> Int[Tensor, "chosen"]:
        size, batch, steps = self.sizes[kind], self.batch[kind], self.steps_per_epoch
        if size == 0:
            return torch.zeros(0, dtype=torch.int64)
        if math.ceil(size / batch) == steps:
            first = step * (size // steps) + min(step, size % steps)  # the first size % steps batches have one more
            number = size // steps + (step < size % steps)
            return self._permutation(kind, epoch)[first : first + number]
        first = (epoch * steps + step) * batch
        passes = range(first // size, (first + batch - 1) // size + 1)
        through = torch.cat([self._permutation(kind, number) for number in passes])
        return through[first - passes[0] * size :][:batch]

    def _permutation(self, kind: int, number: int) -> Int[Tensor, "size"]:
        """The groups of a kind in the order of that pass."""
        shuffle = self.shuffles[kind] if self.shuffles else shuffled
        return _permutation(self.seed, kind, number, self.sizes[kind], shuffle)


@dataclass(frozen=True)
class BudgetOrder(Order):
    """Steps of about equally many instances, at least one group each: large groups are in small company.

    >>> order = BudgetOrder((4,), (2,), 0, lengths=(30, 10, 10, 10), steps=2)
    >>> sorted(sum(order.lengths[group] for group in order.groups(0, step)[0]) for step in range(2))
    [30, 30]
    """

    lengths: tuple[int, ...] = ()
    steps: int = 1
    step_instances: int = 1

    @classmethod
    def for_groups(
        cls, data: WeakDataset, batch_size: int | Sequence[int] | None, seed: int, step_instances: int
    ) -> BudgetOrder:
        """For a data set of one kind: as many steps as it takes."""
        if len(data.groups) != 1 or batch_size is not None:
            what = f"{len(data.groups)} kinds of weak labels" if len(data.groups) != 1 else "a batch size"
            raise ConfigError(f"`training.step_instances` is for one kind, without `batch_size`. Got {what}.")
        lengths = tuple(data.groups[0].lengths.tolist())
        steps = min(max(math.ceil(sum(lengths) / step_instances), 1), len(lengths))
        batch = math.ceil(len(lengths) / max(steps, 1))
        shape = {"lengths": lengths, "steps": steps, "step_instances": step_instances}
        return cls((len(lengths),), (batch,), seed, **shape)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps: all instances divided by the budget."""
        return self.steps

    def _chosen(self, kind: int, epoch: int, step: int) -> Int[Tensor, "chosen"]:
        """The part of the epoch's permutation that ends where the step's share of the instances does."""
        permuted = self._permutation(kind, epoch)
        ends = torch.tensor(self.lengths)[permuted].cumsum(0)
        wanted = torch.arange(1, self.steps) * int(ends[-1]) // self.steps
        cuts, first = torch.searchsorted(ends, wanted, right=True), torch.arange(1, self.steps)
        if len(cuts):  # at least one group in every step
            cuts = (cuts - first).clamp(0, self.sizes[kind] - self.steps).cummax(0).values + first
        edges = [0, *cuts.tolist(), self.sizes[kind]]
        return permuted[edges[step] : edges[step + 1]]


def usual_batch(groups: Groups) -> int:
    """The default number of groups of a kind in a step.

    They have about 128 instances; or a 400th of all, up to 4,096, if these are more than 51,200.

    >>> usual_batch(Groups.of(torch.arange(1000).view(100, 10))), usual_batch(Groups.singles(1_000_000))
    (13, 2500)
    """
    instances = min(max(USUAL_INSTANCES, len(groups.indices) / MOST_STEPS), MOST_INSTANCES)
    length = len(groups.indices) / max(len(groups), 1)
    return max(1, round(instances / max(length, 1)))


@lru_cache(maxsize=16)
def _permutation(seed: int, kind: int, number: int, size: int, shuffle: Shuffle) -> Int[Tensor, "size"]:
    return shuffle(size, derived_generator("cpu", seed, "order", kind, number))


def _shuffle(groups: Groups, instances: Instances, order: str | None) -> Shuffle:
    bounds = getattr(instances, "block_bounds", None)
    if order != "blocks" and (order is not None or bounds is None):
        return SHUFFLES[order or "random"]
    if bounds is None:
        raise ConfigError("`training.order` is blocks, but the instances do not lie in blocks, as those of files do")
    if not len(groups):
        return shuffled
    first = groups.indices[groups.offsets[:-1].clamp_max(len(groups.indices) - 1)]
    return blocks_of(first, torch.as_tensor(bounds), getattr(instances, "blocks_at_once", BLOCKS_AT_ONCE))
