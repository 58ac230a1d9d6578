"""Kernels: hard counts of very long groups, many programs for each problem, a fixed number of launches.

Letters: P problems, H chunks of J instances in each, F frequencies. A launch leaves one row of sums for each chunk; the
next one begins by adding them up, in the same order in every program. Per problem, `state` has these rows:

    row 0:      n, m, settled, pivot, is_open, all_one
    row 1 + k:  θ, low, high, is_done, variance              of trial k; the last row is the final one,
    last row:   the same, then terms of the power series, log Z
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, constant, jit, tl
from glws.inference._gpu.counts_math import (
    FAR,
    SMOOTH,
    TERM_NATS,
    frequencies,
    is_near,
    log_of_rest,
    marginal,
    moments,
    multiply,
    next_theta,
    num_points,
    rational_rows,
    read,
    rotated,
    search,
    select_pivot,
    settled_part,
)
from glws.inference._gpu.counts_short import tilted

# Launches that try a θ on all instances, and rows of `state`.
TRIALS = constant(4)
ROWS = constant(6)
# Numbers in a row of `state`, and numbers that a chunk stores: 4, then 2 F for ψ or the power sums.
WIDTH = constant(8)
LEFT = constant(68)
# Most terms of the power series: enough for variances above SMOOTH.
TERMS = constant(24)


@jit
def added_up(rows: "Pointer", column: "Number", H: "Number") -> "Number":
    """Σ over the chunks of one column of their stored sums."""
    total = tl.zeros([256], tl.float64)
    for begin in range(0, H, 256):
        chunk = begin + tl.arange(0, 256)
        total += tl.load(rows + chunk * LEFT + column, mask=chunk < H, other=0.0)
    return tl.sum(total, 0)


@jit
def chunk_of(log_zero: "Pointer", log_one: "Pointer", lengths: "Pointer", L: "Number", J: tl.constexpr) -> "Block":
    """The instances of this program: places, number of instances of the problem, and `read`."""
    problem = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + problem).to(tl.int64)
    j = tl.program_id(1).to(tl.int64) * J + tl.arange(0, J)
    zero, one, is_soft = read(log_zero + problem * L, log_one + problem * L, j, j < length)
    return j, length, zero, one, is_soft


@jit
def my_rows(left: "Pointer", state: "Pointer") -> "Pointer":
    """Addresses of the sums of this problem's chunks, of this chunk's sums, and of the problem's summary."""
    problem = tl.program_id(0).to(tl.int64)
    all_chunks = left + problem * tl.num_programs(1) * LEFT
    return all_chunks, all_chunks + tl.program_id(1) * LEFT, state + problem * ROWS * WIDTH


@jit
def set_aside(
    log_zero: "Pointer", log_one: "Pointer", lengths: "Pointer", left: "Pointer", L: "Number", J: tl.constexpr
) -> None:
    """Stores: number undecided, number certainly counted, weight of the decided, number with large log-odds."""
    _, _, zero, one, is_soft = chunk_of(log_zero, log_one, lengths, L, J)
    _, mine, _ = my_rows(left, left)
    tl.store(mine, tl.sum(is_soft.to(tl.float64), 0))
    tl.store(mine + 1, tl.sum((zero == -float("inf")).to(tl.float64), 0))
    tl.store(mine + 2, tl.sum(settled_part(zero, one, is_soft), 0))
    tl.store(mine + 3, tl.sum((is_soft & (tl.abs(one - zero) > FAR)).to(tl.float64), 0))


@jit
def soft_share(zero_row: "Pointer", one_row: "Pointer", count: "Number", stride: "Number", J: tl.constexpr) -> "Number":
    """Number of undecided instances in a sample."""
    found = tl.zeros([J], tl.float64)
    for begin in range(0, count, J):
        j = begin + tl.arange(0, J)
        _, _, is_soft = read(zero_row, one_row, j.to(tl.int64) * stride, j < count)
        found += is_soft.to(tl.float64)
    return tl.sum(found, 0)


@jit
def first_trial(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    counts: "Pointer",
    left: "Pointer",
    state: "Pointer",
    L: "Number",
    H: "Number",
    J: tl.constexpr,
    SAMPLE: tl.constexpr,
) -> None:
    """Compute the summary of a problem, and a first θ from a sample; one program per problem."""
    problem = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + problem).to(tl.int64)
    zero_row, one_row, rows = log_zero + problem * L, log_one + problem * L, left + problem * H * LEFT
    n, settled = added_up(rows, 0, H), added_up(rows, 2, H)
    m = tl.load(counts + problem).to(tl.float64) - added_up(rows, 1, H)
    is_open = (m > 0) & (m < n) & (settled > -float("inf"))
    pivot = tl.full([], 0.0, tl.float64)
    if is_open & (added_up(rows, 3, H) > 0):
        pivot = select_pivot(zero_row, one_row, length, m.to(tl.int64), J)

    stride = tl.maximum(length // SAMPLE, 1)
    size = (length + stride - 1) // stride
    share = soft_share(zero_row, one_row, size, stride, J)
    target = m * share / tl.maximum(n, 1.0)
    can_search = is_open & (target > 0) & (target < share)
    start = tl.full([], 0.0, tl.float64)
    theta, _ = search(zero_row, one_row, size, stride, start, pivot, target, share, can_search, J)

    summary = state + problem * ROWS * WIDTH
    tl.store(summary, n)
    tl.store(summary + 1, m)
    tl.store(summary + 2, settled)
    tl.store(summary + 3, pivot)
    tl.store(summary + 4, is_open.to(tl.float64))
    tl.store(summary + 5, ((m == n) & (m > 0)).to(tl.float64))
    store_trial(summary + WIDTH, theta, -float("inf"), float("inf"), 0.0, 0.0)


@jit
def store_trial(
    row: "Pointer", theta: "Number", low: "Number", high: "Number", is_done: "Number", variance: "Number"
) -> None:
    """Store a row of `state`."""
    tl.store(row, theta)
    tl.store(row + 1, low)
    tl.store(row + 2, high)
    tl.store(row + 3, is_done)
    tl.store(row + 4, variance)


@jit
def advanced(summary: "Pointer", rows: "Pointer", trial: "Number", H: "Number") -> "Number":
    """The trial after the previous one, from the stored moments: θ, bracket, whether done, variance."""
    n, m = tl.load(summary), tl.load(summary + 1)
    before = summary + trial * WIDTH
    theta, low, high = tl.load(before), tl.load(before + 1), tl.load(before + 2)
    mean, variance = added_up(rows, 0, H), added_up(rows, 1, H)
    is_done = is_near(mean, variance, m) | (tl.load(summary + 4) == 0)
    better, new_low, new_high = next_theta(theta, low, high, trial - 1, mean, variance, m, n)
    theta = tl.where(is_done, theta, better)
    return theta, tl.where(is_done, low, new_low), tl.where(is_done, high, new_high), is_done, variance


@jit
def next_trial(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    left_before: "Pointer",
    left: "Pointer",
    state: "Pointer",
    L: "Number",
    trial: tl.constexpr,
    J: tl.constexpr,
) -> None:
    """Choose θ of this trial from the moments of the previous one, and store the moments under it."""
    _, _, zero, one, is_soft = chunk_of(log_zero, log_one, lengths, L, J)
    rows, _, summary = my_rows(left_before, state)
    _, mine, _ = my_rows(left, state)
    theta = tl.load(summary + WIDTH)
    if trial > 0:
        theta, low, high, is_done, variance = advanced(summary, rows, trial, tl.num_programs(1))
        if tl.program_id(1) == 0:
            store_trial(summary + (trial + 1) * WIDTH, theta, low, high, is_done.to(tl.float64), variance)
    mean, variance = moments(zero, one, is_soft, theta, tl.load(summary + 3))
    tl.store(mine, tl.sum(mean, 0))
    tl.store(mine + 1, tl.sum(variance, 0))


@jit
def num_terms(variance: "Number") -> "Number":
    """Terms of the power series: the first k with 2V |u|^{k+1} 2^-k / (k+1) < e^-41 at |u|² = (k+1)/V."""
    k = tl.arange(0, 32)
    order = (k + 1).to(tl.float64)
    v = tl.maximum(variance, 1.0)
    log_rest = 0.5 * order * (tl.log(order / v) - 1.0) - k * 0.6931471805599453 + tl.log(2.0 * v / order)
    return tl.min(tl.where((k >= 3) & (log_rest < -TERM_NATS), k, TERMS), 0)


@jit
def last_trial(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    left: "Pointer",
    state: "Pointer",
    L: "Number",
    H: "Number",
    J: tl.constexpr,
) -> None:
    """The final θ and variance; one program searches again if the trials did not converge."""
    problem = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + problem).to(tl.int64)
    zero_row, one_row, rows = log_zero + problem * L, log_one + problem * L, left + problem * H * LEFT
    summary = state + problem * ROWS * WIDTH
    theta, low, high, is_done, variance = advanced(summary, rows, TRIALS, H)
    if is_done == 0:
        n, m, pivot = tl.load(summary), tl.load(summary + 1), tl.load(summary + 3)
        theta, variance = search(zero_row, one_row, length, 1, theta, pivot, m, n, is_done == 0, J)
    variance = tl.where(tl.load(summary + 4) > 0, variance, 0.0)
    last = summary + (TRIALS + 1) * WIDTH
    store_trial(last, theta, low, high, 1.0, variance)
    tl.store(last + 5, num_terms(variance))


@jit
def sums(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    left: "Pointer",
    state: "Pointer",
    L: "Number",
    J: tl.constexpr,
    F: tl.constexpr,
) -> None:
    """Stores: chosen log-potentials, Σ log max(r, 1-r), number with r > 1/2; then power sums, or factors of ψ."""
    _, _, zero, one, is_soft = chunk_of(log_zero, log_one, lengths, L, J)
    _, mine, summary = my_rows(left, state)
    a, is_one, last = tilted_chunk(zero, one, is_soft, summary)
    tl.store(mine, tl.sum(tl.where(is_soft, tl.where(is_one, one, zero), 0.0), 0))
    tl.store(mine + 1, tl.sum(log_of_rest(a), 0))
    tl.store(mine + 2, tl.sum(is_one.to(tl.float64), 0))
    variance = tl.load(last + 4)
    if variance > SMOOTH:
        power = tl.full([J], 1.0, tl.float64)
        for k in range(0, tl.load(last + 5).to(tl.int32)):
            power *= a
            tl.store(mine + 4 + 2 * k, tl.sum(power, 0))
            tl.store(mine + 5 + 2 * k, tl.sum(tl.where(is_one, -power, power), 0))
    else:
        points = num_points(variance, tl.load(summary).to(tl.int64))
        step = tl.full([], 3.141592653589793, tl.float64) / points.to(tl.float64)
        for wave in range(0, tl.minimum((points + 1) // 2, F).to(tl.int32)):
            sine, versine = tl.sin(2.0 * step * wave), 2.0 * tl.sin(step * wave) * tl.sin(step * wave)
            real, imag = tl.reduce((1.0 - a * versine, tl.where(is_one, -a, a) * sine), 0, multiply)
            tl.store(mine + 4 + 2 * wave, real)
            tl.store(mine + 5 + 2 * wave, imag)


@jit
def tilted_chunk(zero: "Block", one: "Block", is_soft: "Block", summary: "Pointer") -> "Block":
    """Small sides and more likely labels under the final θ, and the last row of the state."""
    last = summary + (TRIALS + 1) * WIDTH
    theta, pivot, is_open, all_one = tl.load(last), tl.load(summary + 3), tl.load(summary + 4), tl.load(summary + 5)
    a, is_one = tilted(zero, one, is_soft, theta, pivot, is_open, all_one)
    return a, is_one, last


@jit
def psi_by_power_sums(
    rows: "Pointer", H: "Number", terms: "Number", excess: "Number", t: "Block", sine: "Block", versine: "Block"
) -> "Block":
    """log ψ = -Σ_k (A_k u^k + B_k conj(u)^k) / k + i t excess, A and B the power sums of the two signs.

    The first imaginary terms nearly cancel, so they are combined:
    t excess + sin t (A_1 - B_1) = (t - sin t) excess + sin t (mean - m).
    """
    s = t * t
    series = t * s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * (1 - s / 110))))
    phase = tl.where(t > 0.25, t - sine, series) * excess
    log_size = tl.zeros_like(t)
    real, imag = tl.full(t.shape, 1.0, tl.float64), tl.zeros_like(t)
    for k in range(0, terms):
        real, imag = multiply(real, imag, versine, -sine)
        signed = added_up(rows, 5 + 2 * k, H) + tl.where(k == 0, excess, 0.0)
        log_size -= added_up(rows, 4 + 2 * k, H) * real / (k + 1)
        phase -= signed * imag / (k + 1)
    return tl.exp(log_size) * tl.cos(phase), tl.exp(log_size) * tl.sin(phase)


@jit
def psi_by_product(
    rows: "Pointer", H: "Number", excess: "Number", points: "Number", share: "Block", F: tl.constexpr
) -> "Block":
    """Π of the factors that the chunks stored, times e^{it excess}."""
    real, imag = tl.full([32, F], 1.0, tl.float64), tl.zeros([32, F], tl.float64)
    for begin in range(0, H, 32):
        chunk = begin + tl.arange(0, 32)
        place = rows + chunk[:, None] * LEFT + 4 + 2 * tl.arange(0, F)[None, :]
        is_left = (chunk < H)[:, None] & (share > 0)[None, :]
        factor_real = tl.load(place, mask=is_left, other=1.0)
        real, imag = multiply(real, imag, factor_real, tl.load(place + 1, mask=is_left, other=0.0))
    psi_real, psi_imag = tl.reduce((real, imag), 0, multiply)
    return rotated(psi_real, psi_imag, excess.to(tl.int64), points, F)


@jit
def solve(
    log_likelihood: "Pointer", left: "Pointer", state: "Pointer", shape: "Pointer", H: "Number", F: tl.constexpr
) -> None:
    """log Z, and the coefficients of all posteriors: of a polynomial in a, or of fractions."""
    problem = tl.program_id(0).to(tl.int64)
    rows, summary, shape = left + problem * H * LEFT, state + problem * ROWS * WIDTH, shape + problem * 5 * F
    last = summary + (TRIALS + 1) * WIDTH
    n, m, settled, pivot = tl.load(summary), tl.load(summary + 1), tl.load(summary + 2), tl.load(summary + 3)
    theta, variance, terms = tl.load(last), tl.load(last + 4), tl.load(last + 5).to(tl.int32)
    excess = added_up(rows, 2, H) - m
    points = num_points(variance, n.to(tl.int64))
    sine, versine, share = frequencies(points, variance, F)
    real, imag = tl.zeros([F], tl.float64), tl.zeros([F], tl.float64)
    if variance > SMOOTH:
        t = 6.283185307179586 * tl.arange(0, F).to(tl.float64) / points.to(tl.float64)
        real, imag = psi_by_power_sums(rows, H, terms, excess, t, sine, versine)
    else:
        real, imag = psi_by_product(rows, H, excess, points, share, F)

    mass = tl.sum(tl.where(share > 0, real * share, 0.0), 0)
    log_z = settled + added_up(rows, 0, H) - added_up(rows, 1, H) + theta * excess - pivot * excess
    log_z += tl.log(tl.maximum(mass, 0.0) / points.to(tl.float64))
    log_z = tl.where((m >= 0) & (m <= n) & (settled > -float("inf")), log_z, -float("inf"))
    log_z = tl.where(settled != settled, settled, log_z).to(log_likelihood.dtype.element_ty)
    tl.store(log_likelihood + problem, log_z)
    tl.store(last + 6, log_z)

    real, imag = tl.where(share > 0, real * share / mass, 0.0), tl.where(share > 0, imag * share / mass, 0.0)
    if variance > SMOOTH:
        power_real, power_imag = 1.0 - versine, sine
        for k in range(0, terms + 1):  # Re[Σ_l T_l e^{it} u^k], the sign of its second half by the side
            tl.store(shape + 2 * k, tl.sum(real * power_real, 0))
            tl.store(shape + 2 * k + 1, -tl.sum(imag * power_imag, 0))
            power_real, power_imag = multiply(power_real, power_imag, versine, -sine)
    else:
        even, odd, even_slope, odd_slope = rational_rows(real, imag, sine, versine)
        row = shape + tl.arange(0, F)
        tl.store(row, even)
        tl.store(row + F, odd)
        tl.store(row + 2 * F, even_slope)
        tl.store(row + 3 * F, odd_slope)
        tl.store(row + 4 * F, versine)


@jit
def finish(
    log_zero: "Pointer",
    log_one: "Pointer",
    lengths: "Pointer",
    state: "Pointer",
    shape: "Pointer",
    marginals: "Pointer",
    L: "Number",
    J: tl.constexpr,
    F: tl.constexpr,
) -> None:
    """All posteriors, by Horner's rule or as a sum of fractions; see `counts.characteristic`."""
    j, length, zero, one, is_soft = chunk_of(log_zero, log_one, lengths, L, J)
    problem = tl.program_id(0).to(tl.int64)
    summary, shape = state + problem * ROWS * WIDTH, shape + problem * 5 * F
    a, is_one, last = tilted_chunk(zero, one, is_soft, summary)
    sign = tl.where(is_one, -1.0, 1.0).to(tl.float64)
    height = tl.zeros([J], tl.float64)
    if tl.load(last + 4) > SMOOTH:
        terms = tl.load(last + 5).to(tl.int32)
        for i in range(0, terms + 1):
            row = shape + 2 * (terms - i)
            height = height * a + tl.load(row) + sign * tl.load(row + 1)
    else:
        for wave in range(0, F):
            row = shape + wave
            constant_part = tl.load(row) + sign * tl.load(row + F)
            slope = tl.load(row + 2 * F) + sign * tl.load(row + 3 * F)
            height += (constant_part + a * slope) / (1.0 - 2.0 * a * (1.0 - a) * tl.load(row + 4 * F))
    q = marginal(a, height, is_one, zero, one, tl.load(last + 6))
    tl.store(marginals + problem * L + j, tl.where(j < length, q, 0.0), mask=j < L)
