"""The network as training uses it: features, layout, moving average; nothing is left behind on it."""

import pytest
import torch
from torch import Tensor, nn

from glws.models import build
from glws.training import Forward, TrainingConfig, World
from glws.training._network import WithFeatures, average, averaged_copy, number_of_features

CPU = torch.device("cpu")


def mlp() -> nn.Module:
    return build("mlp", [4], 3, torch.Generator().manual_seed(0), hidden=[8, 5])


def test_features_are_the_input_of_the_last_linear_layer() -> None:
    model, x = mlp(), torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    logits, features = WithFeatures(model)(x)
    assert features.shape == (6, 5)
    torch.testing.assert_close(last(features), logits)
    assert number_of_features(model, x) == 5


class NoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


def test_a_network_without_linear_layers_has_its_logits_as_features() -> None:
    logits, features = WithFeatures(NoLinear())(torch.arange(6.0).view(2, 3))
    assert torch.equal(logits, features)


def test_asking_a_network_leaves_no_hooks_on_it() -> None:
    model = mlp()
    for _ in range(3):
        Forward(model, TrainingConfig(), CPU, World())(torch.zeros(2, 4))
    assert not any(module._forward_pre_hooks for module in model.modules())


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("broken")


def test_a_network_that_fails_is_left_without_hooks_too() -> None:
    model = Broken()
    with pytest.raises(ValueError, match="broken"):
        WithFeatures(model)(torch.zeros(1, 2))
    assert not model.output._forward_pre_hooks


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_answers_are_float32_whatever_the_network_computes_in(precision: str) -> None:
    config = TrainingConfig(precision=precision)  # type: ignore[arg-type]
    outputs = Forward(mlp(), config, CPU, World())(torch.zeros(2, 4))
    assert outputs.logits.dtype == outputs.features.dtype == torch.float32


def test_graphs_change_nothing_on_a_cpu() -> None:
    model, x = mlp(), torch.randn(3, 4)
    eager, graphs = (Forward(model, TrainingConfig(speed=speed), CPU, World()) for speed in ("eager", "graphs"))
    graphs.begin_step()
    assert torch.equal(eager(x).logits, graphs(x).logits)


def test_the_average_follows_the_formula_and_takes_buffers_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    copy = averaged_copy(model)
    before = [weight.clone() for weight in copy.parameters()]
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1.0
        model[1].running_mean += 3.0
    average(copy, model, decay=0.9, step=1000)
    for weight, old in zip(copy.parameters(), before, strict=True):
        torch.testing.assert_close(weight, 0.9 * old + 0.1 * (old + 1.0))
    assert torch.equal(copy[1].running_mean, model[1].running_mean)
    assert not any(weight.requires_grad for weight in copy.parameters())


def test_an_average_begins_with_a_small_decay_unless_it_is_constant() -> None:
    model = nn.Linear(2, 2)
    copies = [averaged_copy(model), averaged_copy(model)]
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight += 1.0
    average(copies[0], model, decay=0.9, step=0)
    average(copies[1], model, decay=0.9, step=0, warms_up=False)
    torch.testing.assert_close(copies[0].weight, before + 0.9)  # (1 + 0) / (10 + 0) is less than 0.9
    torch.testing.assert_close(copies[1].weight, before + 0.1)
    average(nn.ModuleDict(), nn.ModuleDict(), decay=0.9, step=0)  # a method without modules


def test_settled_batch_norm_remembers_the_instances_under_the_weights_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, momentum=0.3)).eval()
    model[1].running_mean += 3.0
    pieces = torch.randn(4, 10, 3, generator=torch.Generator().manual_seed(1))
    Forward(model, TrainingConfig(), CPU, World()).settle(pieces)
    seen = model[0](pieces)
    torch.testing.assert_close(model[1].running_mean, seen.mean((0, 1)))
    torch.testing.assert_close(model[1].running_var, seen.var(1).mean(0))
    assert model[1].momentum == 0.3
    assert not model.training
    before = model[1].running_mean.clone()
    Forward(model, TrainingConfig(), CPU, World()).settle(iter(()))
    assert torch.equal(model[1].running_mean, before)  # of nothing there are no statistics


def test_nothing_is_looked_at_for_batch_norm_that_is_not_there() -> None:
    pieces = iter([torch.zeros(2, 3)])
    Forward(nn.Linear(3, 2), TrainingConfig(), CPU, World()).settle(pieces)
    assert next(pieces, None) is not None


def test_the_average_follows_closely_at_first_and_by_its_decay_in_the_end() -> None:
    for step, share in ((0, 0.9), (10, 9 / 20), (100_000, 0.001)):
        model, copy = mlp(), averaged_copy(mlp())
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(1.0)
        average(copy, model, 0.999, step)
        for new, old, kept in zip(model.parameters(), mlp().parameters(), copy.parameters(), strict=True):
            torch.testing.assert_close(kept, old + share * (new - old))
