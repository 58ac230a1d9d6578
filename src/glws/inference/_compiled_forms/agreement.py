"""Pairs with the same or different labels, and triplets: sums over the classes, without a table.

With p_i the exponentials of instance i and r_i(k) = Σ_{l≠k} p_i(l):

    pairs       Z = Σ_k p_1(k) [A_same p_2(k) + A_different r_2(k)]
    triplets    Z = Σ_k p_1(k) [A_2 p_2(k) r_3(k) + A_tie (p_2(k) p_3(k) + r_2(k) r_3(k)) + A_3 r_2(k) p_3(k)]

r leaves the largest term out of its sum, so that nothing cancels. The posterior of a class is its share in such a sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glws.inference._compiled_forms.numeric import (
    LEAST,
    MOST,
    Numbers,
    log,
    powers,
    room,
    sources_fingerprint,
    suitable_shift,
    together,
)
from glws.inference._counts.compiled.numeric import Integers, Vector, entry_kernel, kernel, summing_kernel

Agreement = Callable[[Numbers, Integers, Integers, Vector, Vector, Numbers], int]


@summing_kernel
def _total(row: Vector) -> float:
    result = 0.0
    for k in range(len(row)):
        result += row[k]
    return result


@summing_kernel
def _others(row: Vector, out: Vector) -> None:
    """out[k] = Σ_{l≠k} row[l]: their sum without row[k], summed again for a row[k] of more than half of it."""
    whole, place, number = 0.0, 0, 0
    for k in range(len(row)):
        whole += row[k]
    for k in range(len(row)):
        place += k if row[k] > 0.5 * whole else 0
        number += 1 if row[k] > 0.5 * whole else 0
    for k in range(len(row)):
        out[k] = whole - row[k]
    if number == 1:
        rest = 0.0
        for k in range(len(row)):
            rest += row[k] if k != place else 0.0
        out[place] = rest


@kernel
def _store(row: Vector, out: Numbers) -> float:
    """out = the row, divided by its sum, which is returned."""
    mass = _total(row)
    scale = 1.0 / mass
    for k in range(len(row)):
        out[k] = row[k] * scale
    return mass


@kernel
def _solve_pair(values: Vector, weights: Vector, work: Vector, out: Numbers) -> float:
    """Z and q of a pair; NaN if float64 cannot hold it."""
    a, b, a_rest, b_rest, first, second = values[0], values[1], work[0], work[1], work[2], work[3]
    same, different = weights[0], weights[1]
    _others(a, a_rest)
    _others(b, b_rest)
    for k in range(len(a)):
        first[k] = a[k] * (same * b[k] + different * b_rest[k])
        second[k] = b[k] * (same * a[k] + different * a_rest[k])
    mass, other = _store(first, out[0]), _store(second, out[1])
    return mass if LEAST < mass < MOST and LEAST < other < MOST else math.nan


@kernel
def _solve_triplet(values: Vector, weights: Vector, work: Vector, out: Numbers) -> float:
    """Z and q of a triplet, by the weights of closer to the second, to the third, and neither; NaN as above."""
    a, b, c, b_rest, c_rest, terms, apart = values[0], values[1], values[2], work[0], work[1], work[2], work[3]
    second, third, tie = weights[0], weights[1], weights[2]
    _others(b, b_rest)
    _others(c, c_rest)
    for k in range(len(a)):
        terms[k] = a[k] * (b[k] * (second * c_rest[k] + tie * c[k]) + b_rest[k] * (third * c[k] + tie * c_rest[k]))
    mass = _store(terms, out[0])
    for k in range(len(a)):  # the anchor is of another class than the second
        terms[k] = a[k] * (third * c[k] + tie * c_rest[k])
    _others(terms, apart)
    for k in range(len(a)):
        terms[k] = b[k] * (a[k] * (second * c_rest[k] + tie * c[k]) + apart[k])
    least = _store(terms, out[1])
    for k in range(len(a)):
        terms[k] = a[k] * (second * b[k] + tie * b_rest[k])
    _others(terms, apart)
    for k in range(len(a)):
        terms[k] = c[k] * (a[k] * (third * b_rest[k] + tie * b[k]) + apart[k])
    least = min(least, _store(terms, out[2]))
    return mass if LEAST < mass < MOST and LEAST < least < MOST else math.nan


@kernel
def _solve(values: Vector, weights: Vector, work: Vector, out: Numbers) -> float:
    if len(weights) == 2:
        return _solve_pair(values, weights, work, out)
    return _solve_triplet(values, weights, work, out)


def _entry_point(sources: str) -> Agreement:
    @entry_kernel
    def agreement(
        logs: Numbers, starts: Integers, lengths: Integers, weights: Vector, log_z: Vector, out: Numbers
    ) -> int:
        """log Z and q of all groups: pairs if each has two weights, triplets if each has three. Number of NaN."""
        sources  # noqa: B018
        classes, size, doubtful, begin = logs.shape[1], weights.shape[1], 0, 0
        most = room(lengths, classes)
        buffer, work = np.empty(most), np.empty((4, classes))
        values = buffer[: most // classes * classes].reshape(-1, classes)
        while begin < len(lengths):
            end = together(starts, lengths, begin, classes)
            first, last = starts[begin], starts[end - 1] + lengths[end - 1]
            powers(logs[first:last].reshape(-1), 0.0, buffer[: (last - first) * classes])
            for group in range(begin, end):
                start, stop = starts[group], starts[group] + lengths[group]
                if lengths[group] != size:
                    log_z[group] = -math.inf
                    out[start:stop] = 0.0
                    continue
                own, shift = values[start - first : stop - first], 0.0
                mass = _solve(own, weights[group], work, out[start:stop])
                if math.isnan(mass):
                    shift = suitable_shift(logs[start:stop].reshape(-1))
                    powers(logs[start:stop].reshape(-1), shift, own.reshape(-1))
                    mass = _solve(own, weights[group], work, out[start:stop])
                is_held = not math.isnan(mass)
                log_z[group] = log(mass) + size * shift if is_held else math.nan
                doubtful += 0 if is_held else 1
            begin = end
        return doubtful

    return agreement


agreement = _entry_point(sources_fingerprint())
