"""Ablations: runs of cells with other options than planned, and their section of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from reproduction.catalog import SETTINGS
from reproduction.compare import Score, by_cell, changes, method_title, place
from reproduction.files import entries
from reproduction.published import OURS, Cell, cells
from reproduction.results import Record
from reproduction.show import cell_name, table

ABLATIONS = """\
Runs with other options than planned. *Difference*: to the plain runs of the same method and cell, over the seeds that
both have, with their number in parentheses."""

INGREDIENTS = """\
### Effect of each ingredient

GLWS with one ingredient changed and the rest as planned. If the difference is negative, the plan is better. Differences
smaller than their standard deviation are not significant; those of one seed are weak evidence."""

OTHERS = """\
### Other runs

Earlier plans, and methods with their own options."""


@dataclass(frozen=True, eq=False)
class Ablation:
    """Runs of a cell with other options than planned.

    difference: to the plain runs, for each seed that both have; None if they share none.
    """

    cell: Cell
    method: str
    changes: Mapping[str, object]
    score: Score
    difference: Score | None


def ablations(results: Iterable[Record]) -> list[Ablation]:
    """The runs that are not plain, joined over seeds, in the order of settings and cells."""
    runs = by_cell(results)
    here = [one for one in cells() if place(one) in runs]
    return [each for one in here for method, own in runs[place(one)].items() for each in _ablations(one, method, own)]


class Ingredient(NamedTuple):
    """An ingredient of the plan, and what replaces it, in words."""

    name: str
    instead: str


def ingredient(changes: Mapping[str, object]) -> Ingredient | None:
    """The ingredient that a run changes (`tables/ingredients.yaml`); None if it changes more.

    >>> ingredient({"m_step": "weak"})
    Ingredient(name='strong augmentation', instead='trained on the weak view')
    """
    return _ingredients().get(json.dumps(changes, sort_keys=True))


@cache
def _ingredients() -> dict[str, Ingredient]:
    """Ingredients by their changes as text, in the order of the file."""
    return {
        json.dumps(changes, sort_keys=True): Ingredient(entry["ingredient"], entry["instead"])
        for entry in entries("ingredients")
        for changes in entry["options"]
    }


def _ablations(one: Cell, method: str, runs: Iterable[Record]) -> list[Ablation]:
    """The ablations of a method in a cell, one for each set of options."""
    joined: dict[str, list[Record]] = {}
    for record in runs:
        joined.setdefault(json.dumps(changes(record), sort_keys=True), []).append(record)
    plain = {record["seed"]: record[one.metric] for record in joined.pop("{}", [])}
    return [_ablation(one, method, joined[key], plain) for key in sorted(joined)]


def _ablation(one: Cell, method: str, runs: Sequence[Record], plain: Mapping[int, float]) -> Ablation:
    pairs = tuple(100 * (record[one.metric] - plain[record["seed"]]) for record in runs if record["seed"] in plain)
    found = Score(tuple(100 * record[one.metric] for record in runs))
    return Ablation(one, method, changes(runs[0]), found, Score(pairs) if pairs else None)


# ---------------------------------------------------------------- the section


def ablations_section(results: Iterable[Record], remark: str) -> str:
    """The section: GLWS by changed ingredient, then all others; empty without runs."""
    order = list(dict.fromkeys(_ingredients().values()))
    named = [(ingredient(each.changes) if each.method == OURS else None, each) for each in ablations(results)]
    known = sorted(((name, each) for name, each in named if name is not None), key=lambda pair: order.index(pair[0]))
    others = [(method_title(each.method), _options(each), each) for name, each in named if name is None]
    if not named and not remark:
        return ""
    parts = [
        "## Ablations",
        ABLATIONS,
        _listed(INGREDIENTS, ("ingredient", "instead"), [(*name, each) for name, each in known]),
        _listed(OTHERS, ("method", "options"), others),
        remark,
    ]
    return "\n\n".join(part for part in parts if part)


def _options(each: Ablation) -> str:
    return ", ".join(f"{name}={value}" for name, value in each.changes.items())


def _listed(words: str, about: tuple[str, str], rows: Sequence[tuple[str, str, Ablation]]) -> str:
    """A table of ablations below its heading; empty without rows."""
    if not rows:
        return ""
    head = [(*about, "setting", "cell", "mean ± std (seeds)", "difference"), (*["---"] * 4, "---:", "---:")]
    lines = [
        (
            first,
            second,
            SETTINGS[each.cell.setting].title,
            cell_name(each.cell),
            str(each.score),
            "" if each.difference is None else f"{each.difference:+}",
        )
        for first, second, each in rows
    ]
    return f"{words}\n\n{table([*head, *lines])}"
