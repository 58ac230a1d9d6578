"""Dist-PU: the worked numbers, the two stages, what is remembered, and mixing by hand."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import (
    ROUNDING,
    assert_finite_when_sure,
    assert_state_is_plain,
    close,
    epoch_for,
    gradient_of,
    loss_of,
    pu_data,
    pu_digits,
    scores_of,
    setup_for,
    step_for,
)
from torch import Tensor

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import Labels, Unlabeled
from glws.methods import Progress
from glws.methods._dist_pu import DistPU, binary_entropy, label_distribution_loss, mixup_loss
from glws.methods._positive_unlabeled import mixing_share
from glws.models import MLP

POSITIVE = torch.tensor([0.8, 0.6], dtype=torch.float64)
UNLABELED = torch.tensor([0.9, 0.2, 0.65, 0.4, 0.05], dtype=torch.float64)
FIRST, SECOND = Progress(epoch=3, num_epochs=120), Progress(epoch=90, num_epochs=120)


def worked() -> tuple[WeakDataset, Tensor]:
    scores = scores_of(torch.cat([POSITIVE, UNLABELED]).logit())
    return pu_data(scores, 2, 0.4, splits=[2]), scores


def cross_entropy(predicted: Tensor, target: Tensor) -> Tensor:
    return -(target * predicted.log() + (1 - target) * (1 - predicted).log()).mean()


def entropy(predicted: Tensor) -> Tensor:
    return cross_entropy(predicted, predicted)


def test_label_distribution_and_entropy_have_the_worked_numbers() -> None:
    positive, unlabeled = POSITIVE.logit(), UNLABELED.logit()
    close(label_distribution_loss(positive, unlabeled, 0.4, "released"), 0.350000)
    close(label_distribution_loss(positive, unlabeled, 0.4, "paper"), 0.280000)
    close(binary_entropy(unlabeled).mean(), 0.468892)


def test_second_stage_has_the_worked_numbers() -> None:
    scores = torch.tensor([0.75, 0.3], dtype=torch.float64).logit()
    targets, others = torch.tensor([[1.0, 0.2], [0.2, 1.0]], dtype=torch.float64)
    fit, spread = mixup_loss(scores, targets, others, 0.7), binary_entropy(scores).mean()
    close(fit, 0.640418)
    close(spread, 0.586600)
    close(0.35 + 0.002 * 0.468892 + 5 * fit + 0.04 * spread, 3.576489, 3e-6)


@pytest.mark.parametrize(("epoch", "weight"), [(0, 0.0), (15, 0.000304), (30, 0.001172), (59, 0.003895)])
def test_entropy_weight_rises_in_the_second_stage(epoch: int, weight: float) -> None:
    method = DistPU()
    assert method.entropy_weight(Progress(epoch=60 + epoch, num_epochs=120)) == pytest.approx(weight, abs=1e-6)
    assert method.entropy_weight(Progress(epoch=epoch, num_epochs=120)) == 0.002


@pytest.mark.parametrize(("num_epochs", "share", "first"), [(120, 0.5, 60), (5, 0.5, 3), (1, 0.5, 1), (4, 0.0, 0)])
def test_first_stage_has_its_share_of_the_epochs(num_epochs: int, share: float, first: int) -> None:
    assert DistPU(first_stage=share).first_epochs(Progress(num_epochs=num_epochs)) == first


def test_first_stage_is_alignment_and_entropy() -> None:
    data, scores = worked()
    close(loss_of(DistPU(), data, progress=FIRST), 0.35 + 0.002 * 0.468892)
    close(loss_of(DistPU(scaling="paper", first_entropy=0.0), data, progress=FIRST), 0.28)
    close(loss_of(DistPU(prior=0.44, first_entropy=0.0), data, progress=FIRST), 0.3)
    gradient = gradient_of(DistPU(first_entropy=0.0), data, scores, progress=FIRST)
    slopes = scores.sigmoid() * (1 - scores.sigmoid())
    close(gradient, slopes * torch.tensor([-0.5, -0.5, *[0.25] * 5]), ROUNDING)


def by_hand(scores: Tensor, targets: Tensor) -> Tensor:
    """The second stage of two positives and five unlabeled instances, with the draws of a generator with seed 0."""
    generator = torch.Generator().manual_seed(0)
    partners, share = torch.randperm(7, generator=generator), mixing_share(6.0, generator)
    predicted = (share * scores + (1 - share) * scores[partners]).sigmoid()
    fit = share * cross_entropy(predicted, targets) + (1 - share) * cross_entropy(predicted, targets[partners])
    s = scores.sigmoid()
    aligned = (1 - s[:2].mean()).abs() + (s[2:].mean() - 0.4).abs() / 0.8
    return aligned + DistPU().entropy_weight(SECOND) * entropy(s[2:]) + 5 * fit + 0.04 * entropy(predicted)


def test_second_stage_and_its_gradient_are_those_by_hand() -> None:
    data, scores = worked()
    remembered = torch.tensor([0.1, 0.2, 0.9, 0.3, 0.6, 0.5, 0.05])
    targets = torch.cat([torch.ones(2), remembered[2:]]).double()
    others = {"state": {"remembered": remembered}, "progress": SECOND}
    expected = by_hand(scores, targets)
    close(loss_of(DistPU(), data, **others), expected.item(), 1e-7)  # what is remembered is float32
    close(gradient_of(DistPU(), data, scores, **others), torch.autograd.grad(expected, scores)[0], 1e-7)


def test_exchanging_the_shares_and_turning_the_order_round_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(1)
    scores, targets = torch.randn(2, 9, generator=generator, dtype=torch.float64)
    targets, order, share = targets.sigmoid(), torch.randperm(9, generator=generator), 0.7

    def mixed(order: Tensor, share: float) -> Tensor:
        return mixup_loss(share * scores + (1 - share) * scores[order], targets, targets[order], share)

    close(mixed(order, share), mixed(order.argsort(), 1 - share), ROUNDING)


def test_predictions_are_remembered_at_the_start_of_the_second_stage_and_after_its_steps() -> None:
    data, _ = worked()
    method = DistPU()
    state = method.init(setup_for(data))
    untouched = state["remembered"].clone()
    method.begin_epoch(epoch_for(data, state, 59, 120))
    method.update(step_for(method, data, state=state, progress=FIRST))
    close(state["remembered"], untouched)
    method.begin_epoch(epoch_for(data, state, 60, 120))
    close(state["remembered"], torch.cat([POSITIVE, UNLABELED]))
    state["remembered"].zero_()
    step = step_for(method, data, [[1], [0]], state=state, progress=SECOND)
    method.loss(step)
    method.update(step)
    close(state["remembered"], [0, 0.6, 0.9, 0.2, 0, 0, 0])


def test_a_batch_lacks_the_terms_of_what_it_does_not_hold() -> None:
    data, scores = worked()
    for progress in (FIRST, SECOND):
        for chosen in ([[0, 1], []], [[], [0, 1]], [[], []]):
            loss = loss_of(DistPU(), data, chosen=chosen, progress=progress)
            (gradient,) = torch.autograd.grad(loss, scores)
            assert bool(loss.isfinite())
            assert bool(gradient.isfinite().all())
            assert (loss.item() == 0) == (chosen == [[], []])
    plain = DistPU(first_entropy=0.0)
    close(loss_of(plain, data, chosen=[[0, 1], []], progress=FIRST), 0.3)
    close(loss_of(plain, data, chosen=[[], [0, 1]], progress=FIRST), 0.05)


def test_edges_are_defined() -> None:
    data, _ = worked()
    for method in (DistPU(first_stage=0.0), DistPU(first_stage=1.0)):
        assert_finite_when_sure(method, data)
        assert_state_is_plain(method, data)


def test_ragged_groups_and_copies_count_instances() -> None:
    scores = scores_of([1.0, -0.5, 2.0, 0.25])
    kinds = [Labels.of([1, 1], 2), Unlabeled.of([0.4, 0.4])]
    twice = WeakDataset(scores[:, None], [[[0], [0]], [[1, 2, 1], [3]]], kinds)
    apart = pu_data(scores_of([1.0, 1.0, -0.5, 2.0, -0.5, 0.25]), 2, 0.4)
    found, expected = (loss_of(DistPU(), data, progress=FIRST).item() for data in (twice, apart))
    assert found == pytest.approx(expected, abs=ROUNDING)


def test_wrong_kind_is_refused_in_one_line() -> None:
    with pytest.raises(DataError, match=r"^DistPU learns from .* \(Labels with Unlabeled\), found Labels$"):
        DistPU().check(WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([1], 2)))
    with pytest.raises(DataError, match=r"^scaling must be one of released, paper, found 'code'$"):
        DistPU(scaling="code")  # type: ignore[arg-type]


@pytest.mark.slow
def test_learns_the_digits() -> None:
    data, instances, labels = pu_digits()
    model = train(DistPU(), data, MLP((64,), 2, hidden=(64,)), num_epochs=20, learning_rate=1e-3)
    assert accuracy(model, instances, labels) > 0.74
