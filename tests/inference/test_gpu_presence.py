"""The kernel for presence against the plain torch code, on a GPU."""

import math

import pytest
import torch

from glws.inference import PresenceWeights
from glws.inference._gpu import presence

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Groups of any size, predictions from near ties to near certainty, some impossible, some padding."""
    generator = torch.Generator().manual_seed(seed)
    instances, classes = (int(torch.randint(1, most, (1,), generator=generator)) for most in (40, 12))
    scale = 10 ** (4 * float(torch.rand(1, generator=generator)) - 2)
    potentials = torch.randn(5, instances, classes, generator=generator, dtype=torch.float64) * scale
    if seed % 3 == 0:
        potentials = potentials.log_softmax(-1)
    if seed % 4 == 1:
        potentials = torch.where(torch.rand(potentials.shape, generator=generator) < 0.3, -math.inf, potentials)
    counted = torch.rand(5, classes, generator=generator) < 0.4
    log_weights = torch.rand(5, 2, generator=generator, dtype=torch.float64).log()
    log_weights[0, 0], log_weights[1, 1] = -math.inf, -math.inf
    lengths = torch.randint(0, instances + 1, (5,), generator=generator)
    lengths[0] = instances
    real = torch.arange(instances) < lengths[:, None]
    return torch.where(real[:, :, None], potentials, 0.0), counted, log_weights, lengths


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_answers_as_plain_torch_does(seed: int, dtype: torch.dtype) -> None:
    potentials, counted, log_weights, lengths = drawn(seed)
    potentials = potentials.to(dtype)
    assert presence.fits(potentials.cuda())
    wanted = PresenceWeights(counted, log_weights).solve(potentials.double(), lengths)
    there = (each.cuda() for each in (potentials, counted, log_weights, lengths))
    found = presence.gpu_presence_posterior(*there)
    tolerance = 1e-11 if dtype == torch.float64 else 1e-5
    assert torch.equal(found[0].cpu() == -math.inf, wanted[0] == -math.inf)
    torch.testing.assert_close(found[0].cpu().double(), wanted[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found[1].cpu().double(), wanted[1], rtol=0, atol=tolerance)


@needs_gpu
def test_groups_too_large_for_a_program_are_answered_by_torch() -> None:
    potentials = torch.randn(2, 5000, 2, dtype=torch.float64)
    assert not presence.fits(potentials.cuda())
    form, lengths = PresenceWeights(torch.tensor([[False, True]] * 2), torch.zeros(2, 2)), torch.tensor([5000, 17])
    here = form.solve(potentials, lengths)
    there = form.to(torch.device("cuda")).solve(potentials.cuda(), lengths.cuda())
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other.cpu())


def test_nothing_on_a_cpu_is_for_the_kernel() -> None:
    assert not presence.fits(torch.zeros(2, 3, 2))
