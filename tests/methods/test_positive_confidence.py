"""Positives with their confidence: worked numbers, exact expectations, and learning."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_pairs import (
    GIVEN_POSITIVE,
    PRIORS,
    ROUNDING,
    SUPERVISED,
    assert_defined_at_the_edges,
    assert_refuses_other_kinds,
    assert_same_for_any_head,
    assert_same_on_a_gpu,
    b1,
    big_population,
    close,
    drawn_loss,
    each,
    gaussians,
    gradient_of,
    loss_of,
    population,
    posterior,
    spread,
    supervised_risk,
    world_step,
)
from torch import Tensor

from glws.data.weaken import positive_confidence
from glws.errors import DataError
from glws.kinds import PositiveConfidence
from glws.methods._positive_confidence import Pconf
from glws.methods._risks import surrogate
from glws.models import MLP

CONFIDENCE = torch.tensor([0.9, 0.6, 0.95, 0.4], dtype=torch.float64)
CONFIDENT = PositiveConfidence.of(CONFIDENCE)


def firsts() -> Tensor:
    """Scores of four single instances, [groups, 1]."""
    return b1()[:, :1]


def positives(prior: float) -> Tensor:
    """The inputs of the positives of the world, in their proportions, [positives, 1]."""
    inputs, labels = population(prior)
    return inputs[labels == 1][:, None]


def test_the_risk_has_the_worked_numbers() -> None:
    close(loss_of(Pconf(), firsts(), CONFIDENT), 0.944275)
    close(0.4 * loss_of(Pconf(), firsts(), CONFIDENT), 0.377710)
    single = [loss_of(Pconf(), firsts()[[row]], CONFIDENT[[row]]) for row in range(4)]
    close(torch.stack(single), [0.501223, 1.223925, 0.290961, 1.760992])
    close(gradient_of(Pconf(), firsts(), CONFIDENT)[:, 0], [-0.058340, -0.072684, -0.034849, 0.078112])


def test_the_risk_is_the_weighted_one_written_out() -> None:
    weights = (1 - CONFIDENCE) / CONFIDENCE
    scores = firsts()[:, 0]
    close(loss_of(Pconf(), firsts(), CONFIDENT), (surrogate(scores) + weights * surrogate(-scores)).mean(), ROUNDING)


@pytest.mark.parametrize("prior", PRIORS)
def test_times_the_prior_the_risk_of_positives_is_the_supervised_one(prior: float) -> None:
    inputs = positives(prior)
    close(torch.bincount(inputs[:, 0]) / len(inputs), GIVEN_POSITIVE, 1e-7)
    found = prior * Pconf().loss(world_step(inputs, PositiveConfidence.of(posterior(prior)[inputs[:, 0]])))
    close(found, SUPERVISED[prior])
    close(found, supervised_risk(prior), ROUNDING)


def test_the_spread_of_an_instance_is_the_worked_one() -> None:
    confidence = posterior(0.4)
    values = each(1, lambda input: 0.4 * Pconf().loss(world_step(input, PositiveConfidence.of(confidence[input[0]]))))
    close(spread(values, positives(0.4)), 0.428420)


@pytest.mark.slow
def test_the_risk_of_generated_positives_is_the_supervised_one() -> None:
    inputs, labels = big_population()
    generator = torch.Generator().manual_seed(0)
    confidence = posterior(0.4)[inputs]
    record = positive_confidence(labels, confidence, 200_000, replacement="always", generator=generator)
    found = 0.4 * drawn_loss(Pconf(), record, inputs).item()
    assert abs(found - SUPERVISED[0.4]) < 4 * 0.428420 / 200_000**0.5


@pytest.mark.parametrize("confidence", [0.2, 0.5, 0.9])
def test_the_best_prediction_of_an_instance_is_its_confidence(confidence: float) -> None:
    score = torch.tensor([[confidence]], dtype=torch.float64).logit()
    close(gradient_of(Pconf(), score, PositiveConfidence.of([confidence])), [[0.0]], ROUNDING)


def test_a_tiny_confidence_counts_as_the_floor() -> None:
    tiny = PositiveConfidence.of([1e-6] * 4)
    for floor in (1e-2, 0.1):
        wanted = loss_of(Pconf(), firsts(), PositiveConfidence.of([floor] * 4))
        close(loss_of(Pconf(floor), firsts(), tiny), wanted, 1e-9)


def test_only_the_difference_of_the_logits_counts() -> None:
    assert_same_for_any_head(Pconf(), firsts(), CONFIDENT)


def test_the_loss_is_defined_at_the_edges() -> None:
    assert_defined_at_the_edges(Pconf(), CONFIDENT, size=1)
    assert_defined_at_the_edges(Pconf(), PositiveConfidence.of([0, 1, 0, 1]), size=1)


def test_a_floor_that_is_none_is_refused() -> None:
    for floor in (0.0, 1e-5, 1.0, float("nan")):
        with pytest.raises(DataError) as caught:
            Pconf(floor)
        wanted = f"floor, the least confidence, must be at least 0.0001 and below 1, found {floor}"
        assert str(caught.value) == wanted


def test_other_kinds_are_refused_in_one_line() -> None:
    message = "Pconf learns from positives with their confidence (PositiveConfidence), found Labels"
    assert_refuses_other_kinds(Pconf(), message)


@pytest.mark.slow
@pytest.mark.parametrize("positives_only", [True, False])
def test_two_gaussians_are_told_apart(positives_only: bool) -> None:
    instances, labels, confidence = gaussians(4000, 0.5)
    generator = torch.Generator().manual_seed(0)
    draw = {"positives_only": positives_only, "generator": generator}
    data = positive_confidence(labels, confidence, 1500, **draw).dataset(instances)
    model = train(Pconf(), data, MLP((10,), 2, hidden=(16,)), num_epochs=6, num_batches=20)
    tested, truth, _ = gaussians(2000, 0.5, seed=1)
    assert accuracy(model, tested, truth) > 0.83  # 0.90 at best, 0.50 by saying one class


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_loss_is_the_same_on_a_gpu() -> None:
    assert_same_on_a_gpu(Pconf(), firsts(), CONFIDENT)
