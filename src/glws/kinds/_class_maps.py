"""Which class maps weak labels cannot tell from the truth: questions about a map, answered without any predictions.

A class map f calls class k by the name of class f(k), everywhere. With w(y) = p(w | y), the classifier that is f of the
truth is as good as the truth to any likelihood if, in every group and for every labeling y that may be true,

    w(f(y)) >= w(y)    for all y with w(y) > 0.

For constraints that hold or do not, this is inclusion of languages: f(L) is within L. A question stands for some groups
and answers for any map, also for one that is not yet decided for all classes: labelings with undecided classes are left
out then, so that "no" stays "no" however the map is completed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton, CountWeights, state_budget
from glws.errors import ConstraintError, StateBudgetError
from glws.inference import (
    AbstractForm,
    Agreement,
    Between,
    Closeness,
    Counts,
    Exactly,
    JointCounts,
    PresenceWeights,
    Sampled,
    Selected,
    TableWeights,
)
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._expected_count import ExpectedCount
from glws.kinds._multi_instance import PresentClasses, log_marks
from glws.kinds._pair_comparison import ReleasedComparison
from glws.kinds._projections import AbstractProjection
from glws.kinds._similarity_confidence import AgreementTarget, ReleasedAgreement
from glws.kinds._soft_labels import SoftTargets
from glws.kinds._unlabeled_classes import ExpectedShares

OPEN = -1
"""The name of a class that is not decided yet."""
NEVER = -2
"""The name of a class that no instance can have: it needs none."""
CLOSE = 1e-9
"""Log-weights that differ by less are equal."""
ENTRIES_AT_ONCE = 200_000
"""Rows of tables of single instances are compared few at a time: the first ones rule out most pairs of classes."""
FEW_ROWS = 20
"""So many groups often rule out a map."""
MOST_SET_CLASSES = 12
"""Weights of sets of classes are written down for so many classes, 2^12 of them."""
MOST_LABELINGS = 4096
"""Automata with several paths for a labeling are asked about so many labelings, one by one."""
MOST_STATES = 20_000
"""An automaton with more states is not built."""
MOST_STEPS = 1_000_000
"""So many steps from pair to pair of states are taken for one map."""

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


class AbstractQuestion(ABC):
    """What some groups say about class maps."""

    @property
    def is_pairwise(self) -> bool:
        """Whether a map is allowed as soon as it is for any two classes, the others left open."""
        return False

    @abstractmethod
    def allows(self, image: IntArray) -> bool | None:
        """Whether w(f(y)) >= w(y) in these groups for all labelings y of decided classes; None: not decided."""


@dataclass(frozen=True, eq=False)
class NameTable(AbstractQuestion):
    """Class a may be called by the names in row a of `may`; classes with `apart` may not get the same name."""

    may: BoolArray
    apart: BoolArray

    @property
    def is_pairwise(self) -> bool:
        """Always."""
        return True

    def allows(self, image: IntArray) -> bool | None:
        """By the two tables."""
        known = np.flatnonzero(image >= 0)
        names = image[known]
        same = (names[:, None] == names) & self.apart[np.ix_(known, known)]
        return bool(self.may[known, names].all()) and not bool(same.any())


@dataclass(frozen=True, eq=False)
class Tables(AbstractQuestion):
    """The log-weights of all labelings of groups of one size, [groups, classes, ..., classes]."""

    log_weights: FloatArray

    @property
    def is_pairwise(self) -> bool:
        """In groups of two."""
        return self.log_weights.ndim <= 3

    def allows(self, image: IntArray) -> bool | None:
        """Entry by entry; where few classes change their names, only the labelings that have one of these."""
        known, places = np.flatnonzero(image >= 0), self.log_weights.ndim - 1
        moved = known[image[known] != known]
        if places * len(moved) >= len(known):
            return self._is_as_good([known] * places, image)
        rows = ([moved if place == other else known for other in range(places)] for place in range(places))
        return all(self._is_as_good(labels, image) for labels in rows)

    def _is_as_good(self, labels: list[IntArray], image: IntArray) -> bool:
        groups = np.arange(len(self.log_weights))
        before = self.log_weights[np.ix_(groups, *labels)]
        after = self.log_weights[np.ix_(groups, *(image[own] for own in labels))]
        return bool(((after >= before - CLOSE) | (before == -np.inf)).all())


@dataclass(frozen=True, eq=False)
class Counted(AbstractQuestion):
    """Groups of which only matters how many labels are among the `counted` classes.

    What a map does to that number depends on which of four sorts of classes there are: counted or not, called by the
    name of a counted class or not. `allowed` has the answer for each of the 16 combinations.
    """

    counted: BoolArray
    allowed: tuple[bool, ...]

    def allows(self, image: IntArray) -> bool | None:
        """By the sorts of the decided classes."""
        known = np.flatnonzero(image >= 0)
        sorts = 2 * self.counted[known] + self.counted[image[known]]
        return self.allowed[int(np.bitwise_or.reduce(1 << sorts, initial=0))]


@dataclass(frozen=True, eq=False)
class Totals(AbstractQuestion):
    """Groups of which the count (or the expected share) of every class is known, [groups, classes]."""

    counts: FloatArray
    tolerance: float

    def allows(self, image: IntArray) -> bool | None:
        """No name may be given to more labels than it is known to have; a few groups are looked at first."""
        return self._is_within(self.counts[:FEW_ROWS], image) and self._is_within(self.counts[FEW_ROWS:], image)

    def _is_within(self, counts: FloatArray, image: IntArray) -> bool:
        rest = counts.copy()
        for number in np.flatnonzero(image >= 0):
            rest[:, image[number]] -= counts[:, number]
        return bool((rest >= -self.tolerance).all())


@dataclass(frozen=True, eq=False)
class Sets(AbstractQuestion):
    """Groups of which only matters which classes occur: log-weights of all sets of them, [groups, 2^classes].

    `largest` is the size of the group, and so of the largest set.
    """

    log_weights: FloatArray
    largest: IntArray

    def allows(self, image: IntArray) -> bool | None:
        """Set by set."""
        sets, images, sizes = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
        for number in np.flatnonzero(image >= 0):
            sets = np.concatenate([sets, sets | 1 << number])
            images = np.concatenate([images, images | 1 << image[number]])
            sizes = np.concatenate([sizes, sizes + 1])
        before, after = self.log_weights[:, sets[1:]], self.log_weights[:, images[1:]]
        is_no_set = (sizes[1:] > self.largest[:, None]) | (before == -np.inf)
        return bool((is_no_set | (after >= before - CLOSE)).all())


class Walk(AbstractQuestion):
    """Groups of one length with one deterministic automaton.

    The automaton reads y and f(y) side by side. Of all labelings that lead to a pair of states, the least value of
    log w(f(y)) - log w(y) is carried along; at the end it must not be below 0.
    """

    def __init__(self, automaton: Automaton, length: int) -> None:
        states = automaton.num_states
        self.length, self.states, self.start = length, states, int(automaton.log_start.argmax())
        self.after = np.full((states + 1, automaton.num_symbols), states)
        self.weight = np.full(self.after.shape, -np.inf)
        self.after[automaton.sources, automaton.symbols] = automaton.targets
        self.weight[automaton.sources, automaton.symbols] = automaton.log_weights
        self.cost = np.where(self.after < states, self.weight, 0.0)
        self.final = np.append(automaton.log_final, -np.inf)

    def allows(self, image: IntArray) -> bool | None:
        """By the pairs of states that are reached."""
        known = np.flatnonzero(image >= 0)
        names, width, steps = image[known], self.states + 1, 0
        pairs, least = np.array([self.start * width + self.start]), np.zeros(1)
        for _ in range(self.length):
            steps += len(pairs) * len(known) + 1
            if steps > MOST_STEPS:
                return None
            own, called = pairs // width, pairs % width
            target = self.after[own[:, None], known]
            goes_on = target < self.states
            gain = self.weight[called[:, None], names] - self.cost[own[:, None], known]
            reached = (target * width + self.after[called[:, None], names])[goes_on]
            reached, value = _least(reached, (least[:, None] + gain)[goes_on])
            if np.array_equal(reached, pairs) and np.array_equal(value, least):
                break
            pairs, least = reached, value
        own, called = pairs // width, pairs % width
        ends = self.final[own] > -np.inf
        return bool((least[ends] + self.final[called[ends]] - self.final[own[ends]] >= -CLOSE).all())


def _least(keys: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """The different keys in order, and the least value of each."""
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = keys[1:] != keys[:-1]
    return keys[is_first], values[is_first]


@dataclass(frozen=True, eq=False)
class Labelings(AbstractQuestion):
    """A group of which only some labelings may be true: w(f(y)) >= w(y) is asked for these."""

    weak: AbstractSupervision
    labelings: tuple[tuple[int, ...], ...]
    known: dict[tuple[int, ...], float] = field(default_factory=dict)
    """The log-weights that have been asked for."""

    @property
    def is_pairwise(self) -> bool:
        """If no labeling has more than two classes."""
        return all(len(set(labels)) <= 2 for labels in self.labelings)

    def allows(self, image: IntArray) -> bool | None:
        """One by one."""
        for labels in self.labelings:
            names = tuple(image[list(labels)].tolist())
            if min(names) >= 0 and self._log_weight(names) < self._log_weight(labels) - CLOSE:
                return False
        return True

    def _log_weight(self, labels: tuple[int, ...]) -> float:
        if labels not in self.known:
            self.known[labels] = self.weak.log_weight(0, labels)
        return self.known[labels]


@dataclass(frozen=True, eq=False)
class Permutations(AbstractQuestion):
    """Any groups at all. Only permutations of all classes are decided: these leave each weight as it is or lower some,
    and then the likelihood under predictions at random is another."""

    weak: AbstractSupervision
    lengths: Int[Tensor, "groups"]

    def allows(self, image: IntArray) -> bool | None:
        """By the likelihood under predictions at random, always the same ones."""
        image = np.where(image == NEVER, np.arange(len(image)), image)
        if sorted(image.tolist()) != list(range(len(image))):
            return None
        shape = (len(self.lengths), max(self.lengths.tolist(), default=0), len(image))
        random = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(-1)
        usual, renamed = (
            self.weak.infer(values, self.lengths).log_likelihood
            for values in (random, random[..., torch.from_numpy(image)])
        )
        return torch.allclose(usual, renamed, rtol=CLOSE, atol=CLOSE)


def questions(weak: AbstractSupervision, lengths: Int[Tensor, "groups"]) -> list[AbstractQuestion]:
    """What these groups say about class maps; best asked of different weak labels of similar lengths.

    Groups that no labeling satisfies say nothing. A projection is taken at its word, for the whole population that its
    groups are drawn from: what it expects of the truth must hold for f of the truth, whatever the truth is.

    >>> from glws.kinds import Labels, PairSimilarity
    >>> exchange = np.array([1, 0])
    >>> [question.allows(exchange) for question in questions(PairSimilarity.of([1, 0]), torch.tensor([2, 2]))]
    [True]
    >>> [question.allows(exchange) for question in questions(Labels.of([0, -1], 2), torch.tensor([1, 1]))]
    [False]
    """
    with state_budget(MOST_STATES):
        try:
            possible = weak.possible(lengths)
            weak, lengths = weak[possible], lengths[possible]
            if not len(weak):
                return []
            if isinstance(weak, PresentClasses):
                return _of_sets(weak, lengths)
            return _of_form(weak, weak.form(lengths), lengths)
        except (StateBudgetError, ConstraintError) as error:
            if isinstance(error, ConstraintError) and not isinstance(error.__cause__, StateBudgetError):
                raise
            return [Permutations(weak, lengths)]


def _of_form(weak: AbstractSupervision, form: AbstractForm, lengths: Int[Tensor, "groups"]) -> list[AbstractQuestion]:
    if isinstance(form, Selected) and isinstance(form.form, PresenceWeights):
        assert isinstance(form.selection, PresenceWeights)
        return _of_presence(form.form.counted, form.form.log_weights - form.selection.log_weights, lengths)
    if isinstance(form, PresenceWeights):
        return _of_presence(form.counted, form.log_weights, lengths)
    if isinstance(form, TableWeights | ReleasedComparison):
        return [_of_table(form.log_weights)]
    if isinstance(form, Closeness):
        return [_of_table(form.table().log_weights)]
    if isinstance(form, AgreementTarget):
        return [_of_agreement(torch.full_like(form.target, -torch.inf), (1 - form.target).log(), form.num_classes)]
    if isinstance(form, Agreement | ReleasedAgreement):
        return [_of_agreement(form.log_same, form.log_different, form.num_classes)]
    if isinstance(form, Counts):
        return _of_counts(form, lengths)
    if isinstance(form, ExpectedCount):
        return _of_expected_counts(form)
    if isinstance(form, JointCounts):
        return [Totals(np.unique(form.counts.cpu().double().numpy(), axis=0), 0.5)]
    if isinstance(form, ExpectedShares | SoftTargets):
        shares = form.shares if isinstance(form, ExpectedShares) else form.targets
        return [Totals(np.unique(shares.cpu().double().numpy(), axis=0), 1e-6)]
    if isinstance(form, AbstractProjection | Selected):
        return [Permutations(weak, lengths)]
    return list(_of_automata(weak, form, lengths))


def _of_table(log_weights: Tensor) -> AbstractQuestion:
    table = np.unique(log_weights.detach().cpu().double().numpy(), axis=0)
    if table.ndim > 2:
        return Tables(table)
    may = np.ones((table.shape[1], table.shape[1]), dtype=bool)
    for rows in np.array_split(table, table.size * table.shape[1] // ENTRIES_AT_ONCE + 1):
        own, name = np.nonzero(may)
        may[own, name] = ((rows[:, name] >= rows[:, own] - CLOSE) | (rows[:, own] == -np.inf)).all(0)
    return NameTable(may, np.zeros_like(may))


def _of_agreement(log_same: Tensor, log_different: Tensor, num_classes: int) -> NameTable:
    """Equal labels stay equal; different ones may become equal if that is as good in every group."""
    may_merge = bool(((log_same >= log_different - CLOSE) | (log_different == -torch.inf)).all())
    return NameTable(np.ones((num_classes, num_classes), bool), ~np.eye(num_classes, dtype=bool) & (not may_merge))


def _of_sets(weak: PresentClasses, lengths: Int[Tensor, "groups"]) -> list[AbstractQuestion]:
    """Without noise, f permutes the classes that occur and keeps those that may occur within those that may."""
    if not bool(weak.flip.any()):
        occurs, may = (weak.present == 1).cpu().numpy(), (weak.present != 0).cpu().numpy()
        has_room = (lengths > (weak.present == 1).sum(1)).cpu().numpy()
        held = occurs[:, :, None] & ~occurs[:, None, :]
        others = has_room[:, None, None] & (may & ~occurs)[:, :, None] & ~may[:, None, :]
        apart = (occurs[:, :, None] & occurs[:, None, :]).any(0) & ~np.eye(occurs.shape[1], dtype=bool)
        return [NameTable(~(held | others).any(0), apart)]
    if weak.num_classes > MOST_SET_CLASSES:
        return [Permutations(weak, lengths)]
    marks = log_marks(weak.present, weak.flip).cpu().double().numpy()
    number = weak.num_classes
    inside = np.arange(1 << number)[:, None] >> np.arange(number) & 1
    log_weights = np.stack([marks[:, place, inside[:, place]] for place in range(number)]).sum(0)
    return [Sets(log_weights, lengths.cpu().numpy())]


def _of_presence(counted: Tensor, log_weights: Tensor, lengths: Int[Tensor, "groups"]) -> list[AbstractQuestion]:
    """Some and none: groups of two say what longer ones say."""
    table = torch.cat([log_weights.double(), log_weights[:, 1:].double()], 1)
    return _of_count_weights(counted, table, lengths.clamp_max(2))


def _of_counts(form: Counts, lengths: Int[Tensor, "groups"]) -> list[AbstractQuestion]:
    weights, counts = form.weights, torch.arange(max(lengths.tolist()) + 1)
    if isinstance(weights, Exactly | Between):
        low, high = (weights.count, weights.count) if isinstance(weights, Exactly) else (weights.low, weights.high)
        table = torch.where((low[:, None] <= counts) & (counts <= high[:, None]), 0.0, -torch.inf).double()
    else:
        weighted = weights.weighted(lengths) if isinstance(weights, Sampled) else weights
        table = weighted.log_weights.double()
    return _of_count_weights(form.counted, table, lengths)


def _of_count_weights(
    counted: Tensor, log_weights: Float[Tensor, "groups counts"], lengths: Int[Tensor, "groups"]
) -> list[AbstractQuestion]:
    """One question for each set of counted classes."""
    masks, index = torch.unique(counted, dim=0, return_inverse=True)
    found: list[AbstractQuestion] = []
    for number, mask in enumerate(masks.cpu().numpy()):
        chosen = index == number
        columns = torch.cat([lengths[chosen, None].double(), log_weights[chosen].cpu()], 1)
        rows = np.unique(columns.numpy(), axis=0)
        table = _CountTable(rows[:, 0].astype(np.int64), rows[:, 1:])
        found.append(Counted(mask, tuple(table.allows(sorts) for sorts in range(16))))
    return found


class _CountTable:
    """The log-weights of all counts, and their smallest from the left and from the right."""

    def __init__(self, lengths: IntArray, log_weights: FloatArray) -> None:
        counts = np.arange(log_weights.shape[1])
        beyond = counts > lengths[:, None]
        values = np.where(beyond, np.inf, log_weights)
        self.lengths, self.counts, self.values, self.beyond = lengths[:, None], counts, values, beyond
        self.upward = np.minimum.accumulate(values, 1)
        self.downward = np.minimum.accumulate(values[:, ::-1], 1)[:, ::-1]

    def allows(self, sorts: int) -> bool:
        """Whether the count after the map, between `low` and `high`, is as good as that before, for every count."""
        low_inside, high_inside, has_counted = _ends(sorts >> 2, self.counts)
        low_outside, high_outside, has_others = _ends(sorts & 3, self.lengths - self.counts)
        low = np.where(self.beyond, 0, low_inside + low_outside)
        high = np.where(self.beyond, 0, high_inside + high_outside)
        rows = np.arange(len(self.values))[:, None]
        least = np.where(low == 0, self.upward[rows, high], self.downward[rows, low])
        least = np.where(low == high, self.values[rows, low], least)
        absent = (self.counts > 0) & (not has_counted) | (self.counts < self.lengths) & (not has_others)
        is_fine = absent | self.beyond | (self.values == -np.inf) | (least >= self.values - CLOSE)
        return bool(is_fine.all())


def _ends(sorts: int, members: Any) -> tuple[Any, Any, bool]:
    """How many of these members have the name of a counted class at least and at most; bit 1: some do, bit 0: some do
    not."""
    has_counted, has_others = bool(sorts & 2), bool(sorts & 1)
    return members * (not has_others), members * has_counted, has_counted or has_others


def _of_expected_counts(form: ExpectedCount) -> list[AbstractQuestion]:
    """The same for the share of the population that is counted."""
    masks, index = torch.unique(form.counted, dim=0, return_inverse=True)
    found: list[AbstractQuestion] = []
    for number, mask in enumerate(masks.cpu().numpy()):
        shares = np.unique(form.share[index == number].cpu().double().numpy())
        found.append(Counted(mask, tuple(all(_keeps_share(share, sorts) for share in shares) for sorts in range(16))))
    return found


def _keeps_share(share: float, sorts: int) -> bool:
    low_inside, high_inside, has_counted = _ends(sorts >> 2, share)
    low_outside, high_outside, has_others = _ends(sorts & 3, 1 - share)
    if (share > CLOSE and not has_counted) or (share < 1 - CLOSE and not has_others):
        return True
    low, high = low_inside + low_outside, high_inside + high_outside
    return bool(abs(low - share) < CLOSE and abs(high - share) < CLOSE)


def _of_automata(
    weak: AbstractSupervision, form: AbstractForm, lengths: Int[Tensor, "groups"]
) -> Iterator[AbstractQuestion]:
    """Tables for groups of one or two; else counts, pairs of states, or labeling by labeling."""
    automata, index = form.machines(lengths)
    pairs = torch.unique(torch.stack([index.cpu(), lengths.cpu()], 1), dim=0).tolist()
    tables: dict[int, list[FloatArray]] = {1: [], 2: []}
    for number, length in pairs:
        machine, size = automata[number], int(length)
        if size in tables:
            tables[size].append(machine.log_singles if size == 1 else machine.log_pairs)
        elif (counted := machine.count_weights) is not None:
            yield from _of_counting(counted, size)
        elif machine.inference_form.is_deterministic:
            yield Walk(machine.inference_form, size)
        elif machine.num_symbols**size <= MOST_LABELINGS:
            yield Tables(_written_down(machine, size)[None])
        else:
            chosen = (index == number) & (lengths == length)
            yield Permutations(weak[chosen], lengths[chosen])
    for table in tables.values():
        if table:
            yield _of_table(torch.from_numpy(np.stack(table)))


def _of_counting(weights: CountWeights, length: int) -> list[AbstractQuestion]:
    table, size = torch.from_numpy(weights.up_to(length))[None], torch.tensor([length])
    return _of_count_weights(torch.from_numpy(weights.counted)[None], table, size)


def _written_down(machine: Automaton, length: int) -> FloatArray:
    symbols = range(machine.num_symbols)
    values = [machine.log_weight(labels) for labels in product(symbols, repeat=length)]
    return np.array(values).reshape([machine.num_symbols] * length)


def of_evidence(evidence: Float[Tensor, "instances classes"]) -> AbstractQuestion:
    """What evidence about single instances, log e(k), says: a table of groups of one."""
    return _of_table(torch.unique(evidence.cpu().double(), dim=0))


def joined(asked: Sequence[AbstractQuestion]) -> list[AbstractQuestion]:
    """The same questions, those that are answered by one table as one."""
    tables = [question for question in asked if isinstance(question, NameTable)]
    counts = [question for question in asked if isinstance(question, Counted)]
    found = [question for question in asked if not isinstance(question, NameTable | Counted)]
    if tables:
        may = np.logical_and.reduce([table.may for table in tables])
        found.append(NameTable(may, np.logical_or.reduce([table.apart for table in tables])))
    for mask in dict.fromkeys(question.counted.tobytes() for question in counts):
        alike = [question for question in counts if question.counted.tobytes() == mask]
        answers = zip(*(question.allowed for question in alike), strict=True)
        found.append(Counted(alike[0].counted, tuple(map(all, answers))))
    return found


def identity(classes: Sequence[int], num_classes: int) -> IntArray:
    """The map that calls these classes by their own names, where the others never occur."""
    image = np.full(num_classes, NEVER)
    image[list(classes)] = classes
    return image


def exchange(left: int, right: int, classes: Sequence[int], num_classes: int) -> IntArray:
    """The same with two classes exchanged."""
    image = identity(classes, num_classes)
    image[[left, right]] = right, left
    return image


def are_allowed(asked: Sequence[AbstractQuestion], image: IntArray) -> bool | None:
    """Whether all questions allow a map; None where none forbids it and some are not decided."""
    answers = []
    for question in asked:
        answers.append(question.allows(image))
        if answers[-1] is False:
            return False
    return None if None in answers else True


def exchangeable_sets(asked: Sequence[AbstractQuestion], classes: Sequence[int], num_classes: int) -> list[list[int]]:
    """Sets of two or more classes of which any two can be exchanged."""
    sets: list[list[int]] = []
    for number in classes:
        for found in sets:
            if all(are_allowed(asked, exchange(number, other, classes, num_classes)) is True for other in found):
                found.append(number)
                break
        else:
            sets.append([number])
    return [found for found in sets if len(found) > 1]
