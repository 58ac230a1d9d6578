"""`MultiInstance`: whether a class occurs in a group. `PresentClasses`: which classes do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.automata import Automaton, explore
from glws.errors import DataError
from glws.inference import AbstractForm, Automata, Posterior, PresenceSet, PresenceWeights, Selected
from glws.inference._joint.limits import largest_set
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, class_mask, label_counts, marks_or_unknown, rates, true_labels
from glws.kinds._bag_rule import BagRule, log_selection
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._narrowing import Narrowed, by_counted, by_counts
from glws.kinds._noise import (
    PRIOR,
    LearnsNoise,
    absence,
    bounded_flip,
    changed,
    flip_counts,
    learned_flip,
    log_rates,
    log_report,
    possible_groups,
    report_counts,
    report_probability,
)
from glws.kinds._wording import Names, listed, of_classes, plain

CHOSEN = "how often reports are wrong cannot be learned of groups that were chosen by their report (share)"


@dataclass(frozen=True, eq=False)
class MultiInstance(LearnsNoise):
    """Whether any instance of a group is of the counted class (or classes): 1 yes, 0 no, -1 (`UNKNOWN`) not known.

        p(w | y) = P(reported w | some y_j is counted or none is)

    Without noise, 1 for the labelings that agree with w. `flip[0]` is the probability that a group without a counted
    instance is reported to have one, `flip[1]` that a group with one is reported to have none. A group of no instances
    has none.

    Groups are often sampled by their report: as many of either sort, say, while by chance nearly every long group would
    have a counted instance. A model that ignores this selection finds too few instances of the counted class. With
    `share`, the share of that class among all instances, the model is p(w | x, selected), for groups that were selected
    with a probability in proportion to

        (share of groups reported w in these data) / P(reported w | the size of the group, `share`)

    >>> weak = MultiInstance.of([1, 0])
    >>> weak.infer(torch.tensor([[[0.8, 0.2], [0.5, 0.5]]] * 2).log()).marginals[:, :, 1]
    tensor([[0.3333, 0.8333],
            [0.0000, 0.0000]])
    """

    name: ClassVar[str] = "multi_instance"
    noun: ClassVar[str] = "bag"
    columns: ClassVar[Columns] = ({"present": "flag or class"}, {"classes": "set"})
    options: ClassVar[tuple[str, ...]] = ("counted", "flip", "share")
    may_be_unknown: ClassVar[bool] = True

    present: Int[Tensor, "groups"]
    counted: Bool[Tensor, "classes"] = field(metadata=SHARED)
    flip: Float[Tensor, "2"] = field(metadata=SHARED)
    share: float | None = field(default=None, metadata=SHARED)
    reported: tuple[float, float] = field(default=(0.5, 0.5), metadata=SHARED)
    """The shares of groups that are reported to have none and some."""

    @classmethod
    def of(
        cls,
        present: Numbers,
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        flip: float | Numbers = 0.0,
        share: float | None = None,
    ) -> MultiInstance:
        """From 1 or True (at least one), 0 or False (none), -1, None or NaN (not known).

        Marks 1 and -1 without any 0 are refused: write 0 for none. `share` where groups were chosen by their report.
        """
        hint = "1 is at least one, 0 none, None unknown; counts are Proportions.of, all classes PresentClasses.of"
        marks = marks_or_unknown(present, "present", hint=hint)
        known = cls(marks, class_mask(counted, num_classes), rates(flip, "flip", 2))
        return known if share is None else known._chosen(share)

    def _chosen(self, share: float) -> MultiInstance:
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            said = f"share, that of the counted class among all instances, must be between 0 and 1: {plain(share)}"
            raise DataError(said)
        some, known = int((self.present == 1).sum()), int((self.present >= 0).sum())
        if not 0 < some < known:
            raise DataError("groups that were chosen by their report must be of both sorts, found only one")
        return replace(self, share=float(share), reported=(1 - some / known, some / known))

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        lengths: Numbers | None = None,
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        flip: float | Numbers = 0.0,
        generator: torch.Generator | None = None,
    ) -> MultiInstance:
        """What would be reported of groups with these true labels, [groups, instances] with padding."""
        mask, chances = class_mask(counted, num_classes), rates(flip, "flip", 2)
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes)
        present = (occurs * mask).any(1)
        return cls((present ^ _wrong(present, chances, generator)).long(), mask, chances)

    @classmethod
    def from_columns(cls, request: KindRequest) -> MultiInstance | PresentClasses:
        """Whether a class is present; `PresentClasses` of the set of all that are."""
        if "classes" in request.weak:
            return PresentClasses.of(request.weak["classes"], **request.options)
        options = request.counted()
        return cls.of(request.flags("present", options["counted"]), **options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.counted)

    def learning(self, prior: float = PRIOR) -> MultiInstance:
        """Refused for groups that were chosen by their report: the rate of wrong reports is not identified."""
        if self.share is not None:
            raise DataError(CHOSEN)
        return super().learning(prior)

    def class_prior(self) -> Float[Tensor, "classes"] | None:
        """Those of `share`, all counted classes alike and all others alike."""
        if self.share is None:
            return None
        some, others = self.counted.double(), (~self.counted).double()
        return self.share * some / some.sum().clamp_min(1) + (1 - self.share) * others / others.sum().clamp_min(1)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """In closed form."""
        counted, marks = self.counted.expand(len(self), -1), log_marks(self.present, self.flip)
        if self.share is None:
            return PresenceWeights(counted, marks)
        rates_of_reports = self._log_chances(lengths).to(marks)
        known = (self.present >= 0)[:, None]
        own = rates_of_reports.gather(1, self.present.clamp_min(0)[:, None])
        either = torch.logsumexp(rates_of_reports[:, None] + log_rates(self.flip).to(marks), 2)
        return Selected(
            PresenceWeights(counted, marks + torch.where(known, own, 0.0)),
            PresenceWeights(counted, torch.where(known, either, 0.0)),
        )

    def _log_chances(self, lengths: Int[Tensor, "groups"]) -> Float[Tensor, "groups 2"]:
        """log P(taken | reported none) and log P(taken | reported some), up to what they have in common."""
        assert self.share is not None
        return log_selection(lengths, self.share, self.reported, log_rates(self.flip))

    def bag_rule(self) -> BagRule:
        """Whether a counted class occurs."""
        return BagRule((tuple(self.counted.nonzero()[:, 0].tolist()),), self.num_classes, self.share, self.reported)

    def bag_marks(self) -> Int[Tensor, "groups 1"]:
        """What is reported."""
        return self.present[:, None]

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above; of groups that were chosen by it, p(w, taken | y)."""
        counted = {number for number, inside in enumerate(self.counted.tolist()) if inside}
        mark = int(self.present[group])
        weight = _log_mark(mark, not counted.isdisjoint(labels), self.flip)
        if self.share is None or mark < 0:
            return weight
        return weight + float(self._log_chances(torch.tensor([len(labels)]))[0, mark])

    def describe(self, group: int, names: Names = None) -> str:
        """At least one or none."""
        mark = int(self.present[group])
        return f"{('none', 'at least one', 'any number')[mark]} {of_classes(self.counted, names)}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """None, any number, or at least one of the counted classes."""
        none, some = (log_marks(self.present, self.flip) > -torch.inf).unbind(1)
        return by_counted(allowed, lengths, self.counted, (~none).long(), some * lengths)

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2 2"]:
        """How many groups have none and some (rows), and were reported so (columns)."""
        if self.share is not None:
            raise DataError(CHOSEN)
        known = possible_groups(posterior) * (self.present >= 0)
        none = absence(self, posterior, self.counted[None]) * known
        return report_counts(self.present == 1, known - none, known)

    def relearned(self, counts: Float[Tensor, "2 2"]) -> MultiInstance:
        """With the shares of wrong reports."""
        return changed(self, flip=learned_flip(counts, self.flip))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A rate that is rather too high."""
        return {"flip": 0.3}

    def bounded(self) -> MultiInstance:
        """A report speaks for what it says."""
        return changed(self, flip=bounded_flip(self.flip))

    def noise(self, names: Names = None) -> dict[str, float]:
        """Both flip rates."""
        return dict(zip(("none reported as some", "some reported as none"), self.flip.tolist(), strict=True))

    def noise_counts(self) -> Float[Tensor, "2 2"]:
        """One group of each truth."""
        return flip_counts(self.flip)


@dataclass(frozen=True, eq=False)
class PresentClasses(LearnsNoise):
    """Which classes occur in a group, all of them together: for each class 1, 0, or `UNKNOWN` (-1, None).

        p(w | y) = Π_k P(reported w_k | some y_j = k or none is)

    Exact: what is remembered is which of the classes were seen, 2^c states for c classes that occur (with noise, for
    all known ones); without noise of more than twelve classes only the rare ones. Where that is too many, or to train
    as the paper does, `per_class()` treats each class against the rest as if the others were not there. `flip` is as in
    `MultiInstance`, the same for all classes.

    >>> weak = PresentClasses.of([[1, 0, 1]])
    >>> weak.automaton(0, 2).count(2)
    2
    """

    noun: ClassVar[str] = "bag"
    is_multiclass: ClassVar[bool] = True

    present: Int[Tensor, "groups classes"]
    flip: Float[Tensor, "2"] = field(metadata=SHARED)

    @classmethod
    def of(cls, present: Numbers, flip: float | Numbers = 0.0) -> PresentClasses:
        """From marks 1, 0 and -1, None or NaN (not known), or a mask, [groups, classes].

        Marks 1 and -1 without any 0 are refused: write 0 for classes that do not occur, or None for not known.
        """
        hint = "a row for each group: 1, 0 or None (unknown) for each class"
        return cls(marks_or_unknown(present, "present", 2, hint), rates(flip, "flip", 2))

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        lengths: Numbers | None = None,
        num_classes: int = 2,
        flip: float | Numbers = 0.0,
        generator: torch.Generator | None = None,
    ) -> PresentClasses:
        """What would be reported of groups with these true labels, [groups, instances] with padding."""
        chances = rates(flip, "flip", 2)
        present = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes) > 0
        return cls((present ^ _wrong(present, chances, generator)).long(), chances)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.present.shape[1]

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """Plain sets as such; with noise or open marks, one automaton for each set that occurs."""
        is_plain = not bool(self.flip.any()) and not bool((self.present < 0).any())
        if is_plain:
            return PresenceSet(self.present == 1, largest_set(self.present == 1, lengths))
        sets, index = torch.unique(self.present, dim=0, return_inverse=True)
        rates_of_flips = (float(self.flip[0]), float(self.flip[1]))
        return Automata(tuple(_set_automaton(tuple(row), rates_of_flips) for row in sets.tolist()), index)

    def known_presence(self) -> Bool[Tensor, "groups classes"] | None:
        """Where all of it is reported, and reports are right."""
        return self.present > 0 if bool((self.present >= 0).all()) and not bool(self.flip.any()) else None

    def bag_rule(self) -> BagRule:
        """Whether each class occurs."""
        return BagRule(tuple((number,) for number in range(self.num_classes)), self.num_classes)

    def bag_marks(self) -> Int[Tensor, "groups classes"]:
        """What is reported of each class."""
        return self.present

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        marks = self.present[group].tolist()
        return sum(_log_mark(mark, number in labels, self.flip) for number, mark in enumerate(marks))

    def describe(self, group: int, names: Names = None) -> str:
        """The classes that occur and that do not."""
        row = self.present[group]
        others = " and no others" if bool((row >= 0).all()) else f" and none of {listed(row == 0, names)}"
        return f"classes {listed(row == 1, names)}{others}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """None, any number, or at least one of each class."""
        none, some = (log_marks(self.present, self.flip) > -torch.inf).unbind(2)
        return by_counts(allowed, lengths, torch.arange(self.num_classes), ~none, some * lengths[:, None])

    def solved_by(self, method: str) -> PresentClasses:
        """Itself: sets are always answered exactly."""
        if method not in ("auto", "exact"):
            raise DataError(f"sets of classes are answered exactly, or per class; there is no method {method!r}")
        return self

    def per_class(self) -> MultiInstance:
        """Each class against the rest: groups x classes of them, class k of group g at g K + k."""
        return MultiInstance(self.present.flatten(), torch.tensor([False, True]).to(self.present.device), self.flip)

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2 2"]:
        """How many classes are absent and present in groups (rows), and were reported so (columns)."""
        return torch.stack([self._class_counts(posterior, number) for number in range(self.num_classes)]).sum(0)

    def relearned(self, counts: Float[Tensor, "2 2"]) -> PresentClasses:
        """With the shares of wrong reports."""
        return changed(self, flip=learned_flip(counts, self.flip))

    def bounded(self) -> PresentClasses:
        """A report speaks for what it says."""
        return changed(self, flip=bounded_flip(self.flip))

    def noise(self, names: Names = None) -> dict[str, float]:
        """Both flip rates."""
        return dict(zip(("absent reported as present", "present reported as absent"), self.flip.tolist(), strict=True))

    def noise_counts(self) -> Float[Tensor, "2 2"]:
        """One group of each truth."""
        return flip_counts(self.flip)

    def _class_counts(self, posterior: Posterior, number: int) -> Float[Tensor, "2 2"]:
        known = possible_groups(posterior) * (self.present[:, number] >= 0)
        none = absence(self, posterior, class_mask(number, self.num_classes)[None]) * known
        return report_counts(self.present[:, number] == 1, known - none, known)


def _wrong(truth: Bool[Tensor, "*shape"], flip: Float[Tensor, "2"], generator: torch.Generator | None) -> Tensor:
    return torch.rand(truth.shape, generator=generator) < flip[truth.long()]


def log_marks(marks: Int[Tensor, "*shape"], flip: Float[Tensor, "2"]) -> Float[Tensor, "*shape 2"]:
    """log p(mark | none), log p(mark | some); 0 where nothing is known."""
    return torch.where(marks[..., None] < 0, 0.0, log_report(marks == 1, flip))


def _log_mark(mark: int, truth: bool, flip: Float[Tensor, "2"]) -> float:
    probability = 1.0 if mark < 0 else report_probability(mark == 1, truth, flip)
    return math.log(probability) if probability > 0 else -math.inf


@lru_cache(maxsize=4096)
def _set_automaton(marks: tuple[int, ...], flip: tuple[float, float]) -> Automaton:
    """Remembers, as the bits of a number, which classes it has seen, of those for which it makes a difference."""
    table = log_marks(torch.tensor(marks), torch.tensor(flip, dtype=torch.float64)).tolist()
    allowed = [number for number, (_, some) in enumerate(table) if some > -math.inf]
    bits = {number: 1 << number for number in allowed if marks[number] >= 0}

    def follow(seen: int) -> Iterable[tuple[int, int, float]]:
        return ((number, seen | bits.get(number, 0), 0.0) for number in allowed)

    def final(seen: int) -> float:
        return math.fsum(table[number][(seen >> number) & 1] for number in range(len(marks)))

    return Automaton.from_table(explore(len(marks), {0: 0.0}, follow, final))
