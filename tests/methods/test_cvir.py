"""CVIR and TED: the worked numbers, who is ignored when, and what is never trained on."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import (
    assert_finite_when_sure,
    assert_state_is_plain,
    assert_zero_without_a_kind,
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
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import positive_unlabeled
from glws.errors import DataError
from glws.kinds import Labels, Unlabeled
from glws.methods import Progress
from glws.methods._cvir import CVIR, TED, most_positive
from glws.models import MLP

POSITIVE = [0.8, 0.6]
UNLABELED = [0.9, 0.2, 0.65, 0.4, 0.05]


def worked(prior: float = 0.4) -> tuple[WeakDataset, Tensor]:
    scores = scores_of(torch.tensor(POSITIVE + UNLABELED, dtype=torch.float64).logit())
    return pu_data(scores, 2, prior, splits=[2]), scores


def ranked(method: CVIR, data: WeakDataset, epoch: int = 0) -> dict[str, Tensor]:
    """The state at the start of this epoch of 10."""
    state = method.init(setup_for(data))
    method.begin_epoch(epoch_for(data, state, epoch, 10))
    return state


def test_the_most_positive_are_ignored_and_the_loss_is_the_worked_number() -> None:
    data, scores = worked()
    state = ranked(CVIR(), data)
    assert state["kept"].tolist() == [1, 1, 0, 1, 0, 1, 1]
    close(loss_of(CVIR(), data, state=state), 0.314369)
    gradient = gradient_of(CVIR(), data, scores, state=state)
    close(gradient, [-0.2 / 4, -0.4 / 4, 0, 0.2 / 6, 0, 0.4 / 6, 0.05 / 6])


def test_nobody_is_ignored_in_the_warm_start() -> None:
    data, _ = worked()
    for epoch, ignored in ((0, 0), (2, 0), (3, 2)):
        assert int((ranked(CVIR(warm_epochs=3), data, epoch)["kept"] == 0).sum()) == ignored
    expected = (
        functional.softplus(-data.instances.values[:2]).mean() + functional.softplus(data.instances.values[2:]).mean()
    ) / 2
    close(loss_of(CVIR(warm_epochs=3), data), expected.item())


def test_prior_overrides_that_of_the_data() -> None:
    data, _ = worked(prior=0.1)
    assert ranked(CVIR(), data)["kept"].tolist() == [1] * 7
    assert ranked(CVIR(prior=0.61), data)["kept"].tolist() == [1, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(("share", "number"), [(0.29, 29), (0.57, 57), (0.999, 99), (0.0, 0), (1.0, 100)])
def test_the_number_ignored_is_rounded_down_without_losing_one(share: float, number: int) -> None:
    scores = torch.randn(100, generator=torch.Generator().manual_seed(0))
    found = most_positive(scores, share)
    assert len(found) == number
    assert set(found.tolist()) == set(scores.topk(number).indices.tolist())


def test_of_equal_scores_the_first_are_ignored() -> None:
    assert most_positive(torch.zeros(40), 0.1).tolist() == [0, 1, 2, 3]


def test_copies_of_an_instance_are_ignored_together() -> None:
    scores = scores_of([3.0, 2.0, 1.0, -1.0])
    kinds = [Labels.of([1], 2), Unlabeled.of([0.25, 0.25])]
    data = WeakDataset(scores[:, None], [[[0]], [[1, 2], [1, 3]]], kinds)
    state = ranked(CVIR(), data)  # one of four members, and the largest is there twice
    assert state["kept"].tolist() == [1, 0, 1, 1]
    expected = (functional.softplus(-scores[0]) + functional.softplus(scores[2:]).mean()) / 2
    close(loss_of(CVIR(), data, state=state), expected.item())


def test_a_positive_that_is_unlabeled_too_stays_a_positive_when_it_is_ignored() -> None:
    scores = scores_of([3.0, -1.0, 0.0, -2.0])
    data = WeakDataset(scores[:, None], [[[0]], [[0, 1, 2, 3]]], [Labels.of([1], 2), Unlabeled.of([0.25])])
    state = ranked(CVIR(), data)
    assert state["kept"].tolist() == [0, 1, 1, 1]
    expected = (functional.softplus(-scores[0]) + functional.softplus(scores[1:]).mean()) / 2
    close(loss_of(CVIR(), data, state=state), expected.item())


def test_a_batch_of_ignored_instances_has_loss_zero() -> None:
    data, scores = worked(prior=0.7)
    state = ranked(CVIR(), data)
    loss = loss_of(CVIR(), data, state=state, chosen=[[0, 1], []])
    assert loss.item() == 0
    state["kept"][2:] = 0
    assert not bool(gradient_of(CVIR(), data, scores, state=state).any())


def test_edges_are_defined() -> None:
    data, scores = worked()
    for method in (CVIR(), TED(held_out=0.4)):
        assert_zero_without_a_kind(method, data, scores)
        assert_finite_when_sure(method, data)
    assert_state_is_plain(CVIR(), data)


# TED


def separated(num_positive: int = 50, num_unlabeled: int = 200, share: float = 0.3) -> WeakDataset:
    """Scores of a good classifier, and a wrong prior that nobody is to look at."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.cat(
        [torch.ones(num_positive), torch.where(torch.arange(num_unlabeled) < share * num_unlabeled, 1, -1)]
    )
    scores = scores_of(3 * signs + torch.randn(len(signs), generator=generator))
    return pu_data(scores, num_positive, 0.9, splits=[64, 128])


def test_the_share_is_estimated_from_what_is_held_out() -> None:
    data, method = separated(2000, 8000), TED()
    state = method.init(setup_for(data))
    method.begin_epoch(epoch_for(data, state, 5, 10))
    assert float(state["share"]) == pytest.approx(0.3, abs=0.05)
    trained = state["held_out"][2000:] == 0
    ignored = (state["kept"][2000:] == 0) & trained
    assert float(ignored.sum() / trained.sum()) == pytest.approx(float(state["share"]), abs=1e-3)


def test_held_out_instances_are_never_trained_on() -> None:
    data, method = separated(), TED(held_out=0.3)
    state = method.init(setup_for(data))
    assert int(state["held_out"][:50].sum()) == 15
    assert int(state["held_out"][50:].sum()) == 60
    scores = data.instances.values
    for epoch in (0, 5):
        method.begin_epoch(epoch_for(data, state, epoch, 10))
        (gradient,) = torch.autograd.grad(loss_of(method, data, state=state), scores)
        assert not bool(gradient[state["held_out"] == 1].any())
        assert bool((gradient[:50][state["held_out"][:50] == 0] < 0).all())


def test_positives_among_the_unlabeled_are_held_out_of_both() -> None:
    labels = torch.arange(200) % 2
    record = positive_unlabeled(labels, 40, generator=torch.Generator().manual_seed(0), rule="all")
    state = TED().init(setup_for(record.dataset(torch.zeros(200, 1))))
    positives = record.groups[0].indices
    assert int(state["held_out"][positives].sum()) == 8
    assert int(state["held_out"].sum()) == 8 + 32


@pytest.mark.parametrize(("num_epochs", "warm"), [(2000, 100), (1000, 100), (50, 5), (3, 1)])
def test_warm_epochs_are_the_published_ones_or_a_tenth(num_epochs: int, warm: int) -> None:
    assert TED().warm(Progress(num_epochs=num_epochs)) == warm
    assert TED(warm_epochs=7).warm(Progress(num_epochs=num_epochs)) == 7


def test_ted_writes_down_its_share() -> None:
    data = separated(2000, 8000)
    method = TED()
    step = step_for(method, data)
    method.begin_epoch(epoch_for(data, step.state, 5, 10))
    method.loss(step)
    assert float(step.notes["share"]) == float(step.state["share"]) > 0.2
    assert_state_is_plain(method, data)


def test_too_few_to_hold_out_is_said_in_one_line() -> None:
    message = "TED holds out at least 2 positives and 1 unlabeled instance, but a share of 0.2 is 1 and 40"
    with pytest.raises(DataError, match=f"^{message}$"):
        TED().check(separated(6))
    with pytest.raises(DataError, match="TED needs at least 1 warm epoch"):
        TED(warm_epochs=0)
    with pytest.raises(DataError, match=r"^held_out must be between 0 and 1, found 1$"):
        TED(held_out=1.0)
    with pytest.raises(DataError, match=r"^CVIR learns from .* \(Labels with Unlabeled\), found Labels$"):
        CVIR().check(WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([1], 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "bound"), [(CVIR(), 0.78), (TED(), 0.72)], ids=["cvir", "ted"])
def test_learns_the_digits(method: CVIR, bound: float) -> None:
    data, instances, labels = pu_digits()
    model = train(method, data, MLP((64,), 2, hidden=(64,)), num_epochs=20, learning_rate=1e-3)
    assert accuracy(model, instances, labels) > bound
