"""Summary of our runs and the paper's: by setting and by data set."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from reproduction.catalog import DATASETS, SETTINGS
from reproduction.compare import Compared
from reproduction.show import table

SMALL = ("mnist", "fashion_mnist")
"""The data sets that are summed up together."""

GLANCE = """\
By setting: the paper's GLWS → ours, as means over the cells that were run, and the number of cells in which ours is
above."""

LEFT = """\
The *gap left* in a cell is (ceiling - ours) / (ceiling - paper's GLWS): 1 is the paper's distance to the supervised
ceiling, 0 is the ceiling, less than 0 is above it. It needs a ceiling above the paper's number; {above} of the
cells run have a lower one and are left out of the median."""


def summary_section(rows: Sequence[Compared], remark: str) -> str:
    """The section of the page: both tables, and the number of shortfalls."""
    above = sum(row.ceiling is not None and row.ours is not None and row.share_left is None for row in rows)
    short, run = sum(row.is_short for row in rows), sum(row.ours is not None for row in rows)
    shortfalls = f"Below the paper's GLWS by more than its standard deviation: {short} of the {run} cells run."
    seen = f"{GLANCE}\n\n{by_setting(rows)}" if run else ""
    parts = ["## Summary", seen, _by_data(rows), LEFT.format(above=above), shortfalls, remark]
    return "\n\n".join(part for part in parts if part)


def by_setting(rows: Sequence[Compared]) -> str:
    """A table of settings by data sets; empty if not run.

    >>> from reproduction.compare import compared
    >>> print(by_setting(compared([])).splitlines()[2])
    | Partial labels |
    """
    seen = [name for name in DATASETS if any(row.ours is not None and row.cell.dataset == name for row in rows)]
    lines = [("setting", *(DATASETS[name].paper_name for name in seen)), ("---", *["---:"] * len(seen))]
    for setting, known in SETTINGS.items():
        own = [row for row in rows if row.cell.setting == setting]
        lines.append((known.title, *(_at_a_glance([row for row in own if row.cell.dataset == name]) for name in seen)))
    return table(lines)


def _at_a_glance(rows: Sequence[Compared]) -> str:
    """The paper's mean and ours over the cells that were run; empty if none was."""
    run = [(row.published.mean, row.ours.mean) for row in rows if row.ours is not None]
    if not run:
        return ""
    paper, ours = (statistics.mean(numbers) for numbers in zip(*run, strict=True))
    return f"{paper:.2f} → {ours:.2f} ({_above(rows)} of {len(run)})"


def _by_data(rows: Sequence[Compared]) -> str:
    small = [row for row in rows if row.cell.dataset in SMALL]
    small_name = " + ".join(DATASETS[name].paper_name for name in SMALL)
    return table(
        [
            (
                "data",
                "cells",
                "run",
                "ours above the paper's GLWS",
                "share",
                "median of the gap left",
                "cells in the median",
            ),
            ("---", *["---:"] * 6),
            _summed(f"**{small_name}**", small),
            *(
                _summed(DATASETS[name].paper_name, [row for row in rows if row.cell.dataset == name])
                for name in DATASETS
            ),
            _summed("all", rows),
        ]
    )


def _summed(name: str, rows: Sequence[Compared]) -> tuple[str, ...]:
    run, above = sum(row.ours is not None for row in rows), _above(rows)
    left = [row.share_left for row in rows if row.share_left is not None]
    return (
        name,
        str(len(rows)),
        str(run),
        str(above) if run else "",
        f"{100 * above / run:.0f}%" if run else "",
        f"{statistics.median(left):.2f}" if left else "",
        str(len(left)) if left else "",
    )


def _above(rows: Sequence[Compared]) -> int:
    """The number of cells in which ours is above the paper's."""
    return sum(row.difference is not None and row.difference > 0 for row in rows)
