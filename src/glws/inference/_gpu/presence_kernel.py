"""Kernel: none or at least one of some classes, one program per group, formulas as in `closed`."""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, jit, tl


@jit
def log_one_plus(x: "Block") -> "Block":
    """log(1 + x) for x > -1, to the last digits: the quotient corrects the rounding of 1 + x."""
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(tl.where(u == 1.0, 2.0, u)) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@jit
def exp_minus_one(x: "Block") -> "Block":
    """exp(x) - 1 for x <= 0, likewise."""
    u = tl.exp(x)
    is_plain = (u == 1.0) | (u < 0.1)
    middle = (u - 1.0) * (x / tl.log(tl.where(is_plain, 0.5, u)))
    return tl.where(u == 1.0, x, tl.where(u < 0.1, u - 1.0, middle))


@jit
def softplus(x: "Block") -> "Block":
    """log(1 + exp(x)), infinities included."""
    return tl.maximum(x, 0.0) + log_one_plus(tl.exp(-tl.abs(x)))


@jit
def log_any(log_none: "Block", log_expected: "Block") -> "Block":
    """log(1 - exp(log_none)); if that underflows, the sum of the probabilities is as accurate."""
    is_small = log_none > -0.6931471805599453
    near = tl.log(-exp_minus_one(tl.where(is_small & (log_none < 0.0), log_none, -0.5)))
    far = log_one_plus(-tl.exp(tl.where(is_small, -1.0, log_none)))
    return tl.where(log_none < -1e-200, tl.where(is_small, near, far), log_expected)


@jit
def log_mass(top: "Block", safe: "Block", mass: "Block") -> "Block":
    """log of a mass that was divided by exp(safe); -inf without mass."""
    return tl.where(top == -float("inf"), top, tl.log(tl.where(mass > 0.0, mass, 1.0)) + safe)


@jit
def log_sum(x: "Block") -> "Number":
    """log Σ exp(x)."""
    top = tl.max(x, 0)
    safe = tl.where(top == -float("inf"), 0.0, top)
    return log_mass(top, safe, tl.sum(tl.exp(x - safe), 0))


@jit
def log_sums(x: "Block") -> "Block":
    """log Σ exp(x) of each row."""
    top = tl.max(x, 1)
    safe = tl.where(top == -float("inf"), 0.0, top)
    return log_mass(top, safe, tl.sum(tl.exp(x - safe[:, None]), 1))


@jit
def sum_of_others(values: "Block") -> "Block":
    """Σ_{i≠j} values_i of numbers <= 0, where -inf may occur."""
    is_infinite = (values == -float("inf")).to(tl.int32)
    finite = tl.where(is_infinite > 0, 0.0, values)
    rest = tl.minimum(tl.sum(finite, 0) - finite, 0.0)
    return tl.where(tl.sum(is_infinite, 0) - is_infinite > 0, -float("inf"), rest)


@jit
def log_sum_of_others(values: "Block", j: "Block", J: tl.constexpr) -> "Block":
    """log Σ_{i≠j} exp(values_i); the largest is left out explicitly, so that nothing cancels."""
    top = tl.max(values, 0)
    safe = tl.where(top == -float("inf"), 0.0, top)
    largest = tl.min(tl.where(values == top, j, J), 0)
    mass = tl.exp(values - safe)
    less = tl.maximum(tl.sum(mass, 0) - mass, 0.0)
    others = tl.where(less > 0.0, tl.log(tl.where(less > 0.0, less, 1.0)) + safe, -float("inf"))
    return tl.where(j == largest, log_sum(tl.where(j == largest, -float("inf"), values)), others)


@jit
def presence(
    potentials: "Pointer",
    counted: "Pointer",
    log_weights: "Pointer",
    lengths: "Pointer",
    log_likelihood: "Pointer",
    marginals: "Pointer",
    L: "Number",
    K: "Number",
    J: tl.constexpr,
    C: tl.constexpr,
) -> None:
    """log Z and q of one group, all of it at once: J instances by C classes."""
    never = -float("inf")
    group = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + group).to(tl.int32)
    j, k = tl.arange(0, J), tl.arange(0, C)
    real, inside = j < length, k < K
    places = (group * L + j[:, None]) * K + k[None, :]
    x = tl.load(potentials + places, mask=real[:, None] & inside[None, :], other=never).to(tl.float64)
    x = tl.where(x == never, never, tl.minimum(tl.maximum(x, -1e290), 1e290))
    chosen = (tl.load(counted + group * K + k, mask=inside, other=0) != 0) & inside
    rest_x = tl.where((chosen | (k >= K))[None, :], never, x)
    total, some, rest = log_sums(x), log_sums(tl.where(chosen[None, :], x, never)), log_sums(rest_x)
    odds = tl.where(some == rest, 0.0, some - tl.where(some == rest, 0.0, rest))
    log_one = tl.where(real & (some > never), -softplus(-odds), never)
    log_none = tl.where(real, -softplus(odds), 0.0)

    log_some = log_any(tl.sum(log_none, 0), log_sum(log_one))
    log_others = log_any(sum_of_others(log_none), log_sum_of_others(log_one, j, J))
    log_total = tl.sum(tl.where(real, total, 0.0), 0)
    with_none = tl.sum(tl.where(real, rest, 0.0), 0) + tl.load(log_weights + 2 * group)
    with_some = tl.where(log_some > never, log_total + log_some, never) + tl.load(log_weights + 2 * group + 1)
    top = tl.maximum(with_none, with_some)
    safe = tl.where(top == never, 0.0, top)
    none, one = tl.exp(with_none - safe), tl.exp(with_some - safe)
    mass = none + one
    log_z = tl.where(top == never, top, tl.log(tl.where(mass > 0.0, mass, 1.0)) + safe)
    tl.store(log_likelihood + group, log_z.to(log_likelihood.dtype.element_ty))

    mass = tl.where(mass > 0.0, mass, 1.0)
    scale = tl.where(log_some > never, log_some, 0.0)
    factor = tl.where(chosen[None, :], 0.0, log_others[:, None]) - scale
    shares = x - tl.where(total == never, 0.0, total)[:, None]
    q = one / mass * tl.exp(shares + factor)
    own = tl.exp(rest_x - tl.where(rest == never, 0.0, rest)[:, None])
    q = tl.where(one > 0.0, q, 0.0) + tl.where(none > 0.0, none / mass * own, 0.0)
    q = tl.where(real[:, None], tl.where(log_z > never, q, 0.0), 0.0)
    tl.store(marginals + places, q.to(marginals.dtype.element_ty), mask=(j < L)[:, None] & inside[None, :])
