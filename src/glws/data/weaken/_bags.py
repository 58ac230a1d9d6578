"""Bags of random sizes with presence or counts of classes."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.data._groups import Groups
from glws.data.weaken._pools import Pools, binary_pools, checked_number, integers
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import ClassCounts, MultiInstance, Numbers, PresentClasses, Proportions
from glws.kinds._arrays import classes

Redraw = Literal["members", "bag"]
SMALLEST = 2


def multi_instance(
    labels: Numbers,
    num_bags: int,
    mean: float,
    std: float,
    *,
    generator: torch.Generator,
    balanced: bool = True,
    redraw: Redraw = "members",
    share_known: bool = False,
) -> Weakened:
    """Bags, and whether each holds a positive (label 1). Sizes as in `bag_sizes`, members drawn with replacement.

    Balanced: exactly half of the bags hold a positive (one more for an odd number), the others none. Otherwise
    bags are not selected.

    `redraw` is how a bag of the wrong sort is replaced. "members": by other members, so that its size is independent of
    its label. "bag": by another size too, as the released code does; bags without positives are then
    shorter (by about std² ln(1 - share of positives)), which a model that reads the size can exploit.

    `share_known`: the weak labels state the selection of balanced bags and the share of positives of all instances
    (`MultiInstance`, `share`).

    >>> record = multi_instance([0, 0, 0, 1], 4, 5, 1, generator=torch.Generator().manual_seed(0))
    >>> record.statistics["positive_bags"], sorted(record.weak.present.tolist())
    (2.0, [0, 0, 1, 1])
    """
    true, pools = binary_pools(labels)
    if share_known and not (balanced and redraw == "members"):
        raise DataError('share_known needs balanced bags with redraw="members"')
    if balanced:
        is_positive = torch.arange(checked_number(num_bags, "num_bags")) >= num_bags // 2
        is_positive = is_positive[torch.randperm(num_bags, generator=generator)]
        bags = _bags_of_sort(is_positive, pools, mean, std, redraw, generator)
    else:
        bags = _any_bags(len(true), bag_sizes(num_bags, mean, std, generator=generator), generator)
    counts = _class_counts(bags, true, 2)
    present = counts[:, 1] > 0
    assert not balanced or torch.equal(present, is_positive)
    weak = MultiInstance.of(present.long(), share=pools.share if share_known else None)
    return Weakened(bags, weak, _binary_statistics(bags, counts))


def multi_instance_classes(
    labels: Numbers, num_classes: int, num_bags: int, mean: float, std: float, *, generator: torch.Generator
) -> Weakened:
    """Bags, and which of several classes occur in each, without selection.

    >>> record = multi_instance_classes([0, 1, 2], 3, 2, 4, 1, generator=torch.Generator().manual_seed(0))
    >>> record.weak.present.shape
    torch.Size([2, 3])
    """
    bags, counts = _class_bags(labels, num_classes, num_bags, mean, std, generator)
    statistics = _sizes(bags) | {"mean_present": float((counts > 0).sum(1).double().mean())}
    return Weakened(bags, PresentClasses.of(counts > 0), statistics)


def proportions(
    labels: Numbers,
    num_bags: int,
    mean: float,
    std: float,
    *,
    generator: torch.Generator,
    reject_empty: bool = False,
    redraw: Redraw = "bag",
) -> Weakened:
    """Bags, and the number of positives (label 1) of each.

    Sizes as in `bag_sizes`, members drawn with replacement.

    `reject_empty=True` replaces bags without positives, as the released code does: positives are then more frequent
    in the bags than in the data, by the factor 1 / P(a bag holds any), and so they are for a model trained on
    the counts. `redraw` is as in `multi_instance`.

    >>> record = proportions([0, 0, 0, 1], 3, 5, 1, generator=torch.Generator().manual_seed(0))
    >>> record.weak.low.tolist()
    [2, 0, 0]
    """
    true, pools = binary_pools(labels)
    checked_number(num_bags, "num_bags")
    if reject_empty:
        bags = _bags_of_sort(torch.ones(num_bags, dtype=torch.bool), pools, mean, std, redraw, generator)
    else:
        bags = _any_bags(len(true), bag_sizes(num_bags, mean, std, generator=generator), generator)
    counts = _class_counts(bags, true, 2)
    return Weakened(bags, Proportions.of(counts[:, 1]), _binary_statistics(bags, counts))


def class_proportions(
    labels: Numbers, num_classes: int, num_bags: int, mean: float, std: float, *, generator: torch.Generator
) -> Weakened:
    """Bags, and the number of each of several classes in each, without selection.

    >>> record = class_proportions([0, 1, 2], 3, 2, 4, 1, generator=torch.Generator().manual_seed(0))
    >>> bool((record.weak.counts.sum(1) == record.groups.lengths).all())
    True
    """
    bags, counts = _class_bags(labels, num_classes, num_bags, mean, std, generator)
    statistics = _sizes(bags) | {"mean_present": float((counts > 0).sum(1).double().mean())}
    return Weakened(bags, ClassCounts.of(counts), statistics)


def bag_sizes(num_bags: int, mean: float, std: float, *, generator: torch.Generator) -> Int[Tensor, "bags"]:
    """The size max(2, trunc(N(mean, std))) of each bag.

    It is half an instance smaller than `mean` on average; std 0 fixes the size.

    >>> bag_sizes(3, 4.9, 0, generator=torch.Generator())
    tensor([4, 4, 4])
    """
    _check_gaussian(mean, std)
    normal = torch.randn(checked_number(num_bags, "num_bags"), generator=generator, dtype=torch.float64)
    return (mean + std * normal).trunc().long().clamp_min(SMALLEST)


def _bags_of_sort(
    positive: Bool[Tensor, "bags"], pools: Pools, mean: float, std: float, redraw: Redraw, generator: torch.Generator
) -> Groups:
    """Bags with a positive where `positive`, and without any elsewhere."""
    for is_needed, pool in ((positive, pools.positives), (~positive, pools.negatives)):
        if bool(is_needed.any()) and not len(pool):
            raise DataError(f"{int(is_needed.sum())} bags need {pool.name}, but there are none")
    if redraw not in ("members", "bag"):
        raise DataError(f"redraw must be one of members, bag, found {redraw!r}")
    if redraw == "members" or std == 0:
        sizes = bag_sizes(len(positive), mean, std, generator=generator)
    else:
        sizes = _sizes_given_sort(positive, pools.share, mean, std, generator)
    return _members_given_sort(positive, sizes, pools, generator)


def _members_given_sort(
    positive: Bool[Tensor, "bags"], sizes: Int[Tensor, "bags"], pools: Pools, generator: torch.Generator
) -> Groups:
    """Independent members, given that some are positive, or none.

    The place of the first positive among size s is geometric, truncated at s: F(j) = (1 - (1-π)^(j+1)) / (1 - (1-π)^s).
    So nothing has to be rejected, however rare positives are.
    """
    avoid = math.log1p(-pools.share) if len(pools.negatives) else -math.inf
    reach = -torch.expm1(sizes.double() * avoid)
    chance = torch.rand(len(sizes), generator=generator, dtype=torch.float64)
    first = (torch.log1p(-chance * reach) / avoid).floor().long().clamp_min(0)
    first = torch.where(positive, torch.minimum(first, sizes - 1), sizes)
    bag, place = _places(sizes)
    before, at = place < first[bag], place == first[bag]
    everyone = torch.cat([pools.positives.members, pools.negatives.members])
    members = everyone[integers(len(everyone), len(bag), generator)]
    for where, pool in ((before, pools.negatives), (at, pools.positives)):
        members[where] = pool.members[integers(len(pool), int(where.sum()), generator)]
    return _in_random_order(members, sizes, generator)


def _sizes_given_sort(
    positive: Bool[Tensor, "bags"], share: float, mean: float, std: float, generator: torch.Generator
) -> Int[Tensor, "bags"]:
    """Sizes of bags that were redrawn as a whole until they fit: P(size) P(sort | size), normalized."""
    _check_gaussian(mean, std)
    numbers = torch.arange(SMALLEST, SMALLEST + 2 + math.ceil(max(mean, 0) + 12 * std))
    upper = torch.special.ndtr((numbers.double() + 1 - mean) / std)
    chance = upper.diff(prepend=upper.new_zeros(1))
    none = (1 - share) ** numbers.double()
    tables = torch.stack([chance * none, chance * (1 - none)])
    sizes = torch.empty(len(positive), dtype=torch.int64)
    for sort, table in enumerate(tables):
        fits = positive == bool(sort)
        if bool(fits.any()):
            sizes[fits] = numbers[torch.multinomial(table, int(fits.sum()), True, generator=generator)]
    return sizes


def _any_bags(num_instances: int, sizes: Int[Tensor, "bags"], generator: torch.Generator) -> Groups:
    members = torch.randint(num_instances, (int(sizes.sum()),), generator=generator)
    return Groups(_offsets(sizes), members)


def _class_bags(
    labels: Numbers, num_classes: int, num_bags: int, mean: float, std: float, generator: torch.Generator
) -> tuple[Groups, Int[Tensor, "bags classes"]]:
    true = classes(labels, "labels", num_classes)
    if not len(true):
        raise DataError("there are no labels to draw from")
    bags = _any_bags(len(true), bag_sizes(num_bags, mean, std, generator=generator), generator)
    return bags, _class_counts(bags, true, num_classes)


def _in_random_order(members: Int[Tensor, "members"], sizes: Int[Tensor, "bags"], generator: torch.Generator) -> Groups:
    """Bags with their members shuffled, so that places are uninformative."""
    bag, _ = _places(sizes)
    key = bag + torch.rand(len(bag), generator=generator, dtype=torch.float64)
    return Groups(_offsets(sizes), members[key.argsort()])


def _places(sizes: Int[Tensor, "bags"]) -> tuple[Int[Tensor, "members"], Int[Tensor, "members"]]:
    """The bag of every member, and its place in it."""
    bag = torch.arange(len(sizes)).repeat_interleave(sizes)
    return bag, torch.arange(len(bag)) - _offsets(sizes)[bag]


def _offsets(sizes: Int[Tensor, "bags"]) -> Int[Tensor, "bags_and_one"]:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _class_counts(bags: Groups, true: Int[Tensor, "instances"], num_classes: int) -> Int[Tensor, "bags classes"]:
    bag, _ = _places(bags.lengths)
    cell = bag * num_classes + true[bags.indices]
    return torch.bincount(cell, minlength=len(bags) * num_classes).view(-1, num_classes)


def _check_gaussian(mean: float, std: float) -> None:
    if not (math.isfinite(mean) and math.isfinite(std) and std >= 0):
        raise DataError(f"bag sizes need a finite mean and a standard deviation of at least 0, found {mean}, {std}")


def _sizes(bags: Groups) -> dict[str, float]:
    return {"bags": float(len(bags)), "mean_size": float(bags.lengths.double().mean())}


def _binary_statistics(bags: Groups, counts: Int[Tensor, "bags 2"]) -> dict[str, float]:
    positive, sizes = counts[:, 1] > 0, bags.lengths.double()
    return _sizes(bags) | {
        "positive_bags": float(positive.sum()),
        "positive_share": float(counts[:, 1].sum() / sizes.sum()),
        "mean_size_positive": _mean(sizes[positive]),
        "mean_size_negative": _mean(sizes[~positive]),
    }


def _mean(values: Float[Tensor, "values"]) -> float:
    """The mean, 0 without values."""
    return float(values.sum() / max(len(values), 1))
