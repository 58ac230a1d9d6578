"""Kernels: forward and backward over the trellis in linear space, the state vectors on chip.

Letters: G groups, L instances, K classes; a program takes B groups and has C = B * S cells, one for each state of each
of its groups; D, R and S as in `tables`; P is K padded to a power of two. There are at least P states, and cell k of a
group also stands for class k. With φ_j(k) = exp(potential - largest of j):

    α_0 = start     α_{j+1}(t) = c_j Σ_d w φ_j(symbol_d) α_j(source_d)
    β_L = final     β_j(s)     = e_j Σ_r w φ_j(r % P) β_{j+1}(target_r)
    q_j(k) ∝ φ_j(k) Σ_s α_j(s) Σ_{r % P = k} w β_{j+1}(target_r)

The scales c_j and e_j are powers of two that undo the size of the vector *before* the step, so that no step waits for
its own largest entry. A step's inputs are requested at least four steps before, because a memory access takes the time
of several steps. Weights, potentials and vectors are at most about 1, all terms are positive, so a term flushed
to zero is below the smallest normal number, and it can matter in a row only if the sum of that row
before it is normalized is small. Groups with such a row are flagged, and solved again in log space.
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, jit, tl


@jit
def prepare(
    potentials: "Pointer",
    lengths: "Pointer",
    phi: "Pointer",
    shift: "Pointer",
    L: "Number",
    K: "Number",
    P: tl.constexpr,
    T: tl.constexpr,
) -> None:
    """φ of one group, T instances at a time, and the sum of the shifts, times 2^-30 to stay finite."""
    group = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + group)
    symbol = tl.arange(0, P)
    total_shift = tl.zeros([T], tl.float64)
    for begin in range(0, length, T):
        step = begin + tl.arange(0, T)
        place = (group * L + step[:, None]) * K + symbol[None, :]
        here = (step < length)[:, None] & (symbol < K)[None, :]
        value = tl.load(potentials + place, mask=here, other=-float("inf"))
        top = tl.max(value, 1)
        top = tl.where(top == -float("inf"), 0.0, top)
        tl.store(phi + place, tl.exp(value - top[:, None]), mask=here)
        total_shift += top.to(tl.float64) * 9.313225746154785e-10
    tl.store(shift + group, tl.sum(total_shift, 0))


@jit
def largest(vector: "Block", B: tl.constexpr, S: tl.constexpr) -> "Block":
    """The largest entry of each group's state vector, in all cells of the group [C]."""
    top = tl.max(tl.reshape(vector, [B, S]), 1)
    return tl.reshape(tl.broadcast_to(top[:, None], [B, S]), [B * S])


@jit
def exponent(value: "Block") -> "Block":
    """e with 2^e <= value < 2^(e+1), from the bits of a positive float; the least one for 0."""
    if value.dtype == tl.float64:
        return (value.to(tl.int64, bitcast=True) >> 52).to(tl.int32) - 1023
    else:
        return (value.to(tl.int32, bitcast=True) >> 23) - 127


@jit
def minus_power_of_two(e: "Block", like: "Block") -> "Block":
    """2^-e in the type of `like`."""
    if like.dtype == tl.float64:
        return ((1023 - e).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((127 - e) << 23).to(tl.float32, bitcast=True)


@jit
def group_sum(vector: "Block", B: tl.constexpr, S: tl.constexpr) -> "Block":
    """The sum of each group's state vector, in all cells of the group [C]."""
    total = tl.sum(tl.reshape(vector, [B, S]), 1)
    return tl.reshape(tl.broadcast_to(total[:, None], [B, S]), [B * S])


@jit
def fold(rows: "Block", cell: "Block", bit: tl.constexpr) -> "Block":
    """Rows [2n, C] to [n, C]: of each pair of cells, one takes the first n rows, the other the last n."""
    N: tl.constexpr = rows.shape[0] // 2
    C: tl.constexpr = rows.shape[1]
    first, last = tl.split(tl.permute(tl.reshape(rows, [2, N, C]), [1, 2, 0]))
    is_second = ((cell & bit) > 0)[None, :]
    partner = tl.broadcast_to((cell ^ bit)[None, :], [N, C])
    return tl.where(is_second, last, first) + tl.gather(tl.where(is_second, first, last), partner, 1)


@jit
def sums_by_symbol(shares: "Block", cell: "Block", S: tl.constexpr, P: tl.constexpr) -> "Block":
    """Σ over the states of a group of shares [R, C], by class [C]: cell s has class s % P.

    Halves of the rows are exchanged between neighbors, so that 2 P numbers move instead of P log S.
    """
    R: tl.constexpr = shares.shape[0]
    C: tl.constexpr = shares.shape[1]
    rows = tl.sum(tl.reshape(shares, [R // P, P, C]), 0)
    for _ in tl.static_range(10):
        if rows.shape[0] > 1:
            rows = fold(rows, cell, rows.shape[0] // 2)
    for i in tl.static_range(10):  # more states than classes: the rest is summed up in every cell
        if P << i < S:
            rows += tl.gather(rows, (cell ^ (P << i))[None, :], 1)
    return tl.reshape(rows, [C])


@jit
def spread(vector: "Block", places: "Block") -> "Block":
    """vector[places], for places [rows, C]."""
    return tl.gather(tl.broadcast_to(vector[None, :], places.shape), places, 1)


@jit
def forward_step(
    alpha: "Block",
    scale: "Block",
    phi: "Block",
    origin: "Block",
    symbol: "Block",
    weight: "Block",
    is_real: "Block",
    B: tl.constexpr,
    S: tl.constexpr,
) -> "Block":
    """α_{j+1} from α_j, and the exponent divided out so far."""
    arrived = tl.sum(spread(alpha, origin) * (spread(phi, symbol) * weight), 0)
    e = exponent(largest(alpha, B, S))
    return tl.where(is_real, arrived * minus_power_of_two(e, alpha), alpha), scale + tl.where(is_real, e, 0)


@jit
def forward(
    phi: "Pointer",
    lengths: "Pointer",
    shift: "Pointer",
    index: "Pointer",
    source: "Pointer",
    symbol: "Pointer",
    weight: "Pointer",
    log_start: "Pointer",
    log_final: "Pointer",
    log_scale: "Pointer",
    alphas: "Pointer",
    log_likelihood: "Pointer",
    is_flagged: "Pointer",
    G: "Number",
    L: "Number",
    K: "Number",
    least: tl.constexpr,
    B: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
) -> None:
    """α_0 .. α_{L-1} [G, L, S] and log Z; flags groups whose last sum is below `least`."""
    cell = tl.arange(0, B * S)
    group = (tl.program_id(0) * B + cell // S).to(tl.int64)
    state = cell % S
    is_group = group < G
    length = tl.load(lengths + group, mask=is_group, other=0).to(tl.int32)
    machine = tl.load(index + group, mask=is_group, other=0)
    slot = (machine[None, :] * D + tl.arange(0, D)[:, None]) * S + state[None, :]  # [D, C]
    base = (cell // S * S)[None, :]
    origin, arc_symbol = tl.load(source + slot) + base, tl.load(symbol + slot) + base
    arc_weight = tl.exp(tl.load(weight + slot)).to(phi.dtype.element_ty)

    row, answer, reach = phi + group * L * K + state, alphas + group * L * S + state, tl.where(state < K, length, 0)
    alpha = tl.exp(tl.load(log_start + machine * S + state)).to(phi.dtype.element_ty)
    scale = tl.zeros([B * S], tl.int32)
    next_0 = tl.load(row, mask=reach > 0, other=0.0)
    next_1 = tl.load(row + K, mask=reach > 1, other=0.0)
    next_2 = tl.load(row + 2 * K, mask=reach > 2, other=0.0)
    next_3 = tl.load(row + 3 * K, mask=reach > 3, other=0.0)
    for j in range(0, tl.max(length, 0), 4):
        now_0, now_1, now_2, now_3 = next_0, next_1, next_2, next_3
        next_0 = tl.load(row + (j + 4) * K, mask=j + 4 < reach, other=0.0)
        next_1 = tl.load(row + (j + 5) * K, mask=j + 5 < reach, other=0.0)
        next_2 = tl.load(row + (j + 6) * K, mask=j + 6 < reach, other=0.0)
        next_3 = tl.load(row + (j + 7) * K, mask=j + 7 < reach, other=0.0)
        tl.store(answer + j * S, alpha, mask=j < length)
        alpha, scale = forward_step(alpha, scale, now_0, origin, arc_symbol, arc_weight, j < length, B, S)
        tl.store(answer + (j + 1) * S, alpha, mask=j + 1 < length)
        alpha, scale = forward_step(alpha, scale, now_1, origin, arc_symbol, arc_weight, j + 1 < length, B, S)
        tl.store(answer + (j + 2) * S, alpha, mask=j + 2 < length)
        alpha, scale = forward_step(alpha, scale, now_2, origin, arc_symbol, arc_weight, j + 2 < length, B, S)
        tl.store(answer + (j + 3) * S, alpha, mask=j + 3 < length)
        alpha, scale = forward_step(alpha, scale, now_3, origin, arc_symbol, arc_weight, j + 3 < length, B, S)

    final = tl.exp(tl.load(log_final + machine * S + state)).to(phi.dtype.element_ty)
    total = tl.sum(tl.reshape(alpha * final, [B, S]), 1)
    # Per group again: the first cell of each has its number, length and scale.
    scale = tl.max(tl.reshape(tl.where(state == 0, scale, -2147483648), [B, S]), 1)
    one = tl.program_id(0) * B + tl.arange(0, B)
    length = tl.load(lengths + one, mask=one < G, other=0)
    machine = tl.load(index + one, mask=one < G, other=0)
    total_shift = tl.load(shift + one, mask=one < G, other=0.0)
    total_shift = tl.minimum(tl.maximum(total_shift, -1e298), 1e298) * 1073741824.0
    weights = tl.load(log_scale + 2 * machine) + tl.load(log_scale + 2 * machine + 1) * length
    log_z = tl.log(total.to(tl.float64)) + scale.to(tl.float64) * 0.6931471805599453 + weights + total_shift
    tl.store(log_likelihood + one, log_z, mask=one < G)
    tl.store(is_flagged + one, (total < least).to(tl.int32), mask=one < G)


@jit
def backward_step(
    beta: "Block",
    smallest: "Block",
    alpha: "Block",
    phi: "Block",
    goal: "Block",
    symbol: "Block",
    weight: "Block",
    answer: "Pointer",
    is_real: "Block",
    is_answer: "Block",
    cell: "Block",
    B: tl.constexpr,
    S: tl.constexpr,
    P: tl.constexpr,
) -> "Block":
    """β_j from β_{j+1}, and the smallest row sum so far; writes q_j."""
    onward = spread(beta, goal) * (spread(phi, symbol) * weight)
    arrived = tl.sum(onward, 0)
    total = group_sum(arrived * alpha, B, S)
    share = sums_by_symbol(onward * alpha[None, :], cell, S, P)
    tl.store(answer, tl.where(is_real, share / tl.where(total > 0, total, 1.0), 0.0), mask=is_answer)
    scaled = arrived * minus_power_of_two(exponent(largest(beta, B, S)), beta)
    return tl.where(is_real, scaled, beta), tl.where(is_real & ~(total >= smallest), total, smallest)


@jit
def backward(
    phi: "Pointer",
    lengths: "Pointer",
    index: "Pointer",
    target: "Pointer",
    weight: "Pointer",
    log_final: "Pointer",
    alphas: "Pointer",
    marginals: "Pointer",
    is_flagged: "Pointer",
    G: "Number",
    L: "Number",
    K: "Number",
    least: tl.constexpr,
    B: tl.constexpr,
    S: tl.constexpr,
    R: tl.constexpr,
    P: tl.constexpr,
) -> None:
    """Marginals [G, L, K], padding included; flags groups with a row whose sum is below `least`."""
    cell = tl.arange(0, B * S)
    group = (tl.program_id(0) * B + cell // S).to(tl.int64)
    state = cell % S
    length = tl.load(lengths + group, mask=group < G, other=0).to(tl.int32)
    machine = tl.load(index + group, mask=group < G, other=0)
    slot = (machine[None, :] * R + tl.arange(0, R)[:, None]) * S + state[None, :]  # [R, C]
    base = (cell // S * S)[None, :]
    goal, arc_symbol = tl.load(target + slot) + base, (tl.arange(0, R) % P)[:, None] + base
    arc_weight = tl.exp(tl.load(weight + slot)).to(phi.dtype.element_ty)

    answer, end = marginals + group * L * K + state, tl.where((group < G) & (state < K), L, 0)
    rounds = (tl.max(length, 0) + 3) // 4
    for j in range(rounds * 4, L):
        tl.store(answer + j * K, tl.zeros([B * S], phi.dtype.element_ty), mask=j < end)

    row, before, reach = phi + group * L * K + state, alphas + group * L * S + state, tl.where(state < K, length, 0)
    beta = tl.exp(tl.load(log_final + machine * S + state)).to(phi.dtype.element_ty)
    smallest = tl.full([B * S], 1.0, phi.dtype.element_ty)
    j = rounds * 4 - 4  # steps j + 3, j + 2, j + 1, j of a round; steps beyond the length are masked
    phi_0, alpha_0 = read_step(row, before, reach, length, j, K, S)
    phi_1, alpha_1 = read_step(row, before, reach, length, j + 1, K, S)
    phi_2, alpha_2 = read_step(row, before, reach, length, j + 2, K, S)
    phi_3, alpha_3 = read_step(row, before, reach, length, j + 3, K, S)
    for _ in range(0, rounds):
        now_0, now_1, now_2, now_3 = phi_0, phi_1, phi_2, phi_3
        then_0, then_1, then_2, then_3 = alpha_0, alpha_1, alpha_2, alpha_3
        phi_3, alpha_3 = read_step(row, before, reach, length, j - 1, K, S)
        phi_2, alpha_2 = read_step(row, before, reach, length, j - 2, K, S)
        phi_1, alpha_1 = read_step(row, before, reach, length, j - 3, K, S)
        phi_0, alpha_0 = read_step(row, before, reach, length, j - 4, K, S)
        beta, smallest = backward_step(
            beta, smallest, then_3, now_3, goal, arc_symbol, arc_weight,
            answer + (j + 3) * K, j + 3 < length, j + 3 < end, cell, B, S, P,
        )  # fmt: skip
        beta, smallest = backward_step(
            beta, smallest, then_2, now_2, goal, arc_symbol, arc_weight,
            answer + (j + 2) * K, j + 2 < length, j + 2 < end, cell, B, S, P,
        )  # fmt: skip
        beta, smallest = backward_step(
            beta, smallest, then_1, now_1, goal, arc_symbol, arc_weight,
            answer + (j + 1) * K, j + 1 < length, j + 1 < end, cell, B, S, P,
        )  # fmt: skip
        beta, smallest = backward_step(
            beta, smallest, then_0, now_0, goal, arc_symbol, arc_weight,
            answer + j * K, j < length, j < end, cell, B, S, P,
        )  # fmt: skip
        j -= 4
    tl.store(is_flagged + group, 1, mask=(group < G) & (state == 0) & ~(smallest >= least))


@jit
def read_step(
    row: "Pointer", before: "Pointer", reach: "Block", length: "Block", j: "Number", K: "Number", S: tl.constexpr
) -> "Block":
    """φ_j and α_j; zeros if there is no instance j."""
    here = tl.maximum(j, 0)  # loaded before the first step, and not used then
    phi = tl.load(row + here * K, mask=here < reach, other=0.0)
    return phi, tl.load(before + here * S, mask=here < length, other=0.0)
