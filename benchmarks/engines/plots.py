"""Plot time and memory against size, with logarithmic axes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from benchmarks.engines.contest import OURS, PARTIAL, YARDSTICK, Task
from benchmarks.engines.results import WRONG, Row

COLORS = ("#5b6b7f", "#d1495b", "#edae49", "#8f5ea2", "#00798c", "#a0522d", "#7a9e3a", "#c06c9e", "#999999")
OUR_COLORS = ("#0b3d91", "#2f7de1", "#63b3ed")
SMALLEST = 0.1
"""Megabytes; smaller values are noise."""
LINES = {YARDSTICK: ":", PARTIAL: "--"}


def svg(task: Task, rows: Sequence[Row]) -> str:
    """Milliseconds on the left, megabytes on the right; wrong answers are hollow."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": task.name, "font.size": 10}):
        figure, (times, weights) = pyplot.subplots(1, 2, figsize=(12, 5), facecolor="white")
        for name, color in _colors(rows).items():
            own = [row for row in rows if row.contestant == name and row.median_ms is not None]
            _curve(times, own, [row.median_ms for row in own], color)
            heavy = [row for row in own if row.peak_mb is not None]
            _curve(weights, heavy, [max(row.peak_mb or 0.0, SMALLEST) for row in heavy], color)
        _dress(times, task, rows, "time of a call (median), ms")
        _dress(weights, task, rows, "peak memory of a call, MB (less than 0.1 at 0.1)")
        figure.legend(*times.get_legend_handles_labels(), loc="outside right upper", frameon=False)
        figure.suptitle(task.title + "  (hollow: wrong)", x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.tight_layout(rect=(0, 0, 0.74, 0.97))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return text.getvalue()


def _colors(rows: Sequence[Row]) -> dict[str, str]:
    timed = [row for row in rows if row.median_ms is not None]
    ours = dict.fromkeys(row.contestant for row in timed if row.kind == OURS)
    others = dict.fromkeys(row.contestant for row in timed if row.kind != OURS)
    return {
        **{name: OUR_COLORS[number % len(OUR_COLORS)] for number, name in enumerate(ours)},
        **{name: COLORS[number % len(COLORS)] for number, name in enumerate(others)},
    }


def _curve(axes: Any, rows: Sequence[Row], values: Sequence[float | None], color: str) -> None:
    if not rows:
        return
    kind, sizes = rows[0].kind, [row.size for row in rows]
    label = rows[0].contestant + (f" ({kind})" if kind in (PARTIAL, YARDSTICK) else "")
    axes.plot(sizes, values, LINES.get(kind, "-"), color=color, linewidth=2.4 if kind == OURS else 1.3, label=label)
    for row, value in zip(rows, values, strict=True):
        inside = "white" if row.status == WRONG else color
        axes.plot([row.size], [value], "o", color=color, markerfacecolor=inside, markersize=5)


def _dress(axes: Any, task: Task, rows: Sequence[Row], title: str) -> None:
    sizes = sorted({row.size for row in rows})
    axes.set(xscale="log", yscale="log", xlabel=task.size_word)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
