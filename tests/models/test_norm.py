"""`ActiveNorm` and its kernels against torch: on a CUDA device, or on the CPU where Triton interprets them."""

import importlib.util
import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from glws.models import build
from glws.models._norm import ActiveNorm, active_norm, active_norm_backward, fits

HAS_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if HAS_CUDA else "cpu"
HAS_KERNELS = importlib.util.find_spec("triton") is not None and (HAS_CUDA or os.environ.get("TRITON_INTERPRET") == "1")
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="needs Triton, and a CUDA device or TRITON_INTERPRET=1")


def drawn(seed: int, shape: tuple[int, int, int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Maps far from zero in some channels, their gradient from above, a weight of either sign and a bias."""
    generator = torch.Generator().manual_seed(seed)
    channels = shape[1]
    middle, spread = (torch.randn(1, channels, 1, 1, generator=generator) * scale for scale in (20, 2))
    maps, above = torch.randn(shape, generator=generator) * spread + middle, torch.randn(shape, generator=generator)
    weight, bias = (torch.randn(channels, generator=generator) for _ in range(2))
    return *(x.to(DEVICE, memory_format=torch.channels_last) for x in (maps, above)), weight.to(DEVICE), bias.to(DEVICE)


SHAPES = [(1, 1, 1, 2), (3, 5, 2, 3), (2, 16, 8, 8), (40, 16, 16, 16), (5, 160, 7, 7), (2, 48, 30, 31), (9, 640, 4, 4)]


@needs_kernels
@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize(("seed", "shape"), list(enumerate(SHAPES)))
def test_the_kernels_answer_as_torch_does_in_float64(seed: int, shape: tuple[int, int, int, int], leak: float) -> None:
    maps, above, weight, bias = drawn(seed, shape)
    running = torch.randn(shape[1], device=DEVICE), torch.rand(shape[1], device=DEVICE), 0.25
    exact = [x.double().requires_grad_() for x in (maps, weight, bias)]
    moved = [running[0].double(), running[1].double()]
    wanted = functional.leaky_relu(functional.batch_norm(exact[0], *moved, *exact[1:], True, 0.25, 1e-5), leak)
    gradients = torch.autograd.grad(wanted, exact, above.double())

    found, kept = active_norm(maps, weight, bias, running, 1e-5, leak)
    back = active_norm_backward(maps, kept, above, leak)
    for ours, theirs in zip((found, *back, *running[:2]), (wanted, *gradients, *moved), strict=True):
        scale = max(1.0, float(theirs.detach().abs().max()))
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-5 * scale)
    assert found.is_contiguous(memory_format=torch.channels_last)
    again = active_norm_backward(maps, kept, above, leak)
    assert all(torch.equal(one, other) for one, other in zip(back, again, strict=True))


@needs_kernels
@pytest.mark.parametrize("is_half", [False, True])
def test_a_network_learns_with_the_kernels_what_it_learns_without(
    is_half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are held against float64; a ReLU that rounding flips weighs little here."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0)).to(DEVICE)

    def learned(dtype: torch.dtype, has_kernels: bool) -> dict[str, Tensor]:
        monkeypatch.setattr("glws.models._norm.fits", lambda maps: has_kernels)
        network = build("wrn_28_2", (3, 16, 16), 10).to(DEVICE, dtype, memory_format=torch.channels_last).train()
        for layer in network.modules():
            if isinstance(layer, ActiveNorm):
                layer.negative_slope = 0.9
        with torch.autocast(DEVICE, torch.bfloat16, enabled=is_half and dtype is torch.float32):
            answers = network(images.to(dtype, memory_format=torch.channels_last))
            loss = functional.cross_entropy(answers, torch.arange(8, device=DEVICE))
        loss.backward()
        gradients = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
        return gradients | dict(network.named_buffers()) | {"loss": loss.detach()}

    exact = learned(torch.float64, False)

    def apart(found: dict[str, Tensor]) -> float:
        assert found.keys() == exact.keys()
        off = [(found[name].double() - x).norm() / x.double().norm().clamp_min(1e-9) for name, x in exact.items()]
        return float(torch.stack(off).max())

    with_kernels, without = (apart(learned(torch.float32, has_kernels)) for has_kernels in (True, False))
    assert with_kernels < 2 * without < (0.5 if is_half else 1e-3)


def test_on_a_cpu_it_is_torch_and_says_no_to_what_the_kernels_cannot_do() -> None:
    maps = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    assert not fits(maps.contiguous(memory_format=torch.channels_last))
    ours, theirs = ActiveNorm(4, 0.1, 0.5), nn.BatchNorm2d(4, momentum=0.5)
    for _ in range(2):
        assert torch.equal(ours(maps), functional.leaky_relu(theirs(maps), 0.1))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert torch.equal(ours.eval()(maps), functional.leaky_relu(theirs.eval()(maps), 0.1))


def test_without_momentum_statistics_are_means_over_all_batches_as_in_torch() -> None:
    layer, plain = (made.to(DEVICE).train() for made in (ActiveNorm(6), nn.BatchNorm2d(6)))
    layer.momentum = plain.momentum = None
    for seed in range(3):
        maps = drawn(seed, (5, 6, 4, 3))[0]
        torch.testing.assert_close(layer(maps), functional.relu(plain(maps)))
    torch.testing.assert_close(layer.running_mean, plain.running_mean)
    torch.testing.assert_close(layer.running_var, plain.running_var)
