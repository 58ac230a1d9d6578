"""Sums of values on the CPU, compiled: a tilt, then the characteristic function, or a recursion over a window.

S = Σ_j v(y_j) has integer values; ω(s) is 1 for low <= s <= high and exp(-distance / scale) outside. The tilt λ changes
p_j(v) to r_j(v) = p_j(v) e^{λ v} / z_j(λ), so that the mean of S is where the weight is:

    Z = Π_j z_j(λ) · e^{-λ s_0} · E_λ[ω(S) e^{-λ (S - s_0)}]

The expectation is a sum over frequencies t_l = 2π l / N of φ(t_l) = Π_j φ_j(t_l), φ_j(t) = Σ_v r_j(v) e^{itv}, with
N so large that nothing of S is further from its mean (Bernstein), and the posteriors use φ / φ_j. The product is left
as soon as it is negligible, also without its smallest factor. Groups in which a factor is so small that dividing by it
would cost digits, or in which the expectation is small against the rounding of the sum, go to a recursion over the
values of S near its mean, whose terms are all positive.
"""

from __future__ import annotations

import hashlib
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glws.inference._compiled_trellis import vectors
from glws.inference._compiled_trellis.vectors import eight, if_larger, load, spread, store
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import (
    bits_of_float,
    entry_kernel,
    exp_minus_abs,
    float_of_bits,
    kernel,
    summing_kernel,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MIN_FACTOR = 0.1
"""Posteriors are not divided by smaller factors."""
NEGLIGIBLE = 1e-19
"""Smaller products of characteristic functions are left out."""
SAFE_SHARE = 0.5
"""Smaller expectations, times the points of the period, lose digits in the sum, whose terms are up to 1."""
ALIASED, CUT = 46.0, 92.0
"""-log of the probability beyond the period, and beyond the window of the recursion."""
LEAST_EXPECTATION = 1e-24
"""Below this the window of the recursion may have cut too much; it is repeated with all values."""
MAX_FREQUENCIES = 2048
DEEPEST = -590.0
"""Exponentials of numbers below this are overestimated."""
SHORT = 12
"""Shorter groups go to the recursion at once."""
SAMPLE = 4096
"""Longer groups are first searched on so many instances."""
_LN2 = log(2.0)
_MANTISSA, _ONE = (1 << 52) - 1, 1023 << 52


@kernel
def powers(potentials: Floats, p: Floats) -> tuple[float, bool]:
    """p = exp(potential - top of the instance); the sum of the tops, and whether a number that is not 0 underflowed."""
    total, least = 0.0, 0.0
    for j in range(len(potentials)):
        top = -np.inf
        for v in range(potentials.shape[1]):
            top = max(top, np.float64(potentials[j, v]))
        total += top
        for v in range(potentials.shape[1]):
            p[j, v] = potentials[j, v] - top
    flat = p.reshape(-1)
    for i in range(len(flat)):
        value = flat[i]
        power = exp_minus_abs(value)
        least = min(least, value if value > -np.inf else 0.0)
        flat[i] = power if value > -np.inf else 0.0
    return total, least < DEEPEST


@kernel
def tilts(values: Integers, tilt: float, factors: Floats) -> float:
    """factors = e^{λ (v - v_ref)} <= 1, with v_ref an end of the values, which is returned."""
    reference = float(values[-1] if tilt > 0 else values[0])
    for v in range(len(values)):
        factors[v] = exp(tilt * (values[v] - reference))
    return reference


@summing_kernel
def mean_and_variance(p: Floats, values: Integers, factors: Floats, stride: int) -> tuple[float, float]:
    """Mean and variance of S under the tilt, times the stride for every so many-th instance; NaN if one vanished."""
    mean = variance = 0.0
    for j in range(0, len(p), stride):
        total = first = second = 0.0
        for v in range(len(values)):
            share = p[j, v] * factors[v]
            total += share
            first += share * values[v]
            second += share * values[v] * values[v]
        if total < 1e-250:
            return np.nan, np.nan
        first /= total
        mean += first
        variance += max(second / total - first * first, 0.0)
    return mean * stride, variance * stride


@kernel
def find_tilt(
    p: Floats, values: Integers, aim: float, factors: Floats, start: float, stride: int
) -> tuple[float, float, float]:
    """λ with a mean of S near `aim`, by Newton's steps within a bracket, and mean and variance with it."""
    low, high, tilt = -np.inf, np.inf, start
    mean = variance = np.nan
    for _ in range(80):
        tilts(values, tilt, factors)
        mean, variance = mean_and_variance(p, values, factors, stride)
        if not np.isfinite(mean) or abs(mean - aim) <= 0.02 + 0.25 * sqrt(variance):
            break
        if mean < aim:
            low = tilt
        else:
            high = tilt
        step = tilt + (aim - mean) / max(variance, 1e-3)
        limit = 4.0 / (values[-1] - values[0]) + abs(tilt)
        step = min(max(step, tilt - limit), tilt + limit)
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == tilt:
            break
        tilt = step
    return tilt, mean, variance


@kernel
def goal(mean: float, low: float, high: float) -> float:
    """The number of low..high that is nearest to the mean."""
    return min(max(mean, low), high)


@kernel
def chosen_tilt(
    p: Floats, values: Integers, low: float, high: float, scale: float, factors: Floats
) -> tuple[float, float, float]:
    """0 if the mean of S is within low..high, else what moves it there, at most 1 / scale; the moments with it."""
    stride, tilt = max(1, len(p) // SAMPLE), 0.0
    tilts(values, 0.0, factors)
    mean, variance = mean_and_variance(p, values, factors, 1)
    aim = goal(mean, low, high)
    if aim == mean or not np.isfinite(mean):
        return 0.0, mean, variance
    if stride > 1:
        count = (len(p) + stride - 1) // stride * stride
        tilt, mean, variance = find_tilt(p, values, aim * count / len(p), factors, 0.0, stride)
    tilt, mean, variance = find_tilt(p, values, aim, factors, tilt, 1)
    if scale > 0 and abs(tilt) > 1.0 / scale:
        tilt = 1.0 / scale if tilt > 0 else -1.0 / scale
        tilts(values, tilt, factors)
        mean, variance = mean_and_variance(p, values, factors, 1)
    return tilt, mean, variance


@kernel
def reach(variance: float, span: float, log_share: float) -> float:
    """The distance from the mean beyond which S has a probability of at most e^-log_share on one side (Bernstein)."""
    part = log_share * span / 3.0
    return part + sqrt(part * part + 2.0 * log_share * variance)


@kernel
def log_share(s: float, low: float, high: float, scale: float, tilt: float, origin: float) -> float:
    """log ω(s) - λ (s - s_0)."""
    distance = max(low - s, s - high, 0.0)
    penalty = 0.0 if distance == 0 else distance / scale if scale > 0 else np.inf
    return -penalty - tilt * (s - origin)


@kernel
def tilted(p: Floats, values: Integers, tilt: float, factors: Floats) -> float:
    """p becomes r; returns Σ_j log z_j(λ)."""
    reference, mantissa, exponent = tilts(values, tilt, factors), 1.0, 0
    for j in range(len(p)):
        total = 0.0
        for v in range(len(values)):
            p[j, v] *= factors[v]
            total += p[j, v]
        inverse = 1.0 / total
        for v in range(len(values)):
            p[j, v] *= inverse
        bits = bits_of_float(mantissa * total)
        exponent += (bits >> 52) - 1023
        mantissa = float_of_bits((bits & _MANTISSA) | _ONE)
    return log(mantissa) + exponent * _LN2 + len(p) * tilt * reference


# The sum over frequencies


@kernel
def circle_of(points: int) -> Floats:
    """cos and sin of 2π m / N: a fresh start every 32, and turns from there."""
    circle = np.empty((2, points))
    turn_cos, turn_sin = np.cos(2.0 * np.pi / points), np.sin(2.0 * np.pi / points)
    for m in range(points):
        if m % 32 == 0:
            circle[0, m], circle[1, m] = np.cos(2.0 * np.pi * m / points), np.sin(2.0 * np.pi * m / points)
        else:
            x, y = circle[0, m - 1], circle[1, m - 1]
            circle[0, m], circle[1, m] = x * turn_cos - y * turn_sin, x * turn_sin + y * turn_cos
    return circle


@kernel
def waves(values: Integers, circle: Floats, first: int, table: Floats) -> None:
    """cos and sin of t_l v, for eight frequencies l from `first` on: [2, values, 8]."""
    points = circle.shape[1]
    for v in range(len(values)):
        place = first * values[v] % points
        step = values[v] % points
        for lane in range(8):
            table[v * 8 + lane] = circle[0, place]
            table[(len(values) + v) * 8 + lane] = circle[1, place]
            place += step
            place -= points if place >= points else 0


@kernel
def factor(r: Floats, j: int, table: Floats, size: int, zero: Any) -> Any:
    """Real and imaginary part of φ_j at eight frequencies."""
    a, b = zero, zero
    for v in range(size):
        share = r[j, v]
        a = a + load(table, v * 8, zero) * share
        b = b + load(table, (size + v) * 8, zero) * share
    return a, b


@kernel
def multiply(r: Floats, table: Floats, size: int, found: Floats) -> bool:
    """Products of φ_j, and the smallest |φ_j|², at eight frequencies; False if all are negligible."""
    zero = eight(0.0)
    real, imag = spread(1.0, zero), zero
    least = real
    for j in range(len(r)):
        a, b = factor(r, j, table, size, zero)
        square = a * a + b * b
        least = if_larger(least, square, square, least)
        real, imag = real * a - imag * b, real * b + imag * a
        if j % 16 == 15 or j == len(r) - 1:
            store(found, 0, real)
            store(found, 8, imag)
            store(found, 16, least)
            alive = False
            for lane in range(8):
                norm = found[lane] * found[lane] + found[8 + lane] * found[8 + lane]
                alive = alive or norm >= NEGLIGIBLE * NEGLIGIBLE * found[16 + lane]
            if not alive:
                return False
    return True


@kernel
def by_frequencies(r: Floats, values: Integers, points: int, first_share: int, shares: Floats) -> float:
    """E_λ[share(S)], and the posteriors in place of r; 0 if the recursion is to answer.

    `shares` are those of the sums from `first_share` on; others have none, or no probability within a period.
    """
    size, circle = len(values), circle_of(points)
    table, found = np.empty(16 * size), np.empty(24)
    blocks = np.empty((MAX_FREQUENCIES // 8, 2, 8))
    chosen, count, total = np.empty(MAX_FREQUENCIES // 8, np.int64), 0, 0.0
    for first in range(0, points // 2 + 1, 8):
        waves(values, circle, first, table)
        if multiply(r, table, size, found):
            if count == len(chosen):
                return 0.0
            for lane in range(8):
                real = imag = 0.0
                norm = found[lane] * found[lane] + found[8 + lane] * found[8 + lane]
                if first + lane <= points // 2 and norm >= NEGLIGIBLE * NEGLIGIBLE * found[16 + lane]:
                    if found[16 + lane] < MIN_FACTOR * MIN_FACTOR:
                        return 0.0
                    place = (first + lane) * first_share % points
                    for s in range(len(shares)):
                        real += shares[s] * circle[0, place]
                        imag -= shares[s] * circle[1, place]
                        place = (place + first + lane) % points
                weight = (1.0 if first + lane == 0 else 2.0) / points
                blocks[count, 0, lane] = weight * (real * found[lane] - imag * found[8 + lane])
                blocks[count, 1, lane] = weight * (real * found[8 + lane] + imag * found[lane])
                total += blocks[count, 0, lane]
            chosen[count] = first
            count += 1
    if total * points < SAFE_SHARE:
        return 0.0
    divide(r, values, circle, chosen[:count], blocks, total)
    return total


@kernel
def divide(r: Floats, values: Integers, circle: Floats, chosen: Integers, blocks: Floats, total: float) -> None:
    """q_j(v) = r_j(v) Re Σ_l T_l e^{i t_l v} / φ_j(t_l), with T_l the terms of the expectation over it."""
    size, zero = len(values), eight(0.0)
    one = spread(1.0, zero)
    tables, terms = np.empty((len(chosen), 16 * size)), np.empty(16 * len(chosen))
    for block in range(len(chosen)):
        waves(values, circle, chosen[block], tables[block])
        for lane in range(8):
            terms[block * 16 + lane] = blocks[block, 0, lane] / total
            terms[block * 16 + 8 + lane] = blocks[block, 1, lane] / total
    sums, flat = np.empty(8 * size), tables.reshape(-1)
    for j in range(len(r)):
        for v in range(size):
            store(sums, v * 8, zero)
        for block in range(len(chosen)):
            table = flat[block * 16 * size : (block + 1) * 16 * size]
            a, b = factor(r, j, table, size, zero)
            inverse = one / (a * a + b * b + 1e-300)
            real, imag = load(terms, block * 16, zero), load(terms, block * 16 + 8, zero)
            x, y = (real * a + imag * b) * inverse, (imag * a - real * b) * inverse
            for v in range(size):
                part = x * load(table, v * 8, zero) - y * load(table, (size + v) * 8, zero)
                store(sums, v * 8, load(sums, v * 8, zero) + part)
        for v in range(size):
            height = 0.0
            for lane in range(8):
                height += sums[v * 8 + lane]
            r[j, v] = min(max(r[j, v] * height, 0.0), 1.0)


# The recursion


@kernel
def windows(r: Floats, values: Integers, goal: tuple[int, int], cut: float, first: Integers, last: Integers) -> int:
    """The sums of the first j instances that matter: first[j] .. last[j]. Returns how many there are in all."""
    count, span = len(r), float(values[-1])
    least, most = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    mean, variance = np.zeros(count + 1), np.zeros(count + 1)
    for j in range(count):
        low, high, one, two = -1, 0, 0.0, 0.0
        for v in range(len(values)):
            if r[j, v] > 0:
                low, high = values[v] if low < 0 else low, values[v]
            one += r[j, v] * values[v]
            two += r[j, v] * values[v] * values[v]
        least[j + 1], most[j + 1] = least[j] + max(low, 0), most[j] + high
        mean[j + 1], variance[j + 1] = mean[j] + one, variance[j] + max(two - one * one, 0.0)
    total = 0
    for j in range(count + 1):
        begin = max(least[j], goal[0] - (most[count] - most[j]))
        end = min(most[j], goal[1] - (least[count] - least[j]))
        if cut > 0:
            near = reach(variance[j], span, cut)
            rest = reach(max(variance[count] - variance[j], 0.0), span, cut)
            begin = max(begin, int(mean[j] - near), int(goal[0] - (mean[count] - mean[j]) - rest))
            end = min(end, int(mean[j] + near) + 1, int(goal[1] - (mean[count] - mean[j]) + rest) + 1)
        first[j], last[j] = begin, end
        total += max(end - begin + 1, 0)
    return total


@summing_kernel
def product_sum(left: Floats, right: Floats) -> float:
    """Σ left · right."""
    total = 0.0
    for i in range(len(left)):
        total += left[i] * right[i]
    return total


@kernel
def overlap(begin: int, end: int, other_begin: int, other_end: int, shift: int) -> tuple[int, int, int]:
    """Where u in begin..end meets u + shift in other_begin..other_end: both offsets, and how many."""
    low, high = max(begin, other_begin - shift), min(end, other_end - shift)
    return low - begin, low + shift - other_begin, max(high - low + 1, 0)


@kernel
def by_recursion(
    r: Floats, values: Integers, goal: tuple[int, int], cut: float, low: float, high: float, scale: float,
    tilt: float, origin: float,
) -> float:  # fmt: skip
    """E_λ[share(S)], and the posteriors in place of r, by prefix and suffix sums."""
    count = len(r)
    first, last = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    size = windows(r, values, goal, cut, first, last)
    for j in range(count + 1):
        if last[j] < first[j]:
            return 0.0
    alphas, at = np.zeros(size), np.zeros(count + 2, np.int64)
    for j in range(count + 1):
        at[j + 1] = at[j] + last[j] - first[j] + 1
    alphas[0] = 1.0
    for j in range(count):
        for v in range(len(values)):
            a, b, length = overlap(first[j], last[j], first[j + 1], last[j + 1], values[v])
            share = r[j, v]
            if share > 0 and length > 0:
                source, target = alphas[at[j] + a : at[j] + a + length], alphas[at[j + 1] + b : at[j + 1] + b + length]
                for i in range(length):
                    target[i] += share * source[i]
    beta = np.empty(last[count] - first[count] + 1)
    for u in range(len(beta)):
        beta[u] = exp(log_share(first[count] + u, low, high, scale, tilt, origin))
    total = product_sum(alphas[at[count] :], beta)
    if not total > 0:
        return 0.0
    for j in range(count - 1, -1, -1):
        before = np.zeros(last[j] - first[j] + 1)
        for v in range(len(values)):
            a, b, length = overlap(first[j], last[j], first[j + 1], last[j + 1], values[v])
            share = r[j, v]
            if share > 0:
                if length > 0:
                    source, target = beta[b : b + length], before[a : a + length]
                    for i in range(length):
                        target[i] += share * source[i]
                    share *= product_sum(alphas[at[j] + a : at[j] + a + length], source) / total
                    r[j, v] = min(share, 1.0)
                else:
                    r[j, v] = 0.0
        beta = before
    return total


@kernel
def ends(p: Floats, values: Integers) -> tuple[int, int]:
    """The smallest and the largest possible sum; an instance without a possible value gives an empty range."""
    least, most = 0, 0
    for j in range(len(p)):
        low, high = -1, 0
        for v in range(len(values)):
            if p[j, v] > 0:
                low, high = values[v] if low < 0 else low, values[v]
        if low < 0:
            return 1, 0
        least, most = least + low, most + high
    return least, most


@kernel
def solve_group(p: Floats, values: Integers, low: float, high: float, scale: float) -> float:
    """log Z of a group, with the posteriors in place of p; NaN if a wider range of numbers is needed."""
    least, most = ends(p, values)
    hard = scale <= 0
    goal = (int(max(low, least)), int(min(high, most))) if hard else (least, most)
    if goal[0] > goal[1] or least > most:
        return -np.inf
    factors = np.empty(len(values))
    near = (max(low, float(least)), min(high, float(most))) if hard else (low, high)
    tilt, mean, variance = chosen_tilt(p, values, near[0], near[1], scale, factors)
    if not np.isfinite(mean):
        return np.nan
    origin = near[0] if tilt > 0 else near[1] if tilt < 0 else 0.0
    log_z = tilted(p, values, tilt, factors) - tilt * origin
    distance = reach(variance, float(values[-1]), ALIASED)
    window = int(max(float(least), mean - distance)), int(min(float(most), mean + distance + 1.0))
    first, last = (max(window[0], goal[0]), min(window[1], goal[1]))
    total = 0.0
    if len(p) >= SHORT and first <= last:
        shares = np.empty(last - first + 1)
        for s in range(len(shares)):
            shares[s] = exp(log_share(first + s, low, high, scale, tilt, origin))
        total = by_frequencies(p, values, (window[1] - window[0] + 1) | 1, first, shares)
    if total == 0:
        kept = p.copy()
        total = by_recursion(p, values, goal, CUT, low, high, scale, tilt, origin)
        if total < LEAST_EXPECTATION:
            p[:] = kept
            total = by_recursion(p, values, goal, 0.0, low, high, scale, tilt, origin)
        if total < 1e-250:
            return np.nan
    return log_z + log(total)


def _sources_fingerprint() -> str:
    """A hash of all sources, captured by the entry kernel, so that its disk cache follows every edit."""
    files = [Path(__file__), Path(vectors.__file__), Path(numeric.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _entry_point(sources: str) -> Any:
    @entry_kernel
    def solve(
        potentials: Any, bounds: Integers, values: Integers, low: Floats, high: Floats, scale: float,
        log_likelihood: Floats, marginals: Floats,
    ) -> None:  # fmt: skip
        """log Z and q of groups of instances bounds[g] .. bounds[g + 1]; NaN if it is not reliable."""
        sources  # noqa: B018
        for group in range(len(bounds) - 1):
            p = marginals[bounds[group] : bounds[group + 1]]
            tops, lost = powers(potentials[bounds[group] : bounds[group + 1]], p)
            value = solve_group(p, values, low[group], high[group], scale) if np.isfinite(tops) else tops
            if value > -np.inf:
                value = value + tops if not lost or value > -500.0 else np.nan
            if not value > -np.inf:
                p[:] = 0.0
            log_likelihood[group] = value

    return solve


solve = _entry_point(_sources_fingerprint())
