"""What is wrong, contradictory or unlearnable in weakly labelled data, before anything is trained on it.

Everything is asked through `glws.infer`: what can be by predictions that exclude nothing, what a constant classifier
would get away with by predictions that are certain, which classes cannot be told apart by exchanging them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, zip_longest
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.data.dataset import WeakDataset
from glws.data.groups import Groups
from glws.supervision import AbstractProjection, AbstractSupervision

MOST_GROUPS = 2000
"""Questions that need a labeling of each group are asked of this many groups of a kind."""
FEW_GROUPS = 20
"""So many often suffice to tell two classes apart."""
MOST_NUMBERS = 2_000_000
"""Groups that are asked about at once, each padded to the longest, have no more instances times classes than this."""
MOST_CLASSES = 30
"""Of so many classes any two are compared."""
RARE = 0.01
"""How likely a class is to somebody who takes it to be rare."""
FAR_APART = 0.2
"""Two kinds contradict each other when their rates of a class differ by more than this."""


FAR_OFF = 0.05
"""Approximate posteriors that may be off by more than this are worth a warning."""


@dataclass(frozen=True)
class Finding:
    """Something to know about the data: "error" (cannot be trained on), "warning" (will mislead), or "note"."""

    level: str
    check: str
    message: str
    groups: tuple[int, ...] = ()


class Part(NamedTuple):
    """The groups of one kind, and what is known about them."""

    name: str
    groups: Groups
    weak: AbstractSupervision
    group_names: Sequence[object]

    def some(self, groups: Sequence[int]) -> str:
        """Some of these groups, by name."""
        shown = ", ".join(str(self.group_names[group]) for group in groups[:5])
        return f"{shown}, ..." if len(groups) > 5 else shown

    def infer(self, log_probs: Float[Tensor, "instances classes"]) -> tuple[Tensor, Tensor, Tensor]:
        """Impossible groups, posteriors and instance numbers, for predictions about all instances."""
        table, lengths = self.groups.padded(torch.arange(len(self.groups)))
        answer = self.weak.infer(log_probs[table], lengths)
        return answer.impossible, answer.marginals, table

    def some_from(self, begin: int, most: int) -> Part:
        """Not more than so many of the groups from this one on, and as many as fit; one at least, if there is one."""
        lengths = self.groups.lengths[begin : begin + most]
        numbers = lengths.cummax(0).values * torch.arange(1, len(lengths) + 1) * self.weak.num_classes
        number = max(int((numbers <= MOST_NUMBERS).sum()), min(len(lengths), 1))
        taken = torch.arange(begin, begin + number)
        return Part(self.name, self.groups[taken], self.weak[taken], [self.group_names[each] for each in taken])

    def pieces(self) -> Iterator[Part]:
        """All of the groups: a few, then ever more at once, as far as they fit."""
        begin, most = 0, FEW_GROUPS
        while begin < len(self.groups):
            piece = self.some_from(begin, most)
            yield piece
            begin, most = begin + len(piece.groups), 2 * most


def examine(
    data: WeakDataset, classes: Sequence[str], group_names: Sequence[Sequence[object]] | None = None
) -> list[Finding]:
    """All findings, the worst first. `data` may have been built with `check=False`.

    `group_names` are what messages call the groups of each kind; without them they go by number.

    >>> from glws.supervision import PairComparison
    >>> pairs = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairComparison.of([0, 0], 2, ties="paper"))
    >>> [finding.check for finding in examine(pairs, ["negative", "positive"])]
    ['constant classifier']
    """
    parts, size = _parts(data, group_names), len(data.instances)
    findings = [finding for check in CHECKS for finding in check(parts, size, classes)]
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def names_are_known(data: WeakDataset) -> bool:
    """Whether no two classes can be exchanged in all that is known; where some can, predictions may be right but for
    their names, and `matched_accuracy` is what tells.

    >>> from glws.supervision import PairSimilarity
    >>> names_are_known(WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of([True, False])))
    False
    """
    return next(_exchangeable(_parts(data), data.weak[0].num_classes), None) is None


def _parts(data: WeakDataset, group_names: Sequence[Sequence[object]] | None = None) -> list[Part]:
    called = group_names or [range(len(groups)) for groups in data.groups]
    return [Part(*each) for each in zip(_names(data.weak), data.groups, data.weak, called, strict=True)]


def _names(kinds: Sequence[AbstractSupervision]) -> list[str]:
    names = [type(weak).__name__ for weak in kinds]
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names)]


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def infeasible_groups(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Groups that no labeling of their length satisfies."""
    for part in parts:
        wrong = (~part.weak.possible(part.groups.lengths)).nonzero()[:, 0].tolist()
        if wrong:
            first = wrong[0]
            length = _number(int(part.groups.lengths[first]), "instance")
            reason = (
                f"group {part.some([first])}: {part.weak.describe(first, classes)} cannot hold in a group of {length}"
            )
            message = f"{part.name}: nothing satisfies {_number(len(wrong), 'group')} ({part.some(wrong)}); {reason}"
            yield Finding("error", "infeasible groups", message, tuple(wrong))


def contradictions(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Groups that what other groups say about their instances makes impossible.

    What each group allows is taken away from all others until nothing changes. This finds the contradictions that show
    label by label; there may be others that only show in combinations.
    """
    allowed = torch.ones(size, len(classes), dtype=torch.bool)
    feasible = [part.weak.possible(part.groups.lengths) for part in parts]
    for _ in range(50):
        before = allowed.clone()
        for part, alone in zip(parts, feasible, strict=True):
            impossible, marginals, table = part.infer(torch.where(allowed, 0.0, -torch.inf).double())
            wrong = (impossible & alone).nonzero()[:, 0].tolist()
            if wrong:
                yield Finding("error", "contradictions", _contradiction(part, wrong, classes), tuple(wrong))
                return
            _take_away(allowed, marginals, table, part.groups.lengths)
        if torch.equal(before, allowed):
            return


def _contradiction(part: Part, wrong: list[int], classes: Sequence[str]) -> str:
    first = f"group {part.some(wrong[:1])}: {part.weak.describe(wrong[0], classes)}"
    groups = f"{_number(len(wrong), 'group')} ({part.some(wrong)})"
    return f"{part.name}: {groups} cannot hold together with what other groups say about the same instances; {first}"


def _take_away(
    allowed: Bool[Tensor, "instances classes"], marginals: Tensor, table: Int[Tensor, "groups length"], lengths: Tensor
) -> None:
    """Forbids for each instance the classes that have no probability in one of its groups."""
    possible = marginals.sum(2) > 0  # padding and impossible groups say nothing
    real = (torch.arange(table.shape[1]) < lengths[:, None]) & possible
    denied = (marginals[real] == 0).double()
    counts = torch.zeros(allowed.shape, dtype=torch.float64).index_add_(0, table[real], denied)
    allowed &= counts == 0


def small_groups(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Empty groups, and instances in no group."""
    for part in parts:
        empty = (part.groups.lengths == 0).nonzero()[:, 0].tolist()
        if empty:
            message = f"{part.name}: {_number(len(empty), 'group')} without any instance ({part.some(empty)})"
            yield Finding("warning", "empty groups", message, tuple(empty))
        alone = int((part.groups.lengths == 1).sum())
        if 0 < alone < len(part.groups):
            yield Finding("note", "single instances", f"{part.name}: {_number(alone, 'group')} of one instance")
    used = torch.zeros(size, dtype=torch.bool)
    used[torch.cat([part.groups.indices for part in parts])] = True
    if not bool(used.all()):
        unused = _number(int((~used).sum()), "instance")
        yield Finding("note", "unused instances", f"nothing is known about {unused} of {size:,}: in no group")


def silent_classes(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Classes that cannot occur, and classes that no weak label speaks for while it does for others.

    A weak label speaks for a class when it makes it more likely to somebody who thought it rare.
    """
    raised = [_highest(parts, size, number, len(classes)) for number in range(len(classes))]
    silent = [highest <= RARE + 1e-9 for highest in raised]
    for name, highest, is_silent in zip(classes, raised, silent, strict=True):
        if highest == 0:
            yield Finding("warning", "classes never possible", f"no weak label leaves room for class {name!r}")
        elif is_silent and not all(silent):
            message = f"no weak label ever makes class {name!r} more likely than it was: nothing is known of it"
            yield Finding("warning", "classes never mentioned", message)


def _highest(parts: Sequence[Part], size: int, number: int, num_classes: int) -> float:
    """The largest posterior of a class that the predictions take to be rare everywhere."""
    probs = torch.full((size, num_classes), (1 - RARE) / max(num_classes - 1, 1), dtype=torch.float64)
    probs[:, number] = RARE
    highest = [part.infer(probs.log())[1][..., number].amax() for part in parts if len(part.groups.indices)]
    return max((float(value) for value in highest), default=0.0)


def rates(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Kinds that disagree about how frequent a class is."""
    implied = {part.name: _rates(part, size, len(classes)) for part in parts}
    for (left, left_rates), (right, right_rates) in combinations(implied.items(), 2):
        if left_rates is None or right_rates is None or not _about_rates(parts, left, right):
            continue
        gaps = (left_rates - right_rates).abs()
        worst = int(gaps.argmax())
        if float(gaps[worst]) > FAR_APART:
            message = (
                f"{left} implies {float(left_rates[worst]):.0%} of class {classes[worst]!r}, "
                f"{right} {float(right_rates[worst]):.0%}; if they describe the same population, one is wrong"
            )
            yield Finding("warning", "contradicting rates", message)


def _rates(part: Part, size: int, num_classes: int) -> Float[Tensor, "classes"] | None:
    """Mean posterior under even predictions: how frequent each class is, if nothing but the weak labels is known."""
    _, marginals, _ = part.infer(torch.zeros(size, num_classes, dtype=torch.float64))
    total = marginals.sum((0, 1))
    return total / total.sum() if float(total.sum()) > 0 else None


def _about_rates(parts: Sequence[Part], left: str, right: str) -> bool:
    """Whether both kinds speak of shares of a class; a set of candidates or a pair does not fix any."""
    speaking = ("Proportions", "ClassCounts", "NoisyProportions", "Unlabeled")
    return left.startswith(speaking) and right.startswith(speaking)


def exchangeable_classes(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Classes that all weak labels treat alike: nothing can tell which is which."""
    for first, pairs in groupby(sorted(_exchangeable(parts, len(classes))), key=lambda pair: pair[0]):
        *names, last = [repr(classes[number]) for number in (first, *(other for _, other in pairs))]
        message = (
            f"classes {', '.join(names)} and {last} can be exchanged everywhere: the labels are known "
            "only up to their names; a few true labels would settle it"
        )
        yield Finding("warning", "exchangeable classes", message)


def _exchangeable(parts: Sequence[Part], num_classes: int) -> Iterator[tuple[int, int]]:
    """Classes that can be exchanged without changing any likelihood, each with the first that it is like.

    Whoever is like the first of a set is like all of it: (a c) is (a b)(b c)(a b).
    """
    firsts: list[int] = []
    for number in range(min(num_classes, MOST_CLASSES)):
        like = next((first for first in firsts if _can_be_exchanged(parts, first, number, num_classes)), None)
        if like is None:
            firsts.append(number)
        else:
            yield like, number


def _can_be_exchanged(parts: Sequence[Part], left: int, right: int, num_classes: int) -> bool:
    """Whether two classes are alike to every group, for predictions at random."""
    usual = torch.arange(num_classes)
    exchanged = usual.clone()
    exchanged[[left, right]] = usual[[right, left]]
    return all(
        torch.allclose(_at_random(piece, usual), _at_random(piece, exchanged), atol=1e-9)
        for pieces in zip_longest(*(part.pieces() for part in parts))
        for piece in pieces
        if piece is not None
    )


def _at_random(part: Part, order: Int[Tensor, "classes"]) -> Float[Tensor, "groups"]:
    """Log-likelihoods for predictions at random, always the same ones, with the classes in this order."""
    lengths = part.groups.lengths
    shape = (len(lengths), int(lengths.max()) if len(lengths) else 0, len(order))
    random = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(-1)
    return part.weak.infer(random[..., order], lengths).log_likelihood


def _log_likelihood(part: Part, log_probs: Tensor) -> Float[Tensor, "groups"]:
    table, lengths = part.groups.padded(torch.arange(len(part.groups)))
    return part.weak.infer(log_probs[table], lengths).log_likelihood


def constant_classifiers(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Classes that could be predicted everywhere without contradicting anything."""
    some = [part.some_from(0, MOST_GROUPS) for part in parts if not _is_projection(part)]
    best = [_best(part, len(classes)) for part in some]

    def gets_away(number: int) -> bool:
        always = torch.full((size, len(classes)), -torch.inf, dtype=torch.float64)
        always[:, number] = 0.0
        found = [_log_likelihood(part, always) for part in some]
        return all(bool((mine >= most - 1e-9).all()) for mine, most in zip(found, best, strict=True))

    names = [repr(name) for number, name in enumerate(classes) if some and gets_away(number)]
    if names:
        message = (
            f"predicting {' or '.join(names)} everywhere satisfies every weak label as well as anything can: training "
            "may end there; add other groups, true labels or a class prior"
        )
        yield Finding("warning", "constant classifier", message)


def _is_projection(part: Part) -> bool:
    """Whether the kind has no weights on labelings, so that no labeling can be best."""
    return len(part.groups) > 0 and isinstance(part.weak[[0]].form(part.groups.lengths[:1]), AbstractProjection)


def _best(part: Part, num_classes: int) -> Float[Tensor, "groups"]:
    """The largest log-weight that any labeling of each group has."""
    table, lengths = part.groups.padded(torch.arange(len(part.groups)))
    even = torch.zeros(*table.shape, num_classes, dtype=torch.float64)
    modes = part.weak.infer(even, lengths).mode()
    sure = torch.nn.functional.one_hot(modes.clamp_min(0), num_classes).double().log()
    return part.weak.infer(sure, lengths).log_likelihood


def approximate_answers(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Whether the largest groups of a kind are too large for exact posteriors, at predictions drawn at random."""
    for part in parts:
        longest = part.groups.lengths.sort(descending=True, stable=True)
        fit = MOST_NUMBERS // max([*longest.values[:1].tolist(), 1]) // len(classes)
        chosen = longest.indices[: min(max(fit, 1), FEW_GROUPS)]
        lengths = part.groups.lengths[chosen]
        shape = (len(chosen), max(lengths.tolist(), default=0), len(classes))
        random = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(-1)
        error = part.weak[chosen].infer(random, lengths).error
        if error is not None:
            most = float(error.max())
            name = part.some(chosen[[int(error.argmax())]].tolist())
            message = (
                f"{part.name}: the posteriors of large groups are approximate: those of group {name} may be off by "
                f"{most:.2g} (estimate, at random predictions); those of smaller groups are exact"
            )
            groups = tuple(chosen[error > 0].tolist())
            yield Finding("warning" if most > FAR_OFF else "note", "approximate posteriors", message, groups)


CHECKS: tuple[Callable[[Sequence[Part], int, Sequence[str]], Iterator[Finding]], ...] = (
    infeasible_groups,
    contradictions,
    small_groups,
    silent_classes,
    rates,
    exchangeable_classes,
    constant_classifiers,
    approximate_answers,
)
