"""Weak labels of single instances: candidate sets, complementary labels, few labels, wrong labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import one_hot

from glws.data._groups import Groups
from glws.data.weaken._pools import Pool, checked_number, checked_prior, draw, shuffled
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import Labels, NoisyLabels, Numbers, PartialLabels
from glws.kinds._arrays import classes


def partial_labels(
    labels: Numbers,
    num_classes: int,
    ratio: float,
    *,
    generator: torch.Generator,
    min_candidates: int = 1,
    allow_full: bool = True,
) -> Weakened:
    """Candidate sets: every wrong class joins the true one independently with probability `ratio`, drawn once.

    The mean size is 1 + (K - 1) ratio, sets of one and sets of all classes are kept. Other published rules:
    `min_candidates=2` adds a random wrong class to a set of one (released PRODEN and RCR: no instance keeps its true
    label alone, so the sets are larger than the ratio implies); `allow_full=False` draws the set of all classes again
    (with ratio 1/2 the uniform law that the theory of RC and CC assumes).

    >>> record = partial_labels([0, 1, 2], 3, 0.0, generator=torch.Generator().manual_seed(0))
    >>> record.statistics["mean_candidates"], record.statistics["singletons"]
    (1.0, 1.0)
    """
    true = classes(labels, "labels", num_classes)
    _check_sets(num_classes, checked_prior(ratio, "ratio"), min_candidates, allow_full)
    mask = _candidates(true, num_classes, ratio, generator)
    while not allow_full and bool((full := mask.all(1)).any()):
        mask[full] = _candidates(true[full], num_classes, ratio, generator)
    mask = _filled(mask, min_candidates, generator)
    sizes = mask.sum(1).double()
    statistics = {
        "mean_candidates": float(sizes.mean()),
        "expected_candidates": 1 + (num_classes - 1) * ratio,
        "singletons": float((sizes == 1).double().mean()),
        "full_sets": float((sizes == num_classes).double().mean()),
    }
    return Weakened(Groups.singles(len(true)), PartialLabels.of(mask), statistics)


def complementary_labels(labels: Numbers, num_classes: int, *, generator: torch.Generator) -> Weakened:
    """One complementary label per instance, uniform over the K - 1 wrong classes.

    >>> record = complementary_labels([0, 1], 2, generator=torch.Generator().manual_seed(0))
    >>> record.weak.candidates.int().tolist()
    [[1, 0], [0, 1]]
    """
    true = classes(labels, "labels", num_classes)
    checked_number(num_classes, "num_classes", least=2)
    excluded = (true + 1 + torch.randint(num_classes - 1, true.shape, generator=generator)) % num_classes
    shares = torch.bincount(excluded, minlength=num_classes).double() / max(len(true), 1)
    statistics = {"largest_share": float(shares.max()), "smallest_share": float(shares.min())}
    return Weakened(Groups.singles(len(true)), PartialLabels.complementary(excluded, num_classes), statistics)


def semi_supervised(
    labels: Numbers, num_classes: int, num_labeled: int, *, generator: torch.Generator, balanced: bool = True
) -> Weakened:
    """Exactly `num_labeled` true labels, the others hidden (-1).

    Balanced: equally many of each class (random classes have one more if necessary); not balanced: any instances, so
    that a class may be missing.

    >>> record = semi_supervised([0, 0, 1, 1], 2, 2, generator=torch.Generator().manual_seed(0))
    >>> sorted(record.weak.labels.tolist())
    [-1, -1, 0, 1]
    """
    true = classes(labels, "labels", num_classes)
    if num_labeled > len(true):
        raise DataError(f"{num_labeled} labels are to be kept, but there are only {len(true)} instances")
    chosen = torch.randperm(len(true), generator=generator)[: checked_number(num_labeled, "num_labeled", 0)]
    if balanced:
        chosen = _balanced_choice(true, num_classes, num_labeled, generator)
    kept = torch.full_like(true, -1)
    kept[chosen] = true[chosen]
    per_class = torch.bincount(true[chosen], minlength=num_classes)
    statistics = {
        "labeled": float(len(chosen)),
        "least_of_a_class": float(per_class.min()),
        "most_of_a_class": float(per_class.max()),
    }
    return Weakened(Groups.singles(len(true)), Labels.of(kept, num_classes), statistics)


def noisy_labels(
    labels: Numbers, num_classes: int, noise: float | Numbers, *, generator: torch.Generator, learn: bool = False
) -> Weakened:
    """Labels observed with noise.

    `noise` is a rate (of wrong labels, uniform over the other classes), or the matrix of the probabilities that the
    class of the row is observed as that of the column. With `learn` it is not given to training, which learns it.

    >>> record = noisy_labels([0, 1, 1], 2, 1.0, generator=torch.Generator().manual_seed(0))
    >>> record.weak.observed.tolist(), record.statistics["wrong"]
    ([1, 0, 0], 1.0)
    """
    true = classes(labels, "labels", num_classes)
    transition = NoisyLabels.symmetric([], num_classes, noise).transition if isinstance(noise, float | int) else noise
    weak = NoisyLabels.from_labels(true, transition, generator)
    if weak.num_classes != num_classes:
        raise DataError(f"noise is a matrix for {weak.num_classes} classes, but there are {num_classes}")
    expected = 1 - weak.transition.diagonal()[true].mean()
    statistics = {"wrong": float((weak.observed != true).double().mean()), "expected_wrong": float(expected)}
    if learn:
        starts = NoisyLabels.noise_starts(num_classes)
        is_rate = isinstance(noise, float | int)
        start = NoisyLabels.symmetric([], num_classes, starts["rate"]).transition if is_rate else starts["transition"]
        weak = replace(weak, transition=start, is_symmetric=is_rate).learning()
    return Weakened(Groups.singles(len(true)), weak, statistics)


def _candidates(
    true: Int[Tensor, "instances"], num_classes: int, ratio: float, generator: torch.Generator
) -> Bool[Tensor, "instances classes"]:
    chance = torch.rand(len(true), num_classes, generator=generator)
    return one_hot(true, num_classes).bool() | (chance < ratio)


def _filled(
    mask: Bool[Tensor, "instances classes"], least: int, generator: torch.Generator
) -> Bool[Tensor, "instances classes"]:
    """Sets filled up to `least` with random further classes."""
    if least <= 1:
        return mask
    order = torch.where(mask, 2.0, torch.rand(mask.shape, generator=generator))
    added = torch.zeros_like(mask).scatter(1, order.topk(least, 1).indices, True)
    return mask | (added & (mask.sum(1, keepdim=True) < least))


def _check_sets(num_classes: int, ratio: float, min_candidates: int, allow_full: bool) -> None:
    most = num_classes if allow_full else num_classes - 1
    if not 1 <= min_candidates <= most:
        raise DataError(f"min_candidates must be within 1..{most}, found {min_candidates}")
    if ratio == 1 and not allow_full:
        raise DataError("with ratio 1 every set is the set of all classes, which allow_full=False refuses")


def _balanced_choice(
    true: Int[Tensor, "instances"], num_classes: int, number: int, generator: torch.Generator
) -> Int[Tensor, "number"]:
    numbers = torch.full((num_classes,), number // num_classes)
    numbers[shuffled(torch.arange(num_classes), generator)[: number % num_classes]] += 1
    chosen = [
        draw(Pool((true == label).nonzero()[:, 0], f"instances of class {label}"), size, "never", generator)
        for label, size in enumerate(numbers.tolist())
    ]
    return torch.cat(chosen)
