"""Gradients of several processes: sums that travel in messages of the same order everywhere."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glws.training import World
from glws.training import _gradients as gradients


class Told(World):
    """A process that notes what it sends; the sums are twice its own."""

    def begin_sum(self, values: Tensor) -> list[Tensor]:
        sent.append(values.clone())
        return [values]

    def wait_for(self, pending: list[Tensor]) -> None:
        pending[0].mul_(2)


sent: list[Tensor] = []


@pytest.fixture(autouse=True)
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    sent.clear()
    monkeypatch.setattr(gradients, "BUCKET", 16)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))


def test_every_gradient_is_the_sum_and_the_last_layer_is_sent_first() -> None:
    model, x = network(), torch.ones(2, 3)
    model(x).square().sum().backward()
    own = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    with gradients.summed_gradients(model, Told(0, 2)):
        loss = model(x).square().sum()
        assert not sent
        loss.backward()
        assert len(sent) == len(gradients.buckets([*model.parameters()][::-1]))  # during the backward pass
    found = [weight.grad for weight in model.parameters()]
    assert all(torch.equal(each, 2 * one) for each, one in zip(found, own, strict=True))  # type: ignore[operator]
    assert torch.equal(sent[0][:2], own[-1])  # the last bias
    before = len(sent)
    model(x).sum().backward()
    assert len(sent) == before  # no hook is left


def test_a_weight_without_a_gradient_here_gets_that_of_others_and_stays_without_one_if_nobody_has_it() -> None:
    class Others(Told):
        def wait_for(self, pending: list[Tensor]) -> None:
            pending[0].copy_(torch.full_like(pending[0], 3.0))

    class Nobody(Told):
        def wait_for(self, pending: list[Tensor]) -> None:
            pass

    for world, expected in ((Others(0, 2), 3.0), (Nobody(0, 2), None)):
        model = network()
        with gradients.summed_gradients(model, world):
            model[1:](torch.ones(2, 4)).sum().backward()
        first = model[0].weight.grad
        assert (first is None) == (expected is None)
        assert first is None or bool((first == expected).all())


def test_a_backward_pass_that_fails_leaves_no_hook() -> None:
    model = network()
    with pytest.raises(ValueError, match="broken"), gradients.summed_gradients(model, Told(0, 2)):
        raise ValueError("broken")
    model(torch.ones(1, 3)).sum().backward()
    assert not sent
