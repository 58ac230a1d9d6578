"""Several processes on one job, through the command line; run by the tests as a program of its own, which forks."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import torch
import yaml
from recovery.forking import done, errors, files_of, fresh, is_training, status_of, wait_for
from recovery.forking import forked as forked_alone
from recovery.test_shards import columns, written

from glws.cli import run
from glws.training import CHECKPOINTS, RunFolder, latest

JOB = [
    *("train", "--data", "../bags.yaml", "data.held_out=0.2", "model.hidden=[16]", "method.e_step=same"),
    *("training.batch_size=[5, 3]", "training.precision=float64", "training.learning_rate=0.02"),
    "training.save_every=0",
]
EPOCHS = ["training.epochs=8"]
RESUME = ["train", "--resume", "../run"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def forked(arguments: list[str], folder: Path, size: int) -> list[int]:
    """So many processes that work together on a command, each in a folder of its own."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}

    def process(rank: int) -> int:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        return forked_alone(arguments, fresh(folder / f"rank-{rank}"), lambda: os.environ.update(shared | own))

    return [process(rank) for rank in range(size)]


def finish(arguments: list[str], folder: Path, size: int) -> None:
    """All of them end well, and only the first speaks."""
    statuses = [status_of(process) for process in forked(arguments, folder, size)]
    said = [(folder / f"rank-{rank}" / "stdout").read_text() for rank in range(size)]
    assert statuses == [0] * size, [errors(folder / f"rank-{rank}") for rank in range(size)]
    assert "report: " in said[0]
    assert "note: " not in said[0]  # such as that everybody reads everything
    assert not any(said[1:]), said


def described(folder: Path) -> Path:
    """An empty folder with a table to learn from."""
    folder.mkdir()
    about = written(folder / "bags.parquet", columns())
    (folder / "bags.yaml").write_text(yaml.safe_dump({**about, "data": "bags.parquet"}))
    return folder


def weights(run: Path) -> torch.Tensor:
    """All numbers of the last checkpoint: network, optimizer, averages."""
    opened = RunFolder.open(run)
    found = latest(run / CHECKPOINTS, print, opened.owner)
    assert found is not None
    tensors = found.checkpoint.tensors
    return torch.cat([tensors[name].double().reshape(-1) for name in sorted(tensors)])


def check_equal(found: Path, expected: Path) -> None:
    """The same numbers to rounding: weights, metrics, scores."""
    assert (weights(found / "run") - weights(expected / "run")).abs().max() <= 1e-12
    here, there = (RunFolder.open(each / "run") for each in (found, expected))
    for mine, other in zip(here.rows(), there.rows(), strict=True):
        assert mine.keys() == other.keys()
        assert all(abs(float(mine[name]) - float(other[name])) <= 1e-12 for name in mine), (mine, other)  # type: ignore[arg-type]
    assert here.facts["data"] == there.facts["data"]  # the hash, of which each process has computed a part
    for name, value in there.result().items():
        if isinstance(value, float):
            assert abs(here.result()[name] - value) <= 1e-12, name  # type: ignore[operator]
    assert files_of(found / "run").keys() >= {"report.html", "content.json", "scaling.json", "result.json"}


def equal(folder: Path) -> None:
    """Two processes that have read a part each come to what one comes to; one goes on with what two began."""
    warm, alone, together, moved = (described(folder / name) for name in ("warm", "alone", "together", "moved"))
    os.chdir(fresh(warm / "rank-0"))
    assert run([*JOB, "training.epochs=1", "--out", "../run"]) == 0
    finish([*JOB, *EPOCHS, "--out", "../run"], alone, 1)
    finish([*JOB, *EPOCHS, "--out", "../run"], together, 2)
    check_equal(together, alone)
    print("two equal one", flush=True)
    begun_by_two(moved)
    assert done(RESUME, moved / "rank-0") == 0, errors(moved / "rank-0")
    check_equal(moved, alone)
    print("one goes on with what two began", flush=True)
    lost(described(folder / "lost"))
    print("a process that is lost", flush=True)
    not_twice(together)
    print("a finished run", flush=True)


def begun_by_two(folder: Path) -> None:
    """Stopped by a signal to one of them."""
    processes = forked([*JOB, *EPOCHS, "--out", "../run"], folder, 2)
    wait_for(lambda: is_training(folder))
    os.kill(processes[1], signal.SIGTERM)
    assert [status_of(process) for process in processes] == [128 + signal.SIGTERM] * 2
    assert "resume with: glws train --resume ../run" in errors(folder / "rank-0")
    assert not RunFolder.open(folder / "run").is_finished


def lost(folder: Path) -> None:
    """Where one is killed, the other ends with one line, and the run can be gone on with."""
    long = [*JOB, "training.epochs=5000", "--out", "../run"]
    processes = forked(long, folder, 2)
    wait_for(lambda: is_training(folder))
    os.kill(processes[1], signal.SIGKILL)
    assert [status_of(process) for process in processes] == [2, -signal.SIGKILL]
    said = errors(folder / "rank-0")
    assert said.startswith("glws: error: another process of this training is gone ("), said
    assert said.count("\n") == 1, said
    assert weights(folder / "run").isfinite().all()


def not_twice(folder: Path) -> None:
    """All processes say that a finished run is finished, and none waits for another."""
    assert [status_of(process) for process in forked(RESUME, folder, 2)] == [2, 2]
    assert "../run is finished" in errors(folder / "rank-0")


if __name__ == "__main__":
    torch.set_num_threads(1)
    equal(Path(sys.argv[1]))
