"""Learning curves: which of the logged numbers are drawn, over what, and which of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from glws._messages import counted
from glws.report._plots import Line, line_chart, swatch
from glws.report._wording import decimal, in_words, is_number, percent

PLACES = ("epoch", "step")
PARTS = ("train_", "test_", "valid_", "held_out_")
FIRST = ("accuracy", "loss", "balanced_accuracy", "matched_accuracy", "log_likelihood", "calibration_error")
SHARES = ("accuracy", "calibration_error", "auc")
MAX_POINTS = 300
LARGEST = 1e100  # nothing beyond it can be drawn to scale; such a value is a gap, as NaN is

Rows = Sequence[Mapping[str, object]]


class LegendEntry(NamedTuple):
    """A curve in the legend: how it looks (SVG), what it is, and where it ended."""

    swatch: str
    name: str
    last: str


class Chart(NamedTuple):
    """A plot (SVG), its heading, and its legend."""

    heading: str
    plot: str
    legend: list[LegendEntry]
    note: str


def run_charts(metrics: Rows) -> list[Chart]:
    """A chart for each quantity in the log of a run; those of training and test data share one.

    >>> log = [{"epoch": 1, "loss": 2.0, "test_accuracy": 0.5}, {"epoch": 2, "loss": 1.0, "test_accuracy": 0.75}]
    >>> [(chart.heading, [entry.name for entry in chart.legend]) for chart in run_charts(log)]
    [('accuracy', ['test accuracy']), ('loss', ['loss'])]
    """
    x_name = place_name([metrics])
    together: dict[str, list[str]] = {}
    for key in logged_numbers([metrics]):
        together.setdefault(_quantity(key), []).append(key)
    return [
        _chart(quantity, [(in_words(key), metrics, key) for key in together[quantity]], x_name)
        for quantity in _ordered(together)
    ]


def comparison_charts(names: Sequence[str], logs: Sequence[Rows]) -> list[Chart]:
    """A chart for each logged number, with a curve for each run that has it; the runs keep their colors.

    >>> logs = [[{"epoch": 1, "loss": 2.0}], [{"epoch": 1, "loss": 3.0}]]
    >>> [[entry.name for entry in chart.legend] for chart in comparison_charts(["first", "second"], logs)]
    [['first', 'second']]
    """
    x_name = place_name(logs)
    return [
        _chart(key, [(name, log, key) for name, log in zip(names, logs, strict=True)], x_name)
        for key in _ordered(logged_numbers(logs))
    ]


def logged_numbers(logs: Iterable[Rows]) -> list[str]:
    """The columns that hold a number somewhere and do not say where in the run it was, sorted."""
    found = {key for log in logs for row in log for key, value in row.items() if is_number(value)}
    return sorted(found.difference(PLACES))


def place_name(logs: Iterable[Rows]) -> str:
    """What the curves run over: `epoch` or `step`, the first that every row has and no two rows share; else `row`."""
    kept = [log for log in logs if log]
    for name in PLACES:
        columns = [[row.get(name) for row in log] for log in kept]
        if all(all(map(is_number, column)) and len(set(column)) == len(column) for column in columns):
            return name
    return "row"


def _quantity(key: str) -> str:
    return next((key.removeprefix(part) for part in PARTS if key.startswith(part)), key)


def _ordered(keys: Iterable[str]) -> list[str]:
    """Those everybody asks for first, then by name."""
    rank = {name: number for number, name in enumerate(FIRST)}
    return sorted(keys, key=lambda key: (rank.get(_quantity(key), len(rank)), key))


def _line(name: str, log: Rows, key: str, x_name: str) -> Line:
    """The numbers of a column, in the rows that have one."""
    rows = [(number, row) for number, row in enumerate(log, start=1) if is_number(row.get(key))]
    places = [number if x_name == "row" else row[x_name] for number, row in rows]
    return Line(name, np.array(places, dtype=np.float64), np.array([_value(row[key]) for _, row in rows]))


def _value(logged: object) -> float:
    value = float(logged)  # type: ignore[arg-type]  # a number, as asked before
    return value if abs(value) < LARGEST else math.nan


def _thinned(line: Line) -> Line:
    """Of very many points evenly chosen ones, with the first and the last."""
    if len(line.x) <= MAX_POINTS:
        return line
    chosen = np.linspace(0, len(line.x) - 1, MAX_POINTS).round().astype(int)
    return Line(line.name, line.x[chosen], line.y[chosen])


def _chart(key: str, columns: Sequence[tuple[str, Rows, str]], x_name: str) -> Chart:
    """The chart of some columns of logs, each under a name."""
    lines = [_line(name, log, column, x_name) for name, log, column in columns]
    values = np.concatenate([line.y for line in lines])
    finite = values[np.isfinite(values)]
    is_share = key.endswith(SHARES) and bool(np.all((finite >= 0) & (finite <= 1)))
    word = percent if is_share else decimal
    legend = [
        LegendEntry(swatch(number), line.name, word(float(line.y[-1])))
        for number, line in enumerate(lines)
        if line.y.size
    ]
    plot = line_chart([_thinned(line) for line in lines], in_words(key), x_name, is_share)
    return Chart(in_words(key), plot, legend, _note(lines))


def _note(lines: Sequence[Line]) -> str:
    """Notes on values that are not finite, and points left out."""
    missing = sum(int(np.count_nonzero(~np.isfinite(line.y))) for line in lines)
    longest = max(len(line.y) for line in lines)
    notes = [f"{counted(missing, 'value')} not finite"] if missing else []
    notes += [f"{MAX_POINTS} of {longest:,} points drawn"] if longest > MAX_POINTS else []
    return ", ".join(notes)
