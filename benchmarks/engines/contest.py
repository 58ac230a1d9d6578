"""What a benchmark is made of: tasks, their inputs at a size, and the contestants that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

OURS, PEER, BY_HAND, PARTIAL, YARDSTICK = "ours", "peer", "written by hand", "likelihood only", "yardstick"
"""Kinds of contestants: ours; libraries with the same answer; a few lines of torch with the same answer; libraries with
half of it; another function of the same size."""


class Answer(NamedTuple):
    """Anything that numpy can read."""

    log_likelihood: Any
    """[groups]"""
    marginals: Any = None
    """[groups, instances] or [groups, instances, classes]; None where a contestant does not give them."""


Call = Callable[[], Answer]


def nothing(size: int) -> float:
    """The memory of a contestant that fits anywhere."""
    return 0.0


@dataclass(frozen=True)
class Contestant:
    """Someone who answers a task.

    build:        from the inputs to the call that is timed; what it does beforehand is reported, not timed.
    growth:       the time of a call is expected to grow as size ** growth.
    build_growth: the same of what happens before.
    needs:        modules that must be importable.
    gigabytes:    memory that a size is known to need.
    """

    name: str
    build: Callable[[Any], Call]
    kind: str = PEER
    growth: float = 1.0
    build_growth: float = 0.0
    needs: Sequence[str] = ()
    gigabytes: Callable[[int], float] = nothing

    @property
    def missing(self) -> list[str]:
        """The modules that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True)
class Task:
    """A question at several sizes. The first contestant is the one that all times are divided by.

    targets: so many times faster than the best right peer the first contestant is meant to be, by size.
    """

    name: str
    title: str
    size_word: str
    sizes: Sequence[int]
    quick_sizes: Sequence[int]
    inputs: Callable[[int], Any]
    reference: Callable[[Any], Answer]
    contestants: Sequence[Contestant]
    targets: Mapping[int, float] = field(default_factory=dict)
