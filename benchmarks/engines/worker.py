"""Run one task in its own process with one thread, and write the rows as JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engines.results import Row

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NPROC": "1",  # read by XLA
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


def run_apart(task: str, sizes: Sequence[int], cap: float, rounds: int) -> list[Row]:
    """The rows of a task, from a fresh process in which every library starts with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.jsonl"
        command = [sys.executable, "-m", "benchmarks.engines.worker", task, "--sizes", ",".join(map(str, sizes))]
        command += ["--cap", str(cap), "--rounds", str(rounds), "--out", str(out)]
        subprocess.run(command, check=True, env={**os.environ, **ONE_THREAD})
        return [Row.from_record(json.loads(line)) for line in out.read_text().splitlines()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--cap", type=float, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)

    import torch

    from benchmarks.engines.running import Run
    from benchmarks.engines.tasks import TASKS

    torch.set_num_threads(1)
    run = Run(TASKS[given.task], given.cap, given.rounds, lambda text: print(text, file=sys.stderr, flush=True))
    rows = run.all_sizes([int(size) for size in given.sizes.split(",")])
    given.out.write_text("".join(json.dumps(row.record) + "\n" for row in rows))


if __name__ == "__main__":
    main()
