"""Training on rows that stay in a file: memory and time of an epoch, next to the same rows in memory.

    python -m benchmarks.out_of_core --rows 1000000 [--folder FOLDER]

A parquet file of 20 columns is written (row groups of 65,536 rows, removed afterwards), with bags of ten rows. An MLP
trains for one epoch from the file (`glws.data.StoredInstances`) and from memory, each in a process of its own. Memory
is the most that the process ever had, less what it had before it opened the data. The figures are in docs/training.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow
import torch
from pyarrow import parquet

from glws.data import Groups, StoredInstances, WeakDataset
from glws.kinds import Proportions
from glws.models import build
from glws.training import TrainingConfig, fit

COLUMNS, BAG, GROUP_ROWS = 20, 10, 1 << 16
NAMES = [f"x{number}" for number in range(COLUMNS)]
MIB = 1 << 20


def write(path: Path, rows: int) -> None:
    """A file of so many rows, row group by row group; the label of a row is the sign of its first column."""
    draw = np.random.default_rng(0)
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in NAMES])
    with parquet.ParquetWriter(path, schema, compression="NONE", use_dictionary=False) as writer:
        for first in range(0, rows, GROUP_ROWS):
            piece = draw.standard_normal((min(GROUP_ROWS, rows - first), COLUMNS), np.float32)
            writer.write_table(pyarrow.table(list(piece.T), schema=schema))


def counts(path: Path) -> torch.Tensor:
    """The number of positive rows of every bag, from one column."""
    file, found, left = parquet.ParquetFile(path), [], np.empty(0, np.float32)
    for piece in file.iter_batches(GROUP_ROWS, columns=NAMES[:1]):
        values = np.concatenate([left, piece.column(0).to_numpy()])
        whole = len(values) // BAG * BAG
        found.append((values[:whole].reshape(-1, BAG) > 0).sum(1).astype(np.int64))
        left = values[whole:]
    return torch.from_numpy(np.concatenate(found))


def peak() -> int:
    """The most bytes that this process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(path: Path, way: str) -> dict[str, float]:
    """Memory and seconds of an epoch."""
    begin_memory = peak()
    positives = counts(path)
    bags = Groups(torch.arange(len(positives) + 1) * BAG, torch.arange(len(positives) * BAG))
    rows: object = StoredInstances.parquet(path, NAMES)
    if way == "memory":
        rows = torch.from_numpy(np.stack([column.to_numpy() for column in parquet.read_table(path).columns], 1))
    data = WeakDataset(rows, bags, Proportions.of(positives), check=False)
    model = build("mlp", [COLUMNS], 2, torch.Generator().manual_seed(0), hidden=[64])
    begin = time.perf_counter(), time.process_time()
    fitted = fit(model, data, config=TrainingConfig(epochs=1, batch_size=400, learning_rate=0.01, device="cpu"))
    seconds, busy = time.perf_counter() - begin[0], time.process_time() - begin[1]
    some = torch.randn(10_000, COLUMNS, generator=torch.Generator().manual_seed(1))
    accuracy = float((fitted.predict(some).argmax(1) == (some[:, 0] > 0)).float().mean())
    return {"mib": (peak() - begin_memory) / MIB, "seconds": seconds, "busy": busy, "accuracy": accuracy}


def main() -> None:
    """Print a line for each way; with --way measure one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--way", choices=["file", "memory"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.way:
        print(json.dumps(train(arguments.folder, arguments.way)))
        return
    with TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.parquet"
        write(path, arguments.rows)
        print(f"{arguments.rows:,} rows, a file of {path.stat().st_size / MIB:,.0f} MiB")
        print("| rows | from | memory | seconds | busy | accuracy |\n|---:|---|---:|---:|---:|---:|")
        for way in ("file", "memory"):
            command = [sys.executable, "-m", "benchmarks.out_of_core", "--way", way, "--folder", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
            found = json.loads(done.stdout.splitlines()[-1])
            print(f"| {arguments.rows:,} | {way} | {found['mib']:,.0f} MiB | {found['seconds']:.1f} | "
                  f"{found['busy']:.1f} | {found['accuracy']:.3f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
