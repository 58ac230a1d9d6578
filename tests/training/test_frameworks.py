"""The page about other training loops: its blocks run where the packages are installed, its recipe on two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"


def program() -> str:
    (found,) = re.findall(r"^```\{code-block\} python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    return str(found)


def printed(folder: Path, processes: int) -> float:
    (folder / "sharded.py").write_text(program())
    starting = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*starting, "sharded.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return float(done.stdout)


@pytest.mark.slow
def test_a_network_that_is_sharded_over_two_processes_is_that_of_one(tmp_path: Path) -> None:
    alone, together = printed(tmp_path, 1), printed(tmp_path, 2)
    assert together == pytest.approx(alone, rel=1e-4)
    assert alone > 100
