"""Killed anywhere, a run goes on as if nothing had been; two at once do not disturb each other (R13, R16)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from damage import everything

KILLING = Path(__file__).parent / "killing.py"


def killing(what: str, folder: Path, times: int) -> str:
    command = [sys.executable, str(KILLING), what, str(folder), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_saver_that_is_killed_leaves_a_sound_checkpoint_that_is_one_of_the_last_two(tmp_path):
    assert "kills 20" in killing("savers", tmp_path, 20)


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_leaves_the_files_of_one_that_was_not(tmp_path):
    assert "kills 20" in killing("runs", tmp_path, 20)
    expected = everything(tmp_path / "undisturbed")
    for path in tmp_path.glob("disturbed*"):
        found = everything(path)
        assert found.keys() == expected.keys()
        assert {name for name in found if found[name] != expected[name]} <= {"run.json", "times.jsonl"}


@pytest.mark.slow
def test_of_two_that_begin_one_run_one_wins_and_the_other_says_why(tmp_path):
    lines = killing("race", tmp_path, 20).splitlines()
    assert lines.pop() == "rounds 20"
    assert len(lines) == 20
    assert all(" is in use by process " in line or "already holds a run" in line for line in lines)
