"""Kernel: the groups outside the range of linear space, forward and backward in log space and float64.

Letters as in `trellis_linear`; here alphas and beta are logarithms, each rescaled to a largest entry of 0. A program
whose groups are not flagged ends at once.
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, jit, tl
from glws.inference._gpu.trellis_linear import largest


@jit
def finite(value: "Block") -> "Block":
    """-inf replaced by 0: a shift that leaves -inf unchanged."""
    return tl.where(value == -float("inf"), 0.0, value)


@jit
def log_sum(scores: "Block") -> "Block":
    """log Σ exp over the first axis; -inf where all are."""
    top = finite(tl.max(scores, 0))
    total = tl.sum(tl.exp(scores - top[None, :]), 0)
    return tl.where(total > 0, tl.log(total) + top, -float("inf"))


@jit
def top_potential(
    potentials: "Pointer", group: "Block", step: "Number", mask: "Block", L: "Number", K: "Number", P: tl.constexpr
) -> "Block":
    """The largest potential of the instance in each cell's group, 0 when all are -inf."""
    symbol = tl.arange(0, P)[:, None]
    place = (group[None, :] * L + step) * K + symbol
    value = tl.load(potentials + place, mask=mask[None, :] & (symbol < K), other=-float("inf"))
    return finite(tl.max(value.to(tl.float64), 0))


@jit
def redo(
    potentials: "Pointer",
    lengths: "Pointer",
    shift: "Pointer",
    index: "Pointer",
    source: "Pointer",
    symbol: "Pointer",
    arriving_weight: "Pointer",
    target: "Pointer",
    leaving_weight: "Pointer",
    log_start: "Pointer",
    log_final: "Pointer",
    log_scale: "Pointer",
    alphas: "Pointer",
    log_likelihood: "Pointer",
    marginals: "Pointer",
    is_flagged: "Pointer",
    G: "Number",
    L: "Number",
    K: "Number",
    B: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    P: tl.constexpr,
) -> None:
    """log Z and marginals of the flagged groups."""
    cell = tl.arange(0, B * S)
    group = (tl.program_id(0) * B + cell // S).to(tl.int64)
    state = cell % S
    is_mine = tl.load(is_flagged + group, mask=group < G, other=0) > 0
    if tl.max(is_mine.to(tl.int32), 0) == 0:
        return
    length = tl.load(lengths + group, mask=is_mine, other=0).to(tl.int32)
    machine = tl.load(index + group, mask=is_mine, other=0)
    steps = tl.max(length, 0)

    slot = (machine[None, :] * D + tl.arange(0, D)[:, None]) * S + state[None, :]  # [D, C]
    origin = tl.load(source + slot) + (cell // S * S)[None, :]
    row = potentials + group[None, :] * L * K + tl.load(symbol + slot)
    alpha = tl.load(log_start + machine * S + state)
    scale = tl.zeros([B * S], tl.float64)
    for step in range(0, steps):
        is_real = step < length
        tl.store(alphas + (group * L + step) * S + state, alpha, mask=is_real)
        top = top_potential(potentials, group, step, is_real, L, K, P)
        phi = tl.load(row + step * K, mask=is_real[None, :], other=0.0).to(tl.float64) - top[None, :]
        before = tl.gather(tl.broadcast_to(alpha[None, :], [D, B * S]), origin, 1)
        arrived = log_sum(before + phi + tl.load(arriving_weight + slot))
        size = finite(largest(arrived, B, S))
        alpha = tl.where(is_real, arrived - size, alpha)
        scale += tl.where(is_real, size, 0.0)

    beta = tl.load(log_final + machine * S + state)
    ends = alpha + beta
    size = finite(largest(ends, B, S))
    total = tl.sum(tl.reshape(tl.exp(ends - size), [B, S]), 1)
    log_z = tl.reshape(tl.broadcast_to(tl.log(total)[:, None], [B, S]), [B * S]) + size + scale
    total_shift = tl.load(shift + group, mask=is_mine, other=0.0)
    total_shift = tl.minimum(tl.maximum(total_shift, -1e298), 1e298) * 1073741824.0
    weights = tl.load(log_scale + 2 * machine) + tl.load(log_scale + 2 * machine + 1) * length
    tl.store(log_likelihood + group, log_z + weights + total_shift, mask=is_mine & (state == 0))

    one = (tl.program_id(0) * B + tl.arange(0, B)).to(tl.int64)
    is_one_mine = tl.load(is_flagged + one, mask=one < G, other=0) > 0
    one_length = tl.load(lengths + one, mask=is_one_mine, other=0).to(tl.int32)
    label = tl.arange(0, P)
    answer = marginals + one[None, :] * L * K + label[:, None]  # [P, B]
    arc = tl.arange(0, R)
    slot = (machine[None, :] * R + arc[:, None]) * S + state[None, :]  # [R, C]
    goal = tl.load(target + slot) + (cell // S * S)[None, :]
    row = potentials + group[None, :] * L * K + (arc % P)[:, None]
    is_symbol = (arc % P < K)[:, None]
    tl.debug_barrier()  # what follows reads the alphas that other threads wrote
    for back in range(0, steps):
        step = steps - 1 - back
        is_real = step < length
        top = top_potential(potentials, group, step, is_real, L, K, P)
        phi = (
            tl.load(row + step * K, mask=is_symbol & is_real[None, :], other=-float("inf")).to(tl.float64)
            - top[None, :]
        )
        onward = tl.gather(tl.broadcast_to(beta[None, :], [R, B * S]), goal, 1) + phi + tl.load(leaving_weight + slot)
        through = onward + tl.load(alphas + (group * L + step) * S + state, mask=is_real, other=-float("inf"))[None, :]
        size = finite(largest(tl.max(through, 0), B, S))
        share = tl.sum(tl.reshape(tl.exp(through - size[None, :]), [R, B, S]), 2)
        share = tl.sum(tl.reshape(share, [R // P, P, B]), 0)
        total = tl.sum(share, 0)
        share = share / tl.where(total > 0, total, 1.0)
        is_row = (is_one_mine & (step < one_length))[None, :] & (label < K)[:, None]
        tl.store(answer + step * K, share, mask=is_row)
        arrived = log_sum(onward)
        beta = tl.where(is_real, arrived - finite(largest(arrived, B, S)), beta)
