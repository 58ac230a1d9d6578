"""Pairs with a confidence that they are alike: worked numbers, exact expectations, symmetries, and learning."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_pairs import (
    PRIORS,
    ROUNDING,
    SUPERVISED,
    WORLD_SCORES,
    assert_defined_at_the_edges,
    assert_refuses_other_kinds,
    assert_same_for_any_head,
    assert_same_on_a_gpu,
    b1,
    batch_of,
    big_population,
    close,
    drawn_loss,
    each,
    gaussians,
    gradient_of,
    independent_pairs,
    joint,
    loss_of,
    posterior,
    spread,
    supervised_risk,
    world_step,
)
from torch import Tensor

from glws.data import WeakDataset
from glws.data.weaken import similarity_confidence
from glws.errors import DataError
from glws.kinds import SimilarityConfidence
from glws.methods import AbstractMethod
from glws.methods._risks import surrogate
from glws.methods._similarity_confidence import Sconf, corrected_similarity_risk, similarity_confidence_risks
from glws.models import MLP

CONFIDENCE = torch.tensor([0.30, 0.85, 0.62, 0.10], dtype=torch.float64)
CONFIDENT = SimilarityConfidence.of(CONFIDENCE)
FORMS = ["none", "relu", "abs", "released_relu", "released_abs"]
METHODS = [Sconf(0.4, form) for form in FORMS]
named = pytest.mark.parametrize("method", METHODS, ids=repr)


def b3() -> tuple[Tensor, SimilarityConfidence]:
    """Pairs whose negative partial risk is below 0 at prior 0.7."""
    return batch_of([-2, 1], [-1.5, -2]), SimilarityConfidence.of([0.05, 0.9])


def alike(inputs: Tensor, prior: float) -> SimilarityConfidence:
    """P(same label) of pairs of inputs of the world."""
    first, second = posterior(prior)[inputs].unbind(1)
    return SimilarityConfidence.of(first * second + (1 - first) * (1 - second))


@pytest.mark.parametrize(
    ("prior", "positive", "negative", "total", "released"),
    [(0.4, 0.702238, 0.560545, 1.262783, 1.894175), (0.7, 0.144562, 0.393534, 0.538096, 0.807144)],
)
def test_the_risks_have_the_worked_numbers(
    prior: float, positive: float, negative: float, total: float, released: float
) -> None:
    close(torch.stack(similarity_confidence_risks(b1(), CONFIDENCE, prior)), [positive, negative])
    for form in FORMS:
        wanted = released if form.startswith("released") else total
        close(loss_of(Sconf(prior, form), b1(), CONFIDENT), wanted)


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("none", 0.270258),
        ("abs", 0.363528),
        ("relu", 0.316893),
        ("released_abs", 0.498657),
        ("released_relu", 0.452022),
    ],
)
def test_corrections_have_the_worked_numbers(form: str, wanted: float) -> None:
    close(torch.stack(similarity_confidence_risks(b3()[0], b3()[1].confidence, 0.7)), [0.316893, -0.046635])
    close(loss_of(Sconf(0.7, form), *b3()), wanted)


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [
        ("none", [0.186051, -0.192235], [0.201856, -0.345199]),
        ("abs", [0.089198, -0.009471], [0.053636, -0.315399]),
        ("relu", [0.137625, -0.100853], [0.127746, -0.330299]),
    ],
)
def test_gradients_have_the_worked_numbers(form: str, first: list[float], second: list[float]) -> None:
    gradient = gradient_of(Sconf(0.7, form), *b3())
    close(gradient[:, 0], first)
    close(gradient[:, 1], second)


def test_the_released_forms_have_slopes_of_their_own() -> None:
    risks = [torch.tensor([value], requires_grad=True) for value in (0.3, -0.3)]
    for form, slopes in (("released_abs", (1.5, -0.5)), ("released_relu", (1.5, 0.5))):
        for risk, slope in zip(risks, slopes, strict=True):
            (found,) = torch.autograd.grad(corrected_similarity_risk(risk.sum(), form), risk)
            assert found.item() == slope


@pytest.mark.parametrize("prior", PRIORS)
def test_the_risk_is_unbiased(prior: float) -> None:
    inputs, _ = independent_pairs(prior)
    weak = alike(inputs, prior)
    for form in ("none", "relu", "abs"):
        found = Sconf(prior, form).loss(world_step(inputs, weak))
        close(found, SUPERVISED[prior])
        close(found, supervised_risk(prior), ROUNDING)


@pytest.mark.parametrize(("prior", "positive", "negative"), [(0.4, 0.172646, 0.358524), (0.8, 0.345293, 0.119508)])
def test_each_partial_risk_is_the_share_of_its_class(prior: float, positive: float, negative: float) -> None:
    inputs, _ = independent_pairs(prior)
    found = torch.stack(similarity_confidence_risks(WORLD_SCORES[inputs], alike(inputs, prior).confidence, prior))
    close(found, [positive, negative])
    close(found[0], (joint(prior)[1] * surrogate(WORLD_SCORES)).sum(), ROUNDING)
    close(found[1], (joint(prior)[0] * surrogate(-WORLD_SCORES)).sum(), ROUNDING)


def test_the_spread_of_a_pair_is_the_worked_one() -> None:
    inputs, _ = independent_pairs(0.4)
    values = each(2, lambda pair: Sconf(0.4).loss(world_step(pair, alike(pair, 0.4))))
    close(spread(values, inputs), 0.751653)


@pytest.mark.slow
def test_the_risk_of_generated_pairs_is_the_supervised_one() -> None:
    """The confidences are those of a model of balanced data; the generator shifts them to the prior of the pairs."""
    inputs, labels = big_population()
    generator = torch.Generator().manual_seed(0)
    confidence = posterior(0.5)[inputs]
    record = similarity_confidence(labels, confidence, 200_000, 0.4, replacement="always", generator=generator)
    found = drawn_loss(Sconf(0.4), record, inputs).item()
    assert abs(found - SUPERVISED[0.4]) < 4 * 0.751653 / 200_000**0.5


# Relations.


@named
def test_the_members_of_a_pair_may_be_exchanged(method: AbstractMethod) -> None:
    close(loss_of(method, b1().flip(1), CONFIDENT), loss_of(method, b1(), CONFIDENT), ROUNDING)


@pytest.mark.parametrize("form", FORMS)
def test_exchanging_the_classes_changes_nothing(form: str) -> None:
    scores, weak = b3()
    close(loss_of(Sconf(0.3, form), -scores, weak), loss_of(Sconf(0.7, form), scores, weak), ROUNDING)


@named
def test_only_the_difference_of_the_logits_counts(method: AbstractMethod) -> None:
    assert_same_for_any_head(method, b1(), CONFIDENT)


@named
def test_the_loss_is_defined_at_the_edges(method: AbstractMethod) -> None:
    assert_defined_at_the_edges(method, CONFIDENT)
    assert_defined_at_the_edges(method, SimilarityConfidence.of([0, 1, 0, 1]))


# Errors.


def test_a_prior_that_cannot_be_is_refused() -> None:
    for prior in (0.5, 0.4999):
        with pytest.raises(DataError) as caught:
            Sconf(prior)
        wanted = f"the prior must differ from 1/2 by 0.01 or more (the risk is divided by 2π - 1), found {prior}"
        assert str(caught.value) == wanted
    with pytest.raises(DataError) as caught:
        Sconf(1.0)
    assert str(caught.value) == "the prior, the share of the positive class, must lie between 0 and 1, found 1.0"


def test_a_correction_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        Sconf(0.4, "nn")  # type: ignore[arg-type]
    wanted = "correction must be one of none, relu, abs, released_relu, released_abs, found 'nn'"
    assert str(caught.value) == wanted


def test_other_kinds_are_refused_in_one_line() -> None:
    takes = "pairs with a similarity confidence (SimilarityConfidence)"
    assert_refuses_other_kinds(Sconf(0.4), f"Sconf learns from {takes}, found Labels")


def test_three_classes_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], SimilarityConfidence.of([0.6], num_classes=3))
    with pytest.raises(DataError) as caught:
        Sconf(0.4).check(data)
    assert str(caught.value) == "Sconf is for two classes, the weak labels are over 3"


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize("form", ["none", "relu", "abs", "released_abs"])
def test_two_gaussians_are_told_apart(form: str) -> None:
    instances, labels, confidence = gaussians(6000, 0.25)
    generator = torch.Generator().manual_seed(0)
    record = similarity_confidence(labels, confidence, 3000, 0.25, confidence_prior=0.25, generator=generator)
    model = MLP((10,), 2, hidden=(16,))
    train(Sconf(0.25, form), record.dataset(instances), model, num_epochs=6, num_batches=20)
    tested, truth, _ = gaussians(2000, 0.5, seed=1)
    assert accuracy(model, tested, truth) > 0.75  # of balanced classes: 0.90 at best, 0.50 by saying one class


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@named
def test_the_loss_is_the_same_on_a_gpu(method: AbstractMethod) -> None:
    assert_same_on_a_gpu(method, b1(), CONFIDENT)
