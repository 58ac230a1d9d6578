"""Labels for a table of many rows: rows per second and peak memory of `glws label`, by rows and by format.

A run is trained on 2,000 rows of 20 columns in groups of 10 with counts, then `glws label` writes a folder of parts for
tables of generated rows. Each command is a process of its own, on one thread; its seconds include starting Python and
importing, which "work" leaves out by subtracting those for a table of 2,000 rows. docs/scaling.md has the figures.

python -m benchmarks.streams --rows 100000,1000000,10000000
python -m benchmarks.streams --rows 1000000 --formats parquet,arrow,csv --orders grouped,shuffled
python -m benchmarks.streams --rows 1000000 --command predict
python -m benchmarks.streams --rows 1000000 --model mlp
python -m benchmarks.streams --rows 1000000 --bill --model mlp
python -m benchmarks.streams --slides
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import csv, parquet

from glws.data import read_description
from glws.data.tables import open_stream
from glws.experiment import FinishedRun, write_answers
from glws.training import Predictions

COLUMNS, GROUP, TRAINING_ROWS, AT_ONCE = 18, 10, 2_000, 1_000_000
DESCRIPTION = """\
data: {name}
features: "f*"
classes: [absent, present]
group: bag
kind: proportions
weak: {{count: n}}
"""
SLIDES, SLIDE_PATCHES, SLIDE_WIDTH = 4, 30_000, 256
SLIDE_DESCRIPTION = """\
slides: {name}/
data: {name}.csv
classes: [normal, tumor]
kind: multi_instance
weak: {{present: tumor}}
"""
RUN = """
import resource, sys, time
began = time.perf_counter()
from glws.cli import run
status = run(sys.argv[1:])
print("measured", time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(status)
"""


def tables(rows: int, order: str) -> Iterator[pyarrow.Table]:
    """The table a million rows at a time: groups of ten, whose rows are together or anywhere."""
    rng = np.random.default_rng(rows)
    for first in range(0, rows, AT_ONCE):
        number = min(AT_ONCE, rows - first)
        features = rng.normal(size=(number, COLUMNS)).astype(np.float32)
        bags = np.arange(first, first + number) // GROUP
        counts = np.repeat((features[:, 0] + features[:, 1] > 0).reshape(-1, GROUP).sum(1), GROUP)
        if order == "shuffled":
            places = rng.permutation(number)  # within a million rows
            bags, counts, features = bags[places], counts[places], features[places]
        columns = {f"f{place}": features[:, place] for place in range(COLUMNS)}
        yield pyarrow.table({"bag": bags, "n": counts.astype(np.int64), **columns})


def write(path: Path, rows: int, order: str = "grouped") -> None:
    """A table in the format of the name."""
    parts = tables(rows, order)
    first = next(parts)
    if path.suffix == ".parquet":
        writer = parquet.ParquetWriter(path, first.schema, use_dictionary=["n"])
    elif path.suffix == ".csv":
        writer = csv.CSVWriter(path, first.schema)
    else:
        writer = pyarrow.ipc.new_file(path, first.schema)
    with writer:
        writer.write_table(first, 1 << 17) if path.suffix == ".parquet" else writer.write_table(first)
        for part in parts:
            writer.write_table(part, 1 << 17) if path.suffix == ".parquet" else writer.write_table(part)


def measured(arguments: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds and seconds of CPU of a command, and the peak of its memory in MiB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    _, seconds, peak = next(line for line in done.stdout.splitlines() if line.startswith("measured")).split()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(seconds), cpu, int(peak) / 2**10


def trained(folder: Path, model: str) -> None:
    """A run on a small table: its predictions do not matter here."""
    write(folder / "small.parquet", TRAINING_ROWS)
    (folder / "small.yaml").write_text(DESCRIPTION.format(name="small.parquet"))
    words = ["train", "--data", "small.yaml", "--out", "run", f"model.name={model}", "training.epochs=5"]
    measured([*words, "data.held_out=0"], folder)


def measure_tables(rows: list[int], formats: list[str], orders: list[str], command: str, model: str) -> None:
    """A line for each table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained(folder, model)
        start, cpu_start, base = measured([command, "run", "small.yaml", "--out", "first"], folder)
        print(f"{model}: start {start:.1f} s ({cpu_start:.1f} of CPU), {base:,.0f} MiB", flush=True)
        for number in rows:
            for ending in formats:
                for order in orders:
                    path = folder / f"big.{ending}"
                    write(path, number, order)
                    seconds, cpu, peak = measured([command, "run", path.name, "--out", "out"], folder)
                    work, work_cpu = seconds - start, cpu - cpu_start
                    print(
                        f"{command} {number:>11,} rows, {ending:8s}{order:9s}: {seconds:6.1f} s ({cpu:.1f} of CPU), "
                        f"work {number / work_cpu:>9,.0f} rows per second of CPU, {number / work:>9,.0f} rows/s, "
                        f"{peak:6,.0f} MiB",
                        flush=True,
                    )
                    path.unlink()
                    subprocess.run(["rm", "-r", str(folder / "out")], check=True)


def measure_slides() -> None:
    """A line for label and for predict on a folder of slides, next to a folder with a tenth of the patches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        for size, patches in (("small", SLIDE_PATCHES // 10), ("big", SLIDE_PATCHES)):
            (folder / size).mkdir()
            for slide in range(SLIDES):
                np.save(folder / size / f"s{slide}.npy", rng.normal(size=(patches, SLIDE_WIDTH)).astype(np.float32))
            rows = [f"s{slide},{slide % 2}" for slide in range(SLIDES)]
            (folder / f"{size}.csv").write_text("\n".join(["slide,tumor", *rows]) + "\n")
            (folder / f"{size}.yaml").write_text(SLIDE_DESCRIPTION.format(name=size))
        words = ["train", "--data", "small.yaml", "--out", "run", "training.epochs=1", "data.held_out=0"]
        measured(words, folder)
        for command in ("label", "predict"):
            for size in ("small", "big"):
                seconds, cpu, peak = measured([command, "run", f"{size}.yaml", "--out", f"{command}.parquet"], folder)
                print(f"{command} {size:5s} slides: {seconds:.1f} s ({cpu:.1f} of CPU), {peak:,.0f} MiB", flush=True)


def measure_bill(rows: int, model: str) -> None:
    """Seconds of CPU for reading, the network, inference with the columns of the answer, and writing; and bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained(folder, model)
        write(folder / "big.parquet", rows)
        opened = FinishedRun.open(folder / "run")
        labeler, parts = opened.labeler(), folder / "out"
        parts.mkdir()
        about = read_description({**(labeler.description or {}), "data": str(folder / "big.parquet")})
        stream = open_stream(about, opened.schema, folder / "scratch")
        assert stream is not None, "a table of more than one piece"
        seconds, pieces = dict.fromkeys(("read", "network", "answer", "write"), 0.0), iter(stream.tables([0]))
        labeler.label_table(next(pieces)[1])  # kernels are compiled
        pieces = iter(stream.tables(range(len(stream.pieces))))
        for number in range(len(stream.pieces)):
            marks = [time.process_time()]
            table = next(pieces)[1]
            marks.append(time.process_time())
            Predictions.of_all(table.instances(labeler.scaling), labeler.predictor([COLUMNS]))
            marks.append(time.process_time())
            answers = labeler.label_table(table)
            marks.append(time.process_time())
            write_answers(parts / f"{number}.parquet", [answers])
            marks.append(time.process_time())
            for key, second, first in zip(seconds, marks[1:], marks, strict=False):
                seconds[key] += second - first
        seconds["answer"] -= seconds["network"]  # which it asks again
        shown = ", ".join(f"{key} {1e6 * value / rows:.2f}" for key, value in seconds.items())
        read, wrote = (folder / "big.parquet").stat().st_size, sum(path.stat().st_size for path in parts.iterdir())
        print(
            f"{model}: seconds of CPU for 1,000,000 rows: {shown}; "
            f"{read / rows:.0f} bytes a row read, {wrote / rows:.0f} written"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--formats", default="parquet")
    parser.add_argument("--orders", default="grouped")
    parser.add_argument("--command", default="label", choices=["label", "predict"])
    parser.add_argument("--model", default="linear", help="linear shows what reading, inference and writing cost")
    parser.add_argument("--slides", action="store_true", help="four slides of 30,000 patches of 256 numbers instead")
    parser.add_argument("--bill", action="store_true", help="where the time goes, for the last number of rows")
    chosen = parser.parse_args()
    if chosen.bill:
        measure_bill(int(chosen.rows.split(",")[-1]), chosen.model)
        return
    if chosen.slides:
        measure_slides()
        return
    measure_tables(
        [int(part) for part in chosen.rows.split(",")],
        chosen.formats.split(","),
        chosen.orders.split(","),
        chosen.command,
        chosen.model,
    )


if __name__ == "__main__":
    main()
