"""LLP-VAT: the worked numbers of the consistency, its direction against a Hessian, and what it leaves alone."""

from __future__ import annotations

import copy

import pytest
import torch
from methods.driving import accuracy, digits, network_of, train
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.data.weaken import class_proportions
from glws.errors import DataError
from glws.kinds import ClassCounts, MultiInstance, Proportions
from glws.methods import Network, Outputs, Progress, Step
from glws.methods._llp_vat import (
    LLPVAT,
    adversarial_direction,
    divergence,
    frozen_statistics,
    ramped,
    shares_of_rows,
    unit_length,
)
from glws.methods._mean_proportion import MeanProportion
from glws.models import build

WEIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], dtype=torch.float64)
POINT = torch.tensor([[0.5, -0.2]], dtype=torch.float64)
START = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
ONE = torch.ones(1, dtype=torch.float64)


def linear(instances: Tensor) -> Outputs:
    logits = instances.to(WEIGHT) @ WEIGHT.T
    return Outputs(logits, instances)


def answers(network: Network, instances: Tensor) -> Tensor:
    return network(instances).logits.detach().log_softmax(-1)


def direction_at(probe: float, iterations: int = 1, start: Tensor = START) -> Tensor:
    return adversarial_direction(linear, POINT, answers(linear, POINT), ONE, start, probe, iterations)


def hessian() -> Tensor:
    probs = answers(linear, POINT)[0].exp()
    return WEIGHT.T @ (probs.diag() - probs[:, None] * probs) @ WEIGHT


def test_the_network_of_the_worked_numbers_predicts_as_worked() -> None:
    expected = torch.tensor([[0.546610, 0.271439, 0.181951]], dtype=torch.float64)
    torch.testing.assert_close(answers(linear, POINT).exp(), expected, atol=1e-6, rtol=0)


def test_the_direction_is_that_of_one_power_step_on_the_hessian() -> None:
    found = direction_at(1e-5)[0]
    torch.testing.assert_close(found, torch.tensor([0.996691, 0.081287], dtype=torch.float64), atol=1e-5, rtol=0)
    step = hessian() @ START[0]
    torch.testing.assert_close(found, step / step.norm(), atol=1e-5, rtol=0)


def test_many_power_steps_find_the_steepest_direction() -> None:
    steepest = torch.linalg.eigh(hessian()).eigenvectors[:, -1]
    found = direction_at(1e-5, iterations=30)[0]
    assert abs((found @ steepest).item()) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize(("radius", "loss"), [(1.0, 0.219730), (6.0, 3.020696)])
def test_the_consistency_has_the_worked_losses(radius: float, loss: float) -> None:
    moved = POINT + radius * direction_at(1e-5)
    assert divergence(linear, moved, answers(linear, POINT), ONE).item() == pytest.approx(loss, abs=1e-4)
    step = hessian() @ START[0]
    exact = POINT + radius * step / step.norm()
    assert divergence(linear, exact, answers(linear, POINT), ONE).item() == pytest.approx(loss, abs=1e-6)


def test_the_default_probe_finds_the_direction_in_float32_and_the_published_one_does_not_move_it_there() -> None:
    """Cosines with the direction of float64 on a random network: the reason for the default."""
    generator = torch.Generator().manual_seed(0)
    model = build("mlp", [256], 5, hidden=(64,), generator=generator)
    instances, start = (torch.randn(8, 256, generator=generator) for _ in range(2))
    shares = torch.full((8,), 1 / 8)

    def found(probe: float, dtype: torch.dtype) -> Tensor:
        network, given = network_of(copy.deepcopy(model).to(dtype)), instances.to(dtype)
        target = answers(network, given)
        return adversarial_direction(network, given, target, shares.to(dtype), start.to(dtype), probe).double()

    exact = found(1e-4, torch.float64)
    assert float((exact * found(LLPVAT().probe, torch.float32)).sum(1).min()) > 0.999
    assert float((exact * found(1e-6, torch.float32)).sum(1).mean()) < 0.7


def test_the_ramp_has_the_worked_values() -> None:
    shares = [0.0, 0.2, 0.4, 0.7, 1.0, 2.0]
    found = [ramped(Progress(step=round(400 * share), num_steps=1000), 0.4) for share in shares]
    assert found == pytest.approx([0.006738, 0.040762, 0.165299, 0.637628, 1, 1], abs=1e-6)
    assert ramped(Progress(step=0, num_steps=10), 0.0) == 1


def test_lengths_are_one_at_any_scale_and_directions_are_kept_where_there_is_none() -> None:
    values = torch.tensor([[3e-38, -4e-38], [3e30, 4e30], [0.0, 0.0]])
    instead = torch.tensor([[1.0, 0.0]] * 3)
    expected = torch.tensor([[0.6, -0.8], [0.6, 0.8], [1.0, 0.0]])
    torch.testing.assert_close(unit_length(values, instead), expected)


def bag_step(network: Network, data: WeakDataset, progress: Progress | None = None, seed: int = 0) -> Step:
    batch = data.batch([torch.arange(len(groups)) for groups in data.groups])
    generator = torch.Generator().manual_seed(seed)
    return Step(batch, network, lambda _: batch.instances, progress=progress or Progress(), generator=generator)


def point_data() -> WeakDataset:
    instances = torch.tensor([[0.5, -0.2], [1.0, 0.4], [-0.3, 0.9], [2.0, 2.0]], dtype=torch.float64)
    return WeakDataset(instances, [[0, 1, 1], [2, 0, 1, 2]], ClassCounts.of([[1, 1, 1], [2, 0, 2]]))


def test_shares_count_members_once_for_every_place_and_padding_never() -> None:
    batch = point_data().batch([torch.tensor([0, 1])])
    assert (7 * shares_of_rows(batch)).tolist() == pytest.approx([2, 3, 2])


def test_the_loss_is_proportion_matching_plus_the_weighted_ramped_consistency() -> None:
    data, progress = point_data(), Progress(step=1, num_steps=10)
    plain = MeanProportion().loss(bag_step(linear, data)).item()
    step = bag_step(linear, data, progress)
    method = LLPVAT(weight=0.7, radius=2.0, ramp=0.4)
    found = method.loss(step).item()
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 2, generator=generator).double()
    instances, shares = step.batch.instances, torch.tensor([2 / 7, 3 / 7, 2 / 7], dtype=torch.float64)
    target = answers(linear, instances)
    moved = instances + 2 * adversarial_direction(linear, instances, target, shares, start, method.probe)
    consistency = divergence(linear, moved, target, shares).item()
    assert found == pytest.approx(plain + 0.7 * ramped(progress, 0.4) * consistency, abs=1e-12)
    assert step.notes["proportion_loss"].item() == pytest.approx(plain)
    assert step.notes["consistency"].item() == pytest.approx(consistency)


def test_only_the_last_answer_carries_a_gradient_to_the_weights() -> None:
    model = nn.Linear(2, 3, dtype=torch.float64)

    def network(instances: Tensor) -> Outputs:
        return Outputs(model(instances), instances)

    target, start = answers(network, POINT), START.clone()
    direction = adversarial_direction(network, POINT, target, ONE, start, 0.1)
    assert not direction.requires_grad
    assert model.weight.grad is None
    divergence(network, POINT + direction, target, ONE).backward()
    fixed = answers(network, POINT + direction).exp() - target.exp()
    assert model.bias.grad is not None
    torch.testing.assert_close(model.bias.grad, fixed[0])


class Normed(nn.Module):
    """A batch norm before the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2, dtype=torch.float64)
        self.output = nn.Linear(2, 3, dtype=torch.float64)

    def forward(self, instances: Tensor) -> Tensor:
        logits: Tensor = self.output(self.norm(instances))
        return logits


def test_perturbed_instances_leave_the_statistics_of_batch_norms_alone() -> None:
    torch.manual_seed(0)
    model, other = Normed(), Normed()
    other.load_state_dict(model.state_dict())
    LLPVAT(weight=1.0, iterations=2).loss(bag_step(network_of(model), point_data()))
    MeanProportion().loss(bag_step(network_of(other), point_data()))
    assert model.norm.num_batches_tracked.item() == 1
    torch.testing.assert_close(model.norm.running_mean, other.norm.running_mean, rtol=0, atol=0)
    torch.testing.assert_close(model.norm.running_var, other.norm.running_var, rtol=0, atol=0)
    assert model.norm.track_running_stats


def test_frozen_batch_norms_normalize_by_their_batch_and_thaw_afterwards() -> None:
    model, instances = Normed(), point_data().instances.take(torch.arange(4))
    expected = model(instances)
    before = model.norm.running_mean.clone()
    with frozen_statistics():
        torch.testing.assert_close(model(instances), expected)
    torch.testing.assert_close(model.norm.running_mean, before, rtol=0, atol=0)
    model(instances)
    assert not torch.equal(model.norm.running_mean, before)


def test_batch_norms_thaw_after_an_error() -> None:
    model = Normed()
    with pytest.raises(RuntimeError), frozen_statistics():
        model(torch.zeros(4, 3, dtype=torch.float64))
    assert model.norm.track_running_stats


def test_large_logits_have_finite_losses_and_gradients() -> None:
    model = nn.Linear(2, 3)
    nn.init.constant_(model.weight, 50.0)
    nn.init.constant_(model.bias[:1], 50.0)
    data = WeakDataset(torch.randn(4, 2), [[0, 1], [2, 3]], ClassCounts.of([[1, 1, 0], [0, 0, 2]]))
    loss = LLPVAT(ramp=0).loss(bag_step(lambda instances: Outputs(model(instances), instances), data))
    loss.backward()
    assert model.weight.grad is not None
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(model.weight.grad).all())


def test_a_batch_of_no_bags_has_loss_zero() -> None:
    data, model = point_data(), Normed().eval()
    batch = data.batch([torch.zeros(0, dtype=torch.int64)])
    loss = LLPVAT().loss(Step(batch, network_of(model), lambda _: batch.instances))
    loss.backward()
    assert loss.item() == 0


def test_presence_and_ranges_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0]], MultiInstance.of([1]))
    with pytest.raises(DataError, match=r"^LLPVAT learns from bags with counts .* found MultiInstance$"):
        LLPVAT().check(data)
    with pytest.raises(DataError, match=r"^LLPVAT learns from exact counts, found between 0 and 1 .* in group 0$"):
        LLPVAT().check(WeakDataset(torch.zeros(1, 1), [[0]], Proportions.between([0], [1])))


def test_instances_that_cannot_change_a_little_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(1, 2, dtype=torch.uint8), [[0]], ClassCounts.of([[1, 0, 0]]))
    with pytest.raises(DataError, match=r"^LLPVAT perturbs instances, .* found torch.uint8$"):
        LLPVAT().loss(bag_step(linear, data))


@pytest.mark.slow
def test_it_learns_digits_from_counts() -> None:
    instances, labels = digits()
    record = class_proportions(labels, 10, 400, 5, 1, generator=torch.Generator().manual_seed(0))
    for method in (LLPVAT(radius=1.0), LLPVAT(radius=0.5, weight=1.0, ramp=0.0)):
        model = train(method, record.dataset(instances), build("mlp", [64], 10, hidden=(64,)))
        assert accuracy(model, instances, labels) > 0.9
