"""Exponentials and logarithms of the kernels for small forms, on values of one group at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from glws.inference._closed import MODERATE
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import (
    DEEPEST,
    LN2_HIGH,
    LN2_LOW,
    Integers,
    Vector,
    bits_of_float,
    exp_above,
    float_of_bits,
    hash_of,
    kernel,
)

Numbers = np.ndarray[Any, Any]

LEAST, MOST = 1e-200, 1e200
"""A Z outside these may have lost digits: exponentials are not taken below exp(-600), nor above exp(MODERATE)."""

_MANTISSA, _ONE, _ROOT_TWO = (1 << 52) - 1, 1023 << 52, math.sqrt(2.0)


@kernel
def power(x: float) -> float:
    """exp(x), without a branch: 0 only for -inf, not below exp(-600), NaN above MODERATE."""
    result: float = exp_above(max(DEEPEST, x))
    result = 0.0 if x == -math.inf else result
    return result if x <= MODERATE else math.nan


@kernel
def log(x: float) -> float:
    """log(x) of a normal number, without a branch: n log 2 + 2 artanh((m - 1) / (m + 1)), 1 / √2 < m <= √2."""
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
    result: float = n * LN2_HIGH + (2.0 * s + (2.0 * s * z * p + n * LN2_LOW))
    return result


# Loops run over whole arrays or over rows of [rows, classes]: to a compiled loop an offset may be negative, and a slice
# costs as much as a short loop.

AT_ONCE = 4096
"""Exponentials of groups that lie one after the other are taken together, up to so many numbers."""


@kernel
def together(starts: Integers, lengths: Integers, begin: int, classes: int) -> int:
    """The end of a run of groups from `begin` on that lie one after the other and have up to AT_ONCE numbers."""
    end, last = begin + 1, starts[begin] + lengths[begin]
    while end < len(lengths) and starts[end] == last and (last + lengths[end] - starts[begin]) * classes <= AT_ONCE:
        last += lengths[end]
        end += 1
    return end


@kernel
def room(lengths: Integers, classes: int) -> int:
    """The most numbers of a run of groups."""
    longest = 0
    for group in range(len(lengths)):
        longest = max(longest, lengths[group])
    return max(longest * classes, AT_ONCE + classes)


@kernel
def powers(logs: Numbers, shift: float, out: Vector) -> None:
    """out = exp(logs - shift)."""
    for i in range(len(out)):
        out[i] = power(logs[i] - shift)


@kernel
def suitable_shift(logs: Numbers) -> float:
    """The largest of the logs, where exponentials of them as they are may leave the range; 0 if it is not finite."""
    top = -math.inf
    for i in range(len(logs)):
        top = max(top, logs[i])
    return top if math.isfinite(top) else 0.0


def sources_fingerprint() -> str:
    """A hash of the sources; every entry kernel captures it, so that its disk cache follows edits."""
    return hash_of([*sorted(Path(__file__).parent.glob("*.py")), Path(numeric.__file__)])
