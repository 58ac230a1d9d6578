"""`glws train`: one experiment from weak data to a trained, evaluated, explained model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glws.cli._failures import UsageError
from glws.cli._paths import DESCRIPTIONS, TABLES, AllowCode, check_description

if TYPE_CHECKING:
    from rich.console import Console

    from glws.experiment import Experiment, ExperimentConfig, Outcome
    from glws.training import MixtureTraining, RunFolder, Training, World

SIGNALED = 128
SMALL_NETWORK = 1_000_000
"""With fewer weights than this, threads spend more time on waiting for each other than on work."""
SHOWN_NOISE = 6
"""The number of parameters of learned noise that the terminal shows; the report has all."""
NAMELESS = (
    "note: these weak labels do not identify the class names; predicted classes may be permuted. A few labels fix this"
)


def train(
    config: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONFIG KEY=VALUE", help="A YAML file if you like, then changes: training.epochs=5."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="A data set (see glws data), or the YAML that describes your table."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="SETTING", help="How a data set is weakened: proportions, partial_labels, ...")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to learn (see glws methods). Default: glws.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The network: mlp, linear, resnet18, ... Default: chosen by weak labels or by shape."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the run goes. Default: the next free runs/NAME-NUMBER.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Resume an interrupted run.")] = None,
    changed_data: Annotated[
        bool, typer.Option("--changed-data", help="With --resume: go on although the data has changed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the whole configuration and stop.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Train a classifier from weak labels. Without arguments: label proportions on scikit-learn's digits."""
    words = config or []
    shorthand = {"data": data, "kind": kind, "method": method, "model": model}
    if resume is not None:
        _refuse_with_resume(words, {**shorthand, "out": out, "dry-run": dry_run or None})
        _go_on(resume, allow_code, changed_data)
        return
    if changed_data:
        raise UsageError("--changed-data is for runs that go on: use it with --resume RUN")
    _check_data(data, kind)
    asked = _config(words, shorthand, allow_code)
    _check_together(asked)
    if dry_run:
        _print_config(asked)
        return
    _start(asked, out, allow_code)


def _refuse_with_resume(words: list[str], others: Mapping[str, Any]) -> None:
    given = [*(f"--{name}" for name, value in others.items() if value is not None), *words]
    if given:
        raise UsageError(f"--resume continues the run as it was begun; leave out {', '.join(given)}")


def _config(words: list[str], shorthand: Mapping[str, str | None], allow_code: bool) -> ExperimentConfig:
    from glws.experiment import read_config

    path = Path(words[0]) if words and "=" not in words[0] else None
    if path is not None:
        _check_config(path)
    changes = words if path is None else words[1:]
    wrong = [word for word in changes if "=" not in word]
    if wrong:
        raise UsageError(f"expected key=value after the configuration, such as training.epochs=5; found {wrong[0]!r}")
    return _with_views(read_config(path, [*_shorthand(shorthand), *changes], allow_code, _warn))


def _with_views(config: ExperimentConfig) -> ExperimentConfig:
    """A table of images gets the views of photographs of its size, unless the configuration names others."""
    if config.data.table is None or config.data.views != "auto":
        return config
    from dataclasses import replace

    from glws.data.tables import read_description
    from glws.experiment import usual_views

    about = read_description(config.data.table)
    return (
        config
        if about.image is None
        else replace(config, data=replace(config.data, views=usual_views(about.image_size)))
    )


def _check_data(data: str | None, kind: str | None) -> None:
    """A file is the description of a table, which names its weak labels."""
    path = Path(data or "")
    if path.suffix.lower() not in (*DESCRIPTIONS, *TABLES):
        return
    check_description(path)
    if kind is not None:
        raise UsageError(f"--kind is for data sets that are weakened; {path} names its own weak labels")


def _check_together(config: ExperimentConfig) -> None:
    """Settings of a published data set say nothing about a table, and the other way round."""
    data, usual = config.data, type(config.data)()
    is_table = data.table is not None and data.source is None
    reason = "the data is a table" if is_table else "a data set has a test part of its own"
    for name in ("setting", "options", "positive", "folder") if is_table else ("test",):
        if getattr(data, name) != getattr(usual, name):
            raise UsageError(f"data.{name} has no meaning here: {reason}")


def _check_config(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; expected a YAML file with a configuration")
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file; changes are written key=value, such as training.epochs=5")
    if path.suffix.lower() in TABLES:
        check_description(path)
    from glws.data import read_yaml

    content = read_yaml(path)
    if isinstance(content, dict) and "features" in content:
        raise UsageError(f"{path} describes a table; say: glws train --data {path}")


def _shorthand(given: Mapping[str, str | None]) -> list[str]:
    changes = []
    name = given["data"]
    if name is not None:
        key = "table" if Path(name).suffix.lower() in DESCRIPTIONS else "source"
        changes.append(f"data.{key}={json.dumps(name)}")
    if given["kind"] is not None:
        changes.append(f"data.setting={json.dumps(given['kind'])}")
    changes += [f"{key}.name={json.dumps(given[key])}" for key in ("method", "model") if given[key] is not None]
    return changes


def _print_config(config: ExperimentConfig) -> None:
    import yaml

    typer.echo(yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True), nl=False)


def _start(config: ExperimentConfig, folder: Path | None, allow_code: bool) -> None:
    from glws.experiment import Experiment
    from glws.training import RunFolder, continues, joined_world

    if continues(folder):
        assert folder is not None
        if not RunFolder.open(folder).is_finished:
            _go_on(folder, allow_code, changed_data=False)
        return
    with joined_world(config.training.timeout) as world:
        experiment = Experiment.of(config, world, allow_code)
        _try_views(experiment)
        _run(experiment, _begun(experiment, folder, world), world)


def _begun(experiment: Experiment, folder: Path | None, world: World) -> RunFolder:
    """The new run folder: the first process creates it, the others read it."""
    from glws.experiment import usual_folder
    from glws.training import RunFolder

    run = experiment.begin(folder) if world.is_first else None
    name = usual_folder(experiment.config) if folder is None else folder
    if folder is None:
        number = world.broadcast(0 if run is None else int(run.path.name.removeprefix(f"{name.name}-")))
        name = name.with_name(f"{name.name}-{number}")
    world.wait()
    return RunFolder.open(name) if run is None else run


def _try_views(experiment: Experiment) -> None:
    """Looks at an instance as training will: views that are not for such instances are found before the run begins."""
    import torch

    instance = experiment.data.train.instances.take(torch.zeros(1, dtype=torch.int64))
    for view in (experiment.data.views.weak, experiment.data.views.strong):
        view(instance, torch.Generator(instance.device))


def _go_on(folder: Path, allow_code: bool, changed_data: bool) -> None:
    from glws.experiment import REPORT, Experiment, config_of
    from glws.training import RunFolder, joined_world

    begun = RunFolder.open(folder)
    if begun.is_finished:  # before it is taken up again, which would leave a note
        raise UsageError(f"{folder} is finished; its report is {folder / REPORT}")
    with joined_world(config_of(begun.config, allow_code).training.timeout) as world:
        say = _warn if world.is_first else _stay_silent
        experiment, run = Experiment.resumed(folder, world, allow_code, changed_data, say)
        _run(experiment, run, world)


def _warn(line: str) -> None:
    typer.echo(f"glws: warning: {line}", err=True)


def _stay_silent(line: str) -> None:
    """What the processes but the first say."""


def _run(experiment: Experiment, run: RunFolder, world: World) -> None:
    from rich.console import Console

    from glws.training import shown_progress

    console = Console(highlight=False, soft_wrap=True, quiet=not world.is_first)
    _use_few_threads(experiment)
    _introduce(console, experiment)
    with run:
        measure = "accuracy" if experiment.names_are_identified else "matched_accuracy"
        observer = shown_progress(measure=measure, console=console)
        outcome = experiment.finish(run, observer, lambda line: console.print(f"note: {line}", markup=False))
    if outcome.stopped_by is not None:
        if world.is_first:
            typer.echo(f"glws: stopped and saved; resume with: glws train --resume {outcome.folder}", err=True)
        raise typer.Exit(SIGNALED + outcome.stopped_by)
    if world.is_first:
        _conclude(console, experiment, outcome)


def _use_few_threads(experiment: Experiment) -> None:
    """One thread for a small network on a CPU, unless the user has said how many."""
    import torch

    weights = sum(weight.numel() for weight in experiment.training.model.parameters())
    if experiment.training.device.type == "cpu" and weights < SMALL_NETWORK and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def _introduce(console: Console, experiment: Experiment) -> None:
    from glws._messages import counted
    from glws.experiment import learned_from

    data, training = experiment.data, experiment.training
    for line in () if data.schema is None else data.schema.lines():
        console.print(line, markup=False)
    held_out = "" if data.held_out is None else f"; {counted(len(data.held_out), 'group')} held out"
    console.print(f"training on {learned_from(data.train)}{held_out}; {len(data.classes)} classes", markup=False)
    console.print(_plan(training), markup=False)


def _plan(training: Training | MixtureTraining) -> str:
    """What is about to be trained."""
    from glws._messages import counted
    from glws.training import MixtureTraining

    if isinstance(training, MixtureTraining):
        return (
            "choosing among linear models, small networks and trees by held-out weak labels (--model mlp: one network)"
        )
    weights = sum(weight.numel() for weight in training.model.parameters())
    epochs, steps = counted(training.num_epochs, "epoch"), counted(training.order.steps_per_epoch, "step")
    return (
        f"{type(training.method).__name__} trains {type(training.model).__name__} ({weights:,} weights) "
        f"on {training.device} for {epochs} of {steps}"
    )


def _bag_line(name: str, scores: Mapping[str, float], number: int) -> str:
    """The scores of whole bags in words."""
    area = f", AUC {scores['auc']:.3f}" if "auc" in scores else ""
    honest = f", calibration error {scores['calibration_error']:.1%}"
    right = f"{scores['accuracy']:.1%} right (balanced {scores['balanced_accuracy']:.1%})"
    return f"{name}: {right}{area}{honest}, of {number:,}"


def _conclude(console: Console, experiment: Experiment, outcome: Outcome) -> None:
    from glws.experiment import in_one_line

    found, lines = outcome.scores, []
    if experiment.fitted.selection is not None:
        lines.append(in_one_line(experiment.fitted.selection))
    if "bags" in found and experiment.data.test is not None and experiment.data.test.bags is not None:
        lines.append(_bag_line("test bags", found["bags"], len(experiment.data.test.bags)))
    if "accuracy" in found and experiment.data.test is not None:
        known = int((experiment.data.test.labels >= 0).sum())
        exact, balanced = found["accuracy"], found["balanced_accuracy"]
        when = ", last epoch" if experiment.fitted.selection is None else ""
        lines.append(f"test accuracy {exact:.1%} (balanced {balanced:.1%}) on {known:,} instances{when}")
        if not experiment.names_are_identified:
            lines.append(f"matched accuracy {found['matched_accuracy']:.1%}: that after the best renaming of classes")
    elif "bags" not in found:
        lines.append("test accuracy not known: there are no true labels to test on")
    if "held_out" in found:
        weak = found["held_out"]
        summary = f"held-out groups: log-likelihood {weak['log_likelihood']:.3f} each (0 is perfect)"
        if "estimated_accuracy" in weak:
            summary += f"; by them {weak['estimated_accuracy']:.1%} of instances are right"
            summary += f", give or take {2 * weak['estimated_accuracy_error']:.1%}"
        lines.append(summary)
        if "bag_accuracy" in weak and experiment.data.held_out is not None:
            bags = {name.removeprefix("bag_"): value for name, value in weak.items() if name.startswith("bag_")}
            lines.append(_bag_line("held-out bags", bags, len(experiment.data.held_out)))
    lines += [f"learned noise of {each.describe()}" for each in experiment.fitted.noise.estimates[:SHOWN_NOISE]]
    if not experiment.names_are_identified:
        lines.append(NAMELESS)
    lines += [f"warning: {warning}" for warning in dict.fromkeys(outcome.warnings)]
    lines.append(f"report: {outcome.report}")
    for line in lines:
        console.print(line, markup=False)
    if experiment.config.data.table is not None:
        console.print(f"next: glws label {outcome.folder} --out labels.parquet", markup=False)
    sys.stdout.flush()
