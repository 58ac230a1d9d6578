"""E_λ[share(S)] and the posteriors by the characteristic function, a sum over frequencies.

φ(t) = Π_j φ_j(t), φ_j(t) = Σ_v r_j(v) e^{itv}, at t_l = 2π l / N with N so large that nothing of S is further from its
mean. The product is left as soon as it is negligible, also without its smallest factor; the posteriors use φ / φ_j.
Groups in which a factor is so small that dividing by it would cost digits, or in which the expectation is small against
the rounding of the sum, are left to the recursion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glws.inference._compiled_sums.tiles import LANES, Floats, Integers
from glws.inference._compiled_trellis.vectors import eight, if_larger, item, larger, load, spread, store
from glws.inference._counts.compiled.numeric import kernel

MIN_FACTOR = 0.1
"""Posteriors are not divided by smaller factors."""
NEGLIGIBLE = 1e-17
"""Smaller products of characteristic functions are left out."""
SAFE_SHARE = 0.5
"""Smaller expectations, times the points of the period, lose digits in the sum, whose terms are up to 1."""
MAX_FREQUENCIES = 2048
CHUNK, SOON = 1 << 12, 16
"""Numbers of a chunk of tiles, few enough for the cache; products are looked at every so many tiles, at first more."""


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
def next_wave(values: Integers, circle: Floats, places: Integers, table: Floats) -> None:
    """cos t v of each value, then sin t v; the places on the circle move on to the next frequency."""
    points = circle.shape[1]
    for v in range(len(values)):
        at = places[v]
        table[v], table[len(values) + v] = circle[0, at], circle[1, at]
        at += values[v]
        places[v] = at - points if at >= points else at


@kernel
def factors_of(r: Floats, tile: int, table: Floats, size: int, zero: Any) -> Any:
    """φ_j(t) of the instances of two tiles: real and imaginary part of each."""
    a, b, c, d = zero, zero, zero, zero
    at = tile * size * LANES
    for v in range(size):
        cos, sin = item(table, v), item(table, size + v)
        one, two = load(r, at + v * LANES, zero), load(r, at + (size + v) * LANES, zero)
        a, b, c, d = a + one * cos, b + one * sin, c + two * cos, d + two * sin
    return a, b, c, d


@kernel
def multiply(r: Floats, first: int, last: int, table: Floats, state: Floats) -> bool:
    """Products of φ_j over the tiles, in eight lanes, and the smallest |φ_j|²; False if all together are negligible."""
    zero, size = eight(0.0), len(table) // 2
    real, imag, least = load(state, 0, zero), load(state, LANES, zero), load(state, 2 * LANES, zero)
    for tile in range(first, last, 2):
        a, b, c, d = factors_of(r, tile, table, size, zero)
        square, other = a * a + b * b, c * c + d * d
        least = if_larger(least, square, square, least)
        least = if_larger(least, other, other, least)
        a, b = a * c - b * d, a * d + b * c
        real, imag = real * a - imag * b, real * b + imag * a
        if tile < SOON or tile % SOON == 0 or tile + 2 >= last:
            store(state, 0, real)
            store(state, LANES, imag)
            store(state, 2 * LANES, least)
            norm = 1.0
            for lane in range(LANES):
                norm *= state[lane] * state[lane] + state[LANES + lane] * state[LANES + lane]
            if not norm >= NEGLIGIBLE * NEGLIGIBLE * state[2 * LANES :].min():
                return False
    return True


@kernel
def alive(r: Floats, values: Integers, circle: Floats, states: Floats, tables: Floats) -> tuple[int, Integers]:
    """The frequencies whose products are not negligible, and how many; -1 if they are too many."""
    size, half = len(values), circle.shape[1] // 2 + 1
    tiles, step = len(r) // (size * LANES), max(CHUNK // (2 * size * LANES), 1) * 2
    numbers, count, most = np.empty(len(states), np.int64), 0, len(states)
    places = np.zeros(size, np.int64)
    for frequency in range(half):
        next_wave(values, circle, places, tables[count])
        states[count, :LANES], states[count, LANES : 2 * LANES], states[count, 2 * LANES :] = 1.0, 0.0, 1.0
        if multiply(r, 0, min(step, tiles), tables[count], states[count]):
            numbers[count] = frequency
            count += 1
            if count == most:
                return -1, numbers
    for first in range(step, tiles, step):
        kept = 0
        for place in range(count):
            if multiply(r, first, min(first + step, tiles), tables[place], states[place]):
                if kept < place:
                    numbers[kept], states[kept], tables[kept] = numbers[place], states[place], tables[place]
                kept += 1
        count = kept
    return count, numbers


@kernel
def share_at(frequency: int, circle: Floats, first_share: int, shares: Floats) -> tuple[float, float]:
    """Σ_s share(s) e^{-its}, for the sums from `first_share` on."""
    points, real, imag = circle.shape[1], 0.0, 0.0
    at = frequency * first_share % points
    for s in range(len(shares)):
        real += shares[s] * circle[0, at]
        imag -= shares[s] * circle[1, at]
        at += frequency
        at -= points if at >= points else 0
    return real, imag


@kernel
def by_frequencies(r: Floats, values: Integers, points: int, first_share: int, shares: Floats) -> float:
    """E_λ[share(S)], and the posteriors in place of r; 0 if the recursion is to answer.

    `shares` are those of the sums from `first_share` on; others have none, or no probability within a period.
    """
    circle, most = circle_of(points), min(points // 2 + 2, MAX_FREQUENCIES)
    states, tables = np.empty((most, 3 * LANES)), np.empty((most, 2 * len(values)))
    count, numbers = alive(r, values, circle, states, tables)
    if count < 0:
        return 0.0
    terms, total = np.empty(2 * count), 0.0
    for place in range(count):
        state = states[place]
        if state[2 * LANES :].min() < MIN_FACTOR * MIN_FACTOR:
            return 0.0
        a, b = 1.0, 0.0
        for lane in range(LANES):
            x, y = state[lane], state[LANES + lane]
            a, b = a * x - b * y, a * y + b * x
        real, imag = share_at(numbers[place], circle, first_share, shares)
        weight = (1.0 if numbers[place] == 0 else 2.0) / points
        terms[2 * place], terms[2 * place + 1] = weight * (real * a - imag * b), weight * (real * b + imag * a)
        total += terms[2 * place]
    if total * points < SAFE_SHARE:
        return 0.0
    divide(r, tables[:count], terms / total)
    return total


@kernel
def quotient(a: Any, b: Any, real: float, imag: float) -> Any:
    """T / φ: real and imaginary part."""
    inverse = spread(1.0, a) / (a * a + b * b + spread(1e-300, a))
    return (a * real + b * imag) * inverse, (a * imag - b * real) * inverse


@kernel
def divide(r: Floats, tables: Floats, terms: Floats) -> None:
    """q_j(v) = r_j(v) Re Σ_l T_l e^{i t_l v} / φ_j(t_l), with T_l the terms of the expectation over it."""
    zero, size = eight(0.0), tables.shape[1] // 2
    one, sums, flat = spread(1.0, zero), np.empty(2 * size * LANES), tables.reshape(-1)
    for tile in range(0, len(r) // (size * LANES), 2):
        for i in range(len(sums)):
            sums[i] = 0.0
        for place in range(len(tables)):
            table = flat[place * 2 * size : (place + 1) * 2 * size]
            a, b, c, d = factors_of(r, tile, table, size, zero)
            a, b = quotient(a, b, terms[2 * place], terms[2 * place + 1])
            c, d = quotient(c, d, terms[2 * place], terms[2 * place + 1])
            for v in range(size):
                cos, sin = item(table, v), item(table, size + v)
                store(sums, v * LANES, load(sums, v * LANES, zero) + a * cos - b * sin)
                store(sums, (size + v) * LANES, load(sums, (size + v) * LANES, zero) + c * cos - d * sin)
        for v in range(2 * size):
            at = (tile * size + v) * LANES
            q = larger(load(r, at, zero) * load(sums, v * LANES, zero), zero)
            store(r, at, if_larger(q, one, one, q))
