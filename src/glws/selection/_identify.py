"""`identify`: which class maps the weak labels cannot tell from the truth, and what would settle it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import one_hot

from glws.data import Finding, Groups, WeakDataset
from glws.data._distinct import FEW_GROUPS, Distinct
from glws.errors import DataError
from glws.kinds import AbstractProjection, AbstractSupervision, Labels
from glws.kinds._class_maps import (
    NEVER,
    OPEN,
    AbstractQuestion,
    IntArray,
    Labelings,
    are_allowed,
    exchange,
    exchangeable_sets,
    joined,
    of_evidence,
    questions,
)
from glws.kinds._wording import called
from glws.selection._search import Search, SearchStopped

MOST_CLASSES = 100
"""With more classes nothing is decided; up to this many, pairs of classes are."""
MOST_NAMES = 5
"""Lists of names are cut after so many."""
MOST_SENTENCES = 4
"""So many sentences say which classes may be merged."""
MOST_LABELS = 6
"""Labelings are cut after so many labels."""
LONGEST_WITNESS = 50
"""Groups of more instances do not serve as examples."""
MOST_MAPS = 3
"""So many maps are given as examples of those that are more than an exchange or one class called by another's name."""


@dataclass(frozen=True)
class Witness:
    """A labeling that the weak label of a group allows, and what a class map makes of it: as likely, or more so."""

    kind: str
    part: int
    """Which of the kinds it is, `data.weak[part]`."""
    group: int
    labels: tuple[int, ...]
    renamed: tuple[int, ...]

    def describe(self, names: Sequence[str] | None = None, group_name: object = None) -> str:
        """In words; classes and group by their names, where these are given."""
        before, after = _shown(self.labels, names), _shown(self.renamed, names)
        name = self.group if group_name is None else group_name
        return f"{self.kind}, group {name}: {before} may as well be {after}"


@dataclass(frozen=True)
class Identifiability:
    """What weak labels leave open about the names of the classes; `describe` says it in words.

    A class map f is a shortcut if calling every instance of class k by the name f(k) is as good as the truth to any
    likelihood: w(f(y)) >= w(y) in every group, for every labeling y that its weak label allows.
    """

    num_classes: int
    is_identified: bool | None
    """Whether there is no shortcut; None where that was not decided."""
    exchangeable: tuple[tuple[int, ...], ...] = ()
    """Sets of classes of which any two can be exchanged."""
    everything: tuple[int, ...] = ()
    """Classes by whose name all instances may be called."""
    merged: tuple[tuple[int, int], ...] = ()
    """(a, b) where class a may be called b while all others keep their names."""
    others: tuple[tuple[int, ...], ...] = ()
    """Some other shortcuts: the name of each class, its own for classes that cannot occur."""
    num_shortcuts: int | None = None
    """How many shortcuts there are in all; None where they were not counted."""
    settled_by: tuple[int, ...] | None = None
    """Classes of which one labeled instance each leaves no shortcut, as few as there can be (with more than 12 classes:
    few); None where that was not decided."""
    never: tuple[int, ...] = ()
    """Classes that no instance can have."""
    witness: Witness | None = None

    def describe(self, names: Sequence[str] | None = None) -> list[str]:
        """Sentences; classes by their names, where these are given.

        >>> Identifiability(3, False, exchangeable=((0, 2),), num_shortcuts=1, settled_by=(0,)).describe()
        ["'0' and '2' can be exchanged", 'one labeled instance of either settles it']
        """
        if self.is_identified:
            return ["identified: no other class map satisfies the weak labels as well as the truth"]
        said = [f"{_joined(found, names)} can be exchanged{_order(found)}" for found in self.exchangeable]
        if self.everything:
            said.append(f"everything may be called {_joined(self.everything, names, ' or ')}")
        said += _mergers(self.merged, names)
        said += [_at_once(image, names) for image in self.others]
        if self.is_identified is None:
            said.append(f"whether {'more' if said else 'any'} class maps satisfy the weak labels was not decided")
        if self.settled_by is not None:
            said.append(self._settled(self.settled_by, names))
        return said

    def _settled(self, classes: Sequence[int], names: Sequence[str] | None) -> str:
        if len(classes) > 1:
            return f"labeled instances of {_joined(classes, names)} settle it, one of each"
        is_pair = self.num_shortcuts == 1 and len(self.exchangeable) == 1
        return f"one labeled instance of {'either' if is_pair else _name(classes[0], names)} settles it"

    def findings(
        self, names: Sequence[str], group_names: Sequence[Sequence[object]] | None = None
    ) -> Iterator[Finding]:
        """One finding in words, none where the classes are identified; `group_names` are those of each kind."""
        said = self.describe(names)
        if self.witness is not None:
            part, group = self.witness.part, self.witness.group
            name = None if group_names is None else group_names[part][group]
            said.append(f"for example {self.witness.describe(names, name)}")
        if self.is_identified is False:
            message = f"the weak labels do not identify the classes: {'; '.join(said)}"
            yield Finding("warning", "identifiability", message)
        elif self.is_identified is None:
            yield Finding("note", "identifiability", "; ".join(said))


def identify(data: WeakDataset, labels: Sequence[int] | Tensor | None = None) -> Identifiability:
    """Which class maps the weak labels cannot tell from the truth, from the weak labels that occur; nothing is trained.

    A class map f that calls every instance of class k by the name f(k) is as good as the truth to any likelihood if
    w(f(y)) >= w(y) for the weights w = p(w | y) of every group and every labeling y that its weak label allows. It is
    the same f in all groups of all kinds. Groups are asked about one by one: what others say about their instances only
    rules out classes that no instance can have. A projection (an expected count) must hold for f of any population that
    satisfies it.

    `labels`, the true label of each instance or -1 where it is not known, are for studies in which they are known:
    groups of known labels are asked about these alone, where otherwise any labeling that the weak label allows may be
    true. That is how reasoning shortcuts are counted in the literature.

    >>> from glws.kinds import PairSimilarity
    >>> pairs = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of([True, False]))
    >>> identify(pairs).describe(["cat", "dog"])
    ["'cat' and 'dog' can be exchanged", 'one labeled instance of either settles it']
    """
    if not isinstance(data, WeakDataset):
        raise DataError(
            f"identify asks about data, as different groups identify more than one: identify(WeakDataset(instances, "
            f"groups, weak)); found {type(data).__name__}"
        )
    num_classes = data.weak[0].num_classes
    truth = None if labels is None else _checked(labels, len(data.instances), num_classes)
    if num_classes > MOST_CLASSES:
        return Identifiability(num_classes, None)
    occurs = _occurring(data, truth)
    classes = occurs.nonzero()[:, 0].tolist()
    asked = _asked(data, truth)
    sets = exchangeable_sets(asked, classes, num_classes)
    never = tuple((~occurs).nonzero()[:, 0].tolist())
    found = Identifiability(num_classes, False if sets else None, tuple(map(tuple, sets)), never=never)
    try:
        search = Search(asked, classes, num_classes, sets if truth is None and not never else ())
        found, known = _with_simple_maps(found, search)
        return _with_all_maps(found, search, known, lambda image: _witness(data, truth, image))
    except SearchStopped:
        return found


def names_are_identified(data: WeakDataset) -> bool:
    """Whether no two classes can be exchanged in all that is known; where some can, predictions may be right but for
    their names, and `matched_accuracy` is what tells.

    >>> from glws.kinds import PairSimilarity
    >>> names_are_identified(WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of([True, False])))
    False
    """
    asked, number = _asked(data), data.weak[0].num_classes
    classes = _occurring(data, None).nonzero()[:, 0].tolist()[:MOST_CLASSES]
    return not any(are_allowed(asked, exchange(*pair, classes, number)) for pair in combinations(classes, 2))


def _with_simple_maps(found: Identifiability, search: Search) -> tuple[Identifiability, list[IntArray]]:
    """Exchanges, classes by whose name everything may be called, and single classes that may be called otherwise."""
    classes, number = search.classes, found.num_classes
    maps = [
        exchange(left, right, classes, number) for one in found.exchangeable for left, right in combinations(one, 2)
    ]
    everything, merged = [], []
    for name in range(number):
        image = search.identity()
        image[classes] = name
        if len(classes) > 1 and search.answer(image):
            everything.append(name)
            maps.append(image)
    for own, name in np.argwhere(search.may).tolist():
        image = search.identity()
        image[own] = name
        if own != name and search.answer(image):
            merged.append((own, name))
            maps.append(image)
    is_identified = False if maps else None
    return replace(found, is_identified=is_identified, everything=tuple(everything), merged=tuple(merged)), maps


def _with_all_maps(
    found: Identifiability, search: Search, known: list[IntArray], witness: Callable[[IntArray], Witness | None]
) -> Identifiability:
    """With what only a search through all maps tells, as far as it gets."""
    maps, settling, count, is_decided = list(known), None, None, False
    try:
        settling = search.settling(maps)
        count, is_decided = search.count()
    except SearchStopped:
        pass
    if settling == []:
        return replace(found, is_identified=True, num_shortcuts=0)
    others = [image for image in maps[len(known) :] if search.answer(image)]
    shortcuts = known + others
    own = np.arange(found.num_classes)
    return replace(
        found,
        is_identified=False if shortcuts else None,
        others=tuple(tuple(np.where(image >= 0, image, own).tolist()) for image in others[:MOST_MAPS]),
        num_shortcuts=count - 1 if count is not None and is_decided else None,
        settled_by=None if settling is None or len(shortcuts) < len(maps) else tuple(settling),
        witness=witness(shortcuts[0]) if shortcuts else None,
    )


def _checked(labels: Sequence[int] | Tensor, size: int, num_classes: int) -> Int[Tensor, "instances"]:
    truth = torch.as_tensor(labels).long()
    if truth.shape != (size,):
        raise DataError(f"labels are one for each of the {size:,} instances, found shape {list(truth.shape)}")
    wrong = (truth < OPEN) | (truth >= num_classes)
    if bool(wrong.any()):
        place = int(wrong.nonzero()[0])
        raise DataError(f"labels: instance {place} has {int(truth[place])}, not one of 0..{num_classes - 1} or -1")
    return truth


def _occurring(data: WeakDataset, truth: Tensor | None) -> Bool[Tensor, "classes"]:
    """The classes that some instance may have by every group that it is in, taken one by one."""
    size, num_classes = len(data.instances), data.weak[0].num_classes
    allowed = torch.ones(size, num_classes, dtype=torch.bool)
    used = torch.zeros(size, dtype=torch.bool)
    for groups, weak in zip(data.groups, data.weak, strict=True):
        member = torch.arange(len(groups)).repeat_interleave(groups.lengths)
        place, number = (~weak.feasible(groups.lengths).allowed[member]).nonzero(as_tuple=True)
        allowed[groups.indices[place], number] = False
        used[groups.indices] = True
    if truth is not None:
        known = truth >= 0
        allowed[known] = one_hot(truth[known], num_classes).bool()
    if data.evidence is not None:
        allowed &= data.evidence.cpu() > -torch.inf
    return allowed[used].any(0)


def _asked(data: WeakDataset, truth: Tensor | None = None) -> list[AbstractQuestion]:
    """All questions about class maps, each different one once."""
    asked: list[AbstractQuestion] = [] if data.evidence is None else [of_evidence(data.evidence)]
    for groups, weak in zip(data.groups, data.weak, strict=True):
        is_known = torch.zeros(len(groups), dtype=torch.bool)
        if truth is not None and not _is_projection(weak, groups):
            is_known = _known_groups(groups, truth)
            asked += _of_known(weak, groups, truth, is_known.nonzero()[:, 0])
        for piece in Distinct.of(weak[~is_known], groups.lengths[~is_known]).pieces():
            asked += questions(piece.weak, piece.lengths)
    return joined(asked)


def _is_projection(weak: AbstractSupervision, groups: Groups) -> bool:
    return len(weak) > 0 and isinstance(weak[:1].form(groups.lengths[:1]), AbstractProjection)


def _known_groups(groups: Groups, truth: Tensor) -> Bool[Tensor, "groups"]:
    """The groups of which every label is known."""
    member = torch.arange(len(groups)).repeat_interleave(groups.lengths)
    unknown = torch.bincount(member[truth[groups.indices] < 0], minlength=len(groups))
    return (unknown == 0) & (groups.lengths > 0)


def _of_known(
    weak: AbstractSupervision, groups: Groups, truth: Tensor, numbers: Int[Tensor, "known"]
) -> list[AbstractQuestion]:
    """A question for each different weak label, with the labelings that it occurs with."""
    lengths = groups.lengths[numbers]
    first, index = weak[numbers].distinct(lengths)
    labelings: list[set[tuple[int, ...]]] = [set() for _ in first]
    for number, place in zip(numbers.tolist(), index.tolist(), strict=True):
        members = groups.indices[groups.offsets[number] : groups.offsets[number + 1]]
        labelings[place].add(tuple(truth[members].tolist()))
    chosen = numbers[first].tolist()
    return [Labelings(weak[[number]], tuple(sorted(found))) for number, found in zip(chosen, labelings, strict=True)]


def _witness(data: WeakDataset, truth: Tensor | None, image: IntArray) -> Witness | None:
    """A short group with a labeling that the map changes; None where none was found among a few of each kind."""
    kinds = sorted(range(len(data.weak)), key=lambda kind: isinstance(data.weak[kind], Labels))
    for kind in kinds:
        groups, weak = data.groups[kind], data.weak[kind]
        if _is_projection(weak, groups):
            continue
        first = weak.distinct(groups.lengths)[0]
        for group in first[torch.argsort(groups.lengths[first], stable=True)][:FEW_GROUPS].tolist():
            members = groups.indices[groups.offsets[group] : groups.offsets[group + 1]]
            labels = _labeling(weak[[group]], members, truth, image)
            renamed = image[labels].tolist()
            if labels != renamed and min(renamed) >= 0:
                return Witness(type(weak).__name__, kind, group, tuple(labels), tuple(renamed))
    return None


def _labeling(
    weak: AbstractSupervision, members: Int[Tensor, "members"], truth: Tensor | None, image: IntArray
) -> list[int]:
    """The labels of one group where they are known; else some that it may have, of renamed classes if it can.

    Empty for a long group, and where feasibility was not decided.
    """
    if truth is not None and bool((truth[members] >= 0).all()):
        return truth[members].tolist()
    labels: list[int] = []
    if len(members) > LONGEST_WITNESS:
        return labels
    length = torch.tensor([len(members)])
    allowed = torch.from_numpy(image != NEVER).repeat(len(members), 1)
    for place in range(len(members)):
        options = weak.narrowed(allowed, length).allowed[place].nonzero()[:, 0].tolist()
        if not options:
            return []
        labels.append(min(options, key=lambda label: (image[label] == label, labels.count(label))))
        allowed[place] = torch.arange(len(image)) == labels[-1]
    return labels if weak.log_weight(0, labels) > -np.inf else []


def _name(number: int, names: Sequence[str] | None) -> str:
    return repr(called(number, names))


def _shown(labels: Sequence[int], names: Sequence[str] | None) -> str:
    """A labeling: its first labels, and how many more there are."""
    words = [_name(label, names) for label in labels[:MOST_LABELS]]
    more = [f"... {len(labels) - MOST_LABELS:,} more"] if len(labels) > MOST_LABELS else []
    return f"({', '.join(words + more)})"


def _joined(numbers: Sequence[int], names: Sequence[str] | None, last: str = " and ") -> str:
    """The first few of many names, and how many more there are."""
    words = [_name(number, names) for number in numbers]
    if len(words) > MOST_NAMES + 1:
        words = [*words[:MOST_NAMES], f"{len(words) - MOST_NAMES:,} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}{last}{words[-1]}"


def _mergers(merged: Sequence[tuple[int, int]], names: Sequence[str] | None) -> list[str]:
    """Which classes may be called by the names of others; those with the same choice in one sentence."""
    choices: dict[int, list[int]] = {}
    for own, name in merged:
        choices.setdefault(own, [own]).append(name)
    alike: dict[tuple[int, ...], list[int]] = {}
    for own, choice in choices.items():
        alike.setdefault(tuple(sorted(choice)), []).append(own)
    said = []
    for names_of, those in alike.items():
        if len(those) == 1:
            others = [name for name in names_of if name != those[0]]
            said.append(f"{_name(those[0], names)} may be called {_joined(others, names, ' or ')}")
        else:
            said.append(f"each of {_joined(those, names)} may be called {_joined(names_of, names, ' or ')}")
    return said if len(said) <= MOST_SENTENCES + 1 else [*said[:MOST_SENTENCES], "other classes may be merged as well"]


def _at_once(image: Sequence[int], names: Sequence[str] | None) -> str:
    """A map in words: who is called by another name."""
    moved = [(own, name) for own, name in enumerate(image) if own != name]
    (own, name), *rest = moved
    parts = [f"{_name(own, names)} may be called {_name(name, names)}"]
    parts += [f"{_name(own, names)} {_name(name, names)}" for own, name in rest]
    return f"{', '.join(parts)}, all at once"


def _order(found: Sequence[int]) -> str:
    return " in any order" if len(found) > 2 else ""
