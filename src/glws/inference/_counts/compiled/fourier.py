"""Compiled: window sums of the law of a count from its characteristic function.

Shapes: F frequencies, n instances. With u = 1 - e^{it} and signed small sides (see `tilting`), an instance contributes
1 - a u to the characteristic function when r = a, and e^{it} (1 - a conj(u)) when r = 1 - a. We keep

    ψ(t) = e^{-it center} φ(t),        Ω(t) = Σ_d ω(center + d) e^{-itd},        t_l = 2πl/N,  N odd.

`waves` has four rows: sin t_l, 1 - cos t_l, and the real and imaginary part of ψ, later of ψΩ.
"""

from __future__ import annotations

import math

import numpy as np

from glws.inference._counts.compiled.numeric import Vector, kernel, summing_kernel

# Truncated parts are below e^-36 = 2e-16 (aliases) and e^-40 (frequencies).
_ALIAS_NATS = 36.0
_FREQUENCY_NATS = 40.0
_BLOCK = 256


@kernel
def reach(variance: float) -> int:
    """R with P(|S - mean| >= R) below the alias level, by Bennett: V h(R/V) = 36, h(x) = (1+x) log(1+x) - x."""
    v = max(variance, 1e-30)
    x = (12.0 + math.sqrt(144.0 + 72.0 * v)) / v  # Bernstein's solution lies above; Newton descends from there
    for _ in range(4):
        x -= ((1.0 + x) * math.log1p(x) - x - _ALIAS_NATS / v) / math.log1p(x)
    return int(v * x) + 1


@kernel
def num_points(variance: float, n: int, half_width: int) -> int:
    """An odd N without aliases in the window; n + 1 points never have aliases."""
    wanted = reach(variance) + half_width + 3 + int(0.25 * math.sqrt(variance))
    return min(wanted, n + 1) | 1


@kernel
def num_frequencies(points: int, variance: float) -> int:
    """Number of frequencies 0 <= t_l < π that are needed: |φ(t)| <= exp(-V (1 - cos t))."""
    count = (points + 1) // 2
    depth = _FREQUENCY_NATS / max(variance, 1.0)
    if depth >= 2.0:
        return count
    return min(count, int(math.acos(1.0 - depth) * points / (2.0 * math.pi)) + 1)


@kernel
def make_waves(points: int, variance: float) -> Vector:
    """Rows: sin(t_l), 1 - cos(t_l), and two to be filled."""
    waves = np.empty((4, num_frequencies(points, variance)))
    step_sine, step_cosine = math.sin(math.pi / points), math.cos(math.pi / points)
    half_sine, half_cosine = 0.0, 1.0  # of t/2, turned step by step
    for wave in range(waves.shape[1]):
        waves[0, wave] = 2.0 * half_sine * half_cosine
        waves[1, wave] = 2.0 * half_sine * half_sine
        half_sine, half_cosine = (
            half_sine * step_cosine + half_cosine * step_sine,
            half_cosine * step_cosine - half_sine * step_sine,
        )
    return waves


@kernel
def angle(points: int, wave: int, shift: int) -> float:
    """shift * t_wave, reduced exactly."""
    return 2.0 * math.pi * ((wave * shift) % points) / points


@kernel
def pair(g: float, h: float, sine: float, versine: float) -> tuple[float, float]:
    """Product of two factors 1 - a u, each conjugated where its signed small side is negative."""
    g_real, g_imag = 1.0 - abs(g) * versine, g * sine
    h_real, h_imag = 1.0 - abs(h) * versine, h * sine
    return g_real * h_real - g_imag * h_imag, g_real * h_imag + g_imag * h_real


@kernel
def multiply_four(
    a: float, b: float, c: float, d: float, sine: Vector, versine: Vector, real: Vector, imag: Vector
) -> None:
    """Multiply all frequencies by the factors of four instances, given by their signed small sides."""
    for wave in range(real.size):
        first_real, first_imag = pair(a, b, sine[wave], versine[wave])
        second_real, second_imag = pair(c, d, sine[wave], versine[wave])
        four_real = first_real * second_real - first_imag * second_imag
        four_imag = first_real * second_imag + first_imag * second_real
        before = real[wave]
        real[wave] = before * four_real - imag[wave] * four_imag
        imag[wave] = before * four_imag + imag[wave] * four_real


@kernel
def psi_by_product(small: Vector, waves: Vector) -> None:
    """Π_j of the factors at all frequencies; four instances at a time, a missing one is 0."""
    sine, versine, real, imag = waves[0], waves[1], waves[2], waves[3]
    real[:] = 1.0
    imag[:] = 0.0
    n = small.size
    whole = n - n % 4
    for j in range(0, whole, 4):
        multiply_four(small[j], small[j + 1], small[j + 2], small[j + 3], sine, versine, real, imag)
    for j in range(whole, n):
        multiply_four(small[j], 0.0, 0.0, 0.0, sine, versine, real, imag)


@kernel
def rotate(points: int, shift: int, waves: Vector) -> None:
    """Multiply frequency l by e^{i t_l shift}."""
    real, imag = waves[2], waves[3]
    for wave in range(real.size):
        phase = angle(points, wave, shift)
        cosine, sine = math.cos(phase), math.sin(phase)
        before = real[wave]
        real[wave] = before * cosine - imag[wave] * sine
        imag[wave] = before * sine + imag[wave] * cosine


@summing_kernel
def add_powers(small: Vector, power: Vector, sums: Vector) -> None:
    """Add Σ a^k to sums[0, k] and Σ sign(g) a^k to sums[1, k], k >= 1, over one block."""
    for j in range(small.size):
        power[j] = 1.0
    for k in range(1, sums.shape[1]):
        plain = 0.0
        signed = 0.0
        for j in range(small.size):
            signed += power[j] * small[j]
            power[j] *= abs(small[j])
            plain += power[j]
        sums[0, k] += plain
        sums[1, k] += signed


@kernel
def power_sums(small: Vector, sums: Vector) -> None:
    """Σ_j a_j^k and Σ_j sign(g_j) a_j^k for k = 1 .. columns - 1."""
    power = np.empty(_BLOCK)
    sums[:] = 0.0
    for start in range(0, small.size, _BLOCK):
        add_powers(small[start : start + _BLOCK], power, sums)


@kernel
def sine_defect(t: float, sine: float) -> float:
    """t - sin t without cancellation."""
    if t > 0.25:
        return t - sine
    square = t * t
    return t * square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110))))


@kernel
def psi_by_power_sums(sums: Vector, shift: int, points: int, waves: Vector) -> None:
    """log ψ = -Σ_k (A_k u^k + B_k conj(u)^k) / k + i t shift, A and B the power sums of the two signs.

    `shift` is the number of r_j > 1/2 minus the center. The first imaginary terms nearly cancel, so they are combined:
    t shift + sin t (A_1 - B_1) = (t - sin t) shift + sin t (mean - center).
    """
    sine, versine, real, imag = waves[0], waves[1], waves[2], waves[3]
    off_center = shift + sums[1, 1]
    for wave in range(real.size):
        t = 2.0 * math.pi * wave / points
        u = complex(versine[wave], -sine[wave])
        log_real = -sums[0, 1] * versine[wave]
        log_imag = off_center * sine[wave] + shift * sine_defect(t, sine[wave])
        power = u
        for k in range(2, sums.shape[1]):
            power = power * u
            log_real -= sums[0, k] * power.real / k
            log_imag -= sums[1, k] * power.imag / k
        size = math.exp(log_real)
        real[wave] = size * math.cos(log_imag)
        imag[wave] = size * math.sin(log_imag)


@kernel
def geometric_transform(t: float, last: float, rate: float, width: int, side: int) -> complex:
    """Σ_{d=0}^{width} e^{-(rate + i side t) d} in closed form; `last` is (width + 1) t, t is not 0."""
    decay, cut = math.exp(-rate), math.exp(-rate * (width + 1))
    above = complex(1.0 - cut * math.cos(last), side * cut * math.sin(last))
    half = math.sin(0.5 * t)  # 1 - e^{-rate} cos t = (1 - e^{-rate}) + e^{-rate} 2 sin²(t/2)
    below = complex(-math.expm1(-rate) + 2.0 * decay * half * half, side * decay * math.sin(t))
    return above / below


@kernel
def apply_geometric(points: int, first: int, width: int, rate: float, side: int, waves: Vector) -> None:
    """Multiply by Ω of weights e^{-rate (d - first)} at center + side * d, d = first .. first + width."""
    real, imag = waves[2], waves[3]
    real[0] *= geometric_sum(rate, width)
    imag[0] = 0.0
    for wave in range(1, real.size):
        turn = -side * angle(points, wave, first)
        transform = geometric_transform(angle(points, wave, 1), angle(points, wave, width + 1), rate, width, side)
        value = complex(real[wave], imag[wave]) * transform * complex(math.cos(turn), math.sin(turn))
        real[wave], imag[wave] = value.real, value.imag


@kernel
def geometric_sum(rate: float, width: int) -> float:
    """Σ_{d=0}^{width} e^{-rate d}."""
    if rate * (width + 1) < 1e-12:
        return width + 1.0
    return math.expm1(-rate * (width + 1)) / math.expm1(-rate)


@kernel
def unit_circle(points: int) -> tuple[Vector, Vector]:
    """cos and sin of 2πi/N for i = 0 .. N-1."""
    cosine, sine = np.empty(points), np.empty(points)
    for step in range(points):
        cosine[step] = math.cos(2.0 * math.pi * step / points)
        sine[step] = math.sin(2.0 * math.pi * step / points)
    return cosine, sine


@kernel
def window_law(points: int, first: int, size: int, waves: Vector, cosine: Vector, sine: Vector) -> Vector:
    """P_θ(S = center + d) for d = first .. first + size - 1, by the inverse transform of ψ on the unit circle."""
    law = np.full(size, waves[2, 0])
    for wave in range(1, waves.shape[1]):
        place = (wave * first) % points
        for d in range(size):
            law[d] += 2.0 * (waves[2, wave] * cosine[place] + waves[3, wave] * sine[place])
            place += wave
            if place >= points:
                place -= points
    return law / points


@kernel
def apply_weights(points: int, weights: Vector, first: int, waves: Vector, cosine: Vector, sine: Vector) -> None:
    """Multiply by Ω of the weights at center + first, center + first + 1, ...: a plain sum on the unit circle."""
    real, imag = waves[2], waves[3]
    for wave in range(real.size):
        place = (wave * first) % points
        total_real = 0.0
        total_imag = 0.0
        for d in range(weights.size):
            total_real += weights[d] * cosine[place]
            total_imag -= weights[d] * sine[place]
            place += wave
            if place >= points:
                place -= points
        before = real[wave]
        real[wave] = before * total_real - imag[wave] * total_imag
        imag[wave] = before * total_imag + imag[wave] * total_real


@kernel
def window_mass(points: int, waves: Vector) -> float:
    """Z_θ = Σ_k ω(k) P_θ(S = k); afterwards the arrays hold the terms of that sum divided by it."""
    mass: float = waves[2, 0]
    for wave in range(1, waves.shape[1]):
        mass += 2.0 * waves[2, wave]
    for wave in range(waves.shape[1]):
        scale = (2.0 if wave > 0 else 1.0) / mass
        waves[2, wave] *= scale
        waves[3, wave] *= scale
    return mass / points


@summing_kernel
def one_sided_sum(a: float, constant: Vector, linear: Vector, versine: Vector) -> float:
    """Σ_l (constant_l + a linear_l) / |1 - a u_l|²."""
    total = 0.0
    doubled = 2.0 * a * (1.0 - a)
    for wave in range(versine.size):
        total += (constant[wave] + a * linear[wave]) / (1.0 - doubled * versine[wave])
    return total


@kernel
def rational_coefficients(waves: Vector) -> Vector:
    """Rows: constant and linear coefficient of the numerators of `one_sided_sum`, for r = a; the same for r = 1 - a.

    Re[T e^{it} / (1 - a u)] = Re[T e^{it} (1 - a conj(u))] / |1 - a u|², and conjugates on the other side.
    """
    rows = np.empty((4, waves.shape[1]))
    for wave in range(waves.shape[1]):
        sine, versine, real, imag = waves[0, wave], waves[1, wave], waves[2, wave], waves[3, wave]
        turned = complex(1.0 - versine, sine)
        slope = turned * complex(-versine, -sine)
        rows[0, wave] = real * turned.real - imag * turned.imag
        rows[1, wave] = real * slope.real - imag * slope.imag
        rows[2, wave] = real * turned.real + imag * turned.imag
        rows[3, wave] = real * slope.real + imag * slope.imag
    return rows


@kernel
def posteriors_by_sums(row: Vector, waves: Vector) -> None:
    """Replace the signed small sides by the posteriors: q = a h where r = a, 1 - a h where r = 1 - a.

    h = Σ_l Re[T_l e^{it} / (1 - a u)], or Σ_l Re[T_l e^{-it} / (1 - a conj(u))], T the terms left by `window_mass`.
    """
    versine, coefficients = waves[1], rational_coefficients(waves)
    rising, rising_slope, falling, falling_slope = coefficients[0], coefficients[1], coefficients[2], coefficients[3]
    for j in range(row.size):
        a = abs(row[j])
        if row[j] > 0:
            row[j] = min(max(a * one_sided_sum(a, rising, rising_slope, versine), 0.0), 1.0)
        else:
            row[j] = min(max(1.0 - a * one_sided_sum(a, falling, falling_slope, versine), 0.0), 1.0)


@kernel
def polynomial(waves: Vector, even: Vector, odd: Vector) -> None:
    """Coefficients of q as a polynomial in a: even_k ± odd_k = Re[Σ_l T_l e^{±it} u^k or conj(u)^k]."""
    sine, versine, real, imag = waves[0], waves[1], waves[2], waves[3]
    even[:] = 0.0
    odd[:] = 0.0
    for wave in range(real.size):
        u = complex(versine[wave], -sine[wave])
        power = complex(1.0 - versine[wave], sine[wave])
        for k in range(even.size):
            even[k] += real[wave] * power.real
            odd[k] -= imag[wave] * power.imag
            power = power * u


@summing_kernel
def horner_step(small: Vector, rising: float, falling: float, value: Vector) -> None:
    """value = value a + coefficient, the coefficient by the side of the instance."""
    for j in range(small.size):
        value[j] = value[j] * abs(small[j]) + (rising if small[j] > 0 else falling)


@kernel
def evaluate_block(row: Vector, even: Vector, odd: Vector, value: Vector) -> None:
    """Horner's rule over one block, then q = a h on one side and 1 - a h on the other, in place."""
    value[:] = 0.0
    for k in range(even.size - 1, -1, -1):
        horner_step(row, even[k] + odd[k], even[k] - odd[k], value)
    for j in range(row.size):
        share = min(max(abs(row[j]) * value[j], 0.0), 1.0)
        row[j] = share if row[j] > 0 else 1.0 - share


@kernel
def posteriors_by_polynomial(row: Vector, even: Vector, odd: Vector) -> None:
    """Replace the signed small sides by the posteriors, from the coefficients of `polynomial`."""
    value = np.empty(_BLOCK)
    for start in range(0, row.size, _BLOCK):
        block = row[start : start + _BLOCK]
        evaluate_block(block, even, odd, value[: block.size])
