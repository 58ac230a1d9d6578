"""Time of sums of digits: one group and many, next to a log-space recursion over all sums; CPU time, one thread."""

from __future__ import annotations

import time

import torch

from glws.inference import Sums, waiting_for_kernels

SIZES = ((1_000_000, 1), (1000, 1000), (100, 10_000), (16, 62_500))
"""(instances of a group, groups): a million instances each."""


def seconds(form: Sums, log_probs: torch.Tensor, plain: bool) -> float:
    lengths = torch.full((len(log_probs),), log_probs.shape[1])
    begin = time.process_time()
    (form._recursion if plain else form.solve)(log_probs, lengths)
    return time.process_time() - begin


def main() -> None:
    torch.set_num_threads(1)
    with waiting_for_kernels():
        form = Sums(torch.zeros(1), torch.zeros(1), (0, 1))
        form.solve(torch.zeros(1, 1, 2).double(), torch.ones(1).long())
    generator = torch.Generator().manual_seed(0)
    print("instances  groups  compiled ms   recursion ms, of as many groups as fit in 100,000 sums")
    for length, groups in SIZES:
        log_probs = torch.randn(groups, length, 10, generator=generator, dtype=torch.float64).log_softmax(-1)
        totals = (4.5 * length + 2 * length**0.5 * torch.randn(groups, generator=generator)).round().double()
        form = Sums(totals, totals, tuple(range(10)))
        ours = min(seconds(form, log_probs, False) for _ in range(3))
        few = min(groups, max(0, 100_000 // (9 * length)))
        other = 1e3 * seconds(form.select(torch.arange(few)), log_probs[:few], True) if few else float("nan")
        print(f"{length:9,} {groups:7,} {1e3 * ours:12.0f} {other:12.0f} ({few} groups)")


if __name__ == "__main__":
    main()
