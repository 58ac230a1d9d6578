"""UUM: the worked numbers, unbiasedness on exact distributions, and its equality with the likelihood."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from methods.driving import accuracy, digits, setup_of, step_on, train
from torch import Tensor

from glws.data import WeakDataset
from glws.data.weaken import class_proportions, multi_instance, pair_similarity
from glws.errors import DataError
from glws.inference import infer
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Labels,
    MultiInstance,
    PairSimilarity,
    PresentClasses,
    Proportions,
)
from glws.methods import GLWS, Progress, step_of
from glws.methods._count_loss import CountLoss
from glws.methods._uum import UUM
from glws.models import build

POSITIVE = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64)
BINARY = torch.stack([1 - POSITIVE, POSITIVE], 1).log()
THREE = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64).log()
PAIR = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]], dtype=torch.float64).log()


def group_loss(weak: AbstractSupervision, logits: Tensor, method: UUM | CountLoss | None = None) -> Tensor:
    data = WeakDataset(torch.zeros(len(logits), 1), [list(range(len(logits)))], weak)
    return (method or UUM()).loss(step_on(data, logits))


def random_logits(rows: int, classes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(rows, classes, dtype=torch.float64, generator=generator)).requires_grad_()


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, logits)
    return found


@pytest.mark.parametrize(("present", "loss"), [(1, 0.525411), (0, 1.105712)])
def test_bags_have_the_worked_losses(present: int, loss: float) -> None:
    assert group_loss(MultiInstance.of([present]), BINARY).item() == pytest.approx(loss, abs=1e-6)


def test_weights_of_a_positive_bag_are_predictions_over_the_chance_of_any() -> None:
    weights = infer(BINARY[None], MultiInstance.of([1])).marginals[0]
    expected = torch.tensor([0.202429, 0.506073, 0.708502, 0.910931], dtype=torch.float64)
    torch.testing.assert_close(weights[:, 1], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("same", "loss"), [(True, 0.804248), (False, 0.989008)])
def test_pairs_have_the_worked_losses(same: bool, loss: float) -> None:
    assert group_loss(PairSimilarity.of([same], 3), PAIR).item() == pytest.approx(loss, abs=1e-6)


def test_pairs_have_the_worked_weights() -> None:
    marginals = infer(PAIR.expand(2, 2, 3), PairSimilarity.of([True, False], 3)).marginals
    same = [0.810811, 0.081081, 0.108108]
    different = [[0.476190, 0.428571, 0.095238], [0.317460, 0.111111, 0.571429]]
    expected = torch.tensor([[same, same], different], dtype=torch.float64)
    torch.testing.assert_close(marginals, expected, atol=1e-6, rtol=0)


def test_counts_have_the_worked_loss_and_weights() -> None:
    weak = ClassCounts.of([[1, 0, 2]])
    posterior = infer(THREE[None], weak)
    expected = [[0.861538, 0, 0.138462], [0.123077, 0, 0.876923], [0.015385, 0, 0.984615]]
    torch.testing.assert_close(posterior.marginals[0], torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=0)
    assert posterior.log_likelihood.exp().item() == pytest.approx(0.195, abs=1e-12)
    assert group_loss(weak, THREE).item() == pytest.approx(0.695072, abs=1e-6)


def test_the_joint_posterior_is_not_that_of_each_class_against_the_rest() -> None:
    joint = infer(THREE[None], ClassCounts.of([[1, 0, 2]])).marginals[0, :, 2]
    column = torch.stack([1 - THREE[:, 2].exp(), THREE[:, 2].exp()], 1).log()
    alone = infer(column[None], Proportions.of([2])).marginals[0, :, 1]
    both = torch.stack([joint, alone])
    expected = torch.tensor([[0.138462, 0.876923, 0.984615], [0.223022, 0.798561, 0.978417]], dtype=torch.float64)
    torch.testing.assert_close(both, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("counts", ["exact", "tilted"])
def test_weights_of_counts_sum_to_the_counts_and_to_one(counts: str) -> None:
    wanted = torch.tensor([[3, 0, 5, 1]])
    log_probs = random_logits(9, 4).detach().log_softmax(-1)
    weights = infer(log_probs[None], ClassCounts.of(wanted).solved_by(counts)).marginals[0]
    torch.testing.assert_close(weights.sum(0), wanted[0].double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(weights.sum(1), torch.ones(9, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("weak", [MultiInstance.of([1]), MultiInstance.of([0]), Proportions.of([3])])
def test_the_gradient_of_count_loss_is_the_number_of_instances_times_that_of_uum(weak: AbstractSupervision) -> None:
    logits = random_logits(6, 2)
    likelihood = gradient(group_loss(weak, logits, CountLoss()), logits)
    torch.testing.assert_close(likelihood, 6 * gradient(group_loss(weak, logits), logits))


@pytest.mark.parametrize("same", [True, False])
def test_the_gradient_of_pairs_is_half_that_of_their_likelihood(same: bool) -> None:
    logits, weak = random_logits(2, 4), PairSimilarity.of([same], 4)
    agree = (logits.softmax(1)[0] * logits.softmax(1)[1]).sum()
    likelihood = -(agree if same else 1 - agree).log()
    torch.testing.assert_close(gradient(likelihood, logits), 2 * gradient(group_loss(weak, logits), logits))


def test_of_pairs_it_is_glws_through_the_same_eyes() -> None:
    logits = random_logits(7, 4)
    pairs = [[0, 1], [2, 3], [4, 5], [6, 1]]
    data = WeakDataset(torch.zeros(7, 1), pairs, PairSimilarity.of([True, False, False, True], 4))
    mine, theirs = (method.loss(step_on(data, logits)) for method in (UUM(), GLWS(m_step="weak")))
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(gradient(mine, logits), gradient(theirs, logits))


def test_the_weights_carry_no_gradient() -> None:
    logits, weak = random_logits(5, 3), ClassCounts.of([[2, 1, 2]])
    weights = infer(logits.detach().log_softmax(-1)[None], weak).marginals[0]
    fixed = -(weights * logits.log_softmax(-1)).sum() / 5
    torch.testing.assert_close(gradient(group_loss(weak, logits), logits), gradient(fixed, logits))


def test_weights_may_come_from_another_view() -> None:
    one, other = random_logits(4, 2, 1).detach(), random_logits(4, 2, 2).detach()
    data = WeakDataset(torch.zeros(4, 1), [[0, 1, 2, 3]], Proportions.of([1]))
    step = step_on(data, {"strong": one, "weak": other})
    weights = infer(other.log_softmax(-1)[None], Proportions.of([1])).marginals[0]
    expected = -(weights * one.log_softmax(-1)).sum() / 4
    torch.testing.assert_close(UUM(view="strong", weight_view="weak").loss(step), expected)


def aggregates(
    name: str,
) -> tuple[int, Callable[[tuple[int, ...]], tuple[int, ...]], Callable[..., AbstractSupervision]]:
    """How many instances are in a group, what is reported of their labels, and the kind made of a report."""
    if name == "presence":
        return 3, lambda labels: (int(1 in labels),), lambda report: MultiInstance.of(report, 1, 3)
    if name == "classes":
        return 3, lambda labels: tuple(int(k in labels) for k in range(3)), lambda report: PresentClasses.of([report])
    if name == "counts":
        return 3, lambda labels: tuple(labels.count(k) for k in range(3)), lambda report: ClassCounts.of([report])
    return 2, lambda labels: (int(labels[0] == labels[1]),), lambda report: PairSimilarity.of([bool(report[0])], 3)


@pytest.mark.parametrize("name", ["presence", "classes", "counts", "similarity"])
def test_with_weights_of_the_true_model_the_mean_loss_is_the_supervised_risk(name: str) -> None:
    """All groups of three instances and all reports, with their probabilities, for a model that is not the true one."""
    truth, model = random_logits(3, 3, 3).detach(), random_logits(3, 3, 4).detach()
    chances, eta = [0.5, 0.2, 0.3], truth.softmax(1)
    risk = -sum(chances[x] * (eta[x] * model.log_softmax(1)[x]).sum().item() for x in range(3))
    size, report, kind = aggregates(name)
    total = 0.0
    for group in itertools.product(range(3), repeat=size):
        reports: dict[tuple[int, ...], float] = defaultdict(float)
        for labels in itertools.product(range(3), repeat=size):
            reports[report(labels)] += math.prod(eta[x, y].item() for x, y in zip(group, labels, strict=True))
        for found, chance in reports.items():
            data = WeakDataset(torch.zeros(3, 1), [list(group)], kind(found), check=False)
            step = step_on(data, {"weak": model, "truth": truth})
            loss = UUM(weight_view="truth").loss(step).item()
            total += math.prod(chances[x] for x in group) * chance * loss
    assert total == pytest.approx(risk, abs=1e-9)


def test_ragged_groups_weigh_the_same_and_padding_nothing() -> None:
    logits = random_logits(6, 2).detach()
    groups, counts = [[0, 1, 2, 3, 4], [5, 1]], [2, 1]
    alone = [
        UUM().loss(step_on(WeakDataset(torch.zeros(6, 1), [group], Proportions.of([count])), logits)).item()
        for group, count in zip(groups, counts, strict=True)
    ]
    both = UUM().loss(step_on(WeakDataset(torch.zeros(6, 1), groups, Proportions.of(counts)), logits))
    assert both.item() == pytest.approx(sum(alone) / 2, abs=1e-12)


def stored_data() -> WeakDataset:
    return WeakDataset(torch.zeros(5, 1), [[0, 1, 1], [3, 1]], MultiInstance.of([1, 1]))


def test_stored_weights_are_those_of_the_last_visit_and_other_rows_stay() -> None:
    data, method = stored_data(), UUM(stored=True)
    state = method.init(setup_of(data, build("linear", [1], 2)))
    before, now = random_logits(5, 2, 1).detach(), random_logits(5, 2, 2).detach()
    first = data.batch([torch.tensor([0])])
    step = step_of(first, {"weak": before[first.numbers]}, state=state)
    plain = step_of(first, {"weak": before[first.numbers]})
    assert method.loss(step).item() == pytest.approx(UUM().loss(plain).item(), abs=1e-12)
    method.update(step)
    assert state["seen"].tolist() == [1, 1, 0, 0, 0]
    assert not state["log_probs"][2:].any()
    second = data.batch([torch.tensor([1])])
    eta = torch.stack([now[3], before[1]]).log_softmax(-1)
    weights = infer(eta[None], MultiInstance.of([1])).marginals[0]
    expected = -(weights * now[[3, 1]].log_softmax(-1)).sum() / 2
    found = method.loss(step_of(second, {"weak": now[second.numbers]}, state=state))
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)  # the table is float32


def test_the_state_is_made_of_tensors_only_where_something_is_stored() -> None:
    setup = setup_of(stored_data(), build("linear", [1], 2))
    assert UUM().init(setup) == {}
    assert {name: value.dtype for name, value in UUM(stored=True).init(setup).items()} == {
        "log_probs": torch.float32,
        "seen": torch.int64,
    }


def test_the_first_epochs_may_follow_the_likelihood() -> None:
    data, logits = WeakDataset(torch.zeros(4, 1), [[0, 1, 2, 3]], Proportions.of([2])), BINARY
    losses = [
        UUM(likelihood_epochs=1).loss(step_on(data, logits, progress=Progress(epoch=epoch))).item() for epoch in (0, 1)
    ]
    assert losses[0] == pytest.approx(0.855666, abs=1e-6)
    assert losses[1] == pytest.approx(group_loss(Proportions.of([2]), logits).item(), abs=1e-12)


def test_the_log_says_which_share_of_counts_was_exact() -> None:
    counts = torch.tensor([[2, 1, 1, 0], [60, 60, 60, 60]])
    groups = [list(range(4)), list(range(240))]
    data = WeakDataset(torch.zeros(240, 1), groups, ClassCounts.of(counts))
    shares, errors = {}, {}
    for name in ("auto", "tilted"):
        step = step_on(data, random_logits(240, 4).detach())
        assert bool(torch.isfinite(UUM(counts=name).loss(step)))
        shares[name] = step.notes["exact_groups"].item()
        errors[name] = step.notes["approximation_error"].item()
    assert shares == {"auto": 0.5, "tilted": 0.0}
    assert 0 < errors["auto"] < 0.1 * errors["tilted"]


def test_uniform_predictions_of_pairs_do_not_move() -> None:
    logits = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    for same in (True, False):
        assert not gradient(group_loss(PairSimilarity.of([same], 3), logits), logits).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "weak",
    [
        MultiInstance.of([1]),
        MultiInstance.of([0]),
        Proportions.of([150]),
        ClassCounts.of([[77, 123]]),
        PresentClasses.of([[1, 1]]),
    ],
    ids=lambda weak: type(weak).__name__,
)
def test_large_logits_and_long_bags_have_finite_losses_and_gradients(
    weak: AbstractSupervision, dtype: torch.dtype
) -> None:
    signs = torch.randint(0, 2, (200, 2), generator=torch.Generator().manual_seed(0)).to(dtype)
    logits = (100 * signs - 50).requires_grad_()
    loss = group_loss(weak, logits)
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(gradient(loss, logits)).all())


@pytest.mark.parametrize("weak", [MultiInstance.of([1]), ClassCounts.of([[1, 0]]), Proportions.of([1])])
def test_a_batch_of_no_groups_has_loss_zero(weak: AbstractSupervision) -> None:
    empty = WeakDataset(torch.zeros(1, 1), [[0]], weak).batch([torch.zeros(0, dtype=torch.int64)])
    logits = torch.randn(1, 2, requires_grad=True)
    loss = UUM().loss(step_of(empty, {"weak": logits}))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_labels_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([0], 2))
    with pytest.raises(DataError, match=r"^UUM learns from groups with .* found Labels$"):
        UUM().check(data)


@pytest.mark.slow
def test_it_learns_digits_from_groups() -> None:
    instances, labels = digits()
    generator = torch.Generator().manual_seed(0)
    nine, is_large = (labels == 9).long(), (labels >= 5).long()
    record = multi_instance(nine, 400, 6, 1, generator=generator)
    model = train(UUM(), record.dataset(instances), build("mlp", [64], 2, hidden=(64,)))
    assert accuracy(model, instances[nine == 1], nine[nine == 1]) > 0.8
    assert accuracy(model, instances[nine == 0], nine[nine == 0]) > 0.9
    record = class_proportions(labels, 10, 400, 5, 1, generator=generator)
    for method in (UUM(), UUM(stored=True)):
        model = train(method, record.dataset(instances), build("mlp", [64], 10, hidden=(64,)))
        assert accuracy(model, instances, labels) > 0.9
    record = pair_similarity(is_large, 2000, 0.4, generator=generator)
    for method in (UUM(), UUM(stored=True, likelihood_epochs=3)):
        model = train(method, record.dataset(instances), build("mlp", [64], 2, hidden=(64,)))
        found = accuracy(model, instances, is_large)
        assert max(found, 1 - found) > 0.85  # which of the two classes is which cannot be known
