"""The page: one self-contained HTML document for a run, or for the comparison of several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from glws._messages import counted
from glws.errors import DataError
from glws.report._bag_drawing import MAP_SIDE
from glws.report._content import RunContent
from glws.report._curves import Chart, comparison_charts, run_charts
from glws.report._heat_map import Mistake, confusion_map, mistakes
from glws.report._plots import reliability_diagram
from glws.report._scores import (
    ScoreLine,
    best_name,
    class_lines,
    config_differences,
    distinct_names,
    fact_differences,
    headlines,
    score_lines,
    score_table,
)
from glws.report._views import (
    ExampleView,
    KnownView,
    SurpriseView,
    example_view,
    feature_cells,
    image_address,
    known_view,
    surprise_view,
)
from glws.report._wording import flattened, percent

if TYPE_CHECKING:
    from jinja2 import Environment

FIRST_CHARTS = 4
MAX_CLASSES = 20  # more are folded
_NOT_HTML = re.compile("[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class RunView(NamedTuple):
    """Everything the template of one run shows, ready to be written."""

    run: RunContent
    title: str
    headlines: list[ScoreLine]
    scores: list[ScoreLine]
    class_scores: list[tuple[str, str]]
    best_name: str
    names_classes: bool
    known: list[KnownView]
    charts: list[Chart]
    reliability: str
    confusion: str
    mistakes: list[Mistake]
    examples: list[ExampleView]
    surprising: list[SurpriseView]
    config: dict[str, str]
    facts: dict[str, str]


def page(runs: Sequence[RunContent]) -> str:
    """The report as an HTML document that needs nothing else: no network, no scripts, no files beside it.

    One run gives its whole page; several give their scores and the settings that differ side by side, their learning
    curves in common plots, and then each run folded. The same content gives the same bytes: there is no time of
    creation in it, and settings and facts are sorted.

    >>> run = RunContent("first <try>", "glws train", {"seed": "0"}, {"epochs": 20}, ("cat", "dog"))
    >>> "<h1>first &lt;try&gt;</h1>" in page([run])
    True
    """
    if not runs:
        raise DataError("a report needs at least one run, found none")
    names = distinct_names(runs)
    views = [run_view(run, name) for run, name in zip(runs, names, strict=True)]
    if len(runs) == 1:
        return _environment().get_template("run_page.html").render(view=views[0], title=names[0])
    logs = [run.metrics for run in runs]
    return (
        _environment()
        .get_template("comparison_page.html")
        .render(
            title=f"Comparison of {counted(len(runs), 'run')}",
            views=views,
            scores=score_table(names, runs),
            config=config_differences(names, runs),
            facts=fact_differences(names, runs),
            charts=comparison_charts(names, logs),
        )
    )


def run_view(run: RunContent, title: str) -> RunView:
    """Everything of a run drawn and put into words."""
    confusion = run.confusion
    return RunView(
        run=run,
        title=title,
        headlines=headlines(run),
        scores=score_lines(run),
        class_scores=class_lines(run),
        best_name=best_name(run.metrics),
        names_classes=_names_classes(run.classes),
        known=[known_view(part) for part in run.known],
        charts=run_charts(run.metrics),
        reliability="" if run.reliability is None else reliability_diagram(run.reliability),
        confusion="" if confusion is None else confusion_map(run.classes, confusion),
        mistakes=[] if confusion is None else mistakes(run.classes, confusion),
        examples=[example_view(example, run.classes) for example in run.examples],
        surprising=[surprise_view(surprise, run.classes) for surprise in run.surprising],
        config=flattened(run.config),
        facts=dict(sorted(run.facts.items())),
    )


def _names_classes(classes: Sequence[str]) -> bool:
    """Whether to list class names next to weak labels, which use numbers: not if names are the numbers."""
    return len(classes) <= MAX_CLASSES and list(classes) != [str(number) for number in range(len(classes))]


@cache
def _environment() -> Environment:
    """Templates in which everything is escaped, except the plots, which are escaped where they are drawn."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("glws.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_writable,
    )
    environment.globals |= {
        "drawn": Markup,
        "feature_cells": feature_cells,
        "map_address": lambda image: image_address(image, MAP_SIDE),
        "FIRST_CHARTS": FIRST_CHARTS,
        "MAX_CLASSES": MAX_CLASSES,
    }
    environment.filters |= {"percent": percent, "counted": counted}
    return environment


def _writable(value: Any) -> Any:
    """What no HTML file can hold (control characters, half a character of UTF-16) is replaced; the rest is as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _NOT_HTML.sub("\ufffd", value)
