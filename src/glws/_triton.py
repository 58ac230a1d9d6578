"""The language of the kernels, or stand-ins that let their modules be imported where there is no Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import triton
    from triton import language as tl
except ImportError:  # the kernels can then be read, not run
    triton = tl = None

__all__ = ["Block", "Number", "Pointer", "constant", "jit", "tl"]

# What a kernel is given: a pointer to the first element of a tensor, or a number.
Pointer = Any
Number = Any
# What a kernel computes with: a block of numbers.
Block = Any


def jit(function: Callable[..., Any]) -> Any:
    """A kernel, or a part of one."""
    return function if triton is None else triton.jit(function)


def constant(value: float) -> Any:
    """A number that kernels may read from their module."""
    return value if tl is None else tl.constexpr(value)
