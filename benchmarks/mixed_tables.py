"""Reading and encoding a table of many rows and mixed columns: seconds and peak memory, from CSV and from parquet.

python -m benchmarks.mixed_tables --rows 1000000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import csv, parquet

from glws.data import read_table

NUMBERS, CATEGORIES, DATES = 10, 7, 2
ABOUT = {"features": "*", "classes": 2, "group": "bag", "kind": "proportions", "weak": {"count": "n"}}


def mixed(rows: int) -> pyarrow.Table:
    """Ten numbers (two with empty cells), seven categories of 3 to 3,000 words, two dates, and a truth value."""
    rng = np.random.default_rng(0)
    columns: dict[str, pyarrow.Array] = {}
    for place in range(NUMBERS):
        values = rng.normal(size=rows).round(4)
        columns[f"number{place}"] = pyarrow.array(values, mask=rng.random(rows) < 0.05 if place < 2 else None)
    for place in range(CATEGORIES):
        words = np.array([f"word{word}" for word in range(int(3 * 10 ** (place / 2)))])
        columns[f"category{place}"] = pyarrow.array(words[rng.integers(0, len(words), rows)])
    for place in range(DATES):
        days = rng.integers(15_000, 20_000, rows).astype("datetime64[D]")
        columns[f"date{place}"] = pyarrow.array(days)
    columns["yes"] = pyarrow.array(rng.random(rows) < 0.5)
    columns["bag"] = pyarrow.array(np.arange(rows) // 10)
    columns["n"] = pyarrow.array(np.full(rows, 3))
    return pyarrow.table(columns)


def measure(path: Path) -> None:
    """Reads and encodes in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, worked = time.perf_counter(), time.process_time()
    table = read_table({**ABOUT, "data": str(path)})
    instances = table.instances(table.scaling())
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert table.schema is not None
    columns = f"{len(table.feature_names)} columns, {table.schema.width:,} encoded"
    print(
        f"{path.suffix[1:]:8s} {len(instances):,} rows, {columns}: "
        f"{seconds:.1f} s ({cpu:.1f} s of CPU), {peak / 2**10:,.0f} MiB at most ({before / 2**10:,.0f} before reading)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.file is not None:
        measure(arguments.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        table = mixed(arguments.rows)
        csv.write_csv(table, Path(folder) / "t.csv")
        parquet.write_table(table, Path(folder) / "t.parquet")
        for name in ("t.csv", "t.parquet"):  # each in a process of its own, for the peak of its memory
            command = [sys.executable, "-m", "benchmarks.mixed_tables", "--file", str(Path(folder) / name)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
