"""Kernel: which classes occur, one program for each group.

A state is the set of classes seen so far, the present ones as bits from the first on. The sums are those of
`glws.inference._joint.subsets`, with a table for every instance; linear and in logarithms as for count vectors.
"""

from __future__ import annotations

from glws._triton import Number, Pointer, jit, tl
from glws.inference._gpu.joint_kernel import SMALLEST, plus, share, times, weigh


@jit
def start(forward: "Pointer", backward: "Pointer", states: "Number", LOGS: tl.constexpr, S: tl.constexpr) -> None:
    """The empty set before the first instance; the full set after the last."""
    nothing = tl.full([S], -float("inf") if LOGS else 0.0, tl.float64)
    one = tl.full([S], 0.0 if LOGS else 1.0, tl.float64)
    for begin in range(0, states, S):
        s = begin + tl.arange(0, S)
        tl.store(forward + s, tl.where(s == 0, one, nothing), mask=s < states)
        tl.store(backward + s, tl.where(s == states - 1, one, nothing), mask=s < states)
    tl.debug_barrier()


@jit
def sweep_sets(
    weights: "Pointer",
    present: "Pointer",
    length: "Number",
    states: "Number",
    width: "Number",
    forward: "Pointer",
    backward: "Pointer",
    answer: "Pointer",
    K: "Number",
    LOGS: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
) -> "Number":
    """The total over all labelings in which exactly these classes occur; the posteriors go into the output."""
    nothing = -float("inf") if LOGS else 0.0
    zero = tl.full([S], nothing, tl.float64)
    start(forward, backward, states, LOGS, S)
    for j in range(length):
        for begin in range(0, states, S):
            s = begin + tl.arange(0, S)
            bit, total = 1, zero
            for k in range(K):
                n = tl.load(present + k).to(tl.int32)
                has = (s < states * n) & ((s & bit) > 0)
                seen = tl.load(forward + j * width + s, mask=has, other=nothing)
                seen = plus(seen, tl.load(forward + j * width + s - bit, mask=has, other=nothing), LOGS)
                term = times(seen, tl.load(weights + j * K + k), LOGS)
                total = plus(total, tl.where(has, term, zero), LOGS)
                bit = bit * (n + 1)
            tl.store(forward + (j + 1) * width + s, total, mask=s < states)
        tl.debug_barrier()
    mass = tl.load(forward + length * width + states - 1)
    columns = tl.arange(0, C)
    for back in range(length):
        j = length - 1 - back
        old, new = backward + (back % 2) * width, backward + ((back + 1) % 2) * width
        posterior = tl.zeros([C], tl.float64)
        for begin in range(0, states, S):
            s = begin + tl.arange(0, S)
            past = tl.load(forward + j * width + s, mask=s < states, other=nothing)
            bit, total = 1, zero
            for k in range(K):
                n = tl.load(present + k).to(tl.int32)
                goes = s < states * n
                after = tl.load(old + (s | bit), mask=goes, other=nothing)
                term = tl.where(goes, times(after, tl.load(weights + j * K + k), LOGS), zero)
                total = plus(total, term, LOGS)
                part = tl.where(goes, share(times(past, term, LOGS), mass, LOGS), 0.0)
                posterior += tl.where(columns == k, tl.sum(part, 0), 0.0)
                bit = bit * (n + 1)
            tl.store(new + s, total, mask=s < states)
        tl.store(answer + j * K + columns, posterior.to(answer.dtype.element_ty), mask=columns < K)
        tl.debug_barrier()
    return mass


@jit
def presence_sets(
    potentials: "Pointer",
    present: "Pointer",
    lengths: "Pointer",
    weights: "Pointer",
    forward: "Pointer",
    backward: "Pointer",
    log_likelihood: "Pointer",
    marginals: "Pointer",
    L: "Number",
    K: "Number",
    width: "Number",
    S: tl.constexpr,
    C: tl.constexpr,
) -> None:
    """log Z and all posteriors of one group."""
    group = tl.program_id(0).to(tl.int64)
    phi, answer, weight = potentials + group * L * K, marginals + group * L * K, weights + group * L * K
    classes, ahead, behind = present + group * K, forward + group * (L + 1) * width, backward + group * 2 * width
    length = tl.load(lengths + group).to(tl.int32)
    columns = tl.arange(0, C)
    size = tl.sum(tl.load(classes + columns, mask=columns < K, other=0).to(tl.int32), 0)
    log_z = tl.full([], -float("inf"), tl.float64)
    if (size <= length) & ((size > 0) | (length == 0)):
        states = 1
        for k in range(K):
            states = states * (tl.load(classes + k).to(tl.int32) + 1)
        logs = weigh(phi, classes, weight, length, K, False, C)
        mass = sweep_sets(weight, classes, length, states, width, ahead, behind, answer, K, False, S, C)
        log_z = tl.log(mass) + logs
        if not (mass > SMALLEST):
            tl.debug_barrier()
            logs = weigh(phi, classes, weight, length, K, True, C)
            log_z = logs + sweep_sets(weight, classes, length, states, width, ahead, behind, answer, K, True, S, C)
    tl.store(log_likelihood + group, log_z.to(log_likelihood.dtype.element_ty))
