"""`glws train`: one job from weak data to a trained, evaluated, explained model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glws.cli.failures import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from glws.jobs.config import JobConfig
    from glws.jobs.job import Job, Outcome
    from glws.training.run_folder import RunFolder
    from glws.training.world import World

SIGNALLED = 128


def train(
    config: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG] [KEY=VALUE]...", help="A YAML file, and changes such as training.epochs=5."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="A data set (digits, mnist, ...) or the YAML of a table.")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="SETTING", help="How a data set is weakened.")] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="How to learn; see glws methods.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the run goes. Default: runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was cut off.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole configuration and stop.")] = False,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Let model.name be a class of your own, package.module:Class.")
    ] = False,
) -> None:
    """Train a classifier from weak labels. Without arguments: label proportions on scikit-learn's digits."""
    words = config or []
    shorthand = {"data": data, "kind": kind, "method": method}
    if resume is not None:
        _refuse_with_resume(words, {**shorthand, "out": out, "dry-run": dry_run or None})
        _go_on(resume, allow_code)
        return
    asked = _config(words, shorthand)
    if dry_run:
        _print_config(asked)
        return
    _start(asked, out or _free_folder(asked), allow_code)


def _refuse_with_resume(words: list[str], others: Mapping[str, Any]) -> None:
    given = [*(f"--{name}" for name, value in others.items() if value is not None), *words]
    if given:
        raise UsageError(f"--resume goes on with the run as it was begun; leave out {', '.join(given)}")


def _config(words: list[str], shorthand: Mapping[str, str | None]) -> JobConfig:
    from glws.jobs.config import FIRST_JOB, read_config

    path = Path(words[0]) if words and "=" not in words[0] else None
    if path is not None and not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    changes = words if path is None else words[1:]
    wrong = [word for word in changes if "=" not in word]
    if wrong:
        raise UsageError(f"expected key=value after the configuration, such as training.epochs=5; found {wrong[0]!r}")
    is_first = path is None and shorthand["data"] is None
    return read_config(path, [*_shorthand(shorthand), *changes], FIRST_JOB if is_first else None)


def _shorthand(given: Mapping[str, str | None]) -> list[str]:
    changes = []
    name = given["data"]
    if name is not None:
        key = "table" if Path(name).suffix in (".yaml", ".yml") else "source"
        changes.append(f"data.{key}={name}")
    if given["kind"] is not None:
        changes.append(f"data.setting={given['kind']}")
    if given["method"] is not None:
        changes.append(f"method.name={given['method']}")
    return changes


def _print_config(config: JobConfig) -> None:
    import yaml

    typer.echo(yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True), nl=False)


def _free_folder(config: JobConfig) -> Path:
    table = config.data.table
    name = Path(table).stem if table is not None else f"{config.data.source}-{config.data.setting}"
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _start(config: JobConfig, folder: Path, allow_code: bool) -> None:
    from glws.jobs.job import Job
    from glws.training.run_folder import RunFolder
    from glws.training.world import join_world

    world = join_world()
    job = Job.ready(config, world, allow_code)
    if world.is_first:
        run = job.begin(folder)
    world.wait()
    _run(job, run if world.is_first else RunFolder.open(folder), world)


def _go_on(folder: Path, allow_code: bool) -> None:
    from glws.jobs.job import resumed
    from glws.training.world import join_world

    world = join_world()
    job, run = resumed(folder, world, allow_code)
    _run(job, run, world)


def _run(job: Job, run: RunFolder, world: World) -> None:
    from rich.console import Console

    from glws.cli.progress import watching
    from glws.training.world import leave_world

    console = Console(highlight=False, soft_wrap=True, quiet=not world.is_first)
    _introduce(console, job, run)
    with run:
        outcome = job.finish(run, watching(console), lambda line: console.print(f"note: {line}", markup=False))
    leave_world()
    if outcome.stopped_by is not None:
        typer.echo(f"glws: stopped and saved; go on with: glws train --resume {outcome.folder}", err=True)
        raise typer.Exit(SIGNALLED + outcome.stopped_by)
    if world.is_first:
        _conclude(console, outcome)


def _introduce(console: Console, job: Job, run: RunFolder) -> None:
    from glws.jobs.words import learned_from

    data, training = job.data, job.training
    weights = sum(weight.numel() for weight in training.model.parameters())
    held_out = "" if data.held_out is None else f"; {len(data.held_out):,} more held out"
    console.print(f"learning {len(data.classes)} classes from {learned_from(data.train)}{held_out}", markup=False)
    console.print(
        f"{type(training.method).__name__} trains {type(training.model).__name__} ({weights:,} weights) "
        f"on {training.device} for {job.config.training.epochs} epochs of {training.order.steps_per_epoch} steps",
        markup=False,
    )


def _conclude(console: Console, outcome: Outcome) -> None:
    found = outcome.scores
    if "accuracy" in found:
        console.print(f"test accuracy {found['accuracy']:.1%} (balanced {found['balanced_accuracy']:.1%}), last epoch")
    if "held_out" in found:
        weak = found["held_out"]
        console.print(f"held-out weak labels: log-likelihood {weak['log_likelihood']:.3f} a group")
    for warning in outcome.warnings[-1:]:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    console.print(f"report: {outcome.report}", markup=False)
    sys.stdout.flush()
