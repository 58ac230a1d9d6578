"""Ten thousand steps need no more memory and no more open files than a thousand (R18)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

STEPS_PER_EPOCH, EPOCHS = 500, 21
MOST_GROWTH = 2 << 20
JOB = ["train", "--data", "points.yaml", "model.name=linear", "method.e_step=same", "training.batch_size=1",
       f"training.epochs={EPOCHS}", "training.save_every=0", "data.held_out=0.5", "--out", "run"]  # fmt: skip


class Use(NamedTuple):
    """Bytes of memory and open files of a process."""

    memory: int
    files: int


def use_of(process: int) -> Use:
    """As the system says; of the files the fewest of some looks, for one is being written now and then."""
    looks = []
    for _ in range(5):
        looks.append(len(os.listdir(f"/proc/{process}/fd")))
        time.sleep(0.005)
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return Use(pages * os.sysconf("SC_PAGE_SIZE"), min(looks))


def points(folder: Path) -> None:
    """A table of labeled points, half of which are held out."""
    draw = random.Random(0)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(2 * STEPS_PER_EPOCH)]
    lines = [f"{x:.4f},{y:.4f},{'up' if x > 0 else 'down'}\n" for x, y in rows]
    (folder / "points.csv").write_text("".join(["x,y,side\n", *lines]))
    about = "data: points.csv\nfeatures: [x, y]\nclasses: [down, up]\nkind: labels\nweak: {label: side}\nlabel: side\n"
    (folder / "points.yaml").write_text(about)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_and_open_files_stay_constant_over_ten_thousand_steps(tmp_path: Path) -> None:
    points(tmp_path)
    command, quiet = [sys.executable, "-m", "glws", *JOB], {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    uses: dict[int, Use] = {}
    log = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and EPOCHS - 1 not in uses:
        epochs = log.read_bytes().count(b"\n") if log.exists() else 0
        if epochs and epochs not in uses:
            uses[epochs] = use_of(process.pid)
        time.sleep(0.01)
    assert process.communicate()[1] == b""
    assert process.returncode == 0
    thousand, most = min(epoch for epoch in uses if epoch * STEPS_PER_EPOCH >= 1000), max(uses)
    assert thousand <= 3
    assert most == EPOCHS - 1
    growth = uses[most].memory - uses[thousand].memory
    print(f"from step {thousand * STEPS_PER_EPOCH:,} to {most * STEPS_PER_EPOCH:,}: {growth / 1024:,.0f} KiB")
    assert growth < MOST_GROWTH, uses
    last = min(uses[epoch].files for epoch in sorted(uses)[-3:])  # a busy machine may show one that is being written
    assert last == uses[thousand].files, uses
