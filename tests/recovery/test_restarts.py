"""Processes that are started again after one of them was lost continue their run, and end where one process would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recovery.processes import JOB, check_equal, described

from glws.cli import run as run_command
from glws.errors import ConfigError
from glws.training import RunFolder, continues

HERE = Path(__file__).parent
UNLUCKY = [*JOB, "training.epochs=4", "training.timeout=3", "--out", "../run"]


@pytest.mark.slow
def test_a_process_that_is_killed_and_one_that_freezes_are_started_again_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = described(tmp_path / "alone"), described(tmp_path / "together")
    for folder in (alone, together):
        (folder / "here").mkdir()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}",
    }
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "--max-restarts", "2", str(HERE / "unlucky.py"), *UNLUCKY]
    done = subprocess.run(command, cwd=together / "here", env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    for restart in range(3):
        assert done.stdout.count(f"life {restart} of process") == 2
    assert "has not answered for 3 seconds" in done.stderr  # what the others said of the one that froze
    monkeypatch.chdir(alone / "here")
    assert run_command(UNLUCKY) == 0
    check_equal(together, alone)
    run = RunFolder.open(together / "run")
    assert [row["epoch"] for row in run.rows()] == [1, 2, 3, 4]
    assert len(run.noted("resumed")) == 2


def begun(folder: Path) -> Path:
    RunFolder.create(folder, {"a": 1}, seed=0).close()
    return folder


def test_only_a_run_of_the_same_job_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    mine = begun(tmp_path / "mine")
    assert continues(mine)
    assert not continues(tmp_path / "not-begun")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    assert not continues(mine)


@pytest.mark.parametrize(("job", "words"), [("mine", "--out FOLDER"), ("none", "torchrun --rdzv-id NAME")])
def test_restarts_need_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, words: str) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", job)
    with pytest.raises(ConfigError, match=words):
        continues(None if job == "mine" else tmp_path)


def test_without_restarts_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_MAX_RESTARTS", raising=False)
    assert not continues(None)
