"""Votes: accuracy and time next to crowd-kit on data with truth, and time and memory of large sets of votes.

    python -m benchmarks.votes crowds FOLDER [--peers PYTHON]     # FOLDER has NAME_answer.csv and NAME_truth.csv
    python -m benchmarks.votes simulated [--peers PYTHON]         # 20 annotators, two of them adversarial, ten seeds
    python -m benchmarks.votes large [--votes 100000000]          # written to parquet, streamed, aggregated
    python -m benchmarks.votes rules                              # 1,200 labeling functions, 56 classes, 100,000 items

PYTHON is an interpreter that has crowd-kit; without it only glws is measured. Both get the votes in memory, one after
the other, in their own process with one thread; the best of three times. Seconds are those of the processor. glws
chooses its form by held-out votes, and its time includes that, the quality of all sources and the search for dependent
ones. Truth is read after the labels.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PEERS = """
import json, sys, time
import pandas as pd
from crowdkit.aggregation import GLAD, MACE, DawidSkene, MajorityVote, OneCoinDawidSkene
answers = pd.read_csv(sys.argv[1], dtype=str)
answers.columns = ["task", "worker", "label"]
makers = {"majority": MajorityVote, "Dawid-Skene": lambda: DawidSkene(n_iter=100),
          "one-coin": lambda: OneCoinDawidSkene(n_iter=100), "GLAD": GLAD, "MACE": lambda: MACE(random_state=0)}
for name, make in makers.items():
    if name in sys.argv[2].split(","):
        best = float("inf")
        for _ in range(1 if name in ("GLAD", "MACE") else 3):
            start = time.process_time()
            labels = make().fit_predict(answers)
            best = min(best, time.process_time() - start)
        print(json.dumps({"name": name, "seconds": best, "labels": labels.to_dict()}), flush=True)
"""


def crowds(folder: Path, peers: str | None, chosen: str) -> None:
    """Accuracy and seconds on every set of a folder."""
    for path in sorted(folder.glob("*_answer.csv")):
        truth = read_truth(path.with_name(path.name.replace("_answer", "_truth")))
        labels, seconds = ours(path)
        print(f"{path.stem.removesuffix('_answer')}:")
        print(f"  {'glws':12} {accuracy(labels, truth):6.2f} %  {seconds:8.3f} s")
        for peer in measured_peers(path, peers, chosen):
            ratio = peer["seconds"] / seconds
            print(
                f"  {peer['name']:12} {accuracy(peer['labels'], truth):6.2f} %  {peer['seconds']:8.3f} s  {ratio:6.1f}x"
            )


def ours(path: Path) -> tuple[dict[str, str], float]:
    """The label of each item, and the seconds without reading the file."""
    from glws.data import read_votes

    table = read_votes(path)
    table.votes.aggregate()  # compiles
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = table.votes.aggregate()
        seconds.append(time.process_time() - start)
    named = zip(table.items.tolist(), found.labels.tolist(), strict=True)
    return {str(item): table.classes[label] for item, label in named}, min(seconds)


def measured_peers(path: Path, python: str | None, chosen: str) -> list[dict[str, Any]]:
    """The labels of crowd-kit for the same file."""
    if python is None:
        return []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run([python, "-W", "ignore", "-c", PEERS, str(path), chosen], env=environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def read_truth(path: Path) -> dict[str, str]:
    """The true class of each item that has one."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return {row[0].strip('"'): row[1].strip('"') for row in rows}


def accuracy(labels: dict[str, str], truth: dict[str, str]) -> float:
    """The share of items with truth that have the right label, in percent."""
    return 100 * float(np.mean([labels[item] == label for item, label in truth.items() if item in labels]))


def simulated(peers: str | None, chosen: str) -> None:
    """Mean accuracy over ten seeds, of two and of four classes."""
    for classes in (2, 4):
        found: dict[str, list[float]] = {}
        for seed in range(10):
            with tempfile.TemporaryDirectory() as folder:
                path, truth = write_simulated(Path(folder), seed, classes)
                labels, _ = ours(path)
                found.setdefault("glws", []).append(accuracy(labels, truth))
                for peer in measured_peers(path, peers, chosen):
                    found.setdefault(peer["name"], []).append(accuracy(peer["labels"], truth))
        print(f"{classes} classes: " + ", ".join(f"{name} {np.mean(values):.2f}" for name, values in found.items()))


def write_simulated(folder: Path, seed: int, classes: int) -> tuple[Path, dict[str, str]]:
    """1,000 items with 5 votes each of 20 annotators with accuracies of 0.5 to 0.85; two have 0.1."""
    random = np.random.default_rng(seed)
    accuracies = random.uniform(0.5, 0.85, 20)
    accuracies[:2] = 0.1
    truth = random.integers(0, classes, 1000)
    rows = ["task,worker,label"]
    for item, label in enumerate(truth):
        for worker in random.choice(20, 5, replace=False):
            is_right = random.random() < accuracies[worker]
            said = label if is_right else (label + random.integers(1, classes)) % classes
            rows.append(f"{item},w{worker},{said}")
    path = folder / "answers.csv"
    path.write_text("\n".join(rows) + "\n")
    return path, {str(item): str(label) for item, label in enumerate(truth)}


def large(votes: int) -> None:
    """Ten votes on each item of 1,000 sources and two classes, from parquet."""
    import pyarrow
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as folder:
        path, random = Path(folder) / "votes.parquet", np.random.default_rng(0)
        accuracies, writer = random.uniform(0.55, 0.95, 1000), None
        truths = []
        for first in range(0, votes, 1_000_000):
            size = min(1_000_000, votes - first)
            truth = random.integers(0, 2, size // 10)
            items = np.repeat(np.arange(first // 10, (first + size) // 10), 10)
            sources = random.integers(0, 1000, size)
            said = np.where(random.random(size) < accuracies[sources], truth.repeat(10), 1 - truth.repeat(10))
            order = random.permutation(size)
            batch = pyarrow.table(
                {"item": items[order], "annotator": sources[order], "label": said[order].astype(np.int8)}
            )
            writer = writer or parquet.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
            truths.append(truth.astype(np.int8))
        assert writer is not None
        writer.close()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        aggregate_file(path, np.concatenate(truths), before)


def aggregate_file(path: Path, truth: np.ndarray[Any, Any], before: float) -> None:
    """Reads, aggregates, and prints seconds and memory."""
    from glws.data import read_votes
    from glws.kinds import SourceForm, Votes
    from glws.kinds._vote_fit import _Step

    Votes.of([[0, 1], [1, 1]] * 30, 2).aggregate()  # compiles
    start = time.process_time()
    table = read_votes(path)
    read = time.process_time()
    found = table.votes.aggregate()
    done = time.process_time()
    step = _Step(table.votes.packed(), SourceForm())
    parameters = found.votes.parameters()
    begun = time.process_time()
    step.expected(parameters)
    one = time.process_time() - begun
    print(f"{len(table.votes.said):,} votes: reading {read - start:.1f} s, aggregating {done - read:.1f} s "
          f"({len(found.objective)} steps of EM for {found.forms[0]}), one pass {one:.2f} s")  # fmt: skip
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"largest memory {most:.2f} GiB ({before:.2f} GiB before); accuracy {np.mean(found.labels == truth):.4f}")


def rules() -> None:
    """1,200 labeling functions with coverage of 1 %, each for one class."""
    from glws.kinds import Votes

    random = np.random.default_rng(0)
    truth = random.integers(0, 56, 100_000)
    matrix = np.full((100_000, 1200), -1, np.int8)
    for source in range(1200):
        label = source % 56
        fires = random.random(100_000) < np.where(truth == label, 0.3, 0.003)
        matrix[fires, source] = label
    start = time.process_time()
    found = Votes.of(matrix, 56).aggregate()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{int((matrix >= 0).sum()):,} votes in {time.process_time() - start:.1f} s, largest memory {most:.2f} GiB, "
          f"accuracy {np.mean(found.labels == truth):.4f}, {found}")  # fmt: skip


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("crowds", "simulated", "large", "rules"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--peers", help="an interpreter that has crowd-kit")
    parser.add_argument("--methods", default="majority,Dawid-Skene,one-coin,GLAD,MACE")
    parser.add_argument("--votes", type=int, default=10_000_000)
    given = parser.parse_args(sys.argv[1:])
    if given.task == "crowds":
        crowds(given.folder, given.peers, given.methods)
    elif given.task == "simulated":
        simulated(given.peers, given.methods)
    elif given.task == "large":
        large(given.votes)
    else:
        rules()


if __name__ == "__main__":
    main()
