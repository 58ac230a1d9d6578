"""Tables of weights for single instances and for pairs, in linear space, in vector lanes.

    singles     Z = Σ_k φ(k) A(k)               q(k) = φ(k) A(k) / Z
    pairs       Z = Σ_{k,l} φ_1(k) A(k,l) φ_2(l)        q_1(k) = φ_1(k) Σ_l A(k,l) φ_2(l) / Z        q_2(l) likewise

Here φ and A are no logarithms. Pairs that overflow or underflow are solved again in log space.
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
    power,
    sources_fingerprint,
    suitable_shift,
)
from glws.inference._counts.compiled.numeric import Integers, Vector, entry_kernel, kernel

TILE = 64
"""Number of pairs side by side."""

Tables = Callable[[Numbers, int, Integers, Integers, Vector, Vector, Numbers], int]


@kernel
def _powers(logs: Numbers, firsts: Integers, tile: Vector) -> None:
    """tile[row, i] = exp of number `row` after the first of the i-th group; 1 for groups that start at -1."""
    for i in range(len(firsts)):
        if firsts[i] >= 0:
            for row in range(len(tile)):
                tile[row, i] = logs[firsts[i] + row]
        else:
            tile[:, i] = 0.0
    numbers = tile.reshape(-1)
    for i in range(len(numbers)):
        numbers[i] = power(numbers[i])


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
def _store(sums: Vector, total: Vector, inverse: Vector, firsts: Integers, marginals: Numbers) -> None:
    """q = the shares, divided by their total."""
    for i in range(TILE):
        inverse[i] = 1.0 / total[i]
    for row in range(len(sums)):
        for i in range(TILE):
            sums[row, i] *= inverse[i]
        for i in range(len(firsts)):
            if firsts[i] >= 0:
                marginals[firsts[i] + row] = sums[row, i]


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
def _solve_pairs(
    logs: Numbers, classes: int, starts: Integers, lengths: Integers, log_weights: Vector, log_z: Vector, out: Numbers
) -> None:
    """log Z and q of pairs, 64 at a time."""
    rows, entries, pairs = 2 * classes, classes * classes, len(lengths)
    is_shared = log_weights.shape[0] == 1
    tables, values, sums = np.zeros((entries, TILE)), np.zeros((rows, TILE)), np.zeros((rows, TILE))
    whole, inverse, firsts, own = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int64), np.zeros(TILE, np.int64)
    flat = log_weights.reshape(-1)
    if is_shared:
        _powers(flat, own, tables)
    for begin in range(0, pairs, TILE):
        count = min(TILE, pairs - begin)
        for i in range(count):
            firsts[i] = starts[begin + i] * classes if lengths[begin + i] == 2 else -1
            own[i] = 0 if is_shared else (begin + i) * entries
        _powers(logs, firsts[:count], values)
        sums[:] = 0.0
        if is_shared:
            _mix_alike(tables, values[:classes], values[classes:], sums[:classes], sums[classes:])
        else:
            _powers(flat, own[:count], tables)
            _mix(tables, values[:classes], values[classes:], sums[:classes], sums[classes:])
        _shares(values, sums, whole)
        _store(sums, whole, inverse, firsts[:count], out)
        for i in range(count):
            log_z[begin + i] = log(whole[i])
        for i in range(count):
            group, at = begin + i, starts[begin + i] * classes
            if lengths[group] != 2:
                log_z[group] = -math.inf
                out[at : at + lengths[group] * classes] = 0.0
            elif not LEAST < whole[i] < MOST:
                log_z[group] = _in_logs(
                    logs[at : at + rows], flat[own[i] : own[i] + entries], classes, out[at : at + rows]
                )


@kernel
def _solve_singles(
    logs: Numbers, starts: Integers, lengths: Integers, log_weights: Vector, log_z: Vector, out: Numbers
) -> None:
    """log Z and q of single instances."""
    classes = logs.shape[1]
    values = np.empty(classes)
    for group in range(len(lengths)):
        at, row, mass, shift = starts[group], min(group, len(log_weights) - 1), 0.0, 0.0
        if lengths[group] != 1:
            log_z[group] = -math.inf
            out[at : at + lengths[group]] = 0.0
            continue
        for k in range(classes):
            values[k] = power(logs[at, k] + log_weights[row, k])
            mass += values[k]
        if not LEAST < mass < MOST:
            for k in range(classes):
                values[k] = logs[at, k] + log_weights[row, k]
            shift, mass = suitable_shift(values), 0.0
            for k in range(classes):
                values[k] = power(values[k] - shift)
                mass += values[k]
        scale = 0.0 if mass == 0.0 else 1.0 / mass
        log_z[group] = math.log(mass) + shift if not LEAST < mass < MOST else log(mass) + shift
        for k in range(classes):
            out[at, k] = values[k] * scale


def _entry_point(sources: str) -> Tables:
    @entry_kernel
    def tables(
        logs: Numbers, size: int, starts: Integers, lengths: Integers, log_weights: Vector,
        log_z: Vector, out: Numbers,
    ) -> int:  # fmt: skip
        """log Z and q of all groups of size 1 or 2; a table alone serves all groups. 0: none is left to log space."""
        sources  # noqa: B018
        if size == 1:
            _solve_singles(logs, starts, lengths, log_weights, log_z, out)
        else:
            _solve_pairs(logs.reshape(-1), logs.shape[1], starts, lengths, log_weights, log_z, out.reshape(-1))
        return 0

    return tables


tables = _entry_point(sources_fingerprint())
