"""The class maps that some questions allow: which there are, how many, and the smallest set of classes that pins them.

Pairs "class a is called b" that no other class leaves room for are taken away first, until nothing changes; then maps
are completed class by class, and given up as soon as a question forbids what is decided so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product

import numpy as np

from glws.kinds._class_maps import NEVER, OPEN, AbstractQuestion, BoolArray, IntArray, are_allowed, identity

MOST_CHECKS = 10_000
"""A search asks about so many maps, decided in part or in full, beside two for each pair of classes."""
MOST_SETS = 12
"""Of so many classes the smallest set that settles everything is found by trying all sets."""


class SearchStopped(Exception):
    """The search has asked about as many maps as it may."""


class Search:
    """Maps of the `classes` that occur to all classes; the others stay undecided.

    `sets` are classes of which any two can be exchanged before and after any map: they are counted together.
    """

    def __init__(
        self,
        asked: Sequence[AbstractQuestion],
        classes: Sequence[int],
        num_classes: int,
        sets: Sequence[Sequence[int]] = (),
    ) -> None:
        self.asked, self.classes, self.num_classes = asked, list(classes), num_classes
        self.block = np.arange(num_classes)
        for chosen in sets:
            self.block[list(chosen)] = chosen[0]
        self.most, self.answers = MOST_CHECKS + 2 * num_classes**2, dict[bytes, bool | None]()
        self.may = self._refined()

    def answer(self, image: IntArray) -> bool | None:
        """Whether all questions allow what is decided of a map; None where some do not say."""
        key = image.tobytes()
        if key not in self.answers:
            if len(self.answers) >= self.most:
                raise SearchStopped
            self.answers[key] = are_allowed(self.asked, image)
        return self.answers[key]

    def identity(self) -> IntArray:
        """The map that changes nothing."""
        return identity(self.classes, self.num_classes)

    def nothing(self) -> IntArray:
        """The map of which nothing is decided."""
        image = self.identity()
        image[self.classes] = OPEN
        return image

    def _refined(self) -> BoolArray:
        may = np.zeros((self.num_classes, self.num_classes), dtype=bool)
        for number in self.classes:
            may[number] = [self._fits({number: name}) for name in range(self.num_classes)]
        before = None
        while before is None or not np.array_equal(before, may):
            before = may.copy()
            for number, name in np.argwhere(may).tolist():
                may[number, name] = all(
                    any(self._fits({number: name, other: its}) for its in _own_first(other, may))
                    for other in self.classes
                    if other != number
                )
        return may

    def _fits(self, decided: dict[int, int]) -> bool:
        """Whether these classes may have these names at the same time, for all that is known."""
        image = self.nothing()
        image[list(decided)] = list(decided.values())
        return self.answer(image) is not False

    def completions(self, image: IntArray) -> Iterator[IntArray]:
        """All full maps that agree with what is decided and that no question forbids."""
        names = self._left(image)
        if names is None:
            return
        if not names:
            yield image
            return
        number = min(names, key=lambda number: len(names[number]))
        for name in sorted(names[number], key=lambda name: name != number):
            yield from self.completions(_with(image, number, name))

    def _left(self, image: IntArray) -> dict[int, list[int]] | None:
        """The names that each class that is not decided may have, None where that is none for one of them."""
        if self.answer(image) is False:
            return None
        decided = [(number, int(image[number])) for number in self.classes if image[number] >= 0]
        names = {
            number: [
                name
                for name in np.flatnonzero(self.may[number]).tolist()
                if all(self._fits({number: name, other: its}) for other, its in decided)
            ]
            for number in self.classes
            if image[number] == OPEN
        }
        return names if all(names.values()) else None

    def another(self, fixed: Collection[int] = ()) -> IntArray | None:
        """A map that is not the identity and leaves the `fixed` classes as they are, None if there is none."""
        start = self.nothing()
        start[list(fixed)] = list(fixed)
        for number in self.classes:
            for name in _own_first(number, self.may):
                if number not in fixed and name != number:
                    found = next(self.completions(_with(start, number, name)), None)
                    if found is not None:
                        return found
        return None

    def count(self) -> tuple[int, bool]:
        """How many maps no question forbids, the identity among them, and whether all of them are decided."""
        self._is_decided, total = True, 1
        for part in self._parts():
            self._counted: dict[tuple[object, ...], int] = {}
            image = np.full(self.num_classes, NEVER)
            image[part] = OPEN
            total *= self._count(image)
        return total, self._is_decided

    def _parts(self) -> list[list[int]]:
        """Classes whose names have nothing to do with those of other parts; only known where pairs tell everything."""
        if not all(question.is_pairwise for question in self.asked):
            return [self.classes]
        parts: list[list[int]] = []
        for number in self.classes:
            linked = [part for part in parts if any(self._are_linked(number, other) for other in part)]
            parts = [part for part in parts if part not in linked]
            parts.append([*(other for part in linked for other in part), number])
        return parts

    def _are_linked(self, left: int, right: int) -> bool:
        names = product(np.flatnonzero(self.may[left]).tolist(), np.flatnonzero(self.may[right]).tolist())
        return any(not self._fits({left: name, right: other}) for name, other in names)

    def _count(self, image: IntArray) -> int:
        """Completions of a map. Maps that exchanges turn into one another have as many."""
        names = self._left(image)
        if names is None:
            return 0
        if not names:
            self._is_decided &= self.answer(image) is True
            return 1
        held = self._held(image)
        key = (*sorted((block, held[name]) for name, block in enumerate(self.block.tolist())),)
        if key not in self._counted:
            number, total = min(names, key=lambda number: len(names[number])), 0
            alike: dict[tuple[object, ...], list[int]] = {}
            for name in names[number]:
                alike.setdefault((int(self.block[name]), held[name]), []).append(name)
            for same in alike.values():
                total += len(same) * self._count(_with(image, number, same[0]))
            self._counted[key] = total
        return self._counted[key]

    def _held(self, image: IntArray) -> list[tuple[int, ...]]:
        """For each name the classes that have it, up to exchanges."""
        held: list[list[int]] = [[] for _ in range(self.num_classes)]
        for number in self.classes:
            if image[number] >= 0:
                held[image[number]].append(int(self.block[number]))
        return [tuple(sorted(blocks)) for blocks in held]

    def settling(self, found: list[IntArray]) -> list[int]:
        """The fewest classes that no other map leaves as they are; adds to `found` the maps that tell so.

        Of more than MOST_SETS classes few, but not always the fewest.
        """
        while True:
            chosen = _hitting_set([self.moved(image) for image in found], sorted(self.classes))
            other = self.another(chosen)
            if other is None:
                return chosen
            found.append(other)

    def moved(self, image: IntArray) -> set[int]:
        """The classes that a map gives another name."""
        return {number for number in self.classes if image[number] not in (number, OPEN)}


def _with(image: IntArray, number: int, name: int) -> IntArray:
    longer = image.copy()
    longer[number] = name
    return longer


def _own_first(number: int, may: BoolArray) -> list[int]:
    names: list[int] = np.flatnonzero(may[number]).tolist()
    return sorted(names, key=lambda name: name != number)


def _hitting_set(sets: Sequence[set[int]], classes: Sequence[int]) -> list[int]:
    """A smallest choice of classes with one of each set; by greedy choice for many classes."""
    if len(classes) <= MOST_SETS:
        choices = (list(chosen) for size in range(len(classes) + 1) for chosen in combinations(classes, size))
        return next(chosen for chosen in choices if all(not one.isdisjoint(chosen) for one in sets))
    left, chosen = list(sets), []
    while left:
        chosen.append(max(classes, key=lambda number: sum(number in one for one in left)))
        left = [one for one in left if chosen[-1] not in one]
    return sorted(chosen)
