"""Time of counts: `python -m benchmarks.counts`, one thread, medians of interleaved runs.

Likelihood and all posteriors of a batch. Times vary between machines and runs; compare the last column of each method:
the time in passes of `torch.sigmoid` (float64) over the same tensor. `--thresholds` instead measures the size at which
one method becomes faster than another, for `src/glws/inference/_counts/thresholds.py`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from glws.inference import Between, Exactly, Weighted, Weights, count_posterior, laplace_noise
from glws.inference._counts import compiled
from glws.inference._counts.compiled import fourier, series

Floats = npt.NDArray[np.float64]
METHODS = ("compiled", "characteristic", "recursion")
RECURSION_LIMIT = 1 << 20  # problems * instances² beyond which the recursion is left out
ROUNDS = 9


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median milliseconds of every call; the calls take turns, so a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = {name: _repeats(call) for name, call in calls.items()}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def _repeats(call: Callable[[], object]) -> int:
    """The number of calls that take about 20 ms; also warms up."""
    call()
    start = time.perf_counter()
    call()
    return max(1, int(0.02 / (time.perf_counter() - start)))


def batch(problems: int, instances: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(instances)
    logits = torch.randn(problems, instances, generator=generator, dtype=torch.float64)
    zero, one = torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)
    return zero, one, torch.full((problems,), instances)


def questions(problems: int, instances: int, count: int) -> dict[str, Weights]:
    lengths, low = torch.full((problems,), instances), torch.full((problems,), count)
    noise = torch.randn(problems, instances + 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return {
        "exactly m": Exactly(low),
        "at least m": Between(low, lengths),
        "noisy m": laplace_noise(low.double(), 2.0, lengths),
        "random ω": Weighted(noise),
    }


def measure(problems: int, instances: int, count: int, question: str) -> None:
    zero, one, lengths = batch(problems, instances)
    weights = questions(problems, instances, count)[question]
    out = torch.empty_like(zero)
    calls: dict[str, Callable[[], object]] = {"sigmoid": lambda: torch.sigmoid(zero, out=out)}
    for method in METHODS:
        if method != "recursion" or problems * instances**2 <= RECURSION_LIMIT:
            calls[method] = lambda method=method: count_posterior(zero, one, lengths, weights, method)
    times = interleaved(calls)
    cells = [f"{problems:5d} {instances:9,d} {count:9,d}  {question:10s}"]
    for method in METHODS:
        cells.append(f"{times[method]:9.3f} {times[method] / times['sigmoid']:7.0f}" if method in times else " " * 17)
    print(" |".join(cells), flush=True)


def table() -> None:
    print(
        f"{'batch':>5} {'instances':>9} {'m':>9}  {'question':10s} | " + " | ".join(f"{name:>15}" for name in METHODS)
    )
    print(f"{'':36} |" + " |".join(f"{'ms':>9} {'passes':>7}" for _ in METHODS))
    measure(400, 10, 3, "exactly m")
    for instances in (10, 50, 200, 1000, 5000):
        measure(64, instances, instances // 4, "exactly m")
    for instances, count in [
        (10_000, 2500),
        (100_000, 25_000),
        (1_000_000, 250_000),
        (1_000_000, 1),
        (1_000_000, 1000),
    ]:
        measure(1, instances, count, "exactly m")
    for question in ("at least m", "noisy m", "random ω"):
        for problems, instances in [(400, 10), (64, 50), (64, 200), (64, 1000), (1, 100_000)]:
            measure(problems, instances, instances // 4, question)


def crossing(name: str, sizes: list[int], calls_at: Callable[[int], dict[str, Callable[[], object]]]) -> None:
    """Print the ratio of the second method's time to the first's over a range of sizes."""
    print(f"\n{name}: the second method wins below 1")
    for size in sizes:
        first, second = (value for value in interleaved(calls_at(size)).values())
        print(f"{size:9d} {second / first:6.2f}", flush=True)


def compiled_recursion_against_frequencies(question: str, instances: int) -> dict[str, Callable[[], object]]:
    zero, one, lengths = (values.view(-1).numpy() for values in batch(64, instances))
    starts, answer = np.arange(64) * instances, (np.empty(64), np.empty(64 * instances))
    weights = questions(64, instances, instances // 4)[question]
    if isinstance(weights, Weighted):
        log_weights = weights.log_weights.numpy()
        return {
            str(short): lambda short=short: compiled.weighted(zero, one, starts, lengths, log_weights, short, *answer)
            for short in (instances, 0)
        }
    low = np.full(64, instances // 4)
    return {
        str(short): lambda short=short: compiled.intervals(zero, one, starts, lengths, low, low, short, *answer)
        for short in (instances, 0)
    }


def torch_recursion_against_frequencies(instances: int) -> dict[str, Callable[[], object]]:
    zero, one, lengths = batch(64, instances)
    weights = Exactly(torch.full((64,), instances // 4))
    return {
        method: lambda method=method: count_posterior(zero, one, lengths, weights, method)
        for method in ("recursion", "characteristic")
    }


def product_against_power_sums(variance: int) -> dict[str, Callable[[], object]]:
    """ψ and the posteriors of one group with all r(1-r) equal to 0.2."""
    small = np.full(variance * 5, 0.2764) * np.where(np.arange(variance * 5) % 2, 1.0, -1.0)
    return by_product_and_by_power_sums(small, float(variance), series.num_terms(float(variance)))


def product_against_a_short_series(instances: int) -> dict[str, Callable[[], object]]:
    """The same for one group with a count of 4 and small probabilities."""
    small = np.linspace(0.0, 1.0, instances)
    small *= 4.0 / small.sum()
    variance = float((small * (1.0 - small)).sum())
    return by_product_and_by_power_sums(small, variance, series.MAX_TERMS // 2)


def by_product_and_by_power_sums(small: Floats, variance: float, terms: int) -> dict[str, Callable[[], object]]:
    points = fourier.num_points(variance, small.size, 0)
    waves = fourier.make_waves(points, variance)
    sums, even, odd = np.empty((2, terms + 1)), np.empty(terms + 1), np.empty(terms + 1)

    def product() -> None:
        fourier.psi_by_product(small, waves)
        fourier.posteriors_by_sums(small.copy(), waves)

    def power_sums() -> None:
        fourier.power_sums(small, sums)
        fourier.psi_by_power_sums(sums, 0, points, waves)
        fourier.polynomial(waves, even, odd)
        fourier.posteriors_by_polynomial(small.copy(), even, odd)

    return {"product": product, "power sums": power_sums}


def thresholds() -> None:
    sizes = [16, 32, 48, 64, 80, 96, 128, 192, 256]
    for question, name in [("exactly m", "COMPILED_SHORT_EXACT"), ("random ω", "COMPILED_SHORT_WEIGHTED")]:
        crossing(name, sizes, lambda size, question=question: compiled_recursion_against_frequencies(question, size))
    crossing("TORCH_SHORT", [5, 10, 15, 20, 25, 30, 50], torch_recursion_against_frequencies)
    crossing("COMPILED_SMOOTH_VARIANCE", [50, 65, 80, 100, 120, 150], product_against_power_sums)
    crossing("COMPILED_SMOOTH_LENGTH", [100, 200, 300, 400, 500, 700, 1000], product_against_a_short_series)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thresholds", action="store_true", help="measure where one method overtakes another")
    torch.set_num_threads(1)
    thresholds() if parser.parse_args().thresholds else table()
