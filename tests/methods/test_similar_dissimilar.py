"""SU, DU, SD and SDU: the worked numbers, the supervised risk on exact populations, and what a batch may lack."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import (
    GAUSSIAN_RISKS,
    GAUSSIAN_TOLERANCE,
    ROUNDING,
    assert_finite_when_sure,
    close,
    gaussian_points,
    loss_of,
    mixture,
    scores_of,
    sdu_data,
    supervised_risk,
)
from torch import Tensor

from glws.data import WeakDataset
from glws.data.weaken import similar_dissimilar_unlabeled
from glws.errors import DataError
from glws.kinds import Labels, PairSimilarity, Unlabeled
from glws.methods._risks import Surrogate, surrogate
from glws.methods._similar_dissimilar import DU, SD, SU, SimilarDissimilarUnlabeled, Weights, pair_parts
from glws.methods._similarity import RiskSD
from glws.models import Linear

SIMILAR, DISSIMILAR = [1.2, 0.8, -0.6, -1.5], [0.9, -0.7, -0.2, 1.1]
UNLABELED = [0.4, 1.6, -1.2]
RISKS = {"su": SU, "du": DU, "sd": SD}


def worked(prior: float = 0.7) -> tuple[WeakDataset, Tensor]:
    scores = scores_of(SIMILAR + DISSIMILAR + UNLABELED)
    return sdu_data(scores, 2, 2, prior), scores


def parts(prior: float, weights: Weights, name: Surrogate) -> list[float]:
    sets = scores_of(SIMILAR), scores_of(DISSIMILAR), scores_of(UNLABELED)
    return [part.item() for part in pair_parts(*sets, prior, weights, name)]


# One row for SU, DU and SD each: the risk, and its two parts.
WORKED = [
    (0.7, "logistic", (1.222983, 0.682766, 0.540217), (0.808816, 0.596040, 0.212777), (0.967757, 0.656748, 0.311009)),
    (0.7, "double_hinge", (1.002917, 0.495, 0.507917), (0.588750, 0.48125, 0.1075), (0.718500, 0.490875, 0.227625)),
    (0.7, "sigmoid", (0.638581, 0.392260, 0.246321), (0.492523, 0.319231, 0.173291), (0.565552, 0.370352, 0.195200)),
    (0.4, "logistic", (0.121733, -0.032436, 0.154169), (0.860066, 0.077756, 0.782310), (0.439105, 0.033679, 0.405426)),
    (0.4, "double_hinge", (-0.098333, -0.06, -0.038333), (0.64, -0.1, 0.74), (0.189, -0.084, 0.273)),
]


@pytest.mark.parametrize(("prior", "name", "similar", "dissimilar", "both"), WORKED)
def test_every_risk_has_the_worked_numbers(
    prior: float, name: Surrogate, similar: tuple[float, ...], dissimilar: tuple[float, ...], both: tuple[float, ...]
) -> None:
    data, _ = worked(prior)
    for weights, expected in ((SU, similar), (DU, dissimilar), (SD, both)):
        assert parts(prior, weights, name) == pytest.approx(expected[1:], abs=1e-6)
        close(loss_of(SimilarDissimilarUnlabeled(weights, name), data), expected[0])


def test_a_mixture_has_the_worked_number() -> None:
    data, _ = worked()
    close(loss_of(SimilarDissimilarUnlabeled((0.2, 0.3, 0.5), "logistic"), data), 0.971120)


@pytest.mark.parametrize(
    ("weights", "absolute", "clipped"),
    [(SD, 0.357, 0.273), (SU, 0.098333, 0.0), (DU, 0.84, 0.74)],
    ids=["sd", "su", "du"],
)
def test_corrections_have_the_worked_numbers(weights: Weights, absolute: float, clipped: float) -> None:
    data, _ = worked(0.4)
    close(loss_of(SimilarDissimilarUnlabeled(weights, correction="abs"), data), absolute)
    close(loss_of(SimilarDissimilarUnlabeled(weights, correction="relu"), data), clipped)


def test_the_risks_differ_by_a_term_of_mean_zero() -> None:
    prior, sets = 0.7, (scores_of(SIMILAR), scores_of(DISSIMILAR), scores_of(UNLABELED))

    def imbalance(sign: int) -> float:
        losses = [
            (prior * surrogate(sign * scores).mean() - (1 - prior) * surrogate(-sign * scores).mean()) / 0.4
            for scores in sets
        ]
        return (losses[2] - 0.58 * losses[0] - 0.42 * losses[1]).item()

    su, du, sd = (sum(parts(prior, weights, "logistic")) for weights in (SU, DU, SD))
    assert su - sd == pytest.approx(imbalance(-1), abs=ROUNDING)
    assert du - sd == pytest.approx(imbalance(1), abs=ROUNDING)
    assert su - sd == pytest.approx(0.255226, abs=1e-6)
    assert du - sd == pytest.approx(-0.158941, abs=1e-6)


def exact_population(prior: float, weights: tuple[int, int]) -> WeakDataset:
    """Pairs and unlabeled instances of two Gaussians in the exact proportions of the setting."""
    positive, negative = gaussian_points()
    ones, zeros = weights
    sets = [
        mixture(positive, negative, (ones**2, zeros**2)),
        mixture(positive, negative, (1, 1)),
        mixture(positive, negative, (ones, zeros)),
    ]
    return sdu_data(torch.cat(sets), len(sets[0]) // 2, len(sets[1]) // 2, prior)


@pytest.mark.parametrize("name", list(GAUSSIAN_RISKS))
@pytest.mark.parametrize(("prior", "copies"), [(0.4, (2, 3)), (0.7, (7, 3))])
def test_every_risk_is_the_supervised_one_of_two_gaussians(
    name: Surrogate, prior: float, copies: tuple[int, int]
) -> None:
    data, points = exact_population(prior, copies), gaussian_points()
    exact = prior * GAUSSIAN_RISKS[name][0] + (1 - prior) * GAUSSIAN_RISKS[name][1]
    for weights in (SU, DU, SD, (0.2, 0.3, 0.5), None):
        found = loss_of(SimilarDissimilarUnlabeled(weights, name), data)
        close(found, supervised_risk(*points, prior, name), 1e-11)
        close(found, exact, GAUSSIAN_TOLERANCE)


def test_without_weights_a_batch_takes_the_risk_of_what_it_holds() -> None:
    data, scores = worked()
    method = SimilarDissimilarUnlabeled(surrogate="logistic")
    loss = loss_of(method, data)
    close(loss, (1.222983 + 0.808816 + 0.967757) / 3)
    gradient = torch.autograd.grad(loss, scores)[0]
    assert bool((gradient != 0).all())  # pairs of both sorts and unlabeled instances are all learned from
    close(loss_of(method, data, chosen=[[0, 1], [0]]), 1.222983)
    close(loss_of(method, data, chosen=[[2, 3], [0]]), 0.808816)


def test_a_batch_that_lacks_what_its_risk_needs_has_loss_zero() -> None:
    data, scores = worked()
    lacking = {
        "su": ([[2, 3], [0]], [[0, 1], []], [[], [0]]),
        "du": ([[0, 1], [0]], [[2, 3], []], [[], [0]]),
        "sd": ([[0, 1], [0]], [[2, 3], [0]], [[], [0]]),
    }
    for name, batches in lacking.items():
        for chosen in batches:
            loss = loss_of(SimilarDissimilarUnlabeled(RISKS[name]), data, chosen=chosen)
            assert loss.item() == 0
            assert not bool(torch.autograd.grad(loss, scores)[0].any())
    for chosen in ([[0], []], [[], [0]], [[], []]):
        assert loss_of(SimilarDissimilarUnlabeled(), data, chosen=chosen).item() == 0
    alone = loss_of(SimilarDissimilarUnlabeled(SD, prior=0.7), data, chosen=[[0, 1, 2, 3], []])
    close(alone, 0.718500)  # pairs are enough for SD where the prior is told


def test_order_within_pairs_and_the_numbers_of_pairs_do_not_matter() -> None:
    data, scores = worked()
    pairs = torch.tensor([[1, 0], [2, 3], [5, 4], [6, 7], [0, 1], [3, 2]])
    kinds = [PairSimilarity.of([1, 1, 0, 0, 1, 1]), Unlabeled.of([0.7, 0.7])]
    other = WeakDataset(scores[:, None], [pairs, [[8], [9, 10]]], kinds)
    for weights in (*RISKS.values(), (0.2, 0.3, 0.5)):
        method = SimilarDissimilarUnlabeled(weights)
        close(loss_of(method, other), loss_of(method, data).item(), ROUNDING)


@pytest.mark.parametrize("name", ["double_hinge", "logistic"])
def test_sd_is_the_risk_of_pairs_alone(name: Surrogate) -> None:
    data, scores = worked()
    pairs = WeakDataset(scores[:, None], data.groups[0], data.weak[0])
    expected = loss_of(RiskSD(0.7, name), pairs).item()
    close(loss_of(SimilarDissimilarUnlabeled(SD, name), data), expected, ROUNDING)


def test_prior_can_be_overridden() -> None:
    close(loss_of(SimilarDissimilarUnlabeled(SD, prior=0.7), worked(0.2)[0]), 0.718500)


@pytest.mark.parametrize("weights", [*RISKS.values(), None])
@pytest.mark.parametrize("name", ["logistic", "double_hinge", "sigmoid"])
def test_finite_when_sure(weights: Weights | None, name: Surrogate) -> None:
    for correction in ("none", "abs", "relu"):
        method = SimilarDissimilarUnlabeled(weights, name, correction)  # type: ignore[arg-type]
        assert_finite_when_sure(method, worked()[0])


def refusal(method: SimilarDissimilarUnlabeled, data: WeakDataset) -> str:
    with pytest.raises(DataError) as caught:
        method.check(data)
    return str(caught.value)


def test_wrong_data_are_refused_in_one_line() -> None:
    method, scores = SimilarDissimilarUnlabeled(), scores_of(SIMILAR + UNLABELED)
    takes = "SimilarDissimilarUnlabeled learns from similar or dissimilar pairs beside unlabeled instances"
    labels = WeakDataset(torch.zeros(1, 1), [[0]], Labels.of([1], 2))
    assert refusal(method, labels) == f"{takes} (PairSimilarity with Unlabeled), found Labels"
    only = sdu_data(scores, 2, 0, 0.7)
    method.check(only)
    SimilarDissimilarUnlabeled(SU).check(only)
    name = "SimilarDissimilarUnlabeled with weights"
    assert refusal(SimilarDissimilarUnlabeled(SD), only) == f"{name} (0.0, 0.0, 1.0) needs dissimilar pairs, found none"
    noisy = [PairSimilarity.of([1, 1], flip=0.1), Unlabeled.of([0.7])]
    expected = "SimilarDissimilarUnlabeled takes pairs without noise, found flip rates [0.1, 0.1]"
    assert refusal(method, WeakDataset(scores[:, None], only.groups, noisy)) == expected
    half = "the prior must differ from 1/2 by 0.01 or more"
    assert refusal(method, sdu_data(scores, 2, 0, 0.5)).startswith(half)
    with pytest.raises(DataError, match=f"^{half}"):
        SimilarDissimilarUnlabeled(prior=0.5)
    with pytest.raises(DataError, match=r"^weights must not be negative and must sum to 1, found \(1, 1, 0\)$"):
        SimilarDissimilarUnlabeled((1, 1, 0))


@pytest.mark.slow
@pytest.mark.parametrize("weights", [*RISKS.values(), None], ids=[*RISKS, "sdu"])
def test_learns_two_gaussians(weights: Weights | None) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(6000) % 10 < 7).long()
    instances = torch.randn(6000, 10, generator=generator) + 0.6 * (2 * labels[:, None] - 1)
    record = similar_dissimilar_unlabeled(labels[:5000], 500, 500, 1000, 0.7, generator=generator)
    model = Linear((10,), 2, generator=generator)
    train(SimilarDissimilarUnlabeled(weights), record.dataset(instances), model, num_epochs=20, learning_rate=0.02)
    assert accuracy(model, instances[5000:], labels[5000:]) > 0.9  # always positive: 0.7
