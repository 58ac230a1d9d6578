"""Kernel: count vectors, one program for each group.

A state is a vector of counts so far, numbered in mixed radix: its digit k is the count of class k, of stride
Π_{i<k} (n_i + 1). Its level, the sum of the digits, is the number of instances so far. Values are products of shares in
linear space; if the total is too small to be trusted, the group is solved again in log space.
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, constant, jit, tl

SMALLEST = constant(1e-250)


@jit
def plus(a: "Block", b: "Block", LOGS: tl.constexpr) -> "Block":
    """The sum of two numbers, or of the numbers that these are the logarithms of."""
    if LOGS:
        top = tl.maximum(a, b)
        top = tl.where(top == -float("inf"), 0.0, top)
        return top + tl.log(tl.exp(a - top) + tl.exp(b - top))
    else:
        return a + b


@jit
def times(a: "Block", b: "Block", LOGS: tl.constexpr) -> "Block":
    """The product, likewise."""
    if LOGS:
        return a + b
    else:
        return a * b


@jit
def share(part: "Block", whole: "Number", LOGS: tl.constexpr) -> "Block":
    """The part divided by the whole; 0 if the whole is 0."""
    if LOGS:
        return tl.where(whole == -float("inf"), 0.0, tl.exp(part - whole))
    else:
        return part / whole


@jit
def number_states(
    count: "Pointer",
    levels: "Pointer",
    digits: "Pointer",
    states: "Number",
    width: "Number",
    K: "Number",
    S: tl.constexpr,
) -> None:
    """The level and the digits of every state; digit k of state s at k * width + s."""
    for begin in range(0, states, S):
        s = begin + tl.arange(0, S)
        rest, level = s, tl.zeros([S], tl.int32)
        for k in range(K):
            base = tl.load(count + k).to(tl.int32) + 1
            over = rest // base
            digit = rest - over * base
            tl.store(digits + k * width + s, digit, mask=s < states)
            level += digit
            rest = over
        tl.store(levels + s, level, mask=s < states)


@jit
def weigh(
    phi: "Pointer",
    count: "Pointer",
    weights: "Pointer",
    length: "Number",
    K: "Number",
    LOGS: tl.constexpr,
    C: tl.constexpr,
) -> "Number":
    """The shares of the classes in every instance, or their logarithms; Σ_j of the log of their normalizers."""
    k = tl.arange(0, C)
    occurs = (k < K) & (tl.load(count + k, mask=k < K, other=0) > 0)
    logs = tl.full([], 0.0, tl.float64)
    for j in range(length):
        row = tl.load(phi + j * K + k, mask=occurs, other=-float("inf")).to(tl.float64)
        top = tl.max(row, 0)
        top = tl.where(top == -float("inf"), 0.0, top)
        total = tl.sum(tl.exp(row - top), 0)
        log_total = tl.where(total > 0, tl.log(total) + top, 0.0)
        share_of_row = row - log_total
        tl.store(weights + j * K + k, share_of_row if LOGS else tl.exp(share_of_row), mask=k < K)
        logs += log_total
    tl.debug_barrier()
    return logs


@jit
def sweep(
    weights: "Pointer",
    count: "Pointer",
    length: "Number",
    states: "Number",
    width: "Number",
    levels: "Pointer",
    digits: "Pointer",
    forward: "Pointer",
    backward: "Pointer",
    answer: "Pointer",
    K: "Number",
    LOGS: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
) -> "Number":
    """The total over all labelings with these counts; the posteriors go into the output."""
    nothing = -float("inf") if LOGS else 0.0
    one = tl.full([], 0.0 if LOGS else 1.0, tl.float64)
    zero = tl.full([S], nothing, tl.float64)
    tl.store(forward, one)
    tl.store(backward + states - 1, one)
    tl.debug_barrier()
    for j in range(length):
        for begin in range(0, states, S):
            s = begin + tl.arange(0, S)
            here = tl.load(levels + s, mask=s < states, other=-1) == j + 1
            stride, total = 1, zero
            for k in range(K):
                came = here & (tl.load(digits + k * width + s, mask=here, other=0) > 0)
                before = tl.load(forward + s - stride, mask=came, other=nothing)
                term = times(before, tl.load(weights + j * K + k), LOGS)
                total = plus(total, tl.where(came, term, zero), LOGS)
                stride = stride * (tl.load(count + k).to(tl.int32) + 1)
            tl.store(forward + s, total, mask=here)
        tl.debug_barrier()
    mass = tl.load(forward + states - 1)
    columns = tl.arange(0, C)
    for back in range(length):
        j = length - 1 - back
        posterior = tl.zeros([C], tl.float64)
        for begin in range(0, states, S):
            s = begin + tl.arange(0, S)
            here = tl.load(levels + s, mask=s < states, other=-1) == j
            past = tl.load(forward + s, mask=here, other=nothing)
            stride, total = 1, zero
            for k in range(K):
                n = tl.load(count + k).to(tl.int32)
                goes = here & (tl.load(digits + k * width + s, mask=here, other=n) < n)
                after = tl.load(backward + s + stride, mask=goes, other=nothing)
                term = tl.where(goes, times(after, tl.load(weights + j * K + k), LOGS), zero)
                total = plus(total, term, LOGS)
                part = tl.where(goes, share(times(past, term, LOGS), mass, LOGS), 0.0)
                posterior += tl.where(columns == k, tl.sum(part, 0), 0.0)
                stride = stride * (n + 1)
            tl.store(backward + s, total, mask=here & (s < states - 1))
        tl.store(answer + j * K + columns, posterior.to(answer.dtype.element_ty), mask=columns < K)
        tl.debug_barrier()
    return mass


@jit
def joint_counts(
    potentials: "Pointer",
    counts: "Pointer",
    lengths: "Pointer",
    weights: "Pointer",
    forward: "Pointer",
    backward: "Pointer",
    levels: "Pointer",
    digits: "Pointer",
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
    count, phi, answer, weight = (
        counts + group * K,
        potentials + group * L * K,
        marginals + group * L * K,
        weights + group * L * K,
    )
    ahead, behind, level, digit = (
        forward + group * width,
        backward + group * width,
        levels + group * width,
        digits + group * width * K,
    )
    length = tl.load(lengths + group).to(tl.int32)
    log_z = tl.full([], -float("inf"), tl.float64)
    columns = tl.arange(0, C)
    n = tl.load(count + columns, mask=columns < K, other=0).to(tl.int32)
    if (tl.sum(n, 0) == length) & (tl.min(n, 0) >= 0):
        states = 1
        for k in range(K):
            states = states * (tl.load(count + k).to(tl.int32) + 1)
        number_states(count, level, digit, states, width, K, S)
        logs = weigh(phi, count, weight, length, K, False, C)
        mass = sweep(weight, count, length, states, width, level, digit, ahead, behind, answer, K, False, S, C)
        log_z = tl.log(mass) + logs
        if not (mass > SMALLEST):
            tl.debug_barrier()
            logs = weigh(phi, count, weight, length, K, True, C)
            log_z = logs + sweep(
                weight, count, length, states, width, level, digit, ahead, behind, answer, K, True, S, C
            )
    tl.store(log_likelihood + group, log_z.to(log_likelihood.dtype.element_ty))
