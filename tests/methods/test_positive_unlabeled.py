"""uPU and nnPU: the worked numbers, the supervised risk on exact populations, and the edges."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import (
    GAUSSIAN_RISKS,
    GAUSSIAN_TOLERANCE,
    ROUNDING,
    assert_finite_when_sure,
    assert_zero_without_a_kind,
    close,
    gaussian_points,
    gradient_of,
    loss_of,
    mixture,
    pu_data,
    pu_digits,
    scores_of,
    step_for,
    supervised_risk,
)
from torch.nn import functional

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import Labels, PairSimilarity, Unlabeled
from glws.methods._positive_unlabeled import (
    PositiveUnlabeled,
    mixed_scores,
    mixing_share,
    positive_share,
    positive_unlabeled_parts,
)
from glws.methods._risks import Surrogate
from glws.models import MLP

POSITIVE = [2.0, 0.5, -1.0]
UNLABELED = [1.5, -0.5, -2.0, 0.0]
LOW = [-3.0, -2.5, -4.0, -1.0]


def unbiased(name: Surrogate = "sigmoid", **options: object) -> PositiveUnlabeled:
    return PositiveUnlabeled(nonnegative=False, surrogate=name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "fit", "rest", "risk"),
    [
        ("sigmoid", 0.4 * 0.409267, 0.217286, 0.380993),
        ("logistic", 0.4 * 0.638089, 0.293656, 0.548891),
        ("double_hinge", 0.4 * 0.416667, 0.195833, 0.362500),
    ],
)
def test_unbiased_risk_has_the_worked_numbers(name: Surrogate, fit: float, rest: float, risk: float) -> None:
    parts = positive_unlabeled_parts(scores_of(POSITIVE), scores_of(UNLABELED), 0.4, name)
    close(parts.positive, fit)
    close(parts.negative, rest)
    data = pu_data(scores_of(POSITIVE + UNLABELED), 3, 0.4)
    close(loss_of(unbiased(name), data), risk)
    close(loss_of(PositiveUnlabeled(surrogate=name), data), risk)  # above 0 nothing is corrected


def test_unbiased_risk_has_the_worked_gradient() -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    found = gradient_of(unbiased(), pu_data(scores, 3, 0.4), scores)
    close(found, [-0.027998, -0.062668, -0.052430, 0.037287, 0.058751, 0.026248, 0.062500])


@pytest.mark.parametrize("name", ["logistic", "double_hinge", "squared"])
def test_linear_odd_losses_give_the_convex_form(name: Surrogate) -> None:
    positive, unlabeled = scores_of(POSITIVE), scores_of(UNLABELED)
    whole = loss_of(unbiased(name), pu_data(torch.cat([positive, unlabeled]), 3, 0.4))
    negatives = positive_unlabeled_parts(positive[:0], unlabeled, 0.4, name).negative
    close(whole, -0.4 * positive.mean() + negatives, ROUNDING)


@pytest.mark.parametrize(
    ("name", "unbiased_risk", "risk", "back", "gradient"),
    [
        (
            "sigmoid",
            0.029967,
            0.163707,
            0.133740,
            [0.013999, 0.031334, 0.026215, -0.011294, -0.017526, -0.004416, -0.049153],
        ),
        (
            "logistic",
            -0.085278,
            0.255236,
            0.340513,
            [0.117440, 0.082995, 0.035859, -0.011856, -0.018965, -0.004497, -0.067235],
        ),
    ],
)
def test_nonnegative_risk_goes_back_up_by_the_worked_numbers(
    name: Surrogate, unbiased_risk: float, risk: float, back: float, gradient: list[float]
) -> None:
    scores = scores_of(POSITIVE + LOW)
    data, method = pu_data(scores, 3, 0.4), PositiveUnlabeled(surrogate=name)
    step = step_for(method, data)
    loss = method.loss(step)
    close(loss, back)
    close(step.notes["risk"], risk)
    close(loss_of(unbiased(name), data), unbiased_risk)
    close(torch.autograd.grad(loss, scores)[0], gradient)


def test_gamma_scales_the_way_up_and_beta_delays_it() -> None:
    scores = scores_of(POSITIVE + LOW)
    data = pu_data(scores, 3, 0.4)
    close(loss_of(PositiveUnlabeled(gamma=0.25), data), 0.25 * 0.133740)
    close(loss_of(PositiveUnlabeled(beta=0.2), data), 0.029967)


@pytest.mark.parametrize("name", list(GAUSSIAN_RISKS))
@pytest.mark.parametrize(("prior", "copies"), [(0.4, (2, 3)), (0.7, (7, 3))])
def test_unbiased_risk_is_the_supervised_one_of_two_gaussians(
    name: Surrogate, prior: float, copies: tuple[int, int]
) -> None:
    positive, negative = gaussian_points()
    scores = torch.cat([positive, mixture(positive, negative, copies)])
    found = loss_of(unbiased(name), pu_data(scores, len(positive), prior))
    close(found, supervised_risk(positive, negative, prior, name), ROUNDING)
    exact = prior * GAUSSIAN_RISKS[name][0] + (1 - prior) * GAUSSIAN_RISKS[name][1]
    close(found, exact, GAUSSIAN_TOLERANCE)


def test_nonnegative_risk_is_too_high_on_average_and_the_unbiased_one_is_not() -> None:
    generator, prior, repetitions = torch.Generator().manual_seed(0), 0.7, 1500
    signs = torch.where(torch.rand(repetitions, 40, generator=generator) < prior, 1.0, -1.0)
    signs = torch.cat([torch.ones(repetitions, 20), signs], 1)
    scores = 1.3 * (torch.randn(repetitions, 60, generator=generator) + signs) - 0.2
    parts = [positive_unlabeled_parts(row[:20], row[20:], prior, "logistic") for row in scores]
    fit, rest = torch.tensor([[float(value) for value in part] for part in parts], dtype=torch.float64).T
    truth, errors = 0.402654, (fit + rest).std() / repetitions**0.5
    assert abs(float((fit + rest).mean()) - truth) < 4 * errors
    assert float((fit + rest.clamp_min(0)).mean()) > truth + 4 * errors


def test_prior_of_the_kind_is_that_of_class_one_and_can_be_overridden() -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    groups = [[[0], [1], [2]], [[3, 4, 5, 6]]]
    swapped = WeakDataset(scores[:, None], groups, [Labels.of([1] * 3, 2), Unlabeled.of([0.6], counted=0)])
    close(loss_of(unbiased(), swapped), 0.380993)
    close(loss_of(unbiased(prior=0.4), pu_data(scores, 3, 0.9)), 0.380993)
    assert positive_share(Unlabeled.of([0.2, 0.8]), torch.tensor([30, 10])) == pytest.approx(0.35)


def test_kinds_may_come_in_either_order() -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    data = pu_data(scores, 3, 0.4)
    turned = WeakDataset(scores[:, None], data.groups[::-1], data.weak[::-1])
    unbiased().check(turned)
    close(loss_of(unbiased(), turned), 0.380993)


@pytest.mark.parametrize("method", [PositiveUnlabeled(), unbiased("logistic"), unbiased("double_hinge")])
def test_edges_are_defined(method: PositiveUnlabeled) -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    data = pu_data(scores, 3, 0.4, splits=[1])
    assert_zero_without_a_kind(method, data, scores)
    assert_finite_when_sure(method, data)


def test_ragged_groups_count_instances_and_not_padding() -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    for splits in ([1], [3], [1, 2], [2]):
        close(loss_of(unbiased(), pu_data(scores, 3, 0.4, splits)), 0.380993)


def test_an_instance_twice_is_two_instances() -> None:
    scores = scores_of(POSITIVE + UNLABELED)
    kinds = [Labels.of([1] * 3, 2), Unlabeled.of([0.4, 0.4])]
    twice = WeakDataset(scores[:, None], [[[0], [1], [0]], [[0, 3], [3, 4]]], kinds)
    apart = scores_of([2.0, 0.5, 2.0, 2.0, 1.5, 1.5, -0.5])
    close(loss_of(unbiased(), twice), loss_of(unbiased(), pu_data(apart, 3, 0.4)).item(), ROUNDING)


def refusal(data: WeakDataset) -> str:
    with pytest.raises(DataError) as caught:
        PositiveUnlabeled().check(data)
    return str(caught.value)


def test_wrong_data_are_refused_in_one_line() -> None:
    x, unlabeled = torch.zeros(4, 1), Unlabeled.of([0.4])
    takes = "PositiveUnlabeled learns from labeled positives beside unlabeled instances (Labels with Unlabeled)"
    assert refusal(WeakDataset(x, [[0, 1]], PairSimilarity.of([1]))) == f"{takes}, found PairSimilarity"
    negative = WeakDataset(x, [[[0], [1]], [[2, 3]]], [Labels.of([1, 0], 2), unlabeled])
    assert refusal(negative) == "PositiveUnlabeled takes labels of class 1 only, found label 0 in group 1"
    three = WeakDataset(x, [[[0]], [[2, 3]]], [Labels.of([1], 3), Unlabeled.of([0.4], num_classes=3)])
    assert refusal(three) == "PositiveUnlabeled is for two classes, the weak labels are over 3"
    both = WeakDataset(x, [[[0]], [[2, 3]]], [Labels.of([1], 2), Unlabeled.of([1.0], counted=[0, 1])])
    assert refusal(both) == "PositiveUnlabeled needs the share of one class, found that of 2 of 2"
    empty = WeakDataset(x, [[[0]], []], [Labels.of([1], 2), Unlabeled.of([])])
    assert refusal(empty) == "PositiveUnlabeled needs unlabeled instances, found none"
    none = WeakDataset(x, [[[0]], [[2, 3]]], [Labels.of([1], 2), Unlabeled.of([0.0])])
    expected = "the prior, the share of the positive class, must lie between 0 and 1, found 0.0"
    assert refusal(none) == expected
    with pytest.raises(DataError, match=r"^the prior, .*, must lie between 0 and 1, found 1\.2$"):
        PositiveUnlabeled(prior=1.2)
    with pytest.raises(DataError, match=r"^surrogate must be one of logistic, .*, found 'hinge'$"):
        PositiveUnlabeled(surrogate="hinge")  # type: ignore[arg-type]


def test_mixing_share_is_drawn_from_the_beta_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    for concentration in (0.3, 6.0):
        drawn = torch.tensor([mixing_share(concentration, generator) for _ in range(4000)], dtype=torch.float64)
        variance = 1 / (4 * (2 * concentration + 1))
        assert abs(float(drawn.mean()) - 0.5) < 4 * (variance / 4000) ** 0.5
        assert float(drawn.var()) == pytest.approx(variance, rel=0.1)


def test_mixed_scores_are_those_of_mixed_instances() -> None:
    data = pu_data(scores_of(POSITIVE + UNLABELED), 3, 0.4)
    step = step_for(unbiased(), data)
    found = mixed_scores(step, "weak", torch.tensor([0, 1]), torch.tensor([3, 0]), 0.25)
    close(found, [0.25 * 2.0 + 0.75 * 1.5, 0.25 * 0.5 + 0.75 * 2.0])
    step._views["weak"] = step.inputs()[:4]
    with pytest.raises(DataError, match="but 4 of 7 instances of the batch are in this process; train in one process"):
        mixed_scores(step, "weak", torch.tensor([0]), torch.tensor([1]), 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("method", [PositiveUnlabeled(), unbiased("logistic")], ids=["nnpu", "upu"])
def test_learns_the_digits(method: PositiveUnlabeled) -> None:
    data, instances, labels = pu_digits()
    model = train(method, data, MLP((64,), 2, hidden=(64,)), num_epochs=20, learning_rate=1e-3)
    assert accuracy(model, instances, labels) > 0.8


def test_logistic_risk_of_true_labels_is_the_cross_entropy() -> None:
    positive = scores_of(POSITIVE)
    parts = positive_unlabeled_parts(positive, positive, 1.0, "logistic")  # all unlabeled instances are positive
    close(parts.positive + parts.negative, functional.softplus(-positive).mean().item(), ROUNDING)
