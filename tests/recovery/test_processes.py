"""Several processes through the command line: they come to what one comes to, and stop and go on together (R17)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recovery.processes import free_port

from glws.training import CHECKPOINTS, RunFolder, latest

HERE = Path(__file__).parent
JOB = ["train", "training.batch_size=16", "training.save_every=1000000", "--out", "run"]


@pytest.mark.slow
def test_processes_that_read_a_part_each_equal_one_and_go_on_as_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "processes.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = ["two equal one", "one goes on with what two began", "a process that is lost", "a finished run"]
    assert done.stdout.splitlines()[-4:] == expected


def torchrun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Two processes, started as the documentation says."""
    starting = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*starting, "-m", "glws", *JOB, *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_torchrun_trains_one_run_and_reports_once(tmp_path: Path) -> None:
    process = torchrun(tmp_path, "training.epochs=2")
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors  # all of it: what broke first stands first
    assert said.count("report: run/report.html") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    run = RunFolder.open(tmp_path / "run")
    assert run.is_finished
    assert [row["epoch"] for row in run.rows()] == [1, 2]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


THREADS = """
from pathlib import Path
print(sorted(task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")))
"""
LEAVING = """
from glws.training._world import join_world, leave_world
world = join_world()
import torch._dynamo  # as the optimizers do, once training begins
world.wait()
leave_world()
"""
FAILING = """
from glws.cli import run
print(run(["train", "--method", "nnpu"]))  # not for bags
"""


def pair(program: str) -> list[tuple[str, str]]:
    """What two processes of one world say, on stdout and on stderr."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**shared, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    return said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_outlives_the_world() -> None:
    """One that still held a tensor while Python ends would abort the process, about once in a hundred runs."""
    for said, _ in pair(LEAVING + THREADS):
        assert "python" in said
        assert "gloo" not in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_training_that_cannot_begin_is_one_line_and_leaves_the_world_too() -> None:
    for said, errors in pair(FAILING + THREADS):
        status, threads = said.splitlines()
        assert status == "2"
        assert "gloo" not in threads
        assert errors.count("glws: error: ") == 1
        assert errors.endswith("found ClassCounts\n")


FROZEN = """
import os, sys, time
from glws.cli import run
from glws.training import Training

def freeze(training):
    time.sleep(10)
    os._exit(0)

if os.environ["RANK"] == "1":
    Training._train_step = freeze
print(run(["train", "training.epochs=3", "training.timeout=2"]))
"""


@pytest.mark.slow
def test_a_process_that_freezes_ends_the_others_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (said, errors), _ = pair(FROZEN)
    assert said.splitlines()[-1] == "2"
    assert errors.count("glws: error: ") == 1
    assert "another process of this training has not answered for 2 seconds; continue with --resume" in errors


@pytest.mark.slow
def test_a_signal_to_torchrun_stops_and_saves(tmp_path: Path) -> None:
    process = torchrun(tmp_path, "training.epochs=5000")
    log = tmp_path / "run" / "metrics.jsonl"
    end = time.monotonic() + 200
    while not (log.exists() and log.stat().st_size):
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=40)
    assert process.returncode != 0
    assert "glws: stopped and saved; resume with: glws train --resume run" in errors
    run = RunFolder.open(tmp_path / "run")
    found = latest(tmp_path / "run" / CHECKPOINTS, pytest.fail, run.owner)
    assert found is not None
    assert found.step >= 9
