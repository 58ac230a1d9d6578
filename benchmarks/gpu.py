"""Kernels on CUDA next to plain torch, and the trellis next to a copy of its data.

    python -m benchmarks.gpu [--json FILE] [--thresholds]

Times are medians of 50 calls between CUDA events after a warm-up, inputs already on the device. "graph" is the replay
of a captured call: GPU time without the host. Plain torch is timed with fewer calls; the last column compares the
answers. `--thresholds` instead finds the length from which counts are better spread over many programs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import triton

from glws.automata import Automaton
from glws.inference import Exactly, count_posterior, trellis_posterior
from glws.inference._gpu import counts as gpu_counts
from glws.inference._gpu.counts import gpu_count_posterior
from glws.inference._gpu.tables import arc_tables
from glws.inference._gpu.trellis import gpu_trellis_posterior
from glws.inference._trellis import build

Answer = tuple[torch.Tensor, torch.Tensor]
Call = Callable[[], Answer]


def median_ms(call: Callable[[], object], repeats: int = 50, warmup: int = 5) -> float:
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def graph_ms(call: Call) -> float:
    """GPU time of one call: ten of them captured in a graph, replayed."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            call()
    return median_ms(graph.replay) / 10


def difference(answer: Answer, expected: Answer) -> float:
    """The largest difference: absolute in marginals, relative in log-likelihoods above 1."""
    scale = expected[0].abs().clamp(min=1.0)
    return max(float(((answer[0] - expected[0]) / scale).abs().max()), float((answer[1] - expected[1]).abs().max()))


def compared(name: str, kernel: Call, plain: Call, plain_repeats: int = 5) -> dict[str, object]:
    row: dict[str, object] = {
        "name": name,
        "difference": difference(kernel(), plain()),
        "kernel_ms": median_ms(kernel),
        "graph_ms": graph_ms(kernel),
        "torch_ms": median_ms(plain, plain_repeats, 2),
    }
    times = "kernel {kernel_ms:7.4f} ms  graph {graph_ms:7.4f} ms  torch {torch_ms:8.3f} ms"
    print(("{name:37} " + times + "  difference {difference:.1e}").format(**row), flush=True)
    return row


def random_dfa(states: int, classes: int, seed: int = 0) -> Automaton:
    rng = np.random.default_rng(seed)
    arcs = [(s, k, int(rng.integers(states)), 0.0) for s in range(states) for k in range(classes)]
    return Automaton(states, classes, arcs, 0, [int(s) for s in rng.choice(states, states // 2, replace=False)])


def counter(states: int, classes: int) -> Automaton:
    """An automaton that counts class 0 up to states - 1; class 1 resets it."""
    arcs = []
    for s in range(states):
        arcs += [(s, 0, min(s + 1, states - 1), 0.0), (s, 1, 0, 0.0)]
        arcs += [(s, k, (s + (k % 3 == 0)) % states, 0.0) for k in range(2, classes)]
    return Automaton(states, classes, arcs, 0, [0, states // 2])


def trellis(name: str, automaton: Automaton, dtype: torch.dtype, shape: tuple[int, int, int]) -> dict[str, object]:
    groups, instances, _ = shape
    device = torch.device("cuda")
    potentials = torch.randn(shape, device=device, dtype=dtype).log_softmax(2)
    lengths = torch.full((groups,), instances, device=device)
    index = torch.zeros(groups, dtype=torch.int64, device=device)
    tables, machine = arc_tables([automaton], device), build([automaton], index)
    row = compared(
        name,
        lambda: gpu_trellis_posterior(potentials, lengths, tables, index),
        lambda: trellis_posterior(potentials, lengths, machine),
        3,
    )
    row["floor_ms"] = 2 * potentials.nbytes / copy_bandwidth() * 1e3
    row["tables"] = {"states": tables.states, "slots": tables.slots, "rows": tables.rows}
    print(f"{'':37} copy floor {row['floor_ms']:.4f} ms; {row['tables']}")
    return row


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of a large copy on the device."""
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / (median_ms(lambda: target.copy_(source), 10) * 1e-3)


def counts(name: str, problems: int, instances: int, dtype: torch.dtype, repeats: int = 5) -> dict[str, object]:
    logits = torch.randn(problems, instances, device="cuda", dtype=dtype)
    zero, one = torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)
    lengths = torch.full((problems,), instances, device="cuda")
    count = lengths // 4
    weights = Exactly(count)
    return compared(
        name,
        lambda: gpu_count_posterior(zero, one, lengths, count),
        lambda: count_posterior(zero, one, lengths, weights, "characteristic"),
        repeats,
    )


def thresholds() -> None:
    """Compare both count kernels, for `LONG` in `glws.inference._gpu.counts`."""
    for problems in (1, 64):
        for instances in (1024, 4096, 8192, 32768):
            for name, limit in (("one program", instances), ("many programs", 0)):
                gpu_counts.LONG = limit
                counts(f"{problems} x {instances}, {name}", problems, instances, torch.float64, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, default=Path("build/gpu.json"))
    parser.add_argument("--thresholds", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    about = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "copy_tb_per_s": copy_bandwidth() / 1e12,
    }
    print(about)
    if options.thresholds:
        return thresholds()
    single, double = torch.float32, torch.float64
    rows = [
        trellis("trellis 512x512x10, random DFA of 32", random_dfa(32, 10), single, (512, 512, 10)),
        trellis("trellis 512x512x10, counter of 32", counter(32, 10), single, (512, 512, 10)),
        trellis("trellis 512x512x10, float64", random_dfa(32, 10), double, (512, 512, 10)),
        trellis("trellis 64x50x10, DFA of 8", random_dfa(8, 10), single, (64, 50, 10)),
        counts("counts 400 x 10 float32", 400, 10, single),
        *(counts(f"counts 64 x {n} float64", 64, n, double) for n in (10, 50, 200, 1000, 5000)),
        counts("counts 1 x 1,000,000 float64", 1, 1_000_000, double),
        counts("counts 1 x 1,000,000 float32", 1, 1_000_000, single),
    ]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
