"""Predictions of a group in tiles of eight instances side by side, and the tilt that moves the mean of their sum.

A tile has a vector of eight lanes for each value. Tiles come in pairs; instances that are missing in the last pair have
value 0 for sure.
The tilt λ changes p_j(v) to r_j(v) = p_j(v) e^{λ v} / z_j(λ).
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from glws.inference._compiled_trellis.vectors import eight, if_larger, larger, load, spread, store
from glws.inference._counts.compiled.numeric import bits_of_float, exp_minus_abs, float_of_bits, kernel

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LANES, PAIR = 8, 16
SAMPLE = 512
"""In groups of more tiles, the tilt is first searched on so many of them."""
DEEPEST = -590.0
"""Exponentials of numbers below this are overestimated."""
VANISHED = 1e-250
"""Of an instance with a smaller sum, the tilt left nothing."""
_LN2 = log(2.0)
_MANTISSA, _ONE = (1 << 52) - 1, 1023 << 52


@kernel
def place(j: int, v: int, size: int) -> int:
    """Where instance j has value v."""
    return ((j >> 3) * size + v) * LANES + (j & 7)


@kernel
def into_tiles(potentials: Any, start: int, length: int, p: Floats) -> tuple[float, bool]:
    """p = exp(potential - top of the instance); the sum of the tops, and whether a number that is not 0 underflowed."""
    size, total, tops = potentials.shape[1], 0.0, np.empty(LANES)
    zero = eight(0.0)
    impossible, least = spread(-np.inf, zero), zero
    for first in range(0, len(p) // size, LANES):
        tile = p[first * size : (first + LANES) * size]
        for lane in range(LANES):
            if first + lane < length:
                for v in range(size):
                    tile[v * LANES + lane] = potentials[start + first + lane, v]
            else:
                for v in range(size):
                    tile[v * LANES + lane] = -np.inf if v else 0.0
        top = impossible
        for v in range(size):
            top = larger(load(tile, v * LANES, zero), top)
        for v in range(size):
            value = load(tile, v * LANES, zero) - top
            deep = if_larger(value, impossible, value, zero)
            least = if_larger(least, deep, deep, least)
            store(tile, v * LANES, value)
        for i in range(len(tile)):
            power = exp_minus_abs(tile[i])
            tile[i] = power if tile[i] > -np.inf else 0.0
        store(tops, 0, top)
        for lane in range(LANES):
            total += tops[lane]
    store(tops, 0, least)
    return total, tops.min() < DEEPEST


@kernel
def out_of_tiles(p: Floats, start: int, length: int, out: Any) -> None:
    """Back to the order of instances."""
    size = out.shape[1]
    for first in range(0, length, LANES):
        for lane in range(min(LANES, length - first)):
            for v in range(size):
                out[start + first + lane, v] = p[first * size + v * LANES + lane]


@kernel
def tilts(values: Integers, tilt: float, factors: Floats) -> float:
    """factors = e^{λ (v - v_ref)} <= 1, with v_ref an end of the values, which is returned."""
    reference = float(values[-1] if tilt > 0 else values[0])
    for v in range(len(values)):
        factors[v] = exp(tilt * (values[v] - reference))
    return reference


@kernel
def mean_and_variance(p: Floats, values: Integers, factors: Floats, stride: int) -> tuple[float, float]:
    """Mean and variance of S under the tilt, times the stride for every so many-th tile; NaN if one vanished."""
    zero, size, sums = eight(0.0), len(values), np.empty(3 * LANES)
    mean, variance, one = zero, zero, spread(1.0, zero)
    least = one
    for tile in range(0, len(p) // (size * LANES), stride):
        total, first, second = zero, zero, zero
        for v in range(size):
            share, value = load(p, (tile * size + v) * LANES, zero) * factors[v], float(values[v])
            total = total + share
            share = share * value
            first = first + share
            second = second + share * value
        inverse = one / total
        first = first * inverse
        mean = mean + first
        variance = variance + larger(second * inverse - first * first, zero)
        least = if_larger(least, total, total, least)
    store(sums, 0, mean)
    store(sums, LANES, variance)
    store(sums, 2 * LANES, least)
    if not sums[2 * LANES :].min() >= VANISHED:
        return np.nan, np.nan
    return sums[:LANES].sum() * stride, sums[LANES : 2 * LANES].sum() * stride


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
    tiles = len(p) // (len(values) * LANES)
    stride, tilt = max(1, tiles // SAMPLE), 0.0
    tilts(values, 0.0, factors)
    mean, variance = mean_and_variance(p, values, factors, 1)
    aim = goal(mean, low, high)
    if aim == mean or not np.isfinite(mean):
        return 0.0, mean, variance
    if stride > 1:
        count = (tiles + stride - 1) // stride * stride
        tilt, mean, variance = find_tilt(p, values, aim * count / tiles, factors, 0.0, stride)
    tilt, mean, variance = find_tilt(p, values, aim, factors, tilt, 1)
    if scale > 0 and abs(tilt) > 1.0 / scale:
        tilt = 1.0 / scale if tilt > 0 else -1.0 / scale
        tilts(values, tilt, factors)
        mean, variance = mean_and_variance(p, values, factors, 1)
    return tilt, mean, variance


@kernel
def log_moment(p: Floats, values: Integers, tilt: float, factors: Floats) -> float:
    """Σ_j log z_j(λ), z_j(λ) = Σ_v p_j(v) e^{λ v}."""
    zero, size, totals = eight(0.0), len(values), np.empty(LANES)
    reference, mantissa, exponent = tilts(values, tilt, factors), 1.0, 0
    tiles = len(p) // (size * LANES)
    for tile in range(tiles):
        total = zero
        for v in range(size):
            total = total + load(p, (tile * size + v) * LANES, zero) * factors[v]
        store(totals, 0, total)
        for lane in range(LANES):
            bits = bits_of_float(mantissa * totals[lane])
            exponent += (bits >> 52) - 1023
            mantissa = float_of_bits((bits & _MANTISSA) | _ONE)
    return log(mantissa) + exponent * _LN2 + tiles * LANES * tilt * reference


@kernel
def tilted(p: Floats, values: Integers, tilt: float, factors: Floats) -> float:
    """p becomes r; returns Σ_j log z_j(λ)."""
    zero, size, found = eight(0.0), len(values), log_moment(p, values, tilt, factors)
    one = spread(1.0, zero)
    for tile in range(len(p) // (size * LANES)):
        total = zero
        for v in range(size):
            total = total + load(p, (tile * size + v) * LANES, zero) * factors[v]
        inverse = one / total
        for v in range(size):
            at = (tile * size + v) * LANES
            store(p, at, load(p, at, zero) * factors[v] * inverse)
    return found


@kernel
def reaches(
    r: Floats, values: Integers, mean: float, variance: float, share: float, factors: Floats
) -> tuple[float, float]:
    """Distances below and above the mean beyond which S has a probability of at most e^-share (Chernoff)."""
    tilt = sqrt(2.0 * share / max(variance, 1e-3))
    below = (share + log_moment(r, values, -tilt, factors) + tilt * mean) / tilt
    above = (share + log_moment(r, values, tilt, factors) - tilt * mean) / tilt
    return below, above
