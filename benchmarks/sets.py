"""Seconds for one bag of which is known which classes occur, by how many they are; CPU time, one thread.

    python -m benchmarks.sets [--docs docs/joint-counts.md]

`infer` on `PresentClasses` with random predictions, all classes present: in short bags, where many classes would be
missed by chance, and in long ones, where hardly any would. `error` is the estimate that `Posterior.error` gives, 0
where the answer is exact.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from benchmarks.engines.documents import rewritten
from glws.inference import waiting_for_kernels
from glws.kinds import PresentClasses

CASES = [(12, 100), (14, 30), (14, 100), (16, 100), (18, 100), (18, 1000), (24, 1000), (40, 1000)]


def measured(classes: int, instances: int, rounds: int = 3) -> tuple[float, float]:
    """The least seconds of a call, and the largest estimate of an error."""
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(1, instances, classes, generator=generator, dtype=torch.float64).log_softmax(2)
    weak, best, error = PresentClasses.of(torch.ones(1, classes)), float("inf"), 0.0
    for _ in range(rounds):
        begin = time.thread_time()
        answer = weak.infer(log_probs)
        best = min(best, time.thread_time() - begin)
        error = 0.0 if answer.error is None else float(answer.error.max())
    return best, error


def main() -> None:
    """Print the table, or write it into a page between its marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| classes that occur | instances | seconds a bag | error |", "| ---: | ---: | ---: | ---: |"]
    with waiting_for_kernels():
        measured(13, 20)
        for classes, instances in CASES:
            seconds, error = measured(classes, instances)
            lines.append(f"| {classes} | {instances:,} | {seconds:.3f} | {error:.1g} |")
            print(lines[-1], flush=True)
    if given.docs:
        given.docs.write_text(rewritten(given.docs.read_text(), {"sets": "\n".join(lines)}))


if __name__ == "__main__":
    main()
