"""Kernel: hard counts, one program for each problem, everything in one launch. Letters as in `counts_math`."""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, jit, tl
from glws.inference._gpu.counts_math import (
    FAR,
    frequencies,
    log_of_rest,
    marginal,
    multiply,
    num_points,
    rational_height,
    rational_rows,
    read,
    rotated,
    search,
    select_pivot,
    settled_part,
    small_side,
)


@jit
def set_aside(zero_row: "Pointer", one_row: "Pointer", length: "Number", J: tl.constexpr) -> "Number":
    """Number undecided, number certainly counted, weight of the decided, and whether log-odds are large."""
    soft, certain, far = tl.zeros([J], tl.int32), tl.zeros([J], tl.int32), tl.zeros([J], tl.int32)
    settled = tl.zeros([J], tl.float64)
    for begin in range(0, length, J):
        j = begin + tl.arange(0, J)
        zero, one, is_soft = read(zero_row, one_row, j, j < length)
        soft += is_soft.to(tl.int32)
        certain += (zero == -float("inf")).to(tl.int32)
        far |= (is_soft & (tl.abs(one - zero) > FAR)).to(tl.int32)
        settled += settled_part(zero, one, is_soft)
    return tl.sum(soft, 0), tl.sum(certain, 0), tl.sum(settled, 0), tl.max(far, 0) > 0


@jit
def tilted(
    zero: "Block",
    one: "Block",
    is_soft: "Block",
    theta: "Number",
    pivot: "Number",
    is_open: "Number",
    all_one: "Number",
) -> "Block":
    """Small sides and more likely labels; if the problem is not open (0.0), all undecided have the same label."""
    x = one - zero - pivot + theta
    a = tl.where(is_soft, small_side(x) * is_open, 0.0)
    return a, is_soft & (x * is_open + all_one > 0)


@jit
def hard_counts(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    counts: "Pointer",
    log_likelihood: "Pointer",
    marginals: "Pointer",
    L: "Number",
    J: tl.constexpr,
    F: tl.constexpr,
    W: tl.constexpr,
) -> None:
    """log Z and all posteriors of one problem; W instances at a time in steps without frequencies."""
    problem = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + problem).to(tl.int32)
    zero_row, one_row, answer = log_zero + problem * L, log_one + problem * L, marginals + problem * L

    n, certain, settled, is_far = set_aside(zero_row, one_row, length, W)
    m = tl.load(counts + problem).to(tl.int64) - certain
    is_open = (m > 0) & (m < n) & (settled > -float("inf"))
    all_one = (m == n) & (m > 0)
    pivot = tl.full([], 0.0, tl.float64)
    if is_open & is_far:
        pivot = select_pivot(zero_row, one_row, length, m, W)
    theta, variance = search(
        zero_row,
        one_row,
        length,
        1,
        tl.full([], 0.0, tl.float64),
        pivot,
        m.to(tl.float64),
        n.to(tl.float64),
        is_open,
        W,
    )
    is_open, all_one = is_open.to(tl.float64), all_one.to(tl.float64)
    variance *= is_open

    # ψ(t) = e^{-itm} Π_j of the factors, and the other terms of the log-likelihood.
    points = num_points(variance, n.to(tl.int64))
    sine, versine, share = frequencies(points, variance, F)
    real, imag = tl.full([F, J], 1.0, tl.float64), tl.zeros([F, J], tl.float64)
    chosen, large, ones = tl.zeros([J], tl.float64), tl.zeros([J], tl.float64), tl.zeros([J], tl.int32)
    for begin in range(0, length, J):
        j = begin + tl.arange(0, J)
        zero, one, is_soft = read(zero_row, one_row, j, j < length)
        a, is_one = tilted(zero, one, is_soft, theta, pivot, is_open, all_one)
        factor_imag = tl.where(is_one, -a, a)[None, :] * sine[:, None]
        real, imag = multiply(real, imag, 1.0 - a[None, :] * versine[:, None], factor_imag)
        chosen += tl.where(is_soft, tl.where(is_one, one, zero), 0.0)
        large += log_of_rest(a)
        ones += is_one.to(tl.int32)
    psi_real, psi_imag = tl.reduce((real, imag), 1, multiply)
    excess = tl.sum(ones, 0) - m
    psi_real, psi_imag = rotated(psi_real, psi_imag, excess, points, F)

    mass = tl.sum(psi_real * share, 0)
    log_z = settled + tl.sum(chosen, 0) - tl.sum(large, 0) + tl.log(tl.maximum(mass, 0.0) / points.to(tl.float64))
    log_z += theta * excess.to(tl.float64) - pivot * excess.to(tl.float64)
    log_z = tl.where((m >= 0) & (m <= n) & (settled > -float("inf")), log_z, -float("inf"))
    log_z = tl.where(settled != settled, settled, log_z).to(log_likelihood.dtype.element_ty)
    tl.store(log_likelihood + problem, log_z)

    even, odd, even_slope, odd_slope = rational_rows(psi_real * share / mass, psi_imag * share / mass, sine, versine)
    for begin in range(0, length, J):
        j = begin + tl.arange(0, J)
        zero, one, is_soft = read(zero_row, one_row, j, j < length)
        a, is_one = tilted(zero, one, is_soft, theta, pivot, is_open, all_one)
        height = rational_height(a, tl.where(is_one, -1.0, 1.0), versine, even, odd, even_slope, odd_slope)
        tl.store(answer + j, marginal(a, height, is_one, zero, one, log_z), mask=j < length)
    for begin in range(length, L, J):
        j = begin + tl.arange(0, J)
        tl.store(answer + j, tl.zeros([J], tl.float64), mask=j < L)
