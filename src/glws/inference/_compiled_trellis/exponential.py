"""exp(x) for x <= 0 in float32 and float64, without a branch, so that loops over it run in vector lanes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

from glws.inference._counts.compiled.numeric import exp_minus_abs

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile for other kernels; sums and products may be fused."""
    plain = inspect.unwrap(function)  # run-time type checkers wrap the function that the compiler needs
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    compiler: Any = njit
    return cast(Function, compiler(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(plain))


_ROUNDER = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds a small float to an integer, kept in the low bits
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
# 1 + f + f² P(f) with the P of degree 4 whose largest relative error over |f| <= ln(2) / 2 is the smallest: 3e-9.
_NEAREST = (1.3814320507075882e-3, 8.3688510707785e-3, 4.166840108503166e-2, 0.1666651952404496, 0.49999993373080076)
_C6, _C5, _C4, _C3, _C2 = (np.float32(value) for value in _NEAREST)
_ONE = np.float32(1.0)
_DEEPEST = np.float32(-75.0)
_BIAS = np.int32(127)
_SHIFT = np.int32(23)


def _reinterpreted(source: types.Type, target: types.Type) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(target))

    return target(source), generate


def _single_of_bits(typing_context: Any, bits: Any) -> Any:
    return _reinterpreted(types.int32, types.float32)


def _bits_of_single(typing_context: Any, value: Any) -> Any:
    return _reinterpreted(types.float32, types.int32)


single_of_bits: Any = intrinsic(inspect.unwrap(_single_of_bits))
bits_of_single: Any = intrinsic(inspect.unwrap(_bits_of_single))


@kernel
def _single_exp(x: Any) -> Any:
    """exp(x) for x <= 0 in float32, not below exp(-75): 2^n times a polynomial in the remainder."""
    y = max(x, _DEEPEST)
    shifted = y * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    f = (y - n * _LN2_HIGH) - n * _LN2_LOW
    p = _C6 * f + _C5
    p = p * f + _C4
    p = p * f + _C3
    p = p * f + _C2
    p = p * f + _ONE
    p = p * f + _ONE
    return single_of_bits(np.int32(bits_of_single(p) + np.int32(bits_of_single(shifted) << _SHIFT)))


def exp_of_negative(x: float) -> float:
    """exp(x) for x <= 0 in the type of x, not below exp(-75) or exp(-600); compiled as `_exp_by_type` says."""
    return float(np.exp(max(x, -600.0)))


def _exp_by_type(x: Any) -> Any:
    return (lambda x: _single_exp(x)) if x == types.float32 else (lambda x: exp_minus_abs(x))


overload(exp_of_negative, strict=False)(inspect.unwrap(_exp_by_type))
