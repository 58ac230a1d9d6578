"""Checks of weakly labeled data before training: errors, contradictions, classes that cannot be learned.

`CHECKS` is the list of checks; each yields findings. Feasibility is decided by the kinds in closed form and by
propagation between them. Likelihoods come from `glws.infer`, once for each distinct pair of weak label and group size,
short groups first, and stop at the first group that decides the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, zip_longest

import torch
from jaxtyping import Float
from torch import Tensor

from glws.data._dataset import WeakDataset
from glws.data._distinct import FEW_GROUPS, MOST_NUMBERS, Distinct
from glws.data._groups import Groups
from glws.data._propagation import Constraint, Verdict, are_disjoint, decide
from glws.kinds import AbstractSupervision, Votes
from glws.kinds._class_maps import exchangeable_sets, joined, questions
from glws.kinds._narrowing import Narrowed

MAX_VISITED = 50_000_000
"""Limit on instances times classes in the search for a weak label that mentions a class."""
MOST_CLASSES = 30
"""Limit on the number of classes whose pairs are compared."""
MOST_NAMES = 5
"""Limit on the length of lists of names in messages."""
MOST_EXAMPLES = 3
"""Limit on the distinct sentences about groups in a message."""
RARE = 0.01
"""The prior probability of a class in checks whether a weak label makes it more likely."""
ROUNDED = 0.05
"""Shares that differ by less, where counts differ by less than 1/2, are equal up to rounding of counts."""
FAR_APART = 0.2
"""Two kinds contradict each other if their rates of a class differ by more than this."""
FAR_OFF = 0.05
"""Approximate posteriors with a larger error estimate cause a warning."""


@dataclass(frozen=True)
class Finding:
    """A result of a check: "error" (prevents training), "warning" (misleads training), or "note"."""

    level: str
    check: str
    message: str
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Part:
    """The groups of one kind and their weak labels."""

    name: str
    groups: Groups
    weak: AbstractSupervision
    group_names: Sequence[object]

    @cached_property
    def feasible(self) -> Narrowed:
        """Which groups are feasible by themselves."""
        return self.weak.feasible(self.groups.lengths)

    @cached_property
    def distinct(self) -> Distinct:
        """The distinct pairs of weak label and group size."""
        return Distinct.of(self.weak, self.groups.lengths)

    def some(self, groups: Sequence[int]) -> str:
        """Some of these groups, by name: "3, 4 and 17 more"."""
        return _listed([str(self.group_names[group]) for group in groups])

    def called(self, groups: Sequence[int]) -> str:
        """The same groups as a noun: "group 3", "groups 3, 4 and 17 more"."""
        return f"group{'s' * (len(groups) > 1)} {self.some(groups)}"

    def examples(self, groups: Sequence[int], sentence: Callable[[int], str]) -> str:
        """Sentences about these groups, each distinct one once, with its groups."""
        about: dict[str, list[int]] = {}
        for group in groups:
            about.setdefault(sentence(group), []).append(group)
        parts = [f"{words} ({self.called(members)})" for words, members in about.items()]
        return _listed(parts, MOST_EXAMPLES, "; ", "; ")


def examine(
    data: WeakDataset, classes: Sequence[str], group_names: Sequence[Sequence[object]] | None = None
) -> list[Finding]:
    """All findings, errors first, each once. `data` may have been built with `check=False`.

    `group_names` are the names of the groups of each kind in messages; by default they are numbers.

    >>> from glws.kinds import Proportions
    >>> bags = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.of([1, 3]), check=False)
    >>> [finding.check for finding in examine(bags, ["negative", "positive"])]
    ['infeasible groups']
    """
    parts, size = _parts(data, group_names), len(data.instances)
    findings = dict.fromkeys(finding for check in CHECKS for finding in check(parts, size, classes))
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _parts(data: WeakDataset, group_names: Sequence[Sequence[object]] | None = None) -> list[Part]:
    called = group_names or [range(len(groups)) for groups in data.groups]
    return [Part(*each) for each in zip(_names(data.weak), data.groups, data.weak, called, strict=True)]


def _names(kinds: Sequence[AbstractSupervision]) -> list[str]:
    names = [type(weak).__name__ for weak in kinds]
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names)]


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _listed(words: Sequence[str], most: int = MOST_NAMES, between: str = ", ", last: str = " and ") -> str:
    """The first few of many words, and the number of the others."""
    if len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most:,} more"]
    return words[0] if len(words) == 1 else f"{between.join(words[:-1])}{last}{words[-1]}"


def _classes(names: Sequence[str]) -> str:
    """Some classes, by name: "class 'a'", "class 'a' or 'b'"."""
    return f"class {_listed([repr(name) for name in names], last=' or ')}"


def _about(part: Part, group: int, classes: Sequence[str]) -> str:
    """The weak label of a group, and its size."""
    length = _number(int(part.groups.lengths[group]), "instance")
    return f"{part.weak.describe(group, classes)} cannot hold in a group of {length}"


def infeasible_groups(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Groups that no labeling of their length satisfies."""
    for part in parts:
        wrong = (~part.feasible.possible).nonzero()[:, 0].tolist()
        if wrong:
            reasons = part.examples(wrong, lambda group: _about(part, group, classes))  # noqa: B023 - called at once
            message = f"{part.name}: no labeling satisfies {_number(len(wrong), 'group')}: {reasons}"
            yield Finding("error", "infeasible groups", message, tuple(wrong))


def contradictions(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Groups that the weak labels of other groups with the same instances make infeasible.

    Also groups for which that was not decided, and classes that no instance may have.
    """
    verdict = _decided(parts, size, len(classes))
    for part, mask in zip(parts, verdict.contradictory, strict=True):
        wrong = mask.nonzero()[:, 0].tolist()
        if wrong:
            reasons = part.examples(wrong, lambda group: part.weak.describe(group, classes))  # noqa: B023
            message = (
                f"{part.name}: {_number(len(wrong), 'group')} cannot hold together with other groups of the same "
                f"instances: {reasons}"
            )
            yield Finding("error", "contradictions", message, tuple(wrong))
    for part, mask in zip(parts, verdict.undecided, strict=True):
        left = mask.nonzero()[:, 0].tolist()
        if left:
            message = (
                f"{part.name}: not decided whether some labeling satisfies {_number(len(left), 'group')} together with "
                f"the groups that share instances with them: the search was stopped ({part.called(left)})"
            )
            yield Finding("note", "undecided groups", message, tuple(left))
    excluded = [
        name for name, is_possible in zip(classes, verdict.allowed.any(0).tolist(), strict=True) if not is_possible
    ]
    if excluded:
        yield Finding(
            "warning", "classes never possible", f"no instance can be of {_classes(excluded)}, by its weak labels"
        )


def _decided(parts: Sequence[Part], size: int, num_classes: int) -> Verdict:
    """The verdict on all groups that are feasible alone; without shared instances nothing is propagated."""
    constraints = [Constraint(part.groups, part.weak, part.feasible.possible) for part in parts]
    nothing = [torch.zeros_like(part.used) for part in constraints]
    if are_disjoint(constraints, size):
        allowed = torch.cat([part.feasible.allowed for part in parts])
        return Verdict(allowed, nothing, [~part.feasible.decided for part in parts])
    verdict = decide(constraints, size, num_classes)
    used = torch.cat([part.groups.indices for part in parts])
    return verdict._replace(allowed=verdict.allowed[used])


def small_groups(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Empty groups, and instances in no group."""
    for part in parts:
        empty = (part.groups.lengths == 0).nonzero()[:, 0].tolist()
        if empty:
            message = f"{part.name}: {_number(len(empty), 'group')} without instances ({part.called(empty)})"
            yield Finding("warning", "empty groups", message, tuple(empty))
        alone = int((part.groups.lengths == 1).sum())
        if 0 < alone < len(part.groups):
            yield Finding("note", "single instances", f"{part.name}: {_number(alone, 'group')} of one instance")
    used = torch.zeros(size, dtype=torch.bool)
    used[torch.cat([part.groups.indices for part in parts])] = True
    if not bool(used.all()):
        unused = int((~used).sum())
        message = f"{unused:,} of {_number(size, 'instance')} in no group: training does not use them"
        yield Finding("note", "unused instances", message)


def silent_classes(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Classes that no weak label makes more likely, while others are.

    A weak label mentions a class if it makes it more likely when its prior is RARE.
    """
    raised = [_highest(parts, number, len(classes)) for number in range(len(classes))]
    silent = [0 < highest <= RARE + 1e-9 for highest in raised]
    if any(silent) and not all(silent):
        names = _classes([name for name, is_silent in zip(classes, silent, strict=True) if is_silent])
        message = f"no weak label makes {names} more likely for any instance: a model can hardly learn to predict that"
        yield Finding("warning", "classes never mentioned", message)


def _highest(parts: Sequence[Part], number: int, num_classes: int) -> float:
    """The largest posterior of a class of prior RARE; any larger than RARE, if there is one."""
    probs = torch.full((num_classes,), (1 - RARE) / max(num_classes - 1, 1), dtype=torch.float64)
    probs[number] = RARE
    highest, visited = 0.0, 0
    for piece in _in_turn(parts):
        values = piece.filled(probs.log())
        if values.numel():
            highest = max(highest, float(piece.weak.infer(values, piece.lengths).marginals[..., number].amax()))
        visited += values.numel()
        if highest > RARE + 1e-9 or visited > MAX_VISITED:
            return max(highest, 2 * RARE)
    return highest


def _in_turn(parts: Sequence[Part]) -> Iterator[Distinct]:
    """The pieces of all kinds, alternating between kinds."""
    for pieces in zip_longest(*(part.distinct.pieces() for part in parts)):
        yield from (piece for piece in pieces if piece is not None)


def rates(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Kinds that disagree about the frequency of a class."""
    stated = [(part.name, shares) for part in parts if (shares := _stated_shares(part)) is not None]
    for (left, left_rates), (right, right_rates) in combinations(stated, 2):
        gaps = torch.maximum(left_rates[0] - right_rates[1], right_rates[0] - left_rates[1])
        worst = int(gaps.argmax())
        if float(gaps[worst]) > FAR_APART:
            message = (
                f"{left} states {_range(left_rates, worst)} of class {classes[worst]!r}, "
                f"{right} {_range(right_rates, worst)}: if they describe the same population, one is wrong"
            )
            yield Finding("warning", "contradicting rates", message)


def _stated_shares(part: Part) -> Float[Tensor, "2 classes"] | None:
    """The smallest and the largest share of each class in all groups of a kind that states counts."""
    counts, total = part.weak.stated_counts(part.groups.lengths), len(part.groups.indices)
    return None if counts is None or not total else torch.stack([each.double().sum(0) for each in counts]) / total


def _range(shares: Float[Tensor, "2 classes"], number: int) -> str:
    low, high = f"{float(shares[0, number]):.0%}", f"{float(shares[1, number]):.0%}"
    return low if low == high else f"{low} to {high}"


def equal_shares(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Groups with equal class shares, if nothing else distinguishes the classes."""
    common = [(part, _common_shares(part)) for part in parts]
    shares = [share for _, share in common if share is not None]
    if not shares or any(float((share - shares[0]).abs().max()) > 1e-6 for share in shares):
        return
    others = [part for part, share in common if share is None]
    if float(shares[0].max()) == 1 or (others and _tell_classes_apart(others, len(classes))):
        return
    number = sum(len(part.groups) for part, share in common if share is not None)
    each = _listed([f"{float(share):.2g} of {name!r}" for name, share in zip(classes, shares[0].tolist(), strict=True)])
    subject = "there is only one group, with" if number == 1 else f"the {number:,} groups all have the same"
    message = (
        f"{subject} class shares ({each}): counts that do not differ between groups do not identify the classes; "
        "add groups with other shares, or a few true labels"
    )
    yield Finding("warning", "equal shares", message)


def _tell_classes_apart(parts: Sequence[Part], num_classes: int) -> bool:
    """Whether two classes are not exchangeable."""
    if num_classes > MOST_CLASSES:
        return True
    pieces = [piece for part in parts for piece in part.distinct.pieces()]
    asked = joined([question for piece in pieces for question in questions(piece.weak, piece.lengths)])
    return exchangeable_sets(asked, range(num_classes), num_classes) != [list(range(num_classes))]


def _common_shares(part: Part) -> Float[Tensor, "classes"] | None:
    """The class shares of all groups of a kind, if they are equal up to rounding of counts."""
    stated = part.weak.stated_counts(part.groups.lengths)
    if stated is None or not torch.equal(*stated) or not len(part.groups.indices):
        return None
    counts, sizes = stated[0].double(), part.groups.lengths.double()[:, None]
    share = counts.sum(0) / sizes.sum()
    gaps = (counts - share * sizes).abs()
    rounding = torch.where(counts == counts.round(), (ROUNDED * sizes).clamp_max(0.5), 0.0) + 1e-6
    return share if bool((gaps < rounding).all()) else None


def approximate_answers(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Kinds whose largest groups have approximate posteriors, at random predictions."""
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
            name = part.called(chosen[[int(error.argmax())]].tolist())
            message = (
                f"{part.name}: the posteriors of large groups are approximate: those of {name} may be off by "
                f"{most:.2g} (estimate, at random predictions); those of smaller groups are exact"
            )
            groups = tuple(chosen[error > 0].tolist())
            yield Finding("warning" if most > FAR_OFF else "note", "approximate posteriors", message, groups)


def vote_sources(parts: Sequence[Part], size: int, classes: Sequence[str]) -> Iterator[Finding]:
    """Sources of votes that tell nothing, repeat each other or are worse than chance, and instances without votes."""
    for part in parts:
        if isinstance(part.weak, Votes):
            for line in part.weak.review().warnings:
                yield Finding("warning", "sources of votes", f"{part.name}: {line}")


Check = Callable[[Sequence[Part], int, Sequence[str]], Iterator[Finding]]
"""A check: from the kinds, the number of instances and the names of the classes to findings."""

CHECKS: tuple[Check, ...] = (
    infeasible_groups,
    contradictions,
    small_groups,
    silent_classes,
    rates,
    equal_shares,
    approximate_answers,
    vote_sources,
)
"""Every check, in the order in which their findings are reported within a level."""
