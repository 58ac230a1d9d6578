"""The parts of a benchmark: tasks, their inputs, and the contestants that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

OURS, PEER, BY_HAND, PARTIAL, YARDSTICK = "ours", "peer", "written by hand", "likelihood only", "yardstick"
"""Kinds of contestants: ours; libraries with the same answer; a few lines of torch with the same answer; libraries with
half of it; another function of the same size."""


class Answer(NamedTuple):
    """Arrays that numpy can read."""

    log_likelihood: Any
    """[groups]"""
    marginals: Any = None
    """[groups, instances] or [groups, instances, classes]; None if a contestant does not compute them."""


Call = Callable[[], Answer]


def nothing(size: int) -> float:
    """The memory of a contestant that always fits."""
    return 0.0


@dataclass(frozen=True)
class Contestant:
    """A library or function that answers a task.

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
    """A task at several sizes. Ratios are to the time of the first contestant.

    targets: by size, the intended speedup of the first contestant over the best right peer.
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
