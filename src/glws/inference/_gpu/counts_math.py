"""Parts of the kernels for hard counts: exactly m of n instances, in float64 whatever the input.

Letters: J instances at a time, F frequencies (never more than 27 matter, see `frequencies`). The method is that of
`counts.tilting` and `counts.characteristic`: with z the log-odds, x = z - pivot + θ and a = min(σ(x), 1 - σ(x)) the
small side of an instance, u = 1 - e^{it}, t_l = 2πl/N, an instance contributes 1 - a u to the characteristic function
of the count if its more likely label is 0, and e^{it} (1 - a conj(u)) if it is 1.
"""

from __future__ import annotations

from glws._triton import Block, Number, Pointer, constant, jit, tl

# Log-odds beyond this leave too few digits for θ: the search then runs around a pivot.
FAR = constant(1e4)
# Log-potentials beyond this are read as this.
LARGEST = constant(1e290)
# Truncated parts are below e^-36 (aliases), e^-40 (frequencies) and e^-41 (terms of the power series).
ALIAS_NATS = constant(36.0)
FREQUENCY_NATS = constant(40.0)
TERM_NATS = constant(41.0)
# Variance of the tilted count from which power sums replace the product over instances; 24 terms then suffice.
SMOOTH = constant(81.0)
MAX_STEPS = constant(200)
NEWTON_STEPS = constant(12)


@jit
def bounded(value: "Block") -> "Block":
    """Float64 and within ±LARGEST, except -inf, which is the zero of log space, and NaN."""
    value = value.to(tl.float64)
    inside = tl.minimum(tl.maximum(value, -LARGEST), LARGEST)
    return tl.where((value == -float("inf")) | (value != value), value, inside)


@jit
def read(log_zero: "Pointer", log_one: "Pointer", place: "Block", is_real: "Block") -> "Block":
    """Both log-potentials, and whether both labels are possible; padding has the label 0 and weight 1."""
    zero = bounded(tl.load(log_zero + place, mask=is_real, other=0.0))
    one = bounded(tl.load(log_one + place, mask=is_real, other=-float("inf")))
    return zero, one, (zero > -float("inf")) & (one > -float("inf"))


@jit
def settled_part(zero: "Block", one: "Block", is_soft: "Block") -> "Block":
    """Contribution of a decided instance to the log-likelihood: -inf without a possible label, NaN after NaN."""
    possible = tl.where(zero > one, zero, one)
    possible = tl.where((zero != zero) | (one != one), float("nan"), possible)
    return tl.where(is_soft, 0.0, possible)


@jit
def small_side(x: "Block") -> "Block":
    """min(σ(x), 1 - σ(x)); e^-600 is negligible next to 1."""
    e = tl.exp(-tl.minimum(tl.abs(x), 600.0))
    return e / (1.0 + e)


@jit
def log_of_rest(a: "Block") -> "Block":
    """log(1 - a), with all digits for small a: the rounding of 1 - a is corrected to first order."""
    rest = 1.0 - a
    return tl.log(rest) - ((rest - 1.0) + a) / rest


@jit
def moments(zero: "Block", one: "Block", is_soft: "Block", theta: "Number", pivot: "Number") -> "Block":
    """Σ r and Σ r (1 - r) as terms, r = σ(x)."""
    x = one - zero - pivot + theta
    a = small_side(x)
    mean = tl.where(x > 0, 1.0 - a, a)
    return tl.where(is_soft, mean, 0.0), tl.where(is_soft, a * (1.0 - a), 0.0)


@jit
def is_near(mean: "Number", variance: "Number", target: "Number") -> "Number":
    """Whether the mean is close enough: a quarter of σ costs no accuracy."""
    return tl.abs(mean - target) <= 0.02 + 0.25 * tl.sqrt(variance)


@jit
def next_theta(
    theta: "Number",
    low: "Number",
    high: "Number",
    step: "Number",
    mean: "Number",
    variance: "Number",
    target: "Number",
    n: "Number",
) -> "Number":
    """A better θ and the bracket around it: Newton for the logit of the mean, else doubling or bisection."""
    low = tl.where(mean < target, theta, low)
    high = tl.where(mean < target, high, theta)
    aim = tl.minimum(tl.maximum(target, 0.01), n - 0.01)
    distance = tl.log(aim / (n - aim)) - tl.log(mean / (n - mean))
    proposal = theta + distance * mean * (1.0 - mean / n) / variance
    stride = tl.exp(0.6931471805599453 * (tl.minimum(step, 900) + 2).to(tl.float64))  # 4, 8, 16, ...
    is_open = (low == -float("inf")) | (high == float("inf"))
    doubled = tl.where(high == float("inf"), theta + stride, theta - stride)
    cautious = tl.where(is_open, doubled, 0.5 * low + 0.5 * high)
    is_safe = (low < proposal) & (proposal < high) & (tl.abs(proposal - theta) <= stride) & (step < NEWTON_STEPS)
    return tl.where(is_safe, proposal, cautious), low, high


@jit
def moments_of_row(
    zero_row: "Pointer",
    one_row: "Pointer",
    count: "Number",
    stride: "Number",
    theta: "Number",
    pivot: "Number",
    J: tl.constexpr,
) -> "Number":
    """Mean and variance of the count over `count` instances, `stride` apart."""
    mean, variance = tl.zeros([J], tl.float64), tl.zeros([J], tl.float64)
    for begin in range(0, count, J):
        j = begin + tl.arange(0, J)
        zero, one, is_soft = read(zero_row, one_row, j.to(tl.int64) * stride, j < count)
        mean_here, variance_here = moments(zero, one, is_soft, theta, pivot)
        mean += mean_here
        variance += variance_here
    return tl.sum(mean, 0), tl.sum(variance, 0)


@jit
def search(
    zero_row: "Pointer",
    one_row: "Pointer",
    count: "Number",
    stride: "Number",
    theta: "Number",
    pivot: "Number",
    target: "Number",
    n: "Number",
    is_open: "Number",
    J: tl.constexpr,
) -> "Number":
    """θ with the mean near the target, and the variance there; θ unchanged if the problem is not open."""
    low, high = tl.full([], -float("inf"), tl.float64), tl.full([], float("inf"), tl.float64)
    mean, variance = moments_of_row(zero_row, one_row, count, stride, theta, pivot, J)
    step = 0
    while is_open & (step < MAX_STEPS) & (is_near(mean, variance, target) == 0):
        theta, low, high = next_theta(theta, low, high, step, mean, variance, target, n)
        mean, variance = moments_of_row(zero_row, one_row, count, stride, theta, pivot, J)
        step += 1
    return theta, variance


@jit
def order_key(value: "Block") -> "Block":
    """An integer for each float, in the same order."""
    bits = value.to(tl.int64, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)


@jit
def select_pivot(
    zero_row: "Pointer", one_row: "Pointer", length: "Number", place: "Number", J: tl.constexpr
) -> "Number":
    """The place-th largest log-odds, place = 1, 2, ...: its bits, from the highest on, by counting larger values.

    Around it |θ| <= log n + 4 always suffices, so θ keeps all its digits.
    """
    chosen = tl.full([], -0x8000000000000000, tl.int64)
    for i in range(0, 64):
        candidate = chosen ^ (tl.full([], 1, tl.int64) << (63 - i))
        found = tl.zeros([J], tl.int32)
        for begin in range(0, length, J):
            j = begin + tl.arange(0, J)
            zero, one, is_soft = read(zero_row, one_row, j, j < length)
            found += (is_soft & (order_key(one - zero) >= candidate)).to(tl.int32)
        chosen = tl.where(tl.sum(found, 0) >= place, candidate, chosen)
    bits = tl.where(chosen < 0, chosen ^ 0x7FFFFFFFFFFFFFFF, chosen)
    return bits.to(tl.float64, bitcast=True)


@jit
def num_points(variance: "Number", n: "Number") -> "Number":
    """N: odd, and so large that no alias meets the law of the count.

    P(|S - mean| >= R) is below the alias level by Bennett: V h(R/V) = 36, h(x) = (1+x) log(1+x) - x.
    """
    v = tl.maximum(variance, 1e-30)
    x = (12.0 + tl.sqrt(144.0 + 72.0 * v)) / v  # Bernstein's solution lies above; Newton descends from there
    for _ in tl.static_range(4):
        log = tl.log(1.0 + x)
        x -= ((1.0 + x) * log - x - ALIAS_NATS / v) / log
    wanted = (v * x).to(tl.int64) + 4 + (0.25 * tl.sqrt(variance)).to(tl.int64)
    return tl.minimum(wanted, n + 1) | 1


@jit
def frequencies(points: "Number", variance: "Number", F: tl.constexpr) -> "Block":
    """sin t, 1 - cos t, and the weight of a frequency: 1 for t = 0, 2 for pairs ±t, 0 if negligible.

    |φ(t)| <= exp(-V (1 - cos t)); the number above e^-40 is largest, 27, at V = 20, where N is 53.
    """
    wave = tl.arange(0, F)
    half = 3.141592653589793 * wave.to(tl.float64) / points.to(tl.float64)
    sine, versine = tl.sin(2.0 * half), 2.0 * tl.sin(half) * tl.sin(half)
    is_used = (2 * wave < points) & (variance * versine <= FREQUENCY_NATS)
    share = tl.where(is_used, tl.where(wave > 0, 2.0, 1.0), 0.0)
    return sine, versine, share


@jit
def multiply(a: "Block", b: "Block", c: "Block", d: "Block") -> "Block":
    """(a + ib) (c + id)."""
    return a * c - b * d, a * d + b * c


@jit
def rotated(real: "Block", imag: "Block", shift: "Number", points: "Number", F: tl.constexpr) -> "Block":
    """Times e^{i t shift}, the angle reduced exactly."""
    turn = (tl.arange(0, F) * shift) % points
    angle = 6.283185307179586 * turn.to(tl.float64) / points.to(tl.float64)
    return multiply(real, imag, tl.cos(angle), tl.sin(angle))


@jit
def rational_rows(real: "Block", imag: "Block", sine: "Block", versine: "Block") -> "Block":
    """Coefficients of h: even + s odd + a (even slope + s odd slope), s = 1 if the more likely label is 0, else -1.

    Re[T e^{it} / (1 - a u)] = Re[T e^{it} (1 - a conj(u))] / |1 - a u|², and conjugates for s = -1.
    """
    cosine = 1.0 - versine
    slope_real, slope_imag = multiply(cosine, sine, -versine, -sine)
    return real * cosine, -imag * sine, real * slope_real, -imag * slope_imag


@jit
def rational_height(
    a: "Block", sign: "Block", versine: "Block", even: "Block", odd: "Block", even_slope: "Block", odd_slope: "Block"
) -> "Block":
    """h [J] = Σ_l of the fractions, rows [F]."""
    a, s = a[None, :], sign[None, :]
    above = even[:, None] + s * odd[:, None] + a * (even_slope[:, None] + s * odd_slope[:, None])
    return tl.sum(above / (1.0 - 2.0 * a * (1.0 - a) * versine[:, None]), 0)


@jit
def marginal(a: "Block", height: "Block", is_one: "Block", zero: "Block", one: "Block", log_z: "Number") -> "Block":
    """q = a h, or 1 - a h if the more likely label is 1; 0 or 1 if decided, 0 if impossible, NaN after NaN."""
    share = tl.minimum(tl.maximum(a * height, 0.0), 1.0)
    q = tl.where(is_one, 1.0 - share, share)
    is_soft = (zero > -float("inf")) & (one > -float("inf"))
    q = tl.where(is_soft, q, tl.where(zero == -float("inf"), 1.0, 0.0))
    return tl.where(log_z != log_z, float("nan"), tl.where(log_z == -float("inf"), 0.0, q))
