"""Weights of "no counted class occurs" and "at least one does": a trellis of two states, in linear space.

    none_j = Π_{i<=j} n_i        some_j = some_{j-1} + none_{j-1} o_j        Z = Π_j T_j (A_none none_L + A_some some_L)

T_j is the sum over classes of instance j, o_j and n_j = 1 - o_j the shares of the counted and the other classes in it.
The same from the other end gives the posteriors. Every term is positive, so nothing cancels.
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
    powers,
    room,
    sources_fingerprint,
    suitable_shift,
    together,
)
from glws.inference._counts.compiled.numeric import Integers, Vector, entry_kernel, kernel, summing_kernel

Presence = Callable[[Numbers, Integers, Integers, Numbers, Vector, Vector, Numbers], int]
SMALLEST = 1e-280
"""A product below this is set to 0; next to a share of at least LEAST it is nothing."""


@kernel
def _relative(log_weight: float, top: float) -> float:
    """The weight as a share of the larger one; most are 0 or 1."""
    if log_weight == top:
        return 1.0
    return 0.0 if log_weight == -math.inf else power(log_weight - top)


@summing_kernel
def _forward(values: Vector, first: int, length: int, mask: Vector, is_none: bool, ahead: Vector) -> float:
    """Rows of `ahead`: none and some before j, o_j, n_j and 1 / T_j; a row more for the end. log Π T_j, or NaN.

    If none may occur, T_j is the sum over the others and n_j is 1.
    """
    none, some, log_total, product, is_held = 1.0, 0.0, 0.0, 1.0, True
    for j in range(length):
        row, inside, rest = first + j, 0.0, 0.0
        for k in range(mask.shape[1]):
            inside += mask[0, k] * values[row, k]
            rest += mask[1, k] * values[row, k]
        inside = 0.0 if is_none else inside
        whole = inside + rest
        inverse = 1.0 / whole
        is_held &= (whole > 1e-100) & (whole < 1e100)
        ahead[j, 0], ahead[j, 1], ahead[j, 4] = none, some, inverse
        ahead[j, 2], ahead[j, 3] = inside * inverse, rest * inverse
        some += none * ahead[j, 2]
        none *= ahead[j, 3]
        none = none if none > SMALLEST else 0.0
        product *= whole
        if not 1e-100 < product < 1e100:
            log_total += math.log(product)
            product = 1.0
    ahead[length, 0], ahead[length, 1] = none, some
    return log_total + log(product) if is_held else math.nan


@kernel
def _backward(
    values: Vector, first: int, length: int, mask: Vector, ahead: Vector, for_none: float, for_some: float,
    out: Numbers, start: int,
) -> None:  # fmt: skip
    """q, with the weights of none and some divided by their sum."""
    none, some = 1.0, 0.0
    for j in range(length - 1, -1, -1):
        others = for_none * ahead[j, 0] * none + for_some * (ahead[j, 1] + ahead[j, 0] * some)
        other, inside = others * ahead[j, 4], for_some * ahead[j, 4]
        row, target = first + j, start + j
        for k in range(mask.shape[1]):
            out[target, k] = values[row, k] * (mask[0, k] * inside + mask[1, k] * other)
        some = ahead[j, 2] + ahead[j, 3] * some
        none *= ahead[j, 3]
        none = none if none > SMALLEST else 0.0


@kernel
def _solve_group(
    logs: Numbers, start: int, length: int, mask: Vector, log_none: float, log_some: float, values: Vector, first: int,
    ahead: Vector, out: Numbers,
) -> float:  # fmt: skip
    """log Z and q of one group, of whose logs row `first` and on of `values` are exponentials; NaN if out of range."""
    top = max(log_none, log_some)
    if length == 0 or top == -math.inf:
        out[start : start + length] = 0.0
        return log_none if length == 0 else -math.inf
    for_none, for_some = _relative(log_none, top), _relative(log_some, top)
    log_total = _forward(values, first, length, mask, for_some == 0.0, ahead)
    if math.isnan(log_total):
        own = logs[start : start + length].reshape(-1)
        shift = suitable_shift(own)
        powers(own, shift, values[first : first + length].reshape(-1))
        log_total = _forward(values, first, length, mask, for_some == 0.0, ahead) + length * shift
    mass = for_none * ahead[length, 0] + for_some * ahead[length, 1]
    if not (LEAST < mass < MOST and abs(log_total) < MOST):
        return math.nan
    _backward(values, first, length, mask, ahead, for_none / mass, for_some / mass, out, start)
    return log_total + log(mass) + top


def _entry_point(sources: str) -> Presence:
    @entry_kernel
    def presence(
        logs: Numbers, starts: Integers, lengths: Integers, counted: Numbers, log_weights: Vector, log_z: Vector,
        out: Numbers,
    ) -> int:  # fmt: skip
        """log Z and q of all groups; a row of `counted` or of `log_weights` alone serves all. Number of NaN."""
        sources  # noqa: B018
        classes = logs.shape[1]
        most, doubtful, begin = room(lengths, classes), 0, 0
        buffer, mask = np.empty(most), np.empty((2, classes))
        values, ahead = buffer[: most // classes * classes].reshape(-1, classes), np.empty((most // classes + 1, 5))
        while begin < len(lengths):
            end = together(starts, lengths, begin, classes)
            first, last = starts[begin], starts[end - 1] + lengths[end - 1]
            powers(logs[first:last].reshape(-1), 0.0, buffer[: (last - first) * classes])
            for group in range(begin, end):
                row, column = min(group, len(counted) - 1), min(group, len(log_weights) - 1)
                if group == 0 or len(counted) > 1:
                    for k in range(classes):
                        mask[0, k] = 1.0 if counted[row, k] else 0.0
                        mask[1, k] = 1.0 - mask[0, k]
                log_z[group] = _solve_group(
                    logs, starts[group], lengths[group], mask, log_weights[column, 0], log_weights[column, 1], values,
                    starts[group] - first, ahead, out,
                )  # fmt: skip
                doubtful += 1 if math.isnan(log_z[group]) else 0
            begin = end
        return doubtful

    return presence


presence = _entry_point(sources_fingerprint())
