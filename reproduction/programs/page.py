"""The table of `docs/measurements/programs.md`: our runs next to published numbers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduction.files import put_between, read_lines
from reproduction.programs.tasks import TASKS
from reproduction.programs.training import VARIANTS

Line = dict[str, Any]
PAGE = Path(__file__).parent.parent.parent / "docs" / "measurements" / "programs.md"
START, END = "<!-- written by python -m reproduction programs -->", "<!-- end of programs -->"
PUBLISHED = {
    "addition-1": "DeepSoftLog 98.4, CTSketch 98.3, A-NeSI 97.4, Scallop 96.9",
    "addition-2": "CTSketch 96.7, DeepSoftLog 96.6, A-NeSI 96.0, Scallop 95.3",
    "addition-4": "DeepSoftLog 93.5, CTSketch 92.5, NeSyDM 92.5, A-NeSI 92.1",
    "addition-15": "NeSyDM 77.3, DeepSoftLog 77.1, A-NeSI 76.8, CTSketch 74.8",
    "addition-100": "DeepSoftLog 25.6, CTSketch 23.5",
    "sum-16": "CTSketch 83.8, IndeCateR 83.0, A-NeSI 17.1, Scallop 8.4",
    "sum-64": "CTSketch 47.1, IndeCateR 44.4, A-NeSI 10.4",
    "sum-256": "CTSketch 7.8, A-NeSI 0.9, IndeCateR 0.5",
    "sum-1024": "CTSketch 2.7 (93.7 of digits), A-NeSI 1.2, IndeCateR 0.6",
}
"""Percent of right results, as their authors or CTSketch (2025) report them."""


def table(lines: Sequence[Line]) -> str:
    """One row for each task and variant, in the order of the tasks."""
    found: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        found[line["task"], line["variant"]].append(line)
    columns = (
        "task|variant|runs|results %|digits %|digits %, likeliest run|published, results %|epochs|s/epoch|inference %"
    )
    head = f"| {columns.replace('|', ' | ')} |\n"
    rows = [_row(task, variant, found[task, variant]) for task in TASKS for variant in VARIANTS if found[task, variant]]
    return head + "|" + "---|" * (columns.count("|") + 1) + "\n" + "".join(rows)


def _row(task: str, variant: str, lines: Sequence[Line]) -> str:
    together = sorted({line["together"] for line in lines})
    seconds = statistics.median(line["epoch_seconds"] for line in lines)
    several = f" for {together[-1]} seeds" if together[-1] > 1 else ""
    cells = [
        task,
        variant,
        str(len(lines)),
        _mean([line["result_accuracy"] for line in lines]),
        _mean([line["digit_accuracy"] for line in lines]),
        f"{100 * max(lines, key=lambda line: float(line['log_likelihood']))['digit_accuracy']:.2f}",
        PUBLISHED.get(task, ""),
        "–".join(str(number) for number in sorted({line["epochs"] for line in lines})),
        f"{seconds:.2g}{several}",
        f"{statistics.median(line['logic_share'] for line in lines):.1%}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _mean(shares: Sequence[float]) -> str:
    """Mean ± standard error, in percent."""
    values = [100 * share for share in shares]
    spread = f" ± {statistics.stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def write(results: Path, page: Path = PAGE) -> None:
    """Put the table between the marks of the page."""
    put_between(page, START, END, table(read_lines(results)))
