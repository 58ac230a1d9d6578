"""The compiler settings of the kernels for counts, and an exponential that vectorizes.

Two decorators, because two kinds of arithmetic need different freedom:

- `kernel`: products and sums may be fused (one rounding instead of two), nothing else;
- `summing_kernel`: sums and products over an array may also be regrouped, which lets them run in vector lanes.

Neither lets the compiler assume that infinities or NaN do not occur.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Vector = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

# 1.5 * 2^52: adding it to a small float rounds that float to an integer, kept in the low bits of the sum.
_ROUNDER = 6755399441055744.0
_LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238
LN2_LOW = 1.9082149292705877e-10
# exp(-600) = 1e-261 is negligible next to 1, and its square is a clean zero rather than a slow subnormal.
DEEPEST = -600.0


def _compile(function: Function, freedom: set[str], cache: bool = False) -> Function:
    plain = inspect.unwrap(function)  # run-time type checkers wrap the function that the compiler needs
    return cast(Function, njit(cache=cache, nogil=True, error_model="numpy", fastmath=freedom)(plain))


def kernel(function: Function) -> Function:
    """Compile with fused multiply-add allowed."""
    return _compile(function, {"contract"})


def summing_kernel(function: Function) -> Function:
    """Compile with fused multiply-add and regrouped sums allowed: for loops that reduce an array."""
    return _compile(function, {"contract", "reassoc", "nsz"})


def entry_kernel(function: Function) -> Function:
    """Compile with a disk cache: for functions called from Python. See `sources_fingerprint`."""
    return _compile(function, {"contract"}, cache=True)


def sources_fingerprint() -> str:
    """A hash of all kernel sources, captured by every entry kernel.

    The compiler's disk cache looks at the file of the entry kernel only and would serve old code after an edit of
    another file; values captured by a function are part of its cache key.
    """
    folder = Path(__file__).parent
    return hash_of([*sorted(folder.glob("*.py")), folder.parent / "thresholds.py"])


def hash_of(files: Iterable[Path]) -> str:
    """A hash of what is in these files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _reinterpreted(source: types.Type, target: types.Type) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(target))

    return target(source), generate


def _float_of_bits(typing_context: Any, bits: Any) -> Any:
    return _reinterpreted(types.int64, types.float64)


def _bits_of_float(typing_context: Any, value: Any) -> Any:
    return _reinterpreted(types.float64, types.int64)


float_of_bits: Any = intrinsic(inspect.unwrap(_float_of_bits))
bits_of_float: Any = intrinsic(inspect.unwrap(_bits_of_float))


@kernel
def exp_above(y: float) -> float:
    """exp(y) of -600 <= y <= 700, without a branch: 2^n times the Taylor series of the remainder."""
    shifted = y * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    f = (y - n * LN2_HIGH) - n * LN2_LOW  # |f| <= ln(2) / 2, so the next term is below 5e-18
    p = f * (1 / 6227020800) + 1 / 479001600
    p = p * f + 1 / 39916800
    p = p * f + 1 / 3628800
    p = p * f + 1 / 362880
    p = p * f + 1 / 40320
    p = p * f + 1 / 5040
    p = p * f + 1 / 720
    p = p * f + 1 / 120
    p = p * f + 1 / 24
    p = p * f + 1 / 6
    p = p * f + 1 / 2
    p = p * f + 1
    p = p * f + 1
    power: float = float_of_bits((bits_of_float(shifted) + 1023) << 52)  # 2^n: n moves into the exponent field
    return p * power


@kernel
def exp_minus_abs(x: float) -> float:
    """exp(-|x|) to one unit in the last place, without a branch."""
    return exp_above(max(-abs(x), DEEPEST))
