"""The figures of the results page: a plot for each setting, convergence (Figure 5 of the paper), runtime (Figure 6)."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reproduction.catalog import DATASETS, SETTINGS
from reproduction.compare import Compared, Score, compared, is_plain, method_title
from reproduction.published import OURS, Cell, Published, cells
from reproduction.results import Record
from reproduction.runtime import COUNT_LOSS, GLWS, LISTED, PLAIN, TIMED, UUM, Row, Runtime
from reproduction.show import METRIC_NAMES, cell_name

OUR_COLOR, PAPER_COLOR, CEILING_COLOR = "#0b3d91", "#d1495b", "#5b6b7f"
CURVES = {OURS: OUR_COLOR, "count_loss": "#d1495b"}
"""The methods of the convergence figure."""
CONTESTANTS = {
    GLWS: (OUR_COLOR, "-"),
    COUNT_LOSS: ("#d1495b", "-"),
    PLAIN: ("#d1495b", "--"),
    UUM: ("#edae49", "-"),
    LISTED: ("#edae49", "--"),
}
"""Color and line of each contestant of the runtime figure: a color is a method, dashes are how it was published."""
LEGEND = ("paper: GLWS", "ours", "supervised")
MOST = 100.2
"""Percent; the largest upper end of an axis."""
COLUMNS = 3
GRID = {"color": "#dddddd", "linewidth": 0.8}


def drawn(results: Sequence[Record], runtime: Runtime | None = None, only: str | None = None) -> dict[str, str]:
    """All figures that have data, as SVG by name: the settings (or one), `convergence` and `runtime`.

    >>> drawn([])
    {}
    """
    settings = [name for name in SETTINGS if only in (None, name)]
    pictures = {name: setting_svg(name, results) for name in settings}
    if only is None:
        pictures["convergence"] = convergence_svg(results)
        pictures["runtime"] = runtime_svg(runtime) if runtime is not None else None
    return {name: picture for name, picture in pictures.items() if picture is not None}


# ---------------------------------------------------------------- a setting


def setting_svg(setting: str, results: Iterable[Record]) -> str | None:
    """The paper's GLWS, ours and the ceiling, with standard deviations; a panel per data set."""
    rows = [row for row in compared(results, setting) if row.ours is not None]
    names = dict.fromkeys(row.cell.dataset for row in rows)
    panels = {name: [row for row in rows if row.cell.dataset == name] for name in names}
    if not panels:
        return None
    with _Canvas(setting, len(panels), 3.9) as canvas:
        for axes, (dataset, own) in zip(canvas.panels, panels.items(), strict=True):
            _cells_panel(axes, own)
            _dress(axes, DATASETS[dataset].paper_name)
        canvas.panels[0].set_ylabel(f"{_short_metric(setting)}, %")
        return canvas.svg(SETTINGS[setting].title)


def _cells_panel(axes: Any, rows: Sequence[Compared]) -> None:
    """Cells from left to right, the paper's a little to the left of ours."""
    for place, row in enumerate(rows):
        _point(axes, place - 0.12, row.published, PAPER_COLOR, "s", "paper: GLWS")
        if row.ours is not None:
            _point(axes, place + 0.12, row.ours, OUR_COLOR, "o", "ours")
        if row.ceiling is not None:
            line = (place - 0.36, place + 0.36)
            axes.plot(line, [row.ceiling.mean] * 2, color=CEILING_COLOR, linewidth=1.6, label="supervised")
    axes.set_xticks(range(len(rows)), [_tick(row.cell) for row in rows], fontsize=8)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.margins(y=0.12)
    axes.set_ylim(top=min(axes.get_ylim()[1], MOST))


def _point(axes: Any, place: float, number: Published | Score, color: str, marker: str, label: str) -> None:
    axes.errorbar(
        place,
        number.mean,
        number.std,
        fmt=marker,
        color=color,
        markersize=6,
        capsize=3,
        elinewidth=1.3,
        label=label,
    )


def _tick(one: Cell) -> str:
    """The name of a cell, on short lines."""
    return "\n".join(part.removeprefix("model=").removesuffix("_vit_b_16") for part in one.name.split(","))


def _short_metric(setting: str) -> str:
    metric = SETTINGS[setting].metric
    return "matched accuracy" if metric == "matched_accuracy" else METRIC_NAMES[metric].lower()


# ---------------------------------------------------------------- convergence


class Curve(NamedTuple):
    """Percent at each evaluated epoch: mean and standard deviation over seeds."""

    means: list[float]
    stds: list[float]
    seeds: int
    every: int = 1


def curve(records: Iterable[Record]) -> Curve | None:
    """The mean curve of runs; curves of other lengths are left out; None without runs."""
    found = [record for record in records if record["curve"]]
    if not found:
        return None
    alike = [each["curve"] for each in found if len(each["curve"]) == len(found[0]["curve"])]
    columns = [[100 * value for value in column] for column in zip(*alike, strict=True)]
    stds = [statistics.stdev(column) if len(column) > 1 else 0.0 for column in columns]
    every = max(found[0]["epochs"] // len(columns), 1)
    return Curve([statistics.mean(column) for column in columns], stds, len(alike), every)


def long_bags() -> list[Cell]:
    """For each data set, the multi-instance cell with the most classes and longest bags.

    >>> [one.name for one in long_bags()][:2], long_bags()[3].dataset
    (['classes=10,mean=20', 'classes=10,mean=20'], 'cifar100')
    """
    found = [[one for one in cells("multi_instance", name)] for name in DATASETS]
    return [max(own, key=lambda one: (one.num_classes, one.configuration["mean_size"])) for own in found if own]


def convergence_curves(results: Iterable[Record]) -> dict[Cell, dict[str, Curve]]:
    """The curves of GLWS and Count Loss in the cells of long bags; cells without any are left out."""
    plain = [record for record in results if record["setting"] == "multi_instance" and is_plain(record)]
    found: dict[Cell, dict[str, Curve]] = {}
    for one in long_bags():
        own = [record for record in plain if (record["dataset"], record["cell"]) == (one.dataset, one.name)]
        made = {name: curve(record for record in own if record["method"] == name) for name in CURVES}
        here = {name: each for name, each in made.items() if each is not None}
        if here:
            found[one] = here
    return found


def convergence_svg(results: Iterable[Record]) -> str | None:
    """The metric on the test set after each epoch, with a band of one standard deviation over seeds."""
    found = convergence_curves(results)
    if not found:
        return None
    with _Canvas("convergence", len(found), 3.6) as canvas:
        for axes, (one, curves) in zip(canvas.panels, found.items(), strict=True):
            for name, each in curves.items():
                _band(axes, each, CURVES[name], f"our {method_title(name)}")
            axes.set_xlabel("epoch")
            _dress(axes, cell_name(one))
        canvas.panels[0].set_ylabel(f"{_short_metric('multi_instance')}, %")
        return canvas.svg("Convergence, multiple instances, long bags")


def _band(axes: Any, each: Curve, color: str, label: str) -> None:
    epochs = [each.every * number for number in range(1, len(each.means) + 1)]
    low = [mean - std for mean, std in zip(each.means, each.stds, strict=True)]
    high = [min(mean + std, 100.0) for mean, std in zip(each.means, each.stds, strict=True)]
    axes.fill_between(epochs, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(epochs, each.means, color=color, linewidth=1.8, label=label)


# ---------------------------------------------------------------- runtime


def runtime_svg(runtime: Runtime) -> str:
    """Seconds of a loss and its gradient against the length of the bags, both axes logarithmic."""
    settings = [name for name in TIMED if any(row.setting == name for row in runtime.rows)]
    with _Canvas("runtime", len(settings), 4.2, width=4.9, shared=True) as canvas:
        for axes, setting in zip(canvas.panels, settings, strict=True):
            own = [row for row in runtime.rows if row.setting == setting]
            _times(axes, own)
            _dress(axes, SETTINGS[setting].title)
        canvas.panels[0].set_ylabel("loss and gradient, seconds per iteration")
        return canvas.svg("Runtime, 4 bags, 10 classes")


def _times(axes: Any, rows: Sequence[Row]) -> None:
    for name, (color, line) in CONTESTANTS.items():
        own = sorted((row.length, row.seconds) for row in rows if row.contestant == name)
        if own:
            lengths, seconds = zip(*own, strict=True)
            wide = 2.4 if name == GLWS else 1.3
            axes.plot(lengths, seconds, line, color=color, linewidth=wide, marker="o", markersize=4, label=name)
    shown = sorted({row.length for row in rows})
    axes.set(xscale="log", yscale="log", xlabel="instances in a bag")
    axes.set_xticks(shown, [f"{length:,}" for length in shown], fontsize=8)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


# ---------------------------------------------------------------- all of them


class _Canvas:
    """A figure of several panels in rows, with reproducible bytes."""

    def __init__(self, name: str, number: int, height: float, width: float = 3.7, shared: bool = False) -> None:
        self._name, self._number, self._height, self._width, self._shared = name, number, height, width, shared

    def __enter__(self) -> _Canvas:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot

        self._pyplot = pyplot
        self._look = pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": self._name, "font.size": 10})
        self._look.__enter__()
        across = min(self._number, COLUMNS)
        down = -(-self._number // COLUMNS)
        size = (max(self._width * across, 6.0), self._height * down + 0.3)
        self._figure, grid = pyplot.subplots(
            down, across, figsize=size, facecolor="white", squeeze=False, sharey=self._shared, layout="constrained"
        )
        every = list(grid.flat)
        self.panels: list[Any] = every[: self._number]
        for axes in every[self._number :]:
            axes.set_visible(False)
        return self

    def __exit__(self, *problem: object) -> None:
        self._pyplot.close(self._figure)
        self._look.__exit__(None, None, None)

    def svg(self, title: str) -> str:
        """The picture, with one legend for all panels."""
        self._figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        known: Mapping[str, Any] = {
            label: handle
            for axes in self.panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        order = [name for name in LEGEND if name in known] + [name for name in known if name not in LEGEND]
        handles = [known[name] for name in order]
        self._figure.legend(handles, order, loc="outside lower left", ncols=3, frameon=False)
        text = io.StringIO()
        self._figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        return text.getvalue()


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(True, which="major", axis="y", **GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
