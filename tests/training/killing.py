"""Processes that are killed at random moments, or race for one folder; run by the tests as a program of its own.

One process imports torch and then forks, which is a hundred times faster than starting each from the beginning.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from glws._files import FolderLock
from glws.errors import GlwsError
from glws.training import RunFolder, latest
from glws.training._checkpoint import Checkpoint, save

STEPS, EVERY = 60, 5
CONFIG = {"lr": 0.1, "seed": 3}


def child(work: Callable[[], None]) -> int:
    """A process that does this and ends: with 0, or with 3 after an error that is meant for the user."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except GlwsError as error:
        print(error, flush=True)
        os._exit(3)
    except BaseException as error:
        print(f"not caught: {error!r}", flush=True)
        os._exit(4)
    os._exit(0)


def killed_after(seconds: float, work: Callable[[], None]) -> bool:
    """Whether the process had to be killed."""
    process = child(work)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, status
    return os.WIFSIGNALED(status)


# A loop that saves without end


def content(step: int) -> torch.Tensor:
    return torch.randn(5000, generator=torch.Generator().manual_seed(step))


def save_forever(folder: Path, first: int, finished: int) -> None:
    for step in range(first, first + 100_000):
        save(folder, step, Checkpoint({"w": content(step)}, {"step": step}))
        os.pwrite(finished, step.to_bytes(8, "little"), 0)


def seconds_of_a_save(folder: Path) -> float:
    """So that kills fall into the first few saves, on a slow disk too."""
    start = time.monotonic()
    for step in range(4):
        save(folder, step, Checkpoint({"w": content(step)}))
    return (time.monotonic() - start) / 4


def kill_savers(folder: Path, kills: int) -> None:
    """After each kill the newest checkpoint is sound, and is the last whose saving had ended, or the next."""
    draw = random.Random(1)
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    record = os.open(folder / "finished", os.O_RDWR | os.O_CREAT)
    finished, num_unfinished = 3, 0
    usual = seconds_of_a_save(checkpoints)
    for _ in range(kills):
        first = finished + 1
        assert killed_after(draw.uniform(0.0, 5 * usual), lambda first=first: save_forever(checkpoints, first, record))
        finished = max(finished, int.from_bytes(os.pread(record, 8, 0), "little"))
        messages: list[str] = []
        found = latest(checkpoints, messages.append)
        assert found is not None
        assert found.step in (finished, finished + 1), (found.step, finished)
        assert torch.equal(found.checkpoint.tensors["w"], content(found.step))
        finished = found.step
        assert all("was not finished" in message for message in messages), messages
        num_unfinished += bool(messages) or any(checkpoints.glob(".*.partial"))
    assert finished > kills / 4
    print(f"kills {kills}, steps {finished}, inside a write {num_unfinished}")


# A whole run


def train(path: Path, pause: float) -> None:
    """A run in small: begins or goes on, logs, saves, finishes; with pauses, in which it can be killed."""
    run = RunFolder.resume(path) if RunFolder.holds_run(path) else RunFolder.create(path, CONFIG, seed=3, command=["x"])
    with run:
        found = run.restore(lambda message: None)
        weight = found.checkpoint.tensors["weight"] if found else torch.zeros(50)
        for step in range(found.step if found else 0, STEPS):
            weight = torch.sin(weight + step)
            run.metrics.append({"step": step, "mean": float(weight.mean())})
            time.sleep(pause)
            if step % EVERY == EVERY - 1:
                run.save(step + 1, Checkpoint({"weight": weight}, {"epoch": step // EVERY}))
        run.write_tensors("predictions", {"weight": weight})
        run.finish({"mean": float(weight.mean())})


def kill_runs(folder: Path, kills: int) -> None:
    draw = random.Random(2)
    train(folder / "undisturbed", 0.0)
    path = folder / "disturbed"
    killed = 0
    while killed < kills:
        if RunFolder.holds_run(path) and RunFolder.open(path).is_finished:
            path = folder / f"disturbed-{killed}"
        killed += killed_after(draw.uniform(0.005, 0.12), lambda path=path: train(path, 0.001))
    for each in folder.glob("disturbed*"):
        train(each, 0.0)
    print(f"kills {killed}")


# A race for one folder


def race(folder: Path, rounds: int) -> None:
    """Two processes begin the same run at the same moment."""
    for number in range(rounds):
        start = time.time() + 0.02
        first, second = (child(lambda n=number, start=start: begin(folder / f"run-{n}", start)) for _ in range(2))
        codes = sorted(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in (first, second))
        assert codes == [0, 3], codes
        with FolderLock(folder / f"run-{number}"):
            assert RunFolder.open(folder / f"run-{number}").config == CONFIG
    print(f"rounds {rounds}")


def begin(path: Path, start: float) -> None:
    while time.time() < start:
        pass
    with RunFolder.create(path, CONFIG, seed=0, command=["x"]):
        time.sleep(0.02)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"savers": kill_savers, "runs": kill_runs, "race": race}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
