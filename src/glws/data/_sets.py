"""Kinds of rows that networks learn from in sets, replaced by those sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from glws.data._dataset import WeakDataset
from glws.data._groups import Groups
from glws.kinds import AbstractRowsInSets, AbstractSupervision, Part


class Sets(NamedTuple):
    """Data with rows in sets; for each kind the number of the kind it was a part of, and its share of those rows."""

    data: WeakDataset
    owner: tuple[int, ...]
    share: tuple[float, ...]


Kinds = Sequence[tuple[type[AbstractSupervision], ...]]


def training_sets(data: WeakDataset, accepted: Kinds = (), seed: int = 0) -> Sets:
    """The data as networks learn from them: rows of kinds such as `PositiveUnlabeled` in sets.

    `accepted` are the combinations of kinds that a method takes, none for any. A kind that trains row by row by default
    is replaced only if that is what makes the method accept the data.

    The shares weight the losses of the parts, so that every row counts once: with equal weights, few labeled positives
    would pull all predictions up.

    >>> from glws.kinds import PositiveUnlabeled
    >>> data = WeakDataset(torch.zeros(200, 1), Groups.singles(200), PositiveUnlabeled.of([1] * 9 + [0] * 191, 0.3))
    >>> sets = training_sets(data)
    >>> [weak.name for weak in sets.data.weak], sets.share
    (['labels', 'unlabeled'], (0.045, 0.955))
    """
    if _fits(data.weak, accepted) and not any(_is_set_by_default(weak) for weak in data.weak):
        return _replaced(data, [False] * len(data.weak), seed)
    by_default = _replaced(data, [_is_set_by_default(weak) for weak in data.weak], seed)
    if _fits(by_default.data.weak, accepted):
        return by_default
    of_all = _replaced(data, [isinstance(weak, AbstractRowsInSets) for weak in data.weak], seed)
    return of_all if _fits(of_all.data.weak, accepted) else by_default


def informative_sets(data: WeakDataset, seed: int = 0) -> WeakDataset:
    """The data with kinds in sets where their rows alone would tell less, as in `SimilarDissimilarUnlabeled`.

    >>> from glws.kinds import SimilarDissimilarUnlabeled
    >>> weak = SimilarDissimilarUnlabeled.of([1, -1, -1], prior=0.3)
    >>> found = informative_sets(WeakDataset(torch.zeros(4, 1), Groups.of([[0, 1], [2], [3]]), weak))
    >>> [kind.name for kind in found.weak]
    ['pair_similarity', 'unlabeled']
    """
    chosen = [isinstance(weak, AbstractRowsInSets) and not weak.form_tells_all for weak in data.weak]
    return _replaced(data, chosen, seed).data


def _is_set_by_default(weak: AbstractSupervision) -> bool:
    return isinstance(weak, AbstractRowsInSets) and weak.trains_in_sets


def _fits(weak: Sequence[AbstractSupervision], accepted: Kinds) -> bool:
    found = sorted(type(one).__name__ for one in weak)
    return not accepted or any(found == sorted(kind.__name__ for kind in kinds) for kinds in accepted)


def _replaced(data: WeakDataset, chosen: Sequence[bool], seed: int) -> Sets:
    if not any(chosen):
        return Sets(data, tuple(range(len(data.weak))), (1.0,) * len(data.weak))
    generator = torch.Generator().manual_seed(seed)
    groups: list[Groups] = []
    weak: list[AbstractSupervision] = []
    owner: list[int] = []
    for number, (members, kind, is_replaced) in enumerate(zip(data.groups, data.weak, chosen, strict=True)):
        found = [(members, kind)]
        if is_replaced and isinstance(kind, AbstractRowsInSets):
            found = [(_united(members, part), part.weak) for part in kind.parts(generator)]
        groups += [each for each, _ in found]
        weak += [each for _, each in found]
        owner += [number] * len(found)
    sizes = [len(data.groups[number].indices) for number in owner]
    shares = tuple(len(part.indices) / max(size, 1) for part, size in zip(groups, sizes, strict=True))
    return Sets(WeakDataset(data.instances, groups, weak, data.evidence, check=False), tuple(owner), shares)


def _united(members: Groups, part: Part) -> Groups:
    """Groups with the instances of several groups each."""
    numbers = torch.cat(list(part.groups))
    sizes = torch.tensor([int(members.lengths[united].sum()) for united in part.groups])
    return Groups(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), members[numbers].indices)
