"""Joint feasibility of weak labels with common instances: constraint propagation, then search within a budget.

Each group excludes the classes that none of its labelings has (`AbstractSupervision.narrowed`), group after group,
until nothing changes. A group without a labeling is then a contradiction. If groups share instances without a cycle,
there is no other contradiction; if they form a cycle there may be, and a search decides within its budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glws.data._groups import Groups
from glws.kinds import AbstractSupervision

MOST_ROUNDS = 300
"""Limit on rounds of propagation; the remaining groups are undecided."""
MOST_CLASSES = 30
"""Number of classes that are tried for all instances of a cycle at once."""
MOST_VISITS = 3_000_000
"""Budget of the search: visits of members of groups, over all cycles."""
MOST_STEPS = 500
"""Budget of the search: fixed labels, over all cycles."""


class Constraint(NamedTuple):
    """The groups of one kind, their weak labels, and which groups to check."""

    groups: Groups
    weak: AbstractSupervision
    used: Bool[Tensor, "groups"]


class Verdict(NamedTuple):
    """The result of propagation and search; groups as masks, one for each kind."""

    allowed: Bool[Tensor, "instances classes"]
    contradictory: list[Bool[Tensor, "groups"]]
    undecided: list[Bool[Tensor, "groups"]]


def are_disjoint(constraints: Sequence[Constraint], size: int) -> bool:
    """Whether each instance is in at most one group, so that groups are independent."""
    indices = torch.cat([part.groups.indices for part in constraints])
    return len(indices) == 0 or int(torch.bincount(indices, minlength=size).max()) <= 1


def decide(constraints: Sequence[Constraint], size: int, num_classes: int) -> Verdict:
    """Find the groups that contradict others, and those for which that is undecided.

    Of contradictory groups, those that propagation met first are named; the error may be in the others.
    """
    start = torch.ones(size, num_classes, dtype=torch.bool)
    verdict = _propagated(constraints, start, torch.ones(size, dtype=torch.bool))
    if _any(verdict.contradictory):
        return verdict
    names, cycles = _cycles(constraints, verdict.allowed)
    left, undecided = (MOST_VISITS, MOST_STEPS), verdict.undecided
    for cycle in _without_constant_labeling(constraints, verdict.allowed, names, cycles):
        chosen = [
            mask & (numbers == cycle) for mask, numbers in zip((part.used for part in constraints), names, strict=True)
        ]
        small, allowed = _alone(constraints, chosen, verdict.allowed)
        found, left = _has_labeling(small, allowed, left)
        if isinstance(found, Verdict):
            broken = [_spread(mask, each) for mask, each in zip(found.contradictory, chosen, strict=True)]
            return verdict._replace(contradictory=broken)
        if found is False:
            undecided = [old | new for old, new in zip(undecided, chosen, strict=True)]
    return verdict._replace(undecided=undecided)


def _spread(mask: Bool[Tensor, "chosen"], chosen: Bool[Tensor, "groups"]) -> Bool[Tensor, "groups"]:
    """A mask of the chosen groups as one of all groups."""
    spread = torch.zeros_like(chosen)
    spread[chosen] = mask
    return spread


def _any(masks: Sequence[Tensor]) -> bool:
    return any(bool(mask.any()) for mask in masks)


def _propagated(
    constraints: Sequence[Constraint], start: Bool[Tensor, "instances classes"], changed: Bool[Tensor, "instances"]
) -> Verdict:
    """Propagate excluded classes from every changed instance through its groups; ends at the first contradiction."""
    allowed, due = start.clone(), [part.used & _touched(part.groups, changed) for part in constraints]
    nothing = [torch.zeros_like(mask) for mask in due]
    undecided = [torch.zeros_like(mask) for mask in due]
    touching = [_groups_of_instances(part.groups, len(start)) for part in constraints]
    for _ in range(MOST_ROUNDS):
        for number, part in enumerate(constraints):
            chosen = due[number].nonzero()[:, 0]
            due[number] = torch.zeros_like(due[number])
            if not len(chosen):
                continue
            groups = part.groups[chosen]
            found = part.weak[chosen].narrowed(allowed[groups.indices], groups.lengths)
            undecided[number][chosen] = ~found.decided
            if not bool(found.possible.all()):
                broken = list(nothing)
                broken[number] = nothing[number].clone()
                broken[number][chosen[~found.possible]] = True
                return Verdict(allowed, broken, undecided)
            members, classes = (allowed[groups.indices] & ~found.allowed).nonzero(as_tuple=True)
            allowed[groups.indices[members], classes] = False
            instances = torch.unique(groups.indices[members])
            for mask, table, other in zip(due, touching, constraints, strict=True):
                mask[table[instances].indices] = True
                mask &= other.used
        if not _any(due):
            return Verdict(allowed, nothing, undecided)
    return Verdict(allowed, nothing, [old | new for old, new in zip(undecided, due, strict=True)])


def _touched(groups: Groups, changed: Bool[Tensor, "instances"]) -> Bool[Tensor, "groups"]:
    touched = torch.zeros(len(groups), dtype=torch.bool)
    touched[_group_of_members(groups)[changed[groups.indices]]] = True
    return touched


def _group_of_members(groups: Groups) -> Int[Tensor, "members"]:
    return torch.arange(len(groups)).repeat_interleave(groups.lengths)


def _groups_of_instances(groups: Groups, size: int) -> Groups:
    """The inverse table: the groups of each instance."""
    counts = torch.bincount(groups.indices, minlength=size)
    order = torch.argsort(groups.indices, stable=True)
    return Groups(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), _group_of_members(groups)[order])


def _cycles(
    constraints: Sequence[Constraint], allowed: Bool[Tensor, "instances classes"]
) -> tuple[list[Int[Tensor, "groups"]], list[int]]:
    """The component of each group, and the components with a cycle, for which propagation is not enough.

    Components are connected by instances whose class is open; the number is -1 for groups with fewer than two of them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    is_open, links, first = allowed.sum(1) > 1, [], len(allowed)
    for part in constraints:
        group, kept = _group_of_members(part.groups), is_open[part.groups.indices]
        several = torch.bincount(group[kept], minlength=len(part.groups)) > 1
        kept &= (several & part.used)[group]
        links.append((group[kept] + first, part.groups.indices[kept]))
        first += len(part.groups)
    ends = [torch.cat(column).numpy() for column in zip(*links, strict=True)]
    graph = coo_array((np.ones(len(ends[0]), bool), ends), shape=(first, first))
    _, number = connected_components(graph, directed=False)
    nodes = np.unique(np.concatenate(ends))
    number_of_links, number_of_nodes = (np.bincount(number[some], minlength=first) for some in (ends[0], nodes))
    has_link = np.isin(np.arange(first), ends[0], assume_unique=True)
    names = np.split(
        np.where(has_link, number, -1)[len(allowed) :], np.cumsum([len(part.groups) for part in constraints])
    )
    cycles = np.flatnonzero(number_of_links >= np.maximum(number_of_nodes, 1))
    return [torch.from_numpy(part) for part in names[: len(constraints)]], cycles.tolist()


def _without_constant_labeling(
    constraints: Sequence[Constraint],
    allowed: Bool[Tensor, "instances classes"],
    names: Sequence[Int[Tensor, "groups"]],
    cycles: Sequence[int],
) -> list[int]:
    """The cycles that no constant labeling satisfies, or the first remaining one."""
    open_cycles = torch.tensor(cycles, dtype=torch.int64)
    for label in range(min(allowed.shape[1], MOST_CLASSES) if cycles else 0):
        trial = torch.zeros_like(allowed)
        constant = torch.where(allowed[:, label], label, allowed.int().argmax(1))
        trial[torch.arange(len(trial)), constant] = allowed.any(1)
        failed = []
        for part, numbers in zip(constraints, names, strict=True):
            chosen = torch.isin(numbers, open_cycles).nonzero()[:, 0]
            groups = part.groups[chosen]
            found = part.weak[chosen].narrowed(trial[groups.indices], groups.lengths)
            failed.append(numbers[chosen[~(found.possible & found.decided)]])
        open_cycles = torch.unique(torch.cat(failed))
    return [int(number) for number in open_cycles]


def _alone(
    constraints: Sequence[Constraint],
    chosen: Sequence[Bool[Tensor, "groups"]],
    allowed: Bool[Tensor, "instances classes"],
) -> tuple[list[Constraint], Bool[Tensor, "instances classes"]]:
    """The chosen groups and their instances only."""
    groups = [part.groups[mask] for part, mask in zip(constraints, chosen, strict=True)]
    instances, index = torch.unique(torch.cat([each.indices for each in groups]), return_inverse=True)
    places = torch.split(index, [len(each.indices) for each in groups])
    small = [
        Constraint(Groups(each.offsets, place), part.weak[mask], torch.ones(len(each), dtype=torch.bool))
        for part, mask, each, place in zip(constraints, chosen, groups, places, strict=True)
    ]
    return small, allowed[instances]


def _has_labeling(
    constraints: Sequence[Constraint], allowed: Bool[Tensor, "instances classes"], left: tuple[int, int]
) -> tuple[Verdict | bool, tuple[int, int]]:
    """Search for a labeling of all groups: True, the last contradiction, or False if the budget is exhausted.

    Also returns the remaining budget of visits and steps. Depth first: fix one instance to a class and propagate; a
    contradiction continues with the next choice.
    """
    visits, steps = left
    cost = sum(len(part.groups.indices) for part in constraints)
    waiting, last = [_choices(allowed)], None
    while waiting:
        choice = next(waiting[-1], None)
        if choice is None:
            waiting.pop()
            continue
        visits, steps = visits - cost, steps - 1
        if visits < 0 or steps < 0:
            return False, (visits, steps)
        verdict = _propagated(constraints, *choice)
        if _any(verdict.contradictory):
            last = verdict
            continue
        if not bool((verdict.allowed.sum(1) > 1).any()):
            return not _any(verdict.undecided), (visits, steps)
        waiting.append(_choices(verdict.allowed))
    assert last is not None  # an open instance has a class to try
    return last, (visits, steps)


def _choices(allowed: Bool[Tensor, "instances classes"]) -> Iterator[tuple[Tensor, Bool[Tensor, "instances"]]]:
    """The first open instance fixed to each of its classes in turn, and the mask of that instance."""
    first = int((allowed.sum(1) > 1).int().argmax())
    for label in allowed[first].nonzero()[:, 0].tolist():
        fixed, changed = allowed.clone(), torch.zeros(len(allowed), dtype=torch.bool)
        fixed[first] = False
        fixed[first, label] = True
        changed[first] = True
        yield fixed, changed
