"""Error and time of the approximations for counts of many classes: `python -m benchmarks.joint_counts [--write]`.

Prints the tables of docs/measurements/joint-counts.md; `--write` puts them there, between the two marks. Predictions
are the softmax of Gaussian logits; counts are those of labels drawn from the predictions. Times are medians of
interleaved runs on one thread; compare ratios only.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mpmath
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from glws.inference import Exactly, JointCounts, PresenceSet, count_posterior
from glws.inference._kernels import Kernel

PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "joint-counts.md"
MARKS = ("<!-- tables: benchmarks/joint_counts.py --write -->", "<!-- end of tables -->")
GROUPS = 200
Answer = tuple[Tensor, Tensor]
SHARPNESS = {"soft": 1.0, "sharp": 3.0}
ROUNDS = 7


def batch(instances: int, classes: int, scale: float, groups: int = GROUPS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * instances + classes)
    logits = scale * torch.randn(groups, instances, classes, generator=generator, dtype=torch.float64)
    probs = logits.softmax(2)
    labels = torch.multinomial(probs.flatten(0, 1), 1, generator=generator).view(groups, instances)
    return logits.log_softmax(2), torch.full((groups,), instances), one_hot(labels, classes).sum(1)


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of every call; the calls take turns, so a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:  # the first turn warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


ERRORS = ["tilted: max Δq", "mean Δq", "corrected: max Δq", "mean Δq", "mean Δ log Z", "median relative Δ log Z"]


def errors(tilted: Answer, corrected: Answer, truth: Answer) -> list[str]:
    differences = [(answer[1] - truth[1]).abs() for answer in (tilted, corrected)]
    log_error = (tilted[0] - truth[0]).abs()
    shown = [value for difference in differences for value in (difference.max(), difference.mean())]
    shown += [log_error.mean(), (log_error / truth[0].abs()).median()]
    return [f"{float(value):.1e}" if value < 1e-3 else f"{float(value):.4f}" for value in shown]


def accuracy() -> str:
    rows = []
    for name, scale in SHARPNESS.items():
        for instances in (5, 8, 10, 12):
            for classes in (3, 5, 10):
                log_probs, lengths, counts = batch(instances, classes, scale)
                ways = ("tilted", "corrected", "exact")
                answers = (JointCounts(counts, way).solve(log_probs, lengths) for way in ways)
                rows.append([name, str(instances), str(classes), *errors(*answers)])
    return table(["predictions", "L", "K", *ERRORS], rows)


def two_classes() -> str:
    rows = []
    for name, scale in SHARPNESS.items():
        for instances in (10, 30, 100, 300, 1000):
            log_probs, lengths, counts = batch(instances, 2, scale)
            right = count_posterior(log_probs[:, :, 0], log_probs[:, :, 1], lengths, Exactly(counts[:, 1]))
            both = (JointCounts(counts, way).solve(log_probs, lengths) for way in ("tilted", "corrected"))
            rows.append([name, str(instances), *errors(*((z, q[:, :, 1]) for z, q in both), tuple(right))])
    return table(["predictions", "L", *ERRORS], rows)


def times() -> str:
    rows = []
    for instances, classes in ((5, 3), (12, 3), (10, 10), (12, 10), (16, 20), (20, 10), (40, 5), (100, 3), (500, 2)):
        log_probs, lengths, counts = batch(instances, classes, 1.0, 32)
        ways = ("exact", "tilted", "corrected")
        calls = {way: partial(JointCounts(counts, way).solve, log_probs, lengths) for way in ways}
        spent = interleaved(calls | {"plain": partial(without_numba, calls["exact"])})
        states = int((counts + 1).double().prod(1).median())
        rows.append([str(instances), str(classes), f"{states:,}", *in_microseconds(spent, 32)])
    head = [
        "L",
        "K",
        "median states",
        "exact, µs a group",
        "tilted / exact",
        "corrected / exact",
        "plain torch / exact",
    ]
    return table(head, rows)


def in_microseconds(spent: dict[str, float], groups: int) -> list[str]:
    ratios = [spent[name] / spent["exact"] for name in ("tilted", "corrected", "plain")]
    return [f"{1e6 * spent['exact'] / groups:.0f}", *(f"{ratio:.2g}" for ratio in ratios)]


def without_numba(call: Callable[[], object]) -> None:
    kept = Kernel.ready
    try:
        Kernel.ready = lambda kernel: None  # type: ignore[method-assign]
        call()
    finally:
        Kernel.ready = kept  # type: ignore[method-assign]


def presence() -> str:
    """The recursion over subsets and inclusion-exclusion, both in float64, against inclusion-exclusion in 80 digits."""
    rows = []
    for size in (2, 4, 6, 8, 10, 12):
        for rarity in (0.0, 6.0, 12.0):
            logits = batch(max(12, size), size, 1.0, 4)[0] - rarity * (torch.arange(size) > 0)
            log_probs, lengths = logits.log_softmax(2), torch.full((4,), max(12, size))
            form = PresenceSet(torch.ones(4, size, dtype=torch.bool))
            by_subsets = form.solve(log_probs, lengths)[0]
            truth = torch.tensor([float(in_digits(row.tolist())) for row in log_probs], dtype=torch.float64)
            alternating = torch.stack([in_floats(row.exp()) for row in log_probs]).clamp_min(1e-300).log()
            worst = [float((guess - truth).abs().max()) for guess in (by_subsets, alternating)]
            spent = interleaved({"exact": partial(form.solve, log_probs, lengths)})
            time_each = f"{1e6 * spent['exact'] / 4:.0f}"
            rows.append([str(size), f"e^-{rarity:.0f}", f"{truth.mean():.0f}", *(f"{w:.0e}" for w in worst), time_each])
    head = ["classes", "rarity", "log Z", "error, subsets", "error, inclusion-exclusion", "subsets, µs a group"]
    return table(head, rows)


def in_digits(log_probs: list[list[float]]) -> mpmath.mpf:
    with mpmath.workdps(80):
        rows = [[mpmath.exp(value) for value in row] for row in log_probs]
        sums = [[mpmath.mpf(0)] for _ in rows]
        for k in range(len(rows[0])):
            sums = [[*row, *(value + probs[k] for value in row)] for row, probs in zip(sums, rows, strict=True)]
        terms = [mpmath.fprod(column) for column in zip(*sums, strict=True)]
        signs = [(-1) ** (len(rows[0]) - subset.bit_count()) for subset in range(len(terms))]
        return mpmath.log(mpmath.fdot(signs, terms))


def in_floats(probs: Tensor) -> Tensor:
    subset = torch.arange(2 ** probs.shape[1])[:, None] >> torch.arange(probs.shape[1]) & 1
    signs = (-1.0) ** (probs.shape[1] - subset.sum(1))
    return (signs * (subset.double() @ probs.T).prod(1)).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"also write the tables into {PAGE.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = {
        "The tilt against the exact recursion": accuracy,
        "Two classes: the tilt against the count engine": two_classes,
        "Time": times,
        "Presence sets": presence,
    }
    text = "\n".join(f"### {title}\n\n{make()}" for title, make in parts.items())
    print(text)
    if arguments.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
