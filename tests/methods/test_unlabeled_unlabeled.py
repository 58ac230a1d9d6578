"""UU learning: the worked numbers, the supervised risk on exact populations, corrections, and PU as a special case."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import (
    GAUSSIAN_RISKS,
    GAUSSIAN_TOLERANCE,
    ROUNDING,
    assert_finite_when_sure,
    assert_zero_without_a_kind,
    binary_digits,
    close,
    gaussian_points,
    gradient_of,
    loss_of,
    mixture,
    scores_of,
    supervised_risk,
    uu_data,
)

from glws.data import WeakDataset
from glws.data.weaken import unlabeled_unlabeled
from glws.errors import DataError
from glws.kinds import Labels, Unlabeled
from glws.methods._positive_unlabeled import positive_unlabeled_parts
from glws.methods._risks import Surrogate, surrogate
from glws.methods._unlabeled_unlabeled import UnlabeledUnlabeled, two_set_parts, two_set_weights
from glws.models import MLP

FIRST, OTHER = [1.5, -0.5, 0.8, 2.0], [-1.0, 0.3, -2.0]
HIGH, LOW = [3.0, 4.0, 2.5], [-3.0, -4.0, -2.0]
CORRECTIONS = ("none", "relu", "abs", "leaky")


@pytest.mark.parametrize(
    ("shares", "prior", "name", "weights", "positive", "negative", "risk"),
    [
        ((0.8, 0.2), 0.4, "sigmoid", (0.533333, 0.2, 0.8, 0.133333), 0.073997, 0.118395, 0.192392),
        ((0.8, 0.2), 0.4, "logistic", (0.533333, 0.2, 0.8, 0.133333), 0.045601, 0.071536, 0.117137),
        ((0.4, 0.6), 0.4, "sigmoid", (-0.8, -1.8, -1.2, -1.2), 0.568143, 0.859614, 1.427757),
        ((0.4, 0.6), 0.5, "sigmoid", (-1.0, -1.5, -1.0, -1.5), 0.710178, 0.716345, 1.426523),
    ],
)
def test_both_parts_have_the_worked_numbers(
    shares: tuple[float, float],
    prior: float,
    name: Surrogate,
    weights: tuple[float, ...],
    positive: float,
    negative: float,
    risk: float,
) -> None:
    assert two_set_weights(shares, prior) == pytest.approx(weights, abs=1e-6)
    parts = two_set_parts(scores_of(FIRST), scores_of(OTHER), shares, prior, name)
    close(parts.positive, positive)
    close(parts.negative, negative)
    data = uu_data(scores_of(FIRST + OTHER), 4, shares)
    for correction in CORRECTIONS:  # above 0 nothing is corrected
        close(loss_of(UnlabeledUnlabeled(prior, correction, surrogate=name), data), risk)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "positive", "negative", "risks"),
    [
        ("sigmoid", -0.100014, -0.141351, (-0.241365, 0.0, 0.241365, 0.024136)),
        ("logistic", -0.382718, -0.591398, (-0.974116, 0.0, 0.974116, 0.097412)),
    ],
)
def test_negative_parts_are_corrected_to_the_worked_numbers(
    name: Surrogate, positive: float, negative: float, risks: tuple[float, ...]
) -> None:
    parts = two_set_parts(scores_of(HIGH), scores_of(LOW), (0.8, 0.2), 0.4, name)
    close(parts.positive, positive)
    close(parts.negative, negative)
    scores = scores_of(HIGH + LOW)
    data = uu_data(scores, 3, (0.8, 0.2))
    methods = [UnlabeledUnlabeled(0.4, correction, surrogate=name) for correction in CORRECTIONS]  # type: ignore[arg-type]
    for method, risk in zip(methods, risks, strict=True):
        close(loss_of(method, data), risk)
    plain, stalled, turned, slow = (gradient_of(method, data, scores) for method in methods)
    assert not bool(stalled.any())
    close(turned, -plain, ROUNDING)
    close(slow, -0.1 * plain, ROUNDING)


@pytest.mark.parametrize(("slope", "correction"), [(0.0, "relu"), (-1.0, "abs")])
def test_leaky_is_relu_and_abs_at_its_ends(slope: float, correction: str) -> None:
    for scores in (HIGH + LOW, LOW + HIGH, [3.0, -2.0, 0.5, 1.0, -1.0, 0.2]):
        data = uu_data(scores_of(scores), 3, (0.8, 0.2))
        leaky = loss_of(UnlabeledUnlabeled(0.4, "leaky", slope), data)
        close(leaky, loss_of(UnlabeledUnlabeled(0.4, correction), data).item(), ROUNDING)  # type: ignore[arg-type]


def test_symmetric_losses_have_the_short_form() -> None:
    first, second = scores_of(FIRST), scores_of(OTHER)
    for (one, two), prior in (((0.8, 0.2), 0.4), ((0.3, 0.9), 0.6)):
        gap = one - two
        factors = (prior + (1 - 2 * prior) * two) / gap, (prior + (1 - 2 * prior) * one) / gap
        constant = (two * (1 - prior) + (1 - one) * prior) / gap
        losses = surrogate(first, "sigmoid").mean(), surrogate(-second, "sigmoid").mean()
        short = factors[0] * losses[0] + factors[1] * losses[1] - constant
        close(sum(two_set_parts(first, second, (one, two), prior, "sigmoid")), short.item(), ROUNDING)


@pytest.mark.parametrize("name", list(GAUSSIAN_RISKS))
@pytest.mark.parametrize(("prior", "copies"), [(0.4, ((8, 2), (2, 8))), (0.7, ((2, 3), (3, 2)))])
def test_unbiased_risk_is_the_supervised_one_of_two_gaussians(
    name: Surrogate, prior: float, copies: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    positive, negative = gaussian_points()
    first, second = (mixture(positive, negative, each) for each in copies)
    shares = copies[0][0] / sum(copies[0]), copies[1][0] / sum(copies[1])
    data = uu_data(torch.cat([first, second]), len(first), shares)
    found = loss_of(UnlabeledUnlabeled(prior, surrogate=name), data)
    close(found, supervised_risk(positive, negative, prior, name), 1e-11)
    exact = prior * GAUSSIAN_RISKS[name][0] + (1 - prior) * GAUSSIAN_RISKS[name][1]
    close(found, exact, GAUSSIAN_TOLERANCE)


@pytest.mark.parametrize("name", ["sigmoid", "logistic", "double_hinge"])
def test_positive_and_unlabeled_data_are_the_case_of_shares_one_and_the_prior(name: Surrogate) -> None:
    positive, unlabeled = scores_of([2.0, 0.5, -1.0]), scores_of([1.5, -0.5, -2.0, 0.0])
    found = two_set_parts(positive, unlabeled, (1.0, 0.4), 0.4, name)
    expected = positive_unlabeled_parts(positive, unlabeled, 0.4, name)
    for one, other in zip(found, expected, strict=True):
        close(one, other.item(), ROUNDING)


def test_the_order_of_the_sets_does_not_matter() -> None:
    turned = uu_data(scores_of(OTHER + FIRST), 3, (0.2, 0.8))
    close(loss_of(UnlabeledUnlabeled(0.4), turned), 0.192392)


def test_ragged_groups_and_copies_count_instances() -> None:
    scores = scores_of([1.5, -0.5, -1.0])
    kinds = [Unlabeled.of([0.8, 0.8]), Unlabeled.of([0.2, 0.2])]
    twice = WeakDataset(scores[:, None], [[[0, 1, 1], [0]], [[2], [2, 0]]], kinds)
    apart = uu_data(scores_of([1.5, -0.5, -0.5, 1.5, -1.0, -1.0, 1.5]), 4, (0.8, 0.2))
    close(loss_of(UnlabeledUnlabeled(0.4), twice), loss_of(UnlabeledUnlabeled(0.4), apart).item(), ROUNDING)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("name", ["sigmoid", "logistic"])
def test_edges_are_defined(correction: str, name: Surrogate) -> None:
    scores = scores_of(FIRST + OTHER)
    data, method = uu_data(scores, 4, (0.8, 0.2)), UnlabeledUnlabeled(0.4, correction, surrogate=name)  # type: ignore[arg-type]
    assert_zero_without_a_kind(method, data, scores)
    assert_finite_when_sure(method, data)


def test_wrong_data_are_refused_in_one_line() -> None:
    same = uu_data(scores_of(FIRST + OTHER), 4, (0.3, 0.3))
    expected = "UnlabeledUnlabeled needs sets with different shares of positives, found 0.3 in both"
    with pytest.raises(DataError, match=f"^{expected}$"):
        UnlabeledUnlabeled(0.4).check(same)
    takes = r"UnlabeledUnlabeled learns from two sets of unlabeled instances \(Unlabeled with Unlabeled\)"
    with pytest.raises(DataError, match=f"^{takes}, found Labels$"):
        UnlabeledUnlabeled(0.4).check(WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([1], 2)))
    with pytest.raises(DataError, match=r"^the prior, .*, must lie between 0 and 1, found 0\.0$"):
        UnlabeledUnlabeled(0.0)
    with pytest.raises(DataError, match=r"^slope must be at most 0, found 0\.5$"):
        UnlabeledUnlabeled(0.4, "leaky", 0.5)
    with pytest.raises(DataError, match=r"^correction must be one of none, relu, abs, leaky, found 'max'$"):
        UnlabeledUnlabeled(0.4, "max")  # type: ignore[arg-type]
    UnlabeledUnlabeled(0.4).check(uu_data(scores_of(FIRST + OTHER), 4, (0.3, 0.4)))


@pytest.mark.slow
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_learns_the_digits(correction: str) -> None:
    instances, labels, test_instances, test_labels = binary_digits()
    record = unlabeled_unlabeled(labels, (600, 600), (0.8, 0.2), generator=torch.Generator().manual_seed(0))
    method = UnlabeledUnlabeled(0.5, correction)  # type: ignore[arg-type]
    data, model = record.dataset(instances), MLP((64,), 2, hidden=(64,))
    train(method, data, model, num_epochs=20, learning_rate=1e-3)
    assert accuracy(model, test_instances, test_labels) > 0.86
