"""Learning rates along the way, what is decayed, and an optimizer that goes on where it was."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from glws.training import TrainingConfig
from glws.training._schedule import (
    build_optimizer,
    learning_rate,
    moved,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
)

CPU = torch.device("cpu")


def test_the_cosine_goes_from_the_first_rate_to_the_final_one() -> None:
    config = TrainingConfig(learning_rate=0.3, final_learning_rate=0.1)
    shares = [number / 7 for number in range(8)]
    expected = [0.1 + 0.2 * (1 + math.cos(math.pi * share)) / 2 for share in shares]
    assert [learning_rate(config, share) for share in shares] == pytest.approx(expected, rel=1e-15)
    assert learning_rate(TrainingConfig(learning_rate=0.1, final_learning_rate=0.5), 1.0) == 0.1  # never upwards


def test_the_cosine_begins_anew_at_each_restart() -> None:
    config = TrainingConfig(learning_rate=0.3, final_learning_rate=0.1, restarts=2)
    once = TrainingConfig(learning_rate=0.3, final_learning_rate=0.1)
    for number in range(9):
        wanted = learning_rate(once, number % 3 / 3)
        assert learning_rate(config, number / 9) == pytest.approx(wanted, abs=1e-12)
    assert learning_rate(config, 1.0) == pytest.approx(0.1)


def test_the_schedule_of_fixmatch_is_seven_sixteenths_of_a_cosine() -> None:
    config = TrainingConfig(schedule="fixmatch", learning_rate=0.03)
    rates = [learning_rate(config, share) for share in (0, 4 / 7, 1)]
    assert rates == pytest.approx([0.03, 0.03 * 0.5**0.5, 0.03 * 0.195090322])


def test_milestones_lower_the_rate_when_they_are_reached() -> None:
    config = TrainingConfig(schedule="multistep", learning_rate=1.0, milestones=(0.25, 0.5), decay=0.1)
    rates = [learning_rate(config, share) for share in (0, 0.249, 0.25, 0.499, 0.5, 1)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_a_constant_rate_is_constant() -> None:
    config = TrainingConfig(schedule="constant", learning_rate=0.2)
    assert {learning_rate(config, share) for share in (0, 0.5, 1)} == {0.2}


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_biases_and_norms_are_decayed_if_that_is_asked_for(name: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = [weight.detach().clone() for weight in model.parameters()]
    options: dict[str, object] = {"optimizer": name, "learning_rate": 0.5, "weight_decay": 0.1, "momentum": 0.0}
    optimizer = build_optimizer([model], TrainingConfig(**options, decay_biases=True), CPU)  # type: ignore[arg-type]
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for weight, old in zip(model.parameters(), before, strict=True):
        assert torch.allclose(weight, old * 0.95)


def one_weight() -> tuple[nn.Module, nn.Parameter]:
    """A network that is one matrix."""
    holder, weight = nn.Module(), nn.Parameter(torch.tensor([[2.0, -1.0]], dtype=torch.float64))
    holder.weight = weight
    return holder, weight


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_takes_the_steps_by_hand_with_its_betas_and_its_kind_of_decay(name: str) -> None:
    """adam: g ← g + λ w before the moments. adamw: w ← w - rate λ w beside the step."""
    holder, weight = one_weight()
    rate, decay, first, second = 0.1, 0.3, 0.5, 0.9
    config = TrainingConfig(optimizer=name, learning_rate=rate, weight_decay=decay, betas=(first, second))  # type: ignore[arg-type]
    optimizer = build_optimizer([holder], config, CPU)
    expected, mean, square = weight.detach().clone(), torch.zeros_like(weight), torch.zeros_like(weight)
    for number in range(1, 5):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        gradient = 2 * expected + (decay * expected if name == "adam" else 0.0)
        mean = first * mean + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        if name == "adamw":
            expected = expected * (1 - rate * decay)
        spread = (square / (1 - second**number)).sqrt() + 1e-8
        expected = expected - rate * mean / (1 - first**number) / spread
        assert torch.allclose(weight, expected, rtol=1e-12)


def test_sgd_without_nesterov_takes_the_steps_of_plain_momentum() -> None:
    """v = m v + g + λ w, and the weight moves by -rate v."""
    holder, weight = one_weight()
    config = TrainingConfig(optimizer="sgd", learning_rate=0.1, momentum=0.7, nesterov=False, weight_decay=0.3)
    optimizer = build_optimizer([holder], config, CPU)
    expected, velocity = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(4):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        velocity = 0.7 * velocity + 2 * expected + 0.3 * expected
        expected = expected - 0.1 * velocity
        assert torch.allclose(weight, expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_only_matrices_are_decayed(name: str) -> None:
    """With no gradient, decay is all that moves a weight."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = [weight.detach().clone() for weight in model.parameters()]
    config = TrainingConfig(optimizer=name, learning_rate=0.5, weight_decay=0.1, momentum=0.0)  # type: ignore[arg-type]
    optimizer = build_optimizer([model], config, CPU)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for weight, old in zip(model.parameters(), before, strict=True):
        assert torch.allclose(weight, old * (0.95 if weight.ndim > 1 else 1.0))


def test_sgd_takes_nesterov_steps_by_hand() -> None:
    """v = m v + g, and the weight moves by -rate (g + m v)."""
    holder, weight = one_weight()
    config = TrainingConfig(optimizer="sgd", learning_rate=0.1, momentum=0.7, weight_decay=0.0)
    optimizer = build_optimizer([holder], config, CPU)
    expected, velocity = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(4):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        gradient = 2 * expected
        velocity = 0.7 * velocity + gradient
        expected = expected - 0.1 * (gradient + 0.7 * velocity)
        assert torch.allclose(weight, expected, rtol=1e-14)


def test_frozen_weights_are_left_alone() -> None:
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    groups = build_optimizer([model], TrainingConfig(), CPU).param_groups
    assert [len(group["params"]) for group in groups] == [1, 0]


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam"}, {"optimizer": "sgd"}, {"optimizer": "sgd", "momentum": 0.0}]
)
def test_an_optimizer_that_was_stored_goes_on_to_the_same_bits(options: dict[str, object]) -> None:
    config = TrainingConfig(learning_rate=0.1, **options)  # type: ignore[arg-type]

    def model() -> nn.Linear:
        made = nn.Linear(4, 3)
        with torch.no_grad():
            for weight in made.parameters():
                weight.copy_(torch.linspace(-1, 1, weight.numel()).view_as(weight))
        return made

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for number in numbers:
            optimizer.zero_grad()
            set_learning_rate(optimizer, 0.1 / (1 + number))
            model(torch.linspace(number, 1, 8).view(2, 4)).square().sum().backward()
            optimizer.step()

    whole, first = model(), model()
    steps(whole, build_optimizer([whole], config, CPU), range(6))
    optimizer = build_optimizer([first], config, CPU)
    steps(first, optimizer, range(3))
    stored = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer).items()}
    second = model()
    second.load_state_dict(first.state_dict())
    other = build_optimizer([second], config, CPU)
    restore_optimizer(other, stored)
    steps(second, other, range(3, 6))
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), second.parameters(), strict=True))


def test_a_warm_up_rises_to_what_the_schedule_has() -> None:
    plain = TrainingConfig(learning_rate=0.3, final_learning_rate=0.1)
    warm = TrainingConfig(learning_rate=0.3, final_learning_rate=0.1, warm_up=0.2)
    assert learning_rate(warm, 0.0) == 0.0
    assert learning_rate(warm, 0.1) == pytest.approx(learning_rate(plain, 0.1) / 2)
    for share in (0.2, 0.5, 1.0):
        assert learning_rate(warm, share) == learning_rate(plain, share)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_what_is_put_back_lies_in_memory_as_the_weights_do(kind: type[torch.optim.Optimizer]) -> None:
    options: dict[str, object] = {"momentum": 0.9} if kind is torch.optim.SGD else {}

    def made() -> tuple[nn.Conv2d, torch.optim.Optimizer]:
        network = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return network, kind(network.parameters(), lr=0.1, fused=True, **options)  # type: ignore[call-arg]

    images = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    (network, optimizer), (other, resumed) = made(), made()
    for _ in range(2):
        network(images).square().sum().backward()
        optimizer.step()
    stored = {name: value.contiguous().clone() for name, value in optimizer_tensors(optimizer).items()}
    other.load_state_dict(network.state_dict())
    restore_optimizer(resumed, stored)
    for weight in other.parameters():
        assert all(value.stride() == weight.stride() for value in resumed.state[weight].values() if value.ndim)
    for trained, made_by in ((network, optimizer), (other, resumed)):
        made_by.zero_grad()
        trained(images).square().sum().backward()
        made_by.step()
    assert all(torch.equal(*both) for both in zip(network.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_a_step_without_detours_has_the_bits_of_the_step(optimizer: str) -> None:
    config = TrainingConfig(optimizer=optimizer, learning_rate=0.01, weight_decay=0.1)
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2, bias=False)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    built = [build_optimizer([net], config, torch.device("cpu")) for net in nets]
    for step in range(4):
        given = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        for net, own in zip(nets, built, strict=True):
            set_learning_rate(own, 0.01 / (step + 1))
            own.zero_grad()
            net(given).square().sum().backward()
        built[0].step()
        moved(built[1])
    assert all(torch.equal(one, other) for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    states = [optimizer_tensors(own) for own in built]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
