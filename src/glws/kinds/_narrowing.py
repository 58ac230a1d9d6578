"""Which classes each instance of a group may still have: feasibility in closed form, for groups of any size.

Groups come packed: one row for each member, group after group, and the number of members of each group. Nothing is
padded, so that one group of 100,000 beside many of 10 costs what its members cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from glws.automata import Automaton, state_budget
from glws.errors import ConstraintError, StateBudgetError

MOST_ENTRIES = 1 << 22
"""Tables over labelings of pairs and triplets are written down for so many entries at a time."""
MOST_BLOCKS = 6
"""Of so many blocks of classes all unions are compared with the counts, 2^6 of them; beyond, single blocks only."""
MOST_STATES = 20_000
"""An automaton with more states is not built."""
MOST_ARCS = 100_000_000
"""So many arcs, over all members of all groups, are followed before the remaining groups are left undecided."""
ROUNDING = 1e-9
"""Expected counts are products of shares and lengths."""


class Narrowed(NamedTuple):
    """What a weak label leaves of the classes that the members of its group may have.

    `allowed` has the classes with a labeling that satisfies the weak label and is otherwise allowed; none in infeasible
    groups. Where `decided` is False some of these classes, or the whole group, may be infeasible nevertheless.
    """

    allowed: Bool[Tensor, "members classes"]
    possible: Bool[Tensor, "groups"]
    decided: Bool[Tensor, "groups"]


def starts_of(lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups"]:
    """The first member of each group.

    >>> starts_of(torch.tensor([2, 0, 3]))
    tensor([0, 2, 2])
    """
    return lengths.cumsum(0) - lengths


def sums_by_group(values: Tensor, lengths: Int[Tensor, "groups"]) -> Int[Tensor, "groups"]:
    """The sum over the members of each group.

    >>> sums_by_group(torch.tensor([1, 2, 3, 4, 5]), torch.tensor([2, 0, 3]))
    tensor([ 3,  0, 12])
    """
    total = torch.cat([values.new_zeros(1, dtype=torch.int64), values.cumsum(0, dtype=torch.int64)])
    starts = starts_of(lengths)
    return total[starts + lengths] - total[starts]


def by_table(
    allowed: Bool[Tensor, "members classes"],
    lengths: Int[Tensor, "groups"],
    size: int,
    support: Callable[[Int[Tensor, "chosen"]], Bool[Tensor, "chosen *classes"]],
) -> Narrowed:
    """For groups of `size` members, from the labelings that satisfy some groups; another size satisfies none."""
    possible, kept = torch.zeros(len(lengths), dtype=torch.bool), torch.zeros_like(allowed)
    members = starts_of(lengths)[:, None] + torch.arange(size)
    at_once = max(MOST_ENTRIES // allowed.shape[1] ** size, 1)
    for groups in torch.split((lengths == size).nonzero()[:, 0], at_once):
        rows, left = members[groups], support(groups)
        for place in range(size):
            left = left & _along(allowed[rows[:, place]], place, size)
        for place in range(size):
            others = [axis for axis in range(1, size + 1) if axis != place + 1]
            kept[rows[:, place]] = left.any(others) if others else left
        possible[groups] = left.flatten(1).any(1)
    return Narrowed(kept, possible, torch.ones_like(possible))


def _along(row: Bool[Tensor, "groups classes"], place: int, size: int) -> Tensor:
    return row.view(len(row), *[1] * place, row.shape[1], *[1] * (size - 1 - place))


def by_agreement(
    allowed: Bool[Tensor, "members classes"],
    lengths: Int[Tensor, "groups"],
    same: Bool[Tensor, "groups"],
    different: Bool[Tensor, "groups"],
) -> Narrowed:
    """For pairs of which only matters whether they may have the same label, and whether different ones."""
    possible, kept = torch.zeros(len(lengths), dtype=torch.bool), torch.zeros_like(allowed)
    pairs = (lengths == 2).nonzero()[:, 0]
    rows = starts_of(lengths)[pairs, None] + torch.arange(2)
    own = allowed[rows]
    partner = own.flip(1)
    has_other = partner.sum(2, keepdim=True) - partner.long() > 0
    left = own & (same[pairs, None, None] & partner | different[pairs, None, None] & has_other)
    kept[rows] = left
    possible[pairs] = left[:, 0].any(1)
    return Narrowed(kept, possible, torch.ones_like(possible))


def by_counted(
    allowed: Bool[Tensor, "members classes"],
    lengths: Int[Tensor, "groups"],
    counted: Bool[Tensor, "classes"],
    low: Tensor,
    high: Tensor,
) -> Narrowed:
    """For groups with at least `low` and at most `high` members of the counted classes."""
    nothing = torch.zeros(len(lengths), dtype=torch.float64)
    least, most = torch.stack([nothing, low.double()], 1), torch.stack([lengths.double(), high.double()], 1)
    return by_counts(allowed, lengths, counted.long(), least, most)


def by_counts(
    allowed: Bool[Tensor, "members classes"],
    lengths: Int[Tensor, "groups"],
    block: Int[Tensor, "classes"],
    low: Tensor,
    high: Tensor,
) -> Narrowed:
    """For groups with at least `low` and at most `high` [groups, blocks] members of each block of classes.

    With must(S) the number of members all of whose classes are in the blocks S, some labeling satisfies the bounds if
    and only if for all S (Hall's theorem, for lower and for upper bounds)

        must(S) <= most(S),   most(S) = min(Σ_{b in S} high_b, n - Σ_{b not in S} low_b)

    and where both are equal the other members have no class in S. Of more than MOST_BLOCKS blocks only single ones and
    their complements are compared: enough where each member may have one block, or any.
    """
    low, high, sizes = low.double(), high.double(), lengths.double()
    inside = torch.stack([allowed[:, block == number].any(1) for number in range(low.shape[1])], 1)
    possible = (low <= high).all(1) & (low.sum(1) <= sizes + ROUNDING) & (high.sum(1) >= sizes - ROUNDING)
    possible &= sums_by_group(~inside.any(1), lengths) == 0
    group = torch.arange(len(lengths)).repeat_interleave(lengths)
    kept = inside.clone()
    for chosen in _unions(low.shape[1]):
        within = ~(inside & ~chosen).any(1)
        must = sums_by_group(within, lengths).double()
        most = torch.minimum(high[:, chosen].sum(1), sizes - low[:, ~chosen].sum(1))
        possible &= must <= most + ROUNDING
        is_full = (must >= most - ROUNDING)[group] & ~within
        kept &= ~(is_full[:, None] & chosen)
    if low.shape[1] <= MOST_BLOCKS:
        decided = torch.ones_like(possible)
    else:
        possible &= _has_members_for_all(inside, lengths, low)
        usable = (high > 0)[group]
        options, most_options = (inside & usable).sum(1), usable.sum(1)
        decided = sums_by_group((options > 1) & (options < most_options), lengths) == 0
    return Narrowed(kept[:, block] & allowed & possible[group, None], possible, decided)


def _unions(blocks: int) -> Iterator[Bool[Tensor, "blocks"]]:
    """The sets of blocks to compare: all but none and everything, or single ones and their complements."""
    sizes = range(1, blocks) if blocks <= MOST_BLOCKS else (1, blocks - 1)
    for size in sizes:
        for numbers in combinations(range(blocks), size):
            chosen = torch.zeros(blocks, dtype=torch.bool)
            chosen[list(numbers)] = True
            yield chosen


def _has_members_for_all(
    inside: Bool[Tensor, "members blocks"], lengths: Tensor, low: Tensor
) -> Bool[Tensor, "groups"]:
    """Whether there are as many members with a choice as the blocks lack of their least counts."""
    fixed = inside.sum(1) == 1
    must = torch.stack([sums_by_group(inside[:, number] & fixed, lengths) for number in range(low.shape[1])], 1)
    return (low - must).clamp_min(0).sum(1) <= lengths.double() - must.sum(1) + ROUNDING


def by_automata(
    allowed: Bool[Tensor, "members classes"],
    lengths: Int[Tensor, "groups"],
    kinds: Int[Tensor, "groups"],
    automaton: Callable[[int, int], Automaton],
) -> Narrowed:
    """For anything: by following the arcs of automata, short groups first, until MOST_ARCS are spent.

    Groups with the same number in `kinds` have the same automaton, `automaton(group, length)` of any of them. Where it
    would have more than MOST_STATES states, or nothing is left to spend, the group is undecided.
    """
    kept, possible = allowed.clone(), torch.ones(len(lengths), dtype=torch.bool)
    decided, left, starts = torch.ones_like(possible), MOST_ARCS, starts_of(lengths)
    order = torch.argsort(kinds, stable=True)
    alike = torch.split(order, torch.unique(kinds, return_counts=True)[1].tolist())
    for groups in sorted(alike, key=lambda groups: int(lengths[groups[0]])):
        first, length = int(groups[0]), int(lengths[groups[0]])
        machine = _built(automaton, first, length) if left > 0 else None
        left -= MOST_STATES if machine is None else len(groups) * max(length, 1) * max(len(machine.sources), 1)
        if machine is None or left < 0:
            decided[groups] = False
            continue
        at_once = max(MOST_ENTRIES // (max(length, 1) * machine.num_states), 1)
        for some in torch.split(groups, at_once):
            rows = starts[some, None] + torch.arange(length)
            kept[rows], possible[some] = _followed(machine, allowed[rows])
    return Narrowed(kept, possible, decided)


def _built(automaton: Callable[[int, int], Automaton], group: int, length: int) -> Automaton | None:
    try:
        with state_budget(MOST_STATES):
            return automaton(group, length)
    except StateBudgetError:
        return None
    except ConstraintError as error:
        if isinstance(error.__cause__, StateBudgetError):
            return None
        raise


def _followed(
    machine: Automaton, allowed: Bool[Tensor, "groups instances classes"]
) -> tuple[Bool[Tensor, "groups instances classes"], Bool[Tensor, "groups"]]:
    """The labels on the paths of allowed labels from a start to an end, and which groups have such a path."""
    sources, symbols, targets = (
        torch.from_numpy(part[machine.log_weights > -torch.inf].copy())
        for part in (machine.sources, machine.symbols, machine.targets)
    )
    groups, length, classes = allowed.shape
    reached = [torch.from_numpy(machine.log_start > -torch.inf).expand(groups, -1)]
    for place in range(length):
        taken = reached[-1][:, sources] & allowed[:, place][:, symbols]
        reached.append(_any_into(taken, targets, machine.num_states))
    onward = torch.from_numpy(machine.log_final > -torch.inf).expand(groups, -1)
    kept = torch.zeros_like(allowed)
    for place in reversed(range(length)):
        leads_on = onward[:, targets] & allowed[:, place][:, symbols]
        kept[:, place] = _any_into(leads_on & reached[place][:, sources], symbols, classes)
        onward = _any_into(leads_on, sources, machine.num_states)
    return kept, (onward & reached[0]).any(1)


def _any_into(
    marks: Bool[Tensor, "groups arcs"], places: Int[Tensor, "arcs"], number: int
) -> Bool[Tensor, "groups places"]:
    return torch.zeros(len(marks), number, dtype=torch.int32).index_add_(1, places, marks.int()) > 0


def numbered_rows(columns: list[Tensor]) -> tuple[Int[Tensor, "distinct"], Int[Tensor, "rows"]]:
    """The first row of each set of equal rows, and for each row the number of its set; columns are [rows].

    >>> numbered_rows([torch.tensor([2, 1, 2]), torch.tensor([0.5, 0.5, 0.5])])
    (tensor([1, 0]), tensor([1, 0, 1]))
    """
    rows = len(columns[0])
    index = torch.zeros(rows, dtype=torch.int64)
    for column in columns:
        _, codes = torch.unique(column, return_inverse=True)
        _, index = torch.unique(index * max(rows, 1) + codes, return_inverse=True)
    distinct = int(index.max()) + 1 if rows else 0
    first = torch.full((distinct,), rows).scatter_reduce_(0, index, torch.arange(rows), "amin")
    return first, index


def counts_of_classes(
    counted: Bool[Tensor, "classes"], low: Tensor, high: Tensor, lengths: Int[Tensor, "groups"]
) -> tuple[Tensor, Tensor]:
    """Ranges of the counts of single classes, from the range of how many members are among the counted ones.

    >>> counted = torch.tensor([False, True, True])
    >>> low, high = counts_of_classes(counted, torch.tensor([2]), torch.tensor([3]), torch.tensor([9]))
    >>> low, high
    (tensor([[6., 0., 0.]], dtype=torch.float64), tensor([[7., 3., 3.]], dtype=torch.float64))
    """
    sizes = lengths.double()
    least, most = low.double().clamp_min(0).minimum(sizes), high.double().clamp_min(0).minimum(sizes)
    ranges = []
    for inside in counted.tolist():
        bottom, top = (least, most) if inside else (sizes - most, sizes - least)
        is_alone = int((counted == inside).sum()) == 1
        ranges.append((bottom if is_alone else torch.zeros_like(bottom), top))
    return torch.stack([bottom for bottom, _ in ranges], 1), torch.stack([top for _, top in ranges], 1)
