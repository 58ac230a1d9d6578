"""R13 for answers in parts: whenever `glws label` is killed, the next one goes on, and every row is written once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.small_run import train
from pyarrow import parquet
from streams.big_table import ROWS, columns, described, write

ANSWER = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from glws.experiment import FinishedRun, Question

folder, kills = Path(sys.argv[1]), int(sys.argv[2])
about = json.loads((folder / "t.yaml").read_text())

def answer(out):
    return Question(FinishedRun.open(folder / "run"), "label", about, folder / out, rows_in_piece=20).answer()

answer("sound")
draw, there = random.Random(0), []
for kill in range(kills):
    enough = draw.randrange(3) + (there[-1] if there else 0)
    child = os.fork()
    if child == 0:
        answer("parts")
        os._exit(0)
    patience = time.monotonic() + 10
    while len(list((folder / "parts").glob("part-*"))) < enough and time.monotonic() < patience:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.01))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    there.append(len(list((folder / "parts").glob("part-*"))))
    if there[-1] == len(list((folder / "sound").glob("part-*"))):
        shutil.rmtree(folder / "parts")  # it came to its end: begin again
        there.append(0)
answer("parts")
print(json.dumps(there))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize(("order", "kills"), [("grouped", 20), ("shuffled", 5)])
def test_killed_many_times_it_writes_each_row_once(order: str, kills: int, tmp_path: Path) -> None:
    about = write(tmp_path / "t.parquet", columns(order))
    train(tmp_path / "run", "--data", str(described(tmp_path, about)), "data.held_out=0")
    command = [sys.executable, "-c", ANSWER, str(tmp_path), str(kills)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # a fork has none of the threads that it may wait for
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=300)
    counts = set(done.stdout.strip("[]\n").split(", "))
    assert len(counts) > (2 if kills > 5 else 0)  # it was killed at different moments
    sound, parts = tmp_path / "sound", tmp_path / "parts"
    for path in sound.glob("*"):
        assert (parts / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in parts.iterdir()} == {path.name for path in sound.iterdir()}
    assert sorted(parquet.read_table(parts)["row"].to_pylist()) == list(range(ROWS))
