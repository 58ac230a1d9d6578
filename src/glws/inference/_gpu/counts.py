"""`gpu_count_posterior`: exactly m counted instances, in one launch for short groups and ten for long ones."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two
from glws.inference._counts.posterior import CountResult

# Problems with more instances are spread over many programs (measured by `benchmarks/gpu.py --thresholds`).
LONG = 2048
# Frequencies of the characteristic function that a program holds, and instances of a long problem.
_WAVES = 32
_CHUNK = 2048
# Instances of the sample that gives a long problem its first θ: between one and two times this.
_SAMPLE = 4096


def gpu_count_posterior(
    log_zero: Float[Tensor, "problems instances"],
    log_one: Float[Tensor, "problems instances"],
    lengths: Int[Tensor, "problems"],
    count: Int[Tensor, "problems"],
) -> CountResult:
    """Exact likelihood of a hard count and the posterior of every instance; `counts.count_posterior` for `Exactly`.

    Computed in float64, answered in the type of the input. Needs at least one problem and one instance.
    """
    zero, one = log_zero.detach().contiguous(), log_one.detach().contiguous()
    result = CountResult(zero.new_empty(zero.shape[0]), torch.empty_like(zero))
    answer = _short if zero.shape[1] <= LONG else _long
    with on_device_of(zero):
        answer(zero, one, lengths.contiguous(), count.contiguous(), result)
    return result


def _short(zero: Tensor, one: Tensor, lengths: Tensor, count: Tensor, result: CountResult) -> None:
    from glws.inference._gpu.counts_short import hard_counts  # Triton is imported here, at first use

    problems, instances = zero.shape
    size = power_of_two(max(instances, 8))
    waves, block = min(power_of_two((instances + 3) // 2), _WAVES), min(size, 64)
    hard_counts[(problems,)](
        *(zero, one, lengths, count), *result, instances,
        J=block, F=waves, W=min(size, 1024), num_warps=min(max(block * waves // 256, 1), 16),
    )  # fmt: skip


def _long(zero: Tensor, one: Tensor, lengths: Tensor, count: Tensor, result: CountResult) -> None:
    from glws.inference._gpu import counts_long as kernels

    problems, instances = zero.shape
    chunks = (instances + _CHUNK - 1) // _CHUNK
    bags, grid = (zero, one, lengths), (problems, chunks)
    rows, width, left_width, trials = (
        int(value) for value in (kernels.ROWS, kernels.WIDTH, kernels.LEFT, kernels.TRIALS)
    )
    left, other = zero.new_empty(2, problems, chunks, left_width, dtype=torch.float64)
    state = zero.new_empty(problems, rows, width, dtype=torch.float64)
    shape = zero.new_empty(problems, 5, _WAVES, dtype=torch.float64)
    wide = {"J": _CHUNK, "num_warps": 8}

    kernels.set_aside[grid](*bags, left, instances, **wide)
    kernels.first_trial[(problems,)](*bags, count, left, state, instances, chunks, SAMPLE=_SAMPLE, **wide)
    for trial in range(trials):
        left, other = other, left
        kernels.next_trial[grid](*bags, other, left, state, instances, trial=trial, **wide)
    kernels.last_trial[(problems,)](*bags, left, state, instances, chunks, **wide)
    kernels.sums[grid](*bags, other, state, instances, F=_WAVES, **wide)
    kernels.solve[(problems,)](result.log_likelihood, other, state, shape, chunks, F=_WAVES)
    kernels.finish[grid](*bags, state, shape, result.marginals, instances, F=_WAVES, **wide)
