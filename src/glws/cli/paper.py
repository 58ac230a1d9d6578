"""`glws paper`: the tables of the paper: what is in them, our runs of their cells, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glws.cli.failures import UsageError

if TYPE_CHECKING:
    from glws.paper.running import PaperRun

FAILED = 1


def paper(
    action: Annotated[
        Literal["list", "run", "show"],
        typer.Argument(help="list the cells, run them, or show our results beside the paper's."),
    ],
    table: Annotated[str, typer.Argument(metavar="[TABLE]", help="A setting, such as proportions, or all.")] = "all",
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only cells of this data set.")] = None,
    cell: Annotated[str | None, typer.Option(metavar="NAME", help="Only the cell of this name; see list.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME,...", help="Methods to run; see glws methods.")] = "glws",
    seeds: Annotated[str, typer.Option(metavar="N,...", help="Seeds to run.")] = "0,1,2",
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Instead of the paper's number.", min=1)] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N.")] = "auto",
    processes: Annotated[int, typer.Option(metavar="N", help="How many runs at once.", min=1)] = 1,
    seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Begin no further run after so many seconds.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the data sets lie.")] = None,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results are kept.")] = Path("results"),
    runs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep runs here, to go on with when they were cut off.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page here (show).")] = None,
) -> None:
    """List, run and show the cells of the paper's tables. A run that has its result is not run again."""
    names = _settings(table)
    if action == "list":
        _list(names, dataset)
    elif action == "show":
        _show(names, results, out)
    else:
        todo = _todo(names, dataset, cell, method.split(","), _seeds(seeds), epochs)
        from glws.paper.running import Crowd, run_all

        crowd = Crowd(results, folder, device, runs, processes, seconds)
        failed = run_all(todo, crowd, typer.echo)
        if failed:
            typer.echo(f"glws: {failed} of the runs failed", err=True)
            raise typer.Exit(FAILED)


def _settings(table: str) -> tuple[str, ...]:
    from glws.paper import SETTINGS
    from glws.paper.catalogue import check_known

    if table == "all":
        return tuple(SETTINGS)
    check_known("table", table, [*SETTINGS, "all"])
    return (table,)


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers such as 0,1,2; found {text!r}") from None


def _todo(
    names: tuple[str, ...],
    dataset: str | None,
    cell: str | None,
    methods: list[str],
    seeds: list[int],
    epochs: int | None,
) -> list[PaperRun]:
    """The runs that are asked for, seed by seed, so that a cut leaves whole columns."""
    from glws.methods.catalogue import method_class
    from glws.paper import cells
    from glws.paper.catalogue import check_known
    from glws.paper.running import PaperRun, runnable

    for method in methods:
        method_class(method)
    found = [one for name in names for one in cells(name, dataset)]
    if cell is not None:
        check_known("cell", cell, [one.name for one in found])
        found = [one for one in found if one.name == cell]
    wanted = [one for one in found if runnable(one)]
    return [
        PaperRun(one.setting, one.dataset, one.name, method, seed, epochs)
        for seed in seeds
        for method in methods
        for one in wanted
    ]


def _list(names: tuple[str, ...], dataset: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from glws.paper import cells

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    table = Table("table", "data set", "cell", "metric", "best baseline", "GLWS", box=None, pad_edge=False)
    for one in (one for name in names for one in cells(name, dataset)):
        baseline, number = one.best_baseline()
        table.add_row(one.setting, one.dataset, one.name, one.metric, f"{baseline} {number}", str(one.value("glws")))
    console.print(table)


def _show(names: tuple[str, ...], results: Path, out: Path | None) -> None:
    from glws.files import write_text
    from glws.paper.results import read_results
    from glws.paper.show import markdown

    found = read_results(results)
    text = "\n".join(markdown(name, found) for name in names)
    if out is None:
        typer.echo(text)
        return
    write_text(out, text)
    typer.echo(f"wrote {out}")
