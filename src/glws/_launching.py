"""Helpers to launch kernels that do not import Triton."""

from __future__ import annotations

import functools
import importlib.util
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`, the size of a block.

    >>> [power_of_two(least) for least in (1, 2, 3, 16, 17)]
    [1, 2, 4, 16, 32]
    """
    return 1 << max(least - 1, 0).bit_length()


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """A context that launches kernels on the device of this tensor."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def is_available(tensor: Tensor) -> bool:
    """Whether the kernels can answer for this tensor: on a CUDA device with Triton installed."""
    return can_answer(tensor.device)


def can_answer(device: torch.device) -> bool:
    """Whether kernels exist for this device."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
