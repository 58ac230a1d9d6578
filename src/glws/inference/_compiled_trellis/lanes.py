"""Basic arithmetic on vectors of neighboring numbers.

Arrays are flat: a row is an offset, rows are a stride apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic, overload

from glws.inference._compiled_trellis.emitter import Emitter, Given, vector_code
from glws.inference._compiled_trellis.machines import Terms
from glws.inference._counts.compiled.numeric import exp_minus_abs

Numbers = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.uint64]

Function = TypeVar("Function", bound=Callable[..., Any])


def _compile(function: Function, inline: str) -> Function:
    plain = inspect.unwrap(function)  # run-time type checkers wrap the function that the compiler needs
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "inline": inline}
    compiler: Any = njit
    return cast(Function, compiler(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(plain))  # not for Python


def kernel(function: Function) -> Function:
    """Compile for other kernels; sums and products may be fused."""
    return _compile(function, "never")


def part(function: Function) -> Function:
    """Compile as a part of the single kernel that uses it, which shortens compilation."""
    return _compile(function, "always")


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


def _combine_lanes(emit: Emitter, given: Given, lane: Any) -> None:
    """out = offset + Σ_terms left · right · weight, or without left."""
    builder, work = emit.builder, given["work"]
    total = emit.variable(emit.load(work, builder.add(given["offset_at"], lane)))
    sides = [side for side in ("left", "right") if side in given]
    starts = [builder.add(given[f"{side}_at"], lane) for side in sides]
    with emit.range(given["begin"], given["end"], ir.Constant(lane.type, 1)) as (term, _):
        factors = [emit.spread(emit.scalar(given["weights"], term))]
        for side, start in zip(sides, starts, strict=True):
            row = builder.mul(emit.scalar(given[side], term), given[f"{side}_stride"])
            factors.append(emit.load(work, builder.add(start, row)))
        emit.add(total, emit.product(*factors))
    emit.store(builder.load(total), work, builder.add(given["out_at"], lane))


_vector_combine = vector_code(
    "work out_at left_at left_stride right_at right_stride left right weights begin end offset_at width", _combine_lanes
)
_vector_mix = vector_code("work out_at right_at right_stride right weights begin end offset_at width", _combine_lanes)


@part
def combine(
    work: Numbers, out_at: int, left_at: int, left_stride: int, right_at: int, right_stride: int,
    terms: Terms, items: int, offset_at: int, width: int,
) -> None:  # fmt: skip
    """out[l] = offset[l] + Σ_{terms of the list} left[row, l] · right[row', l] · weight, for l < width."""
    _vector_combine(
        work, out_at, left_at, left_stride, right_at, right_stride,
        terms.left, terms.right, terms.weights, terms.bounds[items], terms.bounds[items + 1], offset_at, width,
    )  # fmt: skip


@part
def mix(
    work: Numbers, out_at: int, right_at: int, right_stride: int, terms: Terms, items: int, offset_at: int, width: int
) -> None:
    """out[l] = offset[l] + Σ_{terms of the list} right[row', l] · weight, for l < width."""
    _vector_mix(
        work, out_at, right_at, right_stride,
        terms.right, terms.weights, terms.bounds[items], terms.bounds[items + 1], offset_at, width,
    )  # fmt: skip


@part
def combine_few(
    work: Numbers, out_at: int, left_at: int, left_stride: int, right_at: int, right_stride: int,
    terms: Terms, items: int, offset_at: int, width: int,
) -> None:  # fmt: skip
    """`combine` for any width. (Unsigned indices avoid the check for negative ones.)"""
    step, other_step = np.uint64(left_stride), np.uint64(right_stride)
    for lane in range(width):
        total = work[offset_at + lane]
        first, other = np.uint64(left_at + lane), np.uint64(right_at + lane)
        for term in range(np.uint64(terms.bounds[items]), np.uint64(terms.bounds[items + 1])):
            factor = work[first + np.uint64(terms.left[term]) * step] * terms.weights[term]
            total += factor * work[other + np.uint64(terms.right[term]) * other_step]
        work[out_at + lane] = total


@kernel
def move_few(
    work: Numbers, out_at: int, left_at: int, stride: int, right_at: int, right_stride: int, terms: Terms, items: int,
    offset_at: int, offset_stride: int, present: Integers, width: int, zero: float,
) -> None:  # fmt: skip
    """One step of a recursion over all states, for a few groups: `combine` for present states, 0 for others."""
    for state in range(len(present)):
        out, offset = out_at + state * stride, offset_at + state * offset_stride
        if not present[state]:
            work[out : out + width] = zero
        else:
            combine_few(work, out, left_at, stride, right_at, right_stride, terms, items + state, offset, width)


@kernel
def copy(work: Numbers, out_at: int, source_at: int, size: int) -> None:
    """out[i] = source[i]."""
    out, source = work[out_at : out_at + size], work[source_at : source_at + size]
    for i in range(size):
        out[i] = source[i]
