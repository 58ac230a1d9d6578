"""Triton's language for kernels, or stand-ins that make their modules importable without Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import triton
    from triton import language as tl
except ImportError:  # the kernels can then be imported, not run
    triton = tl = None

__all__ = ["Block", "Number", "Pointer", "constant", "jit", "tl"]

# An argument of a kernel: a pointer to the first element of a tensor, or a number.
Pointer = Any
Number = Any
# The values in a kernel: blocks of numbers.
Block = Any


def jit(function: Callable[..., Any]) -> Any:
    """A kernel, or a part of one."""
    return function if triton is None else triton.jit(function)


def constant(value: float) -> Any:
    """A number that kernels may read from their module."""
    return value if tl is None else tl.constexpr(value)
