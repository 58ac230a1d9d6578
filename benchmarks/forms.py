"""Small forms, tiny groups and ragged groups, next to a few lines of torch that compute the same.

    python -m benchmarks.forms [--docs docs/performance.md]

Milliseconds of CPU time of one thread for likelihood and posteriors: `glws` is `em_loss(...).posterior` without
gradient, by `infer`; `by hand` are the lines of torch below with autograd; `exponentials` are one `torch.exp` of the
predictions. The best of 15 rounds that take turns, after kernels are loaded; the answers are compared first. `tiny` is
one group of five with gradient, where the lines by hand are the call of autograd alone. `memory` is the increase of the
largest resident size during one `infer` of 5,000 bags of 10 and one of 50,000, in a fresh process each. `threads` are
wall times.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.engines.documents import rewritten
from glws import Automaton, constraint
from glws.inference import (
    AbstractForm,
    Agreement,
    Closeness,
    Counts,
    Exactly,
    PresenceWeights,
    TableWeights,
    infer,
    waiting_for_kernels,
)

Call = Callable[[], Tensor]


def drawn(*shape: int) -> Tensor:
    """Random log-probabilities, float32."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).log_softmax(-1)


def some(groups: int, classes: int) -> PresenceWeights:
    """Class 1 occurs."""
    counted = (torch.arange(classes) == 1).expand(groups, -1)
    return PresenceWeights(counted, torch.tensor([[-torch.inf, 0.0]]).expand(groups, -1))


def some_by_hand(log_probs: Tensor) -> Tensor:
    """log(1 - Π_j (1 - p_j(1)))."""
    return torch.log(-torch.expm1(torch.log1p(-log_probs[:, :, 1].exp()).sum(1)))


def same(groups: int, classes: int) -> Agreement:
    """The same label."""
    return Agreement(torch.zeros(groups), torch.full((groups,), -torch.inf), classes)


def same_by_hand(log_probs: Tensor) -> Tensor:
    """log Σ_k p_1(k) p_2(k)."""
    return log_probs.sum(1).logsumexp(1)


def closer(groups: int, classes: int) -> Closeness:
    """The first is closer to the second than to the third."""
    return Closeness(torch.tensor([[1.0, 0.0, 0.5]]).log().expand(groups, -1), classes)


def closer_by_hand(log_probs: Tensor) -> Tensor:
    """log (1 + p(1 = 2) - p(1 = 3)) / 2."""
    first, second, third = log_probs.exp().unbind(1)
    return (0.5 * (1 + (first * second).sum(1) - (first * third).sum(1))).log()


def candidates(groups: int, classes: int) -> TableWeights:
    """Every second class is a candidate."""
    return TableWeights(torch.where(torch.arange(classes) % 2 == 0, 0.0, -torch.inf).repeat(groups, 1))


def candidates_by_hand(log_probs: Tensor) -> Tensor:
    """log of the sum over the candidates."""
    return log_probs[:, 0, ::2].logsumexp(1)


Case = tuple[str, Callable[[int, int], AbstractForm], Callable[[Tensor], Tensor], tuple[int, int, int]]
CASES: list[Case] = [
    ("at least one, 4,096 bags of 8, 10 classes", some, some_by_hand, (4096, 8, 10)),
    ("at least one, 64 bags of 1,000, 2 classes", some, some_by_hand, (64, 1000, 2)),
    ("same label, 256 pairs, 2 classes", same, same_by_hand, (256, 2, 2)),
    ("same label, 256 pairs, 100 classes", same, same_by_hand, (256, 2, 100)),
    ("same label, 256 pairs, 1,000 classes", same, same_by_hand, (256, 2, 1000)),
    ("triplets, 256, 10 classes", closer, closer_by_hand, (256, 3, 10)),
    ("candidate sets, 4,096, 10 classes", candidates, candidates_by_hand, (4096, 1, 10)),
]


def with_autograd(loss: Callable[[Tensor], Tensor], log_probs: Tensor) -> Tensor:
    """The posteriors as the gradient of the log-likelihood."""
    leaf = log_probs.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf).sum(), leaf)
    return gradient


def fastest(calls: list[Callable[[], object]], rounds: int = 15) -> list[float]:
    """Milliseconds of each call."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for number, call in enumerate(calls):
            repeats = max(1, int(2.0 / max(best[number], 1e-3))) if best[number] < float("inf") else 1
            begin = time.thread_time()
            for _ in range(repeats):
                call()
            best[number] = min(best[number], 1e3 * (time.thread_time() - begin) / repeats)
    return best


def small_forms() -> list[str]:
    """The table of small forms."""
    lines = ["| weak labels | glws | by hand | exponentials | glws / by hand | glws / exponentials |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, make, by_hand, (groups, instances, classes) in CASES:
        log_probs = drawn(groups, instances, classes)
        form, out = make(groups, classes), torch.empty_like(log_probs)
        assert torch.allclose(infer(log_probs, form).log_likelihood, by_hand(log_probs), atol=1e-3), name
        calls: list[Callable[[], object]] = [
            lambda x=log_probs, f=form: infer(x, f),
            lambda x=log_probs, f=by_hand: with_autograd(f, x),
            lambda x=log_probs, o=out: torch.exp(x, out=o),
        ]
        mine, hand, floor = fastest(calls)
        lines.append(f"| {name} | {mine:.3f} | {hand:.3f} | {floor:.3f} | {mine / hand:.2f} | {mine / floor:.1f} |")
    return lines


def tiny_groups() -> list[str]:
    """The table of calls on a single group, in microseconds."""
    lines = [
        "| one group with gradient | glws, µs | a call of autograd, µs | difference |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, form, instances in (
        ("at least one of 5", some(1, 2), 5),
        ("exactly 2 of 5", Counts(torch.tensor([[False, True]]), Exactly(torch.tensor([2])), 1), 5),
        ("exactly 20 of 60", Counts(torch.tensor([[False, True]]), Exactly(torch.tensor([20])), 1), 60),
        ("at least one of 50", some(1, 2), 50),
        ("same label, 2 classes", same(1, 2), 2),
    ):
        log_probs = drawn(1, instances, 2)
        mine, hand = fastest(
            [
                lambda x=log_probs, f=form: with_autograd(lambda leaf: infer(leaf, f).log_likelihood, x),
                lambda x=log_probs: with_autograd(_Nothing.apply, x),
            ]
        )
        lines.append(f"| {name} | {1e3 * mine:.0f} | {1e3 * hand:.0f} | {1e3 * (mine - hand):.0f} |")
    return lines


class _Nothing(torch.autograd.Function):
    """The smallest function with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor) -> Tensor:
        ctx.save_for_backward(log_probs)
        return log_probs.sum((1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (log_probs,) = ctx.saved_tensors
        return gradient[:, None, None].expand_as(log_probs)


MEMORY = """
import resource, sys, torch
from benchmarks import forms
print(forms.peak(sys.argv[1]))
"""
RAGGED = torch.tensor([10] * 5000 + [50_000])


def ragged(name: str) -> AbstractForm:
    """A form of the ragged groups."""
    groups = len(RAGGED)
    if name == "at least one":
        return some(groups, 10)
    if name == "exactly a tenth":
        return Counts((torch.arange(10) == 1).expand(groups, -1), Exactly(RAGGED // 10), 1)
    raise ValueError(name)


def peak(name: str) -> float:
    """Bytes that a call takes at most, as a multiple of those of the predictions."""
    log_probs, form = drawn(int(RAGGED.sum()), 10), ragged(name)
    with waiting_for_kernels():
        infer(log_probs[:30], form.select(torch.arange(3)), [10, 10, 10])
        before = _resident()
        Path("/proc/self/clear_refs").write_text("5")
        infer(log_probs, form, RAGGED)
        return (_highest() - before) / log_probs.nbytes


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _highest() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def memory() -> list[str]:
    """The table of memory, measured in processes of their own."""
    lines = ["| 5,000 bags of 10 and one of 50,000, 10 classes | memory / predictions |", "| --- | ---: |"]
    for name in ("at least one", "exactly a tenth"):
        done = subprocess.run([sys.executable, "-c", MEMORY, name], capture_output=True, text=True, check=True)
        lines.append(f"| {name} | {float(done.stdout):.1f} |")
    return lines


def threads() -> list[str]:
    """The table of two threads against one."""
    lines = ["| two threads | one, ms | two, ms | ratio |", "| --- | ---: | ---: | ---: |"]
    counts = Counts(torch.tensor([[False, True]]).expand(64, -1), Exactly(torch.full((64,), 1250)), 1)
    for name, form, shape in (
        ("exactly 1,250 of 5,000, 64 bags", counts, (64, 5000, 2)),
        ("at least one, 64 bags of 1,000, 10 classes", some(64, 10), (64, 1000, 10)),
        ("an automaton of 8 states, 64 groups of 1,000", constraint("sum(y) % 8 == 3", 2), (64, 1000, 2)),
    ):
        engine = "trellis" if isinstance(form, Automaton) else "auto"
        log_probs, taken = drawn(*shape), {}
        for number in (1, 2):
            torch.set_num_threads(number)
            times = []
            for _ in range(30):
                begin = time.perf_counter()
                infer(log_probs, form, engine=engine)  # type: ignore[arg-type]
                times.append(1e3 * (time.perf_counter() - begin))
            taken[number] = min(times)
        torch.set_num_threads(1)
        lines.append(f"| {name} | {taken[1]:.2f} | {taken[2]:.2f} | {taken[1] / taken[2]:.2f} |")
    return lines


TABLES = {"forms": small_forms, "tiny": tiny_groups, "ragged": memory, "threads": threads}


def main() -> None:
    """Print the tables, or write them into a page between their marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = {}
    with waiting_for_kernels():
        for name, table in TABLES.items():
            parts[name] = "\n".join(table())
            print(parts[name], "\n", flush=True)
    if given.docs:
        given.docs.write_text(rewritten(given.docs.read_text(), parts))


if __name__ == "__main__":
    main()
