"""`python -m reproduction programs`: run the tasks, several at a time, and write the page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from glws.cli import LOOK, UsageError, run_application
from glws.data import load
from glws.inference import waiting_for_kernels
from glws.training import chosen_device
from reproduction.catalog import check_known
from reproduction.files import read_lines
from reproduction.programs.page import PAGE, write
from reproduction.programs.tasks import TASKS
from reproduction.programs.training import VARIANTS, Digits, Options, Run

LINES = "programs.jsonl"
STEP_IMAGES = 16_384
"""Seeds are trained side by side up to so many images in a step."""


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    app = typer.Typer(**LOOK)
    app.command()(programs)
    return run_application(app, arguments, "python -m reproduction programs")


@dataclass(frozen=True)
class Job:
    """Seeds of one task and variant that are trained side by side."""

    task: str
    variant: str
    seeds: tuple[int, ...]
    options: Options
    limit: int | None


@dataclass(frozen=True)
class Place:
    """Where a process works: the folder of MNIST, the device, and when no further job is begun."""

    folder: Path
    device: str
    until: float | None


def programs(
    mnist: Annotated[
        Path, typer.Option(metavar="FOLDER", help="A folder with the official files of MNIST in MNIST/raw.")
    ],
    tasks: Annotated[str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(TASKS)}; or all.")] = "all",
    variants: Annotated[str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(VARIANTS)}.")] = "plain,best",
    seeds: Annotated[str, typer.Option(metavar="N,...", help="Seeds, such as 0,1,2.")] = "0,1,2,3,4,5,6,7,8,9",
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs; default: 100, of long sums fewer.", min=1)
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="X", help="Default: 0.001.", min=0)] = None,
    start: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Steps of the start of long sums; default: 0.1.", min=0, max=1)
    ] = None,
    starts: Annotated[
        int | None,
        typer.Option(metavar="N", help="Initial weights that long additions choose from; default: 4.", min=1),
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or cuda:N.")] = "auto",
    processes: Annotated[int, typer.Option(metavar="N", help="Number of processes.", min=1)] = 1,
    together: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seeds side by side in a process, on a GPU; default: by size.", min=1),
    ] = None,
    speed: Annotated[
        Literal["eager", "graphs"], typer.Option(help="On a GPU, graphs record and replay steps of additions.")
    ] = "eager",
    seconds: Annotated[float | None, typer.Option(metavar="N", help="Stop starting new runs after N seconds.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only N images, for a trial.", min=1)] = None,
    results: Annotated[Path, typer.Option(metavar="FILE", help="One line for each run.")] = Path("reproduction")
    / LINES,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The page to rewrite; default: the docs'.")] = None,
) -> None:
    """Learn digits from results of additions and sums; write one line for each run, and the page.

    Finished runs are skipped. Accuracy is that of the last epoch.
    """
    changes = {"epochs": epochs, "learning_rate": learning_rate, "start": start, "starts": starts, "speed": speed}
    changes = {name: value for name, value in changes.items() if value is not None}
    wanted = list(TASKS) if tasks == "all" else tasks.split(",")
    for kind, names, known in (("task", wanted, TASKS), ("variant", variants.split(","), VARIANTS)):
        for name in names:
            check_known(kind, name, list(known))
    place = Place(mnist, str(chosen_device(device)), None if seconds is None else time.time() + seconds)
    together = 1 if place.device == "cpu" else together  # grouped convolutions are slow there
    short = [name for name in wanted if limit is not None and limit // 6 < TASKS[name].images]
    if short:
        raise UsageError(f"--limit {limit} leaves too few test images for {', '.join(short)}")
    jobs = list(todo(wanted, variants.split(","), _seeds(seeds), changes, limit, together, read_lines(results)))
    typer.echo(f"{sum(len(job.seeds) for job in jobs)} runs to do, in {len(jobs)} jobs")
    work(jobs, place, processes, lambda line: _store(results, line))
    if limit is None:
        write(results, page or PAGE)


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers such as 0,1,2; found {text!r}") from None


def todo(
    tasks: Sequence[str],
    variants: Sequence[str],
    seeds: Sequence[int],
    changes: dict[str, Any],
    limit: int | None,
    together: int | None,
    done: Sequence[dict[str, Any]],
) -> Iterator[Job]:
    """The runs that are not done, seeds side by side: some seeds of every task first, short tasks before long ones."""
    jobs: list[tuple[int, Job]] = []
    finished = {(line["task"], line["variant"], line["seed"], line["images"]) for line in done}
    for name in sorted(tasks, key=lambda name: TASKS[name].images):
        task = TASKS[name]
        size = together or max(1, STEP_IMAGES // (task.groups_per_step * task.images))
        for variant in variants:
            left = [seed for seed in seeds if (name, variant, seed, limit or 60_000) not in finished]
            for first in range(0, len(left), size):
                options = replace(VARIANTS[variant], **changes)
                jobs.append((first // size, Job(name, variant, tuple(left[first : first + size]), options, limit)))
    yield from (job for _, job in sorted(jobs, key=lambda each: each[0]))


def work(jobs: Sequence[Job], place: Place, processes: int, store: Callable[[dict[str, Any]], None]) -> None:
    """Do the jobs, here or in several processes; lines are stored as they come."""
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            for line in _job((job, place)):
                store(line)
        return
    context = torch.multiprocessing.get_context("spawn")
    with context.Pool(min(processes, len(jobs)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for lines in pool.imap_unordered(_job, [(job, place) for job in jobs]):
            for line in lines:
                store(line)


def _store(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    result, digits = 100 * line["result_accuracy"], 100 * line["digit_accuracy"]
    typer.echo(
        f"{line['task']} {line['variant']} seed {line['seed']}: {result:.2f} of results, {digits:.2f} of digits, "
        f"{line['seconds']} s"
    )


def _job(given: tuple[Job, Place]) -> list[dict[str, Any]]:
    """The lines of one job."""
    job, place = given
    if place.until is not None and time.time() > place.until:
        return []
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device(place.device)
    training = Run(TASKS[job.task], job.options, _digits(place.folder, device, job.limit), job.seeds)
    with waiting_for_kernels():
        seconds, log_likelihood = training.train()
        scores, share = training.scores(), training.logic_share()
    common = {
        "variant": job.variant,
        "network": job.options.network,
        "epochs": training.epochs,
        "groups": training.groups.shape[1],
        "groups_per_step": training.batch,
        "learning_rate": job.options.learning_rate,
        "images": len(training.digits.train[1]),
        "together": len(job.seeds),
        "starts": job.options.starts if training.has_trial else 1,
        "seconds": round(seconds, 1),
        "epoch_seconds": round(seconds / training.epochs, 4),
        "logic_share": round(share, 4),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "speed": "graphs" if training.is_recorded else "eager",
    }
    return [
        {"task": job.task, "seed": seed, **common, "log_likelihood": round(float(value), 4), **score}
        for seed, value, score in zip(job.seeds, log_likelihood, scores, strict=True)
    ]


def _digits(folder: Path, device: torch.device, limit: int | None) -> Digits:
    source = load("mnist", folder)
    size = limit or len(source.train)
    parts = [
        (torch.from_numpy(part.inputs[:most].copy())[:, 0].to(device), torch.from_numpy(part.labels[:most]).to(device))  # type: ignore[index]
        for part, most in ((source.train, size), (source.test, max(size // 6, 1)))
    ]
    return Digits(*parts)
