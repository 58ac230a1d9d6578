"""Steps of many rows: computed piece by piece, with the outputs and gradients of all rows at once."""

import pytest
import torch
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.errors import ConfigError
from glws.kinds import MultiInstance
from glws.models import build
from glws.training import TrainingConfig, World, fit
from glws.training._network import Forward
from glws.training._order import BudgetOrder, Order


def gradients(model: nn.Module, rows: Tensor, rows_at_once: int = 8192) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    outputs = Forward(model, TrainingConfig(rows_at_once=rows_at_once), torch.device("cpu"), World())(rows)
    (outputs.logits.square().sum() + outputs.features.sin().sum()).backward()
    return outputs.logits.detach(), [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


def test_pieces_give_the_outputs_and_gradients_of_the_whole() -> None:
    rows = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    for name, options in (("mlp", {"hidden": [8]}), ("mlp", {"hidden": [8], "batch_norm": True}), ("linear", {})):
        model = build(name, [6], 3, torch.Generator().manual_seed(1), **options)
        whole = gradients(model, rows)
        pieces = gradients(model, rows, 16)
        assert torch.allclose(whole[0], pieces[0], atol=1e-6)
        assert len(whole[1]) == len(pieces[1]) > 0
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(whole[1], pieces[1], strict=True))


def bags(lengths: list[int]) -> WeakDataset:
    rows = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(0))
    groups = [list(range(sum(lengths[:place]), sum(lengths[: place + 1]))) for place in range(len(lengths))]
    return WeakDataset(rows, groups, MultiInstance.of([place % 2 for place in range(len(lengths))]))


@pytest.mark.parametrize("seed", range(20))
def test_a_budget_gives_every_group_once_and_no_empty_step(seed: int) -> None:
    drawn = torch.Generator().manual_seed(seed)
    lengths = [(1, 2, 5, 50, 500)[int(torch.randint(5, (), generator=drawn))] for _ in range(1 + seed % 12)]
    order = Order.of(bags(lengths), None, seed, step_instances=60)
    assert isinstance(order, BudgetOrder)
    for epoch in range(3):
        steps = [order.groups(epoch, step)[0].tolist() for step in range(order.steps_per_epoch)]
        assert all(steps)
        assert sorted(group for step in steps for group in step) == list(range(len(lengths)))


def test_a_budget_keeps_steps_even() -> None:
    order = Order.of(bags([10] * 60), None, 0, step_instances=100)
    assert [len(order.groups(0, step)[0]) for step in range(order.steps_per_epoch)] == [10] * 6


def test_a_budget_is_instead_of_a_batch_size_and_is_trained_with() -> None:
    config = TrainingConfig(step_instances=20, epochs=2)
    fitted = fit(build("linear", [3], 2), bags([3, 9, 4, 30, 2, 2]), config=config)
    assert fitted.history[-1]["step"] == 6
    with pytest.raises(ConfigError, match=r"`training\.step_instances` is for one kind, without `batch_size`"):
        fit(build("linear", [3], 2), bags([3, 4]), config=TrainingConfig(step_instances=20, batch_size=2))


def test_a_training_in_pieces_is_that_of_whole_steps() -> None:
    """Gradient accumulation: impossible groups, ragged bags, whatever the pieces are."""

    def trained(rows_at_once: int) -> Tensor:
        model = build("mlp", [3], 2, torch.Generator().manual_seed(1), hidden=[8])
        config = TrainingConfig(epochs=3, batch_size=4, precision="float64", rows_at_once=rows_at_once)
        fit(model, bags([3, 9, 1, 4, 30, 2, 2, 5, 8]), config=config)
        return torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])

    whole = trained(8192)
    assert (trained(7) - whole).abs().max() <= 1e-12
    assert (trained(1) - whole).abs().max() <= 1e-12
