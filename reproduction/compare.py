"""Compare our runs with the published numbers of each cell."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from reproduction.catalog import METHODS
from reproduction.plans import EPOCHS, chosen_options, taken
from reproduction.published import OURS, Cell, Published, cell, cells
from reproduction.results import Record

CEILING = "supervised"


@dataclass(frozen=True)
class Score:
    """Numbers in percent, one for each seed.

    >>> str(Score((97.0, 98.0, 99.0))), str(Score((97.0,))), f"{Score((0.5,)):+}"
    ('98.00±1.00 (3)', '97.00 (1)', '+0.50 (1)')
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.mean(self.values)

    @property
    def std(self) -> float:
        """The sample standard deviation over seeds; 0 for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def __format__(self, sign: str) -> str:
        spread = f"±{self.std:.2f}" if len(self.values) > 1 else ""
        return f"{self.mean:{sign}.2f}{spread} ({len(self.values)})"

    def __str__(self) -> str:
        return f"{self}"


@dataclass(frozen=True, eq=False)
class Compared:
    """The paper's numbers and our plain runs of a cell; None for what was not run.

    ours, best_on_test: GLWS after the last epoch, and in the epoch that is best on the test set. ceiling: the same
    network with all true labels. baselines: other methods of ours, by name. All in percent of the setting's metric.
    """

    cell: Cell
    ours: Score | None
    best_on_test: Score | None
    ceiling: Score | None
    baselines: Mapping[str, Score]

    @cached_property
    def published(self) -> Published:
        """The paper's GLWS."""
        found = self.cell.value(OURS)
        assert found is not None, f"{self.cell} has no number of GLWS"
        return found

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours.mean - self.published.mean

    @property
    def is_short(self) -> bool:
        """Whether ours is below the paper's by more than the paper's standard deviation."""
        return self.difference is not None and self.difference < -self.published.std

    @property
    def share_left(self) -> float | None:
        """(ceiling - ours) / (ceiling - paper): how much of the paper's distance to the ceiling is left.

        None without a ceiling above the paper's number.
        """
        if self.ours is None or self.ceiling is None or self.ceiling.mean <= self.published.mean:
            return None
        return (self.ceiling.mean - self.ours.mean) / (self.ceiling.mean - self.published.mean)

    @property
    def better_baselines(self) -> dict[str, Score]:
        """Our own baselines that are above our GLWS."""
        if self.ours is None:
            return {}
        return {name: score for name, score in self.baselines.items() if score.mean > self.ours.mean}


def compared(results: Iterable[Record], setting: str | None = None) -> list[Compared]:
    """Every cell of the paper, or of a setting, with our plain runs.

    Runs with changed options or fewer epochs are not plain (`is_plain`). The ceiling comes from runs of the cell, or
    else of its setting, or else of any setting, with the same data, classes and network.

    >>> len(compared([])), compared([], "proportions")[0].ours
    (187, None)
    """
    plain = [record for record in results if is_plain(record)]
    runs, ceilings = by_cell(plain), [record for record in plain if record["method"] == CEILING]
    return [_of_cell(one, runs.get(place(one), {}), ceilings) for one in cells(setting)]


def is_plain(record: Record) -> bool:
    """Whether a run has the options and epochs of the current plan."""
    return not changes(record)


def changes(record: Record) -> dict[str, object]:
    """The differences of a run from a plain one: options, epochs, and an earlier plan."""
    now = taken(record["method"], chosen_options(cell(*_place_of(record))))
    then = now if record["chosen"] is None else taken(record["method"], record["chosen"])
    planned = now.get(EPOCHS, _task(*_place_of(record)).epochs)
    cut = {} if record["epochs"] == planned else {"epochs": record["epochs"]}
    return {**_replanned(then, now), **record["options"], **cut}


def _replanned(then: Mapping[str, object], now: Mapping[str, object]) -> dict[str, object]:
    """Options of an earlier plan that differ; those it did not set are "default"."""
    return {name: then.get(name, "default") for name in {**then, **now} if then.get(name) != now.get(name)}


def score(records: Iterable[Record], field: str) -> Score | None:
    """A field of some runs in percent; None without runs."""
    values = tuple(100 * record[field] for record in records)  # type: ignore[literal-required]
    return Score(values) if values else None


def method_title(name: str) -> str:
    """The paper's name of a method, or ours if the paper does not have it.

    >>> method_title("count_loss"), method_title("mcl")
    ('Count Loss', 'mcl')
    """
    return METHODS.get(name, name)


def _of_cell(one: Cell, own: Mapping[str, list[Record]], ceilings: Sequence[Record]) -> Compared:
    order = {name: number for number, name in enumerate(METHODS)}
    others = sorted(set(own) - {OURS, CEILING}, key=lambda name: (order.get(name, len(order)), name))
    found = {name: score(own[name], one.metric) for name in others}
    return Compared(
        one,
        score(own.get(OURS, []), one.metric),
        score(own.get(OURS, []), "best_on_test"),
        score(own.get(CEILING) or _ceiling(one, ceilings), one.metric),
        {name: each for name, each in found.items() if each is not None},
    )


def _ceiling(one: Cell, ceilings: Iterable[Record]) -> list[Record]:
    """Runs with all true labels of other cells with the same task, of the same setting if possible."""
    wanted = _task(*place(one)).network
    alike = [record for record in ceilings if _task(*_place_of(record)).network == wanted]
    return [record for record in alike if record["setting"] == one.setting] or alike


Place = tuple[str, str, str]
"""Setting, data set, name of the cell."""


def place(one: Cell) -> Place:
    """Setting, data set and name of a cell."""
    return one.setting, one.dataset, one.name


def _place_of(record: Record) -> Place:
    return record["setting"], record["dataset"], record["cell"]


def by_cell(records: Iterable[Record]) -> dict[Place, dict[str, list[Record]]]:
    """The runs of each cell by method."""
    found: dict[Place, dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault(_place_of(record), {}).setdefault(record["method"], []).append(record)
    return found


class _Task(NamedTuple):
    """The paper's epochs, and what two cells must share for one ceiling: the data, the classes, the network."""

    epochs: int
    network: tuple[object, ...]


@cache
def _task(setting: str, dataset: str, name: str) -> _Task:
    one = cell(setting, dataset, name)
    parameters = one.hyper_parameters()
    return _Task(parameters.epochs, (dataset, one.num_classes, frozenset(one.positive), parameters.model))
