"""The kernels for class counts and sets of classes against plain torch: on a CUDA device, or interpreted
(TRITON_INTERPRET=1)."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from torch import Tensor

from glws.inference import JointCounts, PresenceSet
from glws.inference._gpu.joint import gpu_joint_posterior
from glws.inference._gpu.sets import gpu_set_posterior
from glws.inference._joint.limits import largest_set, most_states

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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("instances", "classes", "scale"), SMALL + LARGE)
def test_the_kernel_for_sets_gives_the_answers_of_plain_torch(
    instances: int, classes: int, scale: float, dtype: torch.dtype
) -> None:
    potentials, counts, lengths = ragged(instances, classes, scale, dtype)
    present = counts > 0
    present[3] = torch.arange(classes) <= int(lengths[3])  # one class more than there are instances, where that can be
    expected = PresenceSet(present).solve(potentials, lengths)
    largest = largest_set(present, lengths)
    assert largest is not None
    answer = gpu_set_posterior(potentials.to(DEVICE), present.to(DEVICE), lengths.to(DEVICE), largest[0])
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(answer[0].cpu(), expected[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(answer[1].cpu(), expected[1], rtol=0.0, atol=tolerance)


def test_sets_too_improbable_for_a_float_and_the_empty_set() -> None:
    """Two classes of e^-500 each; nothing of nothing; nothing of something; something of nothing."""
    drawn = torch.Generator().manual_seed(0)
    far = torch.tensor([0.0, -500.0, -500.0, -3000.0], dtype=torch.float64)
    potentials = torch.randn(4, 4, 4, generator=drawn, dtype=torch.float64) + far
    present = torch.tensor([[True, True, True, False], [False] * 4, [False] * 4, [True, False, False, False]])
    lengths = torch.tensor([4, 0, 2, 0])
    expected = PresenceSet(present).solve(potentials, lengths)
    answer = gpu_set_posterior(potentials.to(DEVICE), present.to(DEVICE), lengths.to(DEVICE), 3)
    assert expected[0].isfinite().tolist() == [True, True, False, False]
    torch.testing.assert_close(answer[0].cpu(), expected[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(answer[1].cpu(), expected[1], rtol=0.0, atol=1e-9)


@pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
def test_a_form_that_knows_its_largest_set_is_answered_without_waiting() -> None:
    potentials, counts, lengths = ragged(10, 10, 2.0, torch.float64)
    present = counts > 0
    form = PresenceSet(present, largest_set(present, lengths))
    assert form.is_capturable(DEVICE)
    assert not PresenceSet(present).is_capturable(DEVICE)
    assert not form.is_capturable(torch.device("cpu"))
    expected = form.solve(potentials, lengths)
    answer = form.to(DEVICE).solve(potentials.to(DEVICE), lengths.to(DEVICE))
    torch.testing.assert_close(answer[1].cpu(), expected[1], rtol=0.0, atol=1e-9)
