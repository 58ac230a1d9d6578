"""Pairs in linear space, in vector lanes; in log space if that overflows or underflows.

    Z = Σ_{k,l} φ_1(k) A(k,l) φ_2(l)        q_1(k) = φ_1(k) Σ_l A(k,l) φ_2(l) / Z        q_2(l) likewise

Here φ and A are no logarithms.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glws.inference._closed import MODERATE
from glws.inference._compiled_trellis.exponential import kernel
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import (
    Integers,
    Vector,
    bits_of_float,
    entry_kernel,
    exp_minus_abs,
    float_of_bits,
)

TILE = 64
"""Number of pairs side by side."""
LEAST, MOST = 1e-200, 1e200
"""A Z outside these may have lost digits: exponentials are not taken below exp(-600), nor above exp(MODERATE)."""

_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52
_ROOT_TWO = math.sqrt(2.0)
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10

Numbers = np.ndarray[Any, Any]
Solve = Callable[[Numbers, tuple[int, int], Integers, Vector, Numbers, Numbers], None]


@kernel
def _power(x: float) -> float:
    """exp(x), 0 only for -inf: not below exp(-600), which is negligible next to LEAST. NaN above MODERATE."""
    small = exp_minus_abs(x)
    power = 1.0 / small if x > 0.0 else small
    power = power if x <= MODERATE else math.nan
    return 0.0 if x == -math.inf else power


@kernel
def _log(x: float) -> float:
    """log(x) for a normal number, without a branch: n log 2 + 2 artanh((m - 1) / (m + 1)), 1 / √2 < m <= √2."""
    bits = bits_of_float(x)
    exponent, mantissa = (bits >> 52) - 1023, float_of_bits((bits & _MANTISSA) | _ONE)
    is_large = mantissa > _ROOT_TWO
    n, m = exponent + (1 if is_large else 0), 0.5 * mantissa if is_large else mantissa
    s = (m - 1.0) / (m + 1.0)
    z = s * s  # below 0.0295, so the next term is below 1e-18
    p = z * (1 / 21) + 1 / 19
    p = p * z + 1 / 17
    p = p * z + 1 / 15
    p = p * z + 1 / 13
    p = p * z + 1 / 11
    p = p * z + 1 / 9
    p = p * z + 1 / 7
    p = p * z + 1 / 5
    p = p * z + 1 / 3
    result: float = n * _LN2_HIGH + (2.0 * s + (2.0 * s * z * p + n * _LN2_LOW))
    return result


@kernel
def _powers(logs: Numbers, first: int, apart: int, count: int, tile: Vector) -> None:
    """tile[row, i] = exp of number `row` of the i-th of these groups."""
    for row in range(len(tile)):
        for i in range(count):
            tile[row, i] = logs[first + i * apart + row]
    numbers = tile.reshape(-1)
    others = 0
    for i in range(len(numbers)):
        others += 0 if numbers[i] <= 0.0 else 1
    for i in range(0 if others else len(numbers)):  # most are log-probabilities
        numbers[i] = 0.0 if numbers[i] == -math.inf else exp_minus_abs(numbers[i])
    for i in range(len(numbers) if others else 0):
        numbers[i] = _power(numbers[i])


@kernel
def _mix_alike(weights: Vector, first: Vector, second: Vector, ahead: Vector, behind: Vector) -> None:
    """ahead[k] = Σ_l A(k,l) second[l], behind[l] = Σ_k A(k,l) first[k], with the same weights for all."""
    classes = len(first)
    for k in range(classes):
        for label in range(classes):
            weight = weights[k * classes + label, 0]
            if weight == 0.0:
                continue
            for i in range(TILE):
                ahead[k, i] += weight * second[label, i]
                behind[label, i] += weight * first[k, i]


@kernel
def _mix(weights: Vector, first: Vector, second: Vector, ahead: Vector, behind: Vector) -> None:
    """`_mix_alike` with separate weights for each pair."""
    classes = len(first)
    for k in range(classes):
        for label in range(classes):
            for i in range(TILE):
                weight = weights[k * classes + label, i]
                ahead[k, i] += weight * second[label, i]
                behind[label, i] += weight * first[k, i]


@kernel
def _shares(powers: Vector, sums: Vector, total: Vector) -> None:
    """sums = powers · sums, the shares of the classes in each instance; total = Σ_k of those of the first."""
    classes = len(powers) // 2
    total[:] = 0.0
    for row in range(2 * classes):
        for i in range(TILE):
            sums[row, i] *= powers[row, i]
            total[i] += sums[row, i] if row < classes else 0.0


@kernel
def _store(
    sums: Vector, total: Vector, inverse: Vector, begin: int, apart: int, count: int, marginals: Numbers
) -> None:
    """q = the shares, divided by their total."""
    for i in range(TILE):
        inverse[i] = 1.0 / total[i]
    for row in range(len(sums)):
        for i in range(TILE):
            sums[row, i] *= inverse[i]
        for i in range(count):
            marginals[begin + i * apart + row] = sums[row, i]


@kernel
def _in_logs(potentials: Numbers, weights: Vector, classes: int, marginals: Numbers) -> float:
    """One pair, in log space: log Z, and q in place; -inf and zeros if it is impossible."""
    top, total = -math.inf, 0.0
    for k in range(classes):
        for label in range(classes):
            score = weights[k * classes + label] + potentials[k] + potentials[classes + label]
            top = top if score <= top else score
    shares = np.zeros(2 * classes)
    for k in range(classes):
        for label in range(classes):
            score = weights[k * classes + label] + potentials[k] + potentials[classes + label]
            share = 0.0 if score == -math.inf else math.exp(score - top)
            total += share
            shares[k] += share
            shares[classes + label] += share
    for row in range(2 * classes):
        marginals[row] = 0.0 if top == -math.inf else shares[row] / total
    return math.log(total) + top


@kernel
def _do_again(
    begin: int, count: int, shape: tuple[int, int], potentials: Numbers, lengths: Integers, log_weights: Vector,
    total: Vector, log_z: Numbers, marginals: Numbers,
) -> None:  # fmt: skip
    """Solve groups of another size, and pairs that linear space cannot hold."""
    apart, rows, entries = shape[0] * shape[1], 2 * shape[1], shape[1] * shape[1]
    for i in range(count):
        group, at = begin + i, (begin + i) * apart
        if lengths[group] != 2:
            log_z[group] = -math.inf
            marginals[at : at + apart] = 0.0
        elif not LEAST < total[i] < MOST:
            table = 0 if len(log_weights) == entries else group * entries
            own = log_weights[table : table + entries]
            log_z[group] = _in_logs(potentials[at : at + rows], own, shape[1], marginals[at : at + rows])


def _sources_fingerprint() -> str:
    """A hash of the sources; the entry kernel captures it, so that its cache follows edits."""
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in (__file__, numeric.__file__))).hexdigest()


def _entry_point(sources: str) -> Solve:
    @entry_kernel
    def solve(
        potentials: Numbers, shape: tuple[int, int], lengths: Integers, log_weights: Vector, log_z: Numbers,
        marginals: Numbers,
    ) -> None:  # fmt: skip
        """log Z and q of all groups."""
        sources  # noqa: B018
        instances, classes = shape
        apart, rows, entries = instances * classes, 2 * classes, classes * classes
        is_shared = len(log_weights) == entries
        tables, powers, sums = np.zeros((entries, TILE)), np.zeros((rows, TILE)), np.zeros((rows, TILE))
        total, inverse = np.zeros(TILE), np.zeros(TILE)
        if is_shared:
            _powers(log_weights, 0, 0, TILE, tables)
        for begin in range(0, len(lengths), TILE):
            count = min(TILE, len(lengths) - begin)
            _powers(potentials, begin * apart, apart, count, powers)
            sums[:] = 0.0
            if is_shared:
                _mix_alike(tables, powers[:classes], powers[classes:], sums[:classes], sums[classes:])
            else:
                _powers(log_weights, begin * entries, entries, count, tables)
                _mix(tables, powers[:classes], powers[classes:], sums[:classes], sums[classes:])
            _shares(powers, sums, total)
            _store(sums, total, inverse, begin * apart, apart, count, marginals)
            others = 0
            for i in range(count):
                log_z[begin + i] = _log(total[i])
                others += 0 if (total[i] > LEAST) & (total[i] < MOST) & (lengths[begin + i] == 2) else 1
            if others:
                _do_again(begin, count, shape, potentials, lengths, log_weights, total, log_z, marginals)

    return solve


solve = _entry_point(_sources_fingerprint())
