"""The kernel for class counts against plain torch: on a CUDA device, or interpreted (TRITON_INTERPRET=1)."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from torch import Tensor

from glws.inference.gpu.joint import gpu_joint_posterior
from glws.inference.joint import JointCounts
from glws.inference.joint.limits import most_states

HAS_CUDA = torch.cuda.is_available()
if importlib.util.find_spec("triton") is None or not (HAS_CUDA or os.environ.get("TRITON_INTERPRET") == "1"):
    pytest.skip("needs Triton, and a CUDA device or TRITON_INTERPRET=1", allow_module_level=True)

DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter is numpy, and log 0 is meant
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
SMALL = [(3, 3, 1.0), (5, 4, 2.0), (6, 3, 400.0), (4, 10, 1.0), (1, 2, 1.0)]
LARGE = [(10, 10, 2.0), (14, 5, 3.0), (16, 10, 1.0), (10, 10, 300.0)] if HAS_CUDA else []


def ragged(instances: int, classes: int, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Four groups: a full one with a hard zero, two of any length, an impossible one."""
    drawn = torch.Generator().manual_seed(instances * 100 + classes)
    lengths = torch.randint(0, instances + 1, (4,), generator=drawn)
    lengths[0] = instances
    potentials = (scale * torch.randn(4, instances, classes, generator=drawn, dtype=torch.float64)).log_softmax(2)
    potentials[0, 0, 0] = -torch.inf
    labels = torch.randint(classes, (4, instances), generator=drawn)
    counts = torch.stack([torch.bincount(row[:n], minlength=classes) for row, n in zip(labels, lengths, strict=True)])
    counts[3, 0] += 1
    real = torch.arange(instances) < lengths[:, None]
    return torch.where(real[:, :, None], potentials, 0.0).to(dtype), counts, lengths


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("instances", "classes", "scale"), SMALL + LARGE)
def test_the_kernel_gives_the_answers_of_plain_torch(
    instances: int, classes: int, scale: float, dtype: torch.dtype
) -> None:
    potentials, counts, lengths = ragged(instances, classes, scale, dtype)
    expected = JointCounts(counts, "exact").solve(potentials, lengths)
    size = most_states(counts)
    assert size is not None
    answer = gpu_joint_posterior(potentials.to(DEVICE), counts.to(DEVICE), lengths.to(DEVICE), size)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(answer[0].cpu(), expected[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(answer[1].cpu(), expected[1], rtol=0.0, atol=tolerance)
