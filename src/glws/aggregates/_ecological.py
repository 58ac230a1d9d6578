"""`ecological`: from margins of many areas to the cells of their tables, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.errors import DataError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
CHAINS, BURN, THIN = 4, 2000, 25
COVERED = (2.5, 97.5)
"""The percentiles that end an interval."""
MIXED = 1.2
"""Chains whose R-hat is above this disagree."""


@dataclass(frozen=True, eq=False)
class EcologicalEstimate:
    """The share of each column in each row: over all areas [rows, columns], and by area [areas, rows, columns].

    `low` and `high` end 95 % intervals. `r_hat` is the largest R-hat of the overall shares over the chains: near 1
    where the chains agree.
    """

    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    cells: Array
    low: Array
    high: Array
    area_cells: Array
    area_low: Array
    area_high: Array
    r_hat: float

    def __repr__(self) -> str:
        width = max(12, *(len(name) for name in (*self.row_names, *self.column_names))) + 6
        lines = ["".join(name.rjust(width) for name in ("", *self.column_names))]
        for row, name in enumerate(self.row_names):
            ends = zip(self.cells[row], self.low[row], self.high[row], strict=True)
            lines.append(name.rjust(width) + "".join(f"{at:.3f} [{a:.2f},{b:.2f}]".rjust(width) for at, a, b in ends))
        return "\n".join(lines)

    def table(self, area_names: Sequence[Any] | NDArray[Any] | None = None) -> dict[str, NDArray[Any]]:
        """A row for each area and cell: area, row, column, share, low, high."""
        areas, rows, columns = self.area_cells.shape
        names = np.arange(areas) if area_names is None else np.asarray(area_names)
        return {
            "area": np.repeat(names, rows * columns),
            "row": np.tile(np.repeat(np.array(self.row_names), columns), areas),
            "column": np.tile(np.array(self.column_names), areas * rows),
            **{
                name: values.ravel()
                for name, values in (("share", self.area_cells), ("low", self.area_low), ("high", self.area_high))
            },
        }


def ecological(
    rows: Any,
    columns: Any,
    regions: Any = None,
    *,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> EcologicalEstimate:
    """Ecological inference: how the people of each row divide among the columns, from the margins of many areas.

    `rows` [areas, rows] and `columns` [areas, columns] are whole counts of the same people, such as voters by race and
    votes by party in each precinct. `regions` are larger units that areas belong to, such as counties: their rows may
    differ from those of other regions. Name them if there are any.

    The model: people of a row divide by a Dirichlet-multinomial distribution whose log-odds are those of the row, plus
    a shift of the area that all its rows share, plus effects of the region. Tables with exactly the given margins are
    sampled from the posterior. It cannot know what margins do not tell: if people divide differently where their row is
    frequent, and neither shifts nor regions explain it, estimates are biased and intervals too short.

    >>> random = np.random.default_rng(0)
    >>> people = random.integers(100, 400, (60, 2))
    >>> votes = np.array([[random.multinomial(n, p) for n, p in zip(row, [[0.8, 0.2], [0.3, 0.7]])] for row in people])
    >>> found = ecological(people, votes.sum(1), draws=200)
    >>> bool((abs(found.cells - votes.sum(0) / people.sum(0)[:, None]) < 0.05).all())
    True
    """
    from glws.aggregates._sampling import run_chain

    people, votes = _margins(rows, columns)
    names = np.zeros(len(people), np.int64) if regions is None else np.asarray(regions)
    if len(names) != len(people):
        raise DataError(f"there are {len(people)} areas but {len(names)} regions")
    known, of_area = np.unique(names, return_inverse=True)
    start = np.stack([first_table(*each) for each in zip(people, votes, strict=True)])
    keep = -(-draws // CHAINS)
    with ThreadPoolExecutor() as threads:
        jobs = [
            threads.submit(run_chain, start.copy(), of_area, len(known), BURN, keep, THIN, CHAINS * seed + chain)
            for chain in range(CHAINS)
        ]
        chains = np.stack([job.result() for job in jobs])
    return _summary(chains, people, _named(row_names, people.shape[1]), _named(column_names, votes.shape[1]))


def first_table(row_totals: Integers, column_totals: Integers) -> Integers:
    """A table of whole numbers with these margins, near independence.

    >>> first_table(np.array([2, 3]), np.array([4, 1])).sum(0)
    array([4, 1])
    """
    table = np.outer(row_totals, column_totals) // max(int(row_totals.sum()), 1)
    rest, wanted = row_totals - table.sum(1), column_totals - table.sum(0)
    for r in range(len(rest)):
        for c in range(len(wanted)):
            more = min(rest[r], wanted[c])
            table[r, c] += more
            rest[r] -= more
            wanted[c] -= more
    return np.asarray(table, np.int64)


def _margins(rows: Any, columns: Any) -> tuple[Integers, Integers]:
    people, votes = (_counts(values, name) for values, name in ((rows, "rows"), (columns, "columns")))
    if len(people) != len(votes):
        raise DataError(f"rows have {len(people)} areas but columns {len(votes)}")
    off = np.flatnonzero(people.sum(1) != votes.sum(1))
    if len(off):
        found = f"{people[off[0]].sum()} and {votes[off[0]].sum()}"
        raise DataError(
            f"area {off[0]}: rows and columns must count the same people, found {found}; "
            "add a column for those who are missing, such as people who did not vote"
        )
    if people.shape[1] < 2 or votes.shape[1] < 2:
        raise DataError(f"expected at least 2 rows and 2 columns, found {people.shape[1]} and {votes.shape[1]}")
    return people, votes


def _counts(values: Any, name: str) -> Integers:
    found = np.asarray(values)
    if found.ndim != 2 or found.dtype.kind not in "iuf":
        raise DataError(f"{name} must be counts [areas, {name}], found {found.dtype} of shape {list(found.shape)}")
    wrong = np.argwhere(~(found >= 0) | (found != np.round(found)))
    if len(wrong):
        area = int(wrong[0][0])
        hint = "; shares times the people of the area are counts" if (found <= 1).all() else ""
        raise DataError(f"area {area}: {name} must be whole counts, found {found[tuple(wrong[0])]:g}{hint}")
    return found.astype(np.int64)


def _named(names: Sequence[str] | None, number: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(number)))
    if len(names) != number:
        raise DataError(f"there are {len(names)} names for {number} counts")
    return tuple(map(str, names))


def _summary(
    chains: NDArray[np.int32], people: Integers, row_names: tuple[str, ...], column_names: tuple[str, ...]
) -> EcologicalEstimate:
    """Means and percentiles of the draws [chains, draws, areas, rows, columns]."""
    totals = chains.sum(2) / np.maximum(people.sum(0), 1)[:, None]
    r_hat = _r_hat(totals)
    if r_hat > MIXED:
        warnings.warn(f"the chains disagree (R-hat {r_hat:.2f}); ask for more draws", stacklevel=3)
    overall = totals.reshape(-1, *totals.shape[2:])
    by_area = chains.reshape(-1, *chains.shape[2:])
    numbers = np.maximum(people, 1)[:, :, None]
    low, high = np.percentile(overall, COVERED, axis=0)
    area_low, area_high = np.percentile(by_area, COVERED, axis=0) / numbers
    return EcologicalEstimate(
        row_names, column_names, overall.mean(0), low, high, by_area.mean(0) / numbers, area_low, area_high, r_hat
    )


def _r_hat(draws: Array) -> float:
    """The largest R-hat over cells, of chains cut in halves [chains, draws, rows, columns]."""
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within, between = parts.var(1, ddof=1).mean(0), half * parts.mean(1).var(0, ddof=1)
    total = (half - 1) / half * within + between / half
    return float(np.sqrt(total / np.where(within > 0, within, np.inf)).max(initial=1.0, where=within > 0))
