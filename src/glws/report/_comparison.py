"""Several runs side by side: their scores, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from glws.report._content import RunContent
from glws.report._scores import ACCURACY, CHOOSER, SCORES, WEAK_SCORES, best_row, value_text
from glws.report._wording import NOT_GIVEN, flattened


class Table(NamedTuple):
    """Headings and, for each run, its name and one cell for each heading."""

    headings: list[str]
    rows: list[tuple[str, list[str]]]
    has_extra: bool = False  # the last column is no result


def distinct_names(runs: Sequence[RunContent]) -> list[str]:
    """The names of the runs, numbered where several have the same.

    >>> a, b = (RunContent(name, "", {}, {}, ()) for name in ("first", "second"))
    >>> distinct_names([a, b, a])
    ['first (1)', 'second', 'first (2)']
    """
    names = [run.name for run in runs]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def score_table(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """The scores of the last epoch that any run has and, last and so named, the best test accuracy of any epoch."""
    chosen = [score for score in SCORES if any(_has(run.scores, score.key) for run in runs)]
    weak = [score for score in WEAK_SCORES if any(_has(run.weak_scores, score.key) for run in runs)]
    bests = [best_row(run.metrics) for run in runs]
    has_best = any(best is not None for best in bests)
    rows = []
    for name, run, best in zip(names, runs, bests, strict=True):
        cells = [value_text(run.scores, score) for score in chosen]
        cells += [value_text(run.weak_scores, score) for score in weak]
        cells += [value_text(best, ACCURACY._replace(key=CHOOSER))] if has_best else []
        rows.append((name, cells))
    extra = ["Best epoch on test (not a result)"] if has_best else []
    return Table([score.name for score in (*chosen, *weak)] + extra, rows, has_best)


def difference_table(names: Sequence[str], tables: Sequence[Mapping[str, str]]) -> Table:
    """The settings that are not the same in all runs.

    >>> difference_table(["a", "b"], [{"seed": "0", "epochs": "20"}, {"seed": "1", "epochs": "20"}])
    Table(headings=['seed'], rows=[('a', ['0']), ('b', ['1'])], has_extra=False)
    """
    keys = sorted({key for table in tables for key in table})
    differing = [key for key in keys if len({table.get(key) for table in tables}) > 1]
    rows = zip(names, tables, strict=True)
    return Table(differing, [(name, [table.get(key, NOT_GIVEN) for key in differing]) for name, table in rows])


def config_differences(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """Where the configurations differ."""
    return difference_table(names, [flattened(run.config) for run in runs])


def fact_differences(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """Where versions, seeds, devices and the like differ."""
    return difference_table(names, [dict(run.facts) for run in runs])


def _has(scores: Mapping[str, object] | None, key: str) -> bool:
    return scores is not None and scores.get(key) is not None
