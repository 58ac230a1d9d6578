"""VPU: the worked numbers, a discrete world, its free scale, and mixing by hand."""

import pytest
import torch
from methods.driving import network_of, setup_of, train
from methods.toy_unlabeled import (
    ROUNDING,
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
)
from torch import Tensor
from torch.nn import functional

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import Labels
from glws.methods import Epoch, Progress
from glws.methods._positive_unlabeled import mixing_share
from glws.methods._vpu import VPU, mixup_consistency, variational_risk
from glws.models import MLP

PHI_POSITIVE = torch.tensor([0.8, 0.6], dtype=torch.float64)
PHI_UNLABELED = torch.tensor([0.9, 0.2, 0.65, 0.4], dtype=torch.float64)


def worked() -> tuple[WeakDataset, Tensor]:
    scores = scores_of(torch.cat([PHI_POSITIVE, PHI_UNLABELED]).logit())
    return pu_data(scores, 2, 0.5, splits=[1]), scores


def test_both_terms_have_the_worked_numbers() -> None:
    risk = variational_risk(PHI_POSITIVE.log(), PHI_UNLABELED.log())
    mixed = torch.tensor([0.85, 0.5], dtype=torch.float64).log()
    consistency = mixup_consistency(mixed, PHI_UNLABELED[:2].log(), 0.3)
    close(risk, -0.253842)
    close(consistency, 0.096379)
    close(risk + 0.03 * consistency, -0.250951)
    data, _ = worked()
    close(loss_of(VPU(consistency=0.0), data), -0.253842)


def test_the_scale_of_phi_is_free() -> None:
    for shift in (-7.0, 0.3):
        close(variational_risk(PHI_POSITIVE.log() + shift, PHI_UNLABELED.log() + shift), -0.253842)


def test_the_true_posterior_has_the_least_risk_of_a_discrete_world() -> None:
    given_positive, given_negative = torch.tensor([[7, 2, 1], [1, 3, 6]])
    inputs = torch.arange(3)
    positive = inputs.repeat_interleave(given_positive)
    unlabeled = inputs.repeat_interleave(4 * given_positive + 6 * given_negative)
    posterior = torch.tensor([0.28 / 0.34, 0.08 / 0.26, 0.1], dtype=torch.float64)
    other = torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64)
    close(variational_risk(posterior.log()[positive], posterior.log()[unlabeled]), -0.314392)
    close(variational_risk(other.log()[positive], other.log()[unlabeled]), -0.299697)
    scores = scores_of(posterior.logit()[torch.cat([positive, unlabeled])])
    data = pu_data(scores, len(positive), 0.5)
    assert bool((gradient_of(VPU(consistency=0.0), data, scores)[:3].abs() < 0.1).all())
    by_input = torch.zeros(3, dtype=torch.float64).index_add_(
        0, torch.cat([positive, unlabeled]), gradient_of(VPU(consistency=0.0), data, scores)
    )
    close(by_input, [0.0, 0.0, 0.0], ROUNDING)  # no network that sees only the inputs can do better


def test_predictions_are_over_the_largest_of_the_training_data() -> None:
    posterior = torch.tensor([0.28 / 0.34, 0.08 / 0.26, 0.1], dtype=torch.float64)
    for scale in (1.0, 0.01):
        scores = scores_of((scale * posterior).logit())
        data, method = pu_data(scores, 1, 0.5), VPU()
        state = method.init(setup_for(data))
        method.end_epoch(epoch_for(data, state))
        logits = torch.stack([torch.zeros_like(scores), scores], 1)
        found = method.log_probs(logits, state).exp()
        close(found[:, 1], [1.0, 0.373626, 0.121429], 1e-6)
        close(found.sum(1), [1.0] * 3)
        assert found.argmax(1).tolist() == [1, 0, 0]


def by_hand(scores: Tensor, eta: float, detached: bool) -> Tensor:
    """Two positives and four unlabeled instances; the draws are those of a generator with seed 0."""
    generator = torch.Generator().manual_seed(0)
    share = mixing_share(0.3, generator)
    order = torch.randperm(2, generator=generator)
    phi = scores.sigmoid()
    risk = phi[2:].mean().log() - phi[:2].log().mean()
    target = (phi[2:].detach() if detached else phi[2:]) * share + (1 - share)
    mixed = (share * scores[2:] + (1 - share) * scores[:2][order].repeat(2)).sigmoid()
    return risk + eta * (target.log() - mixed.log()).pow(2).mean()


@pytest.mark.parametrize("detached", [False, True])
def test_loss_and_gradient_are_those_by_hand(detached: bool) -> None:
    data, scores = worked()
    method = VPU(consistency=0.7, detach_target=detached)
    expected = by_hand(scores, 0.7, detached)
    close(loss_of(method, data), expected.item(), ROUNDING)
    close(gradient_of(method, data, scores), torch.autograd.grad(expected, scores)[0], ROUNDING)


def test_a_mixture_with_nothing_of_one_side_is_defined() -> None:
    log_phi = PHI_UNLABELED.log().requires_grad_()
    for share, expected in ((0.0, (-log_phi).pow(2).mean()), (1.0, torch.tensor(0.0))):
        loss = mixup_consistency(log_phi, log_phi, share)
        close(loss, expected.item(), ROUNDING)
        assert bool(torch.autograd.grad(loss, log_phi)[0].isfinite().all())


def test_edges_are_defined() -> None:
    data, scores = worked()
    assert_zero_without_a_kind(VPU(), data, scores)
    assert_finite_when_sure(VPU(), data)
    assert_state_is_plain(VPU(), data)


def test_wrong_kind_is_refused_in_one_line() -> None:
    with pytest.raises(DataError, match=r"^VPU learns from .* \(Labels with Unlabeled\), found Labels$"):
        VPU().check(WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([1], 2)))


@pytest.mark.slow
def test_learns_the_digits_with_normalized_predictions() -> None:
    data, instances, labels = pu_digits()
    method, model = VPU(), MLP((64,), 2, hidden=(64,))
    train(method, data, model, num_epochs=20, learning_rate=1e-3)
    with torch.no_grad():
        state, network = method.init(setup_of(data, model)), network_of(model)
        predict = lambda numbers: network(data.instances.take(numbers)).logits  # noqa: E731
        method.end_epoch(Epoch(data, state, Progress(), predict, torch.Generator()))
        found = method.log_probs(model(instances), state).argmax(1)
    assert float((found == labels).double().mean()) > 0.8


def test_log_phi_is_that_of_class_one() -> None:
    data, scores = worked()
    log_phi = functional.logsigmoid(scores)
    expected = variational_risk(log_phi[:2], log_phi[2:])
    close(loss_of(VPU(consistency=0.0), data), expected.item(), ROUNDING)
