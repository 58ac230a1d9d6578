"""Fused CUDA kernels for the trellis, counts and presence, equivalent to the plain torch code.

Importing this package imports neither Triton nor a kernel; the functions that launch kernels do so at first use:

    glws.inference._gpu.trellis.gpu_trellis_posterior    any automaton within `trellis.fits`
    glws.inference._gpu.counts.gpu_count_posterior       exactly m, any length
    glws.inference._gpu.joint.gpu_joint_posterior        count vectors
    glws.inference._gpu.sets.gpu_set_posterior           sets of classes that occur
    glws.inference._gpu.presence.gpu_presence_posterior  none or at least one of some classes

None reads a value on the host, so all can be captured in a CUDA graph, and all are deterministic.
"""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor


def is_available(tensor: Tensor) -> bool:
    """Whether the kernels can answer for this tensor: on a CUDA device with Triton installed."""
    return can_answer(tensor.device)


def can_answer(device: torch.device) -> bool:
    """Whether kernels exist for this device."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
