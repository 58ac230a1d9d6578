"""`python -m reproduction`: list, run and show the cells of the paper's tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glws._aliases import with_current_names
from glws.cli import LOOK, UsageError, run_application

if TYPE_CHECKING:
    from glws.training import Observer
    from reproduction.running import PaperRun

FAILED = 1


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status; `programs` has options of its own."""
    if arguments and arguments[0] == "programs":
        from reproduction.programs.command import run as run_programs

        return run_programs(arguments[1:])
    app = typer.Typer(**LOOK)
    app.command()(reproduce)
    return run_application(app, arguments, "python -m reproduction")


def reproduce(
    action: Annotated[
        Literal["list", "run", "show", "runtime", "clip", "real_data", "selection"],
        typer.Argument(
            help="list the cells, run them, show our results and the paper's, time the losses, score a data set with "
            "CLIP for the cells that need it, compare the defaults of glws with simple peers on real data, or criteria "
            "that choose among models without labels."
        ),
    ],
    table: Annotated[
        str,
        typer.Argument(
            metavar="[TABLE]",
            help="A setting, such as proportions, or all; for real_data and selection the data folder.",
        ),
    ] = "all",
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only cells of this data set.")] = None,
    cell: Annotated[str | None, typer.Option(metavar="NAME", help="Only the cell of this name; see list.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME,...", help="Methods to run; see glws methods.")] = "glws",
    seeds: Annotated[str, typer.Option(metavar="N,...", help="Seeds to run.")] = "0,1,2",
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Epochs; default: the paper's.", min=1)] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N.")] = "auto",
    processes: Annotated[int, typer.Option(metavar="N", help="Number of runs at a time.", min=1)] = 1,
    speed: Annotated[
        Literal["eager", "graphs"], typer.Option(help="On a GPU, graphs record and replay each step.")
    ] = "eager",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Change the plan: an option of the method (method.X), training.X, draw.X, views.",
        ),
    ] = None,
    held_out: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Fraction held out for model selection; the test set is not used.", min=0, max=0.9
        ),
    ] = 0.0,
    seconds: Annotated[float | None, typer.Option(metavar="N", help="Stop starting new runs after N seconds.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="The folder of the data sets.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of runs.jsonl.")] = Path("reproduction"),
    runs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep run folders here; default: RESULTS/unfinished, until they finish."),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="TAG|FILE", help="CLIP weights: a tag that open_clip downloads, or OpenAI's in a .safetensors file."
        ),
    ] = "openai",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page (show) or the times (runtime) here.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Figures of the page; default: plots/paper next to it.")
    ] = None,
) -> None:
    """List, run and show the cells of the paper's tables.

    Finished runs are skipped; interrupted runs resume. A command of its own learns digits from additions and sums:
    python -m reproduction programs --help.

    show all is the whole page, with figures if it is written to a file; show TABLE is the table of one setting.
    """
    if action == "real_data":
        _compare_on_real_data(Path(table), seeds, dataset, results)
        return
    if action == "selection":
        _compare_criteria(Path(table), seeds, dataset, results)
        return
    names = _settings(table)
    if action == "list":
        _list(names, dataset)
    elif action == "show":
        _show(table, results, out, figures)
    elif action == "clip":
        _clip(dataset, weights, folder, device)
    elif action == "runtime":
        from reproduction.results import RUNTIME

        _time(device, out or results / RUNTIME)
    else:
        from dataclasses import replace

        from reproduction.pool import RunPool, run_all
        from reproduction.running import check_plan

        todo = _todo(names, dataset, cell, method.split(","), _seeds(seeds), epochs)
        todo = [replace(one, options=_options(option or []), held_out=held_out) for one in todo]
        for one in todo:
            check_plan(one)

        pool = RunPool(results, folder, device, runs, processes, seconds, speed)
        failed = run_all(todo, pool, typer.echo, _watched)
        if failed:
            typer.echo(f"glws: {failed} of the runs failed", err=True)
            raise typer.Exit(FAILED)


def _compare_on_real_data(folder: Path, seeds: str, task: str | None, results: Path) -> None:
    """Run what is missing, and rewrite the page."""
    from reproduction.catalog import check_known
    from reproduction.real_data import run as run_tasks
    from reproduction.real_data import write
    from reproduction.real_tasks import TASKS

    if task is not None:
        check_known("task", task, TASKS)
    if not (folder / "adult").is_dir():
        raise UsageError(f"{folder}: expected the folders adult, pll and mil in it")
    run_tasks(folder, _seeds(seeds), task, results, typer.echo)
    write(results)


def _compare_criteria(folder: Path, seeds: str, task: str | None, results: Path) -> None:
    """Run what is missing, and rewrite the page; data that are not in the folder are left out."""
    from reproduction.catalog import check_known
    from reproduction.real_tasks import TASKS
    from reproduction.selection_criteria import run as run_tasks
    from reproduction.selection_criteria import write

    if task is not None:
        check_known("task", task, TASKS)
    run_tasks(folder, _seeds(seeds), task, results, typer.echo)
    write(results)


def _watched(run: PaperRun) -> Observer:
    """Print the name of a run; an observer that prints its progress."""
    from glws.training import shown_progress
    from reproduction import cell

    typer.echo(run.name)
    return shown_progress(measure=cell(run.setting, run.dataset, run.cell).metric)


def _settings(table: str) -> tuple[str, ...]:
    from reproduction import SETTINGS
    from reproduction.catalog import check_known

    if table == "all":
        return tuple(SETTINGS)
    check_known("table", table, [*SETTINGS, "all"])
    return (table,)


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers such as 0,1,2; found {text!r}") from None


def _options(given: list[str]) -> dict[str, object]:
    """Parse NAME=VALUE; values are read as in a YAML file."""
    import yaml

    for text in given:
        if "=" not in text.strip("="):
            raise UsageError(f"--option must be NAME=VALUE such as training.batch_size=128; found {text!r}")
    pairs = (text.split("=", 1) for text in given)
    try:
        read = {name: yaml.safe_load(value) for name, value in pairs}
    except yaml.YAMLError as error:
        raise UsageError(f"--option has a value that cannot be read: {str(error).splitlines()[0]}") from None
    return with_current_names(read, report=lambda line: typer.echo(f"glws: warning: {line}", err=True))


def _todo(
    names: tuple[str, ...],
    dataset: str | None,
    cell: str | None,
    methods: list[str],
    seeds: list[int],
    epochs: int | None,
) -> list[PaperRun]:
    """The requested runs, by seed, so that an interruption leaves whole columns."""
    from glws.methods import method_class
    from reproduction import cells
    from reproduction.catalog import check_known
    from reproduction.running import PaperRun

    for method in methods:
        method_class(method)
    found = [one for name in names for one in cells(name, dataset)]
    if cell is not None:
        check_known("cell", cell, [one.name for one in found])
        found = [one for one in found if one.name == cell]
    return [
        PaperRun(one.setting, one.dataset, one.name, method, seed, epochs)
        for seed in seeds
        for method in methods
        for one in found
    ]


def _list(names: tuple[str, ...], dataset: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from reproduction import cells

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    table = Table("table", "data set", "cell", "metric", "best baseline", "GLWS", box=None, pad_edge=False)
    for one in (one for name in names for one in cells(name, dataset)):
        baseline, number = one.best_baseline()
        table.add_row(one.setting, one.dataset, one.name, one.metric, f"{baseline} {number}", str(one.value("glws")))
    console.print(table)


def _show(table: str, results: Path, out: Path | None, figures: Path | None) -> None:
    from glws._files import write_text
    from reproduction.figures import drawn
    from reproduction.page import Extras, page, read_remarks
    from reproduction.results import RUNTIME, read_choices, read_results
    from reproduction.runtime import read_runtime
    from reproduction.show import markdown

    found, remarks = read_results(results), read_remarks(results)
    runtime = read_runtime(results / RUNTIME) if (results / RUNTIME).exists() else None
    only = None if table == "all" else table
    links: dict[str, str] = {}
    if out is not None:
        links = _write_figures(drawn(found, runtime, only), figures or out.parent / "plots" / "paper", out.parent)
    if only is None:
        text = page(found, Extras(links, runtime, remarks, results.as_posix(), read_choices(results)))
    else:
        text = markdown(only, found, links.get(only), remarks.get(only, ""))
    if out is None:
        typer.echo(text)
        return
    write_text(out, text)
    typer.echo(f"wrote {out}" + (f" and {len(links)} figures" if links else ""))


def _write_figures(pictures: Mapping[str, str], folder: Path, page: Path) -> dict[str, str]:
    """Write the figures; return their links relative to the page."""
    import os

    from glws._files import write_text

    for name, picture in pictures.items():
        write_text(folder / f"{name}.svg", picture)
    place = Path(os.path.relpath(folder, page)).as_posix()
    return {name: f"{place}/{name}.svg" for name in pictures}


def _clip(dataset: str | None, weights: str, folder: Path | None, device: str) -> None:
    """Score the training images of a data set with CLIP."""
    from glws.training import chosen_device
    from reproduction.catalog import DATASETS, check_known
    from reproduction.clip import write_clip_scores
    from reproduction.running import data_set

    if dataset is None:
        raise UsageError("python -m reproduction clip needs --dataset, such as --dataset mnist")
    check_known("data set", dataset, list(DATASETS))
    path = write_clip_scores(data_set(dataset, folder), weights, folder, str(chosen_device(device)))
    typer.echo(f"wrote {path}")


def _time(device: str, out: Path) -> None:
    """Measure Figure 6 on this machine."""
    import torch

    from benchmarks.engines.environment import description
    from benchmarks.engines.timing import interleaved
    from glws._files import write_text
    from glws.training import chosen_device
    from reproduction.runtime import measured

    chosen = chosen_device(device)
    machine, _, _ = description().partition("; not installed")  # none of these takes part
    if chosen.type == "cuda":
        machine = f"{torch.cuda.get_device_name(chosen)}, driven by {machine}"
    write_text(out, measured(interleaved, machine, chosen, report=typer.echo).text())
    typer.echo(f"wrote {out}")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
