"""Run many cells, one after the other or in several processes."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import torch

from glws.errors import DataError
from glws.training import Observer
from reproduction.clip import needs_clip
from reproduction.published import cell
from reproduction.results import LIKELIHOOD, TEMPERED, run_names
from reproduction.running import PaperRun, check_data, run_cell


@dataclass(frozen=True)
class RunPool:
    """The number of processes, and the options that they share."""

    results: Path
    folder: Path | None = None
    device: str = "auto"
    runs: Path | None = None
    processes: int = 1
    seconds: float | None = None
    speed: Literal["eager", "graphs"] = "eager"


Watch = Callable[[PaperRun], Observer]
"""Makes an observer for a run."""


def unwatched(run: PaperRun) -> Observer:
    """An observer that does nothing."""
    return Observer()


def run_all(
    todo: Sequence[PaperRun],
    pool: RunPool,
    report: Callable[[str], None] = print,
    watch: Watch = unwatched,
) -> int:
    """Do the unfinished runs; return the number of failures. No run starts after `seconds`.

    Runs whose data are missing are skipped, with a line for each data set; if all are, it is an error. `watch` makes an
    observer for each run; with several processes it is not used.
    """
    known = run_names(pool.results)
    left = [run for run in todo if run.name not in known]
    report(f"{len(todo) - len(left)} runs are done, {len(left)} to do")
    left, errors = _with_data(left, pool.folder)
    if errors and len(errors) == len(todo):
        raise errors[0]
    for line, number in Counter(map(str, errors)).items():
        report(f"{number} of them are left out: {line}")
    if not left:
        return 0
    began = time.monotonic()
    is_alone = pool.processes == 1 or len(left) == 1
    failed = _work(left, pool, _Counter(), 0, watch) if is_alone else _side_by_side(left, pool)
    known = run_names(pool.results)
    done = sum(run.name in known for run in left)
    report(f"{done} of {len(left)} done in {time.monotonic() - began:.0f} s")
    return failed


def _with_data(left: Sequence[PaperRun], folder: Path | None) -> tuple[list[PaperRun], list[DataError]]:
    """The runs whose data set and CLIP confidences are available; the errors of the others."""
    wanted = [(run.dataset, needs_clip(cell(run.setting, run.dataset, run.cell))) for run in left]
    absent: dict[tuple[str, bool], DataError] = {}
    for each in dict.fromkeys(wanted):
        try:
            check_data(*each, folder)
        except DataError as reason:
            absent[each] = reason
    kept = [run for run, each in zip(left, wanted, strict=True) if each not in absent]
    return kept, [absent[each] for each in wanted if each in absent]


def _side_by_side(left: Sequence[PaperRun], pool: RunPool) -> int:
    """Run in several processes; return the number of failures."""
    context = torch.multiprocessing.get_context("spawn")
    place, failures = context.Value("i", 0), context.Value("i", 0)
    number = min(pool.processes, len(left))
    workers = [context.Process(target=_worker, args=(left, pool, place, failures)) for _ in range(number)]
    for worker in workers:
        worker.start()
    try:
        _await(workers)
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()  # each saves its run first
        _await(workers)
    return int(failures.value) + sum(worker.exitcode != 0 for worker in workers)


def _await(workers: Sequence[Any]) -> None:
    for worker in workers:
        worker.join()


class _Counter:
    """A counter with the interface of a shared one, for a single process."""

    def __init__(self) -> None:
        self.value = 0

    def get_lock(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


def _worker(left: Sequence[PaperRun], pool: RunPool, place: Any, failures: Any) -> None:
    """Work in a separate process group.

    Otherwise a signal would arrive a second time when the parent ends, and a second signal stops without saving.
    """
    os.setpgrp()
    torch.set_num_threads(1)
    Thread(target=_stop_with_parent, daemon=True).start()
    failed = _work(left, pool, place, time.time())
    with failures.get_lock():
        failures.value += failed


def _stop_with_parent() -> None:
    """Stop this process when its parent ends."""
    parent = torch.multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _work(
    left: Sequence[PaperRun],
    pool: RunPool,
    place: Any,
    began: float,
    watch: Watch = unwatched,
) -> int:
    """Take runs from the list until it is empty or the time is over."""
    began, failed = began or time.time(), 0
    while pool.seconds is None or time.time() - began < pool.seconds:
        with place.get_lock():
            number = place.value
            place.value += 1
        if number >= len(left):
            break
        try:
            failed += _attempt(left[number], pool, watch)
        except (KeyboardInterrupt, SystemExit):
            print(f"{left[number].name}: interrupted; the same command continues it", flush=True)
            return failed + 1
    return failed


def _attempt(run: PaperRun, pool: RunPool, watch: Watch) -> int:
    """Do one run; a failure is printed and counted."""
    try:
        result = run_cell(run, pool.results, pool.folder, pool.device, pool.runs, pool.speed, watch(run))
    except Exception as error:  # one failing cell must not stop the others
        print(f"{run.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
        return 1
    print(f"{run.name}: {_words(run, result)} in {result['seconds']:.0f} s", flush=True)
    return 0


def _words(run: PaperRun, result: Mapping[str, Any]) -> str:
    """The result of a run by its metric, in words."""
    if run.held_out:
        return f"held-out log-likelihood {result[LIKELIHOOD]:.4f}, tempered {result[TEMPERED]:.4f}"
    metric = cell(run.setting, run.dataset, run.cell).metric
    return f"{metric.replace('_', ' ')} {100 * result[metric]:.2f}"
