"""`python -m benchmarks`: time and memory of every engine, next to other installed libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glws._files import write_text
from glws.cli import LOOK, UsageError, run_application

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.engines.contest import Task
    from benchmarks.engines.results import Row

QUICK_ROUNDS = 3
FAMILY_NAMES = ("counts", "trellis", "pairs", "all")


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    app = typer.Typer(**LOOK)
    app.command()(measure)
    return run_application(app, arguments, "python -m benchmarks")


def measure(
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="counts, trellis, pairs, or all.")] = "all",
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Group sizes of the table of that name, instead of its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a CSV file and an SVG plot for each table.")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rewrite the marked tables of this Markdown file.")
    ] = None,
    cap: Annotated[
        float, typer.Option(metavar="SECONDS", help="Leave out what is expected to take longer for one call.")
    ] = 20.0,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, few turns.")] = False,
) -> None:
    """Measure every engine next to its peers: time and peak memory against group size, on one thread."""
    wanted = _read_sizes(task, sizes)
    _check(docs)
    from rich.console import Console

    from benchmarks.engines.environment import description
    from benchmarks.engines.tables import markdown

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no edge to wrap at
    console.print(description(), soft_wrap=True)
    results = {}
    for one in _tasks(task):
        results[one.name] = rows = _measured(one, wanted.get(one.name), cap, quick)
        _show(console, one, rows)
        if out is not None:
            _write(console, out, one, rows)
    if docs is not None:
        parts = {one.name: markdown(one, results[one.name]) for one in _tasks(task)}
        _rewrite(console, docs, {**parts, "machine": description()})


def _read_sizes(task: str, text: str | None) -> Mapping[str, list[int]]:
    """The given sizes, for the table with the name of the task."""
    if task not in FAMILY_NAMES:
        raise UsageError(f"--task must be one of {', '.join(FAMILY_NAMES)}, found {task!r}")
    if text is None:
        return {}
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 2:
        raise UsageError(f"--sizes must be whole numbers of at least 2, such as 10,50; found {text!r}")
    if task == "all":
        raise UsageError("--sizes are of one task: give --task counts, trellis or pairs too")
    return {task: sizes}


def _check(docs: Path | None) -> None:
    if docs is not None and not docs.is_file():
        raise UsageError(f"--docs {docs}: there is no such file")


def _tasks(family: str) -> list[Task]:
    from benchmarks.engines.tasks import FAMILIES, TASKS

    return [TASKS[name] for name in FAMILIES[family]]


def _measured(task: Task, sizes: Sequence[int] | None, cap: float, quick: bool) -> list[Row]:
    from benchmarks.engines.timing import ROUNDS
    from benchmarks.engines.worker import run_apart

    usual = task.quick_sizes if quick else task.sizes
    return run_apart(task.name, sizes or usual, cap, QUICK_ROUNDS if quick else ROUNDS)


def _show(console: Console, task: Task, rows: Sequence[Row]) -> None:
    from benchmarks.engines.tables import rich_table, verdicts

    console.print()
    console.print(rich_table(task, rows))
    for line in verdicts(task, rows):
        console.print(line, soft_wrap=True)


def _write(console: Console, folder: Path, task: Task, rows: Sequence[Row]) -> None:
    from benchmarks.engines.plots import svg
    from benchmarks.engines.results import to_csv

    write_text(folder / f"{task.name}.csv", to_csv(rows))
    if len({row.size for row in rows}) == 1:
        console.print(f"wrote {folder / task.name}.csv", soft_wrap=True)  # one size makes no curve
        return
    try:
        picture = svg(task, rows)
    except ImportError:
        console.print(f"wrote {folder / task.name}.csv; the plot needs matplotlib: pip install glws\\[bench]")
        return
    write_text(folder / f"{task.name}.svg", picture)
    console.print(f"wrote {folder / task.name}.csv and .svg", soft_wrap=True)


def _rewrite(console: Console, path: Path, parts: Mapping[str, str]) -> None:
    from benchmarks.engines.documents import rewritten

    write_text(path, rewritten(path.read_text(encoding="utf-8"), parts))
    console.print(f"wrote {path}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
