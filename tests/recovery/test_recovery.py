"""Killed, stopped or starved, a run goes on with `glws train --resume` as if nothing had been (R13-R16)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

FORKING = Path(__file__).parent / "forking.py"
SEED = 20


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can look into, which those of pytest are not."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def forking(*arguments: str) -> str:
    """What the program prints, if all goes well."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(FORKING.parent.parent)}
    command = [sys.executable, str(FORKING), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment)
    print(finished.stdout)  # with the seed
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


@pytest.mark.slow
def test_a_training_that_is_killed_twenty_times_leaves_the_files_of_one_that_was_not(folder: Path) -> None:
    said = forking("kill", str(folder / "work"), "20", str(SEED))
    assert "kills of programs 3\n" in said
    assert "kills anywhere 8, " in said
    assert "kills inside writes 9, " in said


@pytest.mark.slow
def test_signals_save_and_a_disk_that_fails_loses_nothing(folder: Path) -> None:
    said = forking("disturb", str(folder / "work")).splitlines()
    assert said[-5:] == ["signals", "full disk", "vanished folder", "read-only folder", "two at once"]
