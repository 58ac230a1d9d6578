"""The language of the kernels, or stand-ins that let their modules be imported where there is no Triton."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # the kernels can then be read, not run
    triton = tl = None

__all__ = ["Block", "Number", "Pointer", "constant", "jit", "on_device_of", "power_of_two", "tl"]

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


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`: the only sizes of blocks."""
    return 1 << max(least - 1, 0).bit_length()


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Where kernels are launched that read this tensor."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
