"""Pairs that are alike or not: worked numbers, exact expectations, symmetries, and learning."""

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
    big_population,
    close,
    drawn_loss,
    gaussians,
    gradient_of,
    independent_pairs,
    logits_of,
    loss_of,
    posterior,
    step_with,
    supervised_risk,
    world_step,
)
from torch import Tensor

from glws._objective import em_loss
from glws.data import WeakDataset
from glws.data.weaken import pair_similarity
from glws.errors import DataError
from glws.kinds import PairSimilarity
from glws.methods import AbstractMethod, Step
from glws.methods._risks import Correction, Surrogate, surrogate
from glws.methods._similarity import KCL, MCL, RiskSD
from glws.methods._uum import UUM
from glws.models import MLP

ALIKE = PairSimilarity.of([0, 1, 1, 0])
METHODS = [RiskSD(0.4), RiskSD(0.8, "logistic"), MCL(), KCL()]
named = pytest.mark.parametrize("method", METHODS, ids=repr)
LOSSES = [("logistic", SUPERVISED), ("double_hinge", {0.4: 0.286000, 0.8: 0.242000})]


def world(prior: float) -> tuple[Tensor, PairSimilarity]:
    inputs, labels = independent_pairs(prior)
    return inputs, PairSimilarity.of(labels[:, 0] == labels[:, 1])


# The risk.


def test_the_double_hinge_has_the_worked_numbers() -> None:
    scores = torch.tensor([-2, -1, 0, 0.5, 1, 2], dtype=torch.float64)
    close(surrogate(scores, "double_hinge"), [2, 1, 0.5, 0.25, 0, 0], ROUNDING)
    for name in ("double_hinge", "logistic"):
        close(surrogate(-scores, name), surrogate(scores, name) + scores, ROUNDING)


@pytest.mark.parametrize(
    ("name", "similar", "dissimilar", "total"),
    [("double_hinge", 1.170000, 0.492000, 1.662000), ("logistic", 1.291473, 0.606343, 1.897816)],
)
def test_the_risk_has_the_worked_numbers(name: Surrogate, similar: float, dissimilar: float, total: float) -> None:
    method = RiskSD(0.4, name)
    close(loss_of(method, b1(), ALIKE), total)
    close(loss_of(method, b1()[1:3], PairSimilarity.of([1, 1])), similar)
    close(loss_of(method, b1()[[0, 3]], PairSimilarity.of([0, 0])), dissimilar)


@pytest.mark.parametrize(("name", "mean_of_pairs"), [("logistic", 1.873408), ("double_hinge", 1.637500)])
def test_the_risk_is_no_plain_mean_over_pairs(name: Surrogate, mean_of_pairs: float) -> None:
    method = RiskSD(0.4, name)
    pairs = [loss_of(method, b1()[[pair]], ALIKE[[pair]]) for pair in range(4)]
    shares = [0.48, 0.52, 0.52, 0.48]
    close(torch.stack([pair / share for pair, share in zip(pairs, shares, strict=True)]).mean(), mean_of_pairs)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("name", "wanted"), LOSSES)
def test_the_risk_is_unbiased(name: Surrogate, wanted: dict[float, float], prior: float) -> None:
    found = RiskSD(prior, name).loss(world_step(*world(prior)))
    close(found, wanted[prior])
    close(found, supervised_risk(prior, name), ROUNDING)


@pytest.mark.parametrize("name", ["sigmoid", "squared"])
def test_the_risk_is_unbiased_with_any_loss(name: Surrogate) -> None:
    close(RiskSD(0.4, name).loss(world_step(*world(0.4))), supervised_risk(0.4, name), ROUNDING)


def test_the_shares_of_similar_pairs_in_the_data_do_not_matter() -> None:
    inputs, weak = world(0.4)
    fewer = torch.cat([weak.same.nonzero()[:, 0], (~weak.same).nonzero()[:, 0].repeat(3)])
    found = RiskSD(0.4, "logistic").loss(world_step(inputs[fewer], weak[fewer]))
    close(found, supervised_risk(0.4), ROUNDING)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_e_step_with_the_true_posterior_gives_the_risk(prior: float) -> None:
    """The unbiased risk of aggregate observations, with exact weights."""
    inputs, weak = world(prior)
    truth = torch.stack([1 - posterior(prior), posterior(prior)], 1).log()
    log_probs = logits_of(WORLD_SCORES).log_softmax(1)
    found = em_loss(log_probs[inputs], weak, e_log_probs=truth[inputs]).unsupervised
    close(found, SUPERVISED[prior])
    close(found, supervised_risk(prior), ROUNDING)


@pytest.mark.parametrize("correction", ["relu", "abs"])
def test_a_correction_is_applied_to_the_part_of_each_class(correction: Correction) -> None:
    """The parts of ℓ(z) and of ℓ(-z), written out; with scores that leave one of them below 0."""
    scores = torch.tensor([[-9.0, 3.0], [-4.0, -1.0]], dtype=torch.float64)
    alike, unlike = 0.52, 0.48
    parts = [
        (own * alike * surrogate(sign * scores[0]).mean() - other * unlike * surrogate(sign * scores[1]).mean()) / -0.2
        for sign, own, other in ((1, 0.4, 0.6), (-1, -0.6, -0.4))
    ]
    assert min(parts) < 0 < max(parts)
    expected = sum(part.abs() if correction == "abs" else part.clamp_min(0) for part in parts)
    close(loss_of(RiskSD(0.4, "logistic", correction), scores, PairSimilarity.of([1, 0])), expected, ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS)
def test_the_risk_of_generated_pairs_is_the_supervised_one(prior: float) -> None:
    inputs, labels = big_population()
    generator = torch.Generator().manual_seed(0)
    record = pair_similarity(labels, 200_000, prior, replacement="always", generator=generator)
    found = drawn_loss(RiskSD(prior, "logistic"), record, inputs).item()
    largest = 6.0  # of |ℒ(z, t)| at these scores: no spread of a pair exceeds it
    assert abs(found - SUPERVISED[prior]) < 4 * largest / 200_000**0.5


# The losses of any number of classes.

LOGITS = torch.tensor([[1, 0, -1], [0.5, -0.5, 0], [0.2, 0.5, -0.3], [-1, 0.3, 0.7]], dtype=torch.float64)


def three_classes(logits: Tensor, same: list[int]) -> Step:
    data = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of(same, num_classes=3))
    return step_with(data.batch([torch.arange(2)]), logits)


def test_the_likelihood_has_the_worked_numbers() -> None:
    close(loss_of(MCL(), b1(), ALIKE), 0.616015)
    close(MCL().loss(three_classes(LOGITS, [1, 0])), 0.630549)


def test_the_likelihood_is_the_sum_written_out() -> None:
    probs = LOGITS.softmax(1)
    similar = torch.stack([(probs[0] * probs[1]).sum(), (probs[2] * probs[3]).sum()])
    for same in ([1, 1], [0, 0], [0, 1]):
        chosen = torch.where(torch.tensor(same) > 0, similar, 1 - similar)
        close(MCL().loss(three_classes(LOGITS, same)), -chosen.log().mean(), ROUNDING)


def test_the_gradient_of_the_likelihood_is_twice_that_of_the_weighted_risk() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    (likelihood,) = torch.autograd.grad(MCL().loss(three_classes(logits, [0, 1])), logits)
    (weighted,) = torch.autograd.grad(UUM().loss(three_classes(logits, [0, 1])), logits)
    weak = PairSimilarity.of([0, 1], num_classes=3)
    (guided,) = torch.autograd.grad(em_loss(logits.log_softmax(1).view(2, 2, 3), weak).unsupervised, logits)
    close(2 * weighted, likelihood, ROUNDING)
    close(2 * guided, likelihood, ROUNDING)


def test_the_divergences_have_the_worked_numbers() -> None:
    log_probs = LOGITS.log_softmax(1).view(2, 2, 3)
    close((log_probs.exp() * (log_probs - log_probs.flip(1))).sum(2), [[0.137618, 0.188130], [0.324898, 0.316170]])
    close(KCL().loss(three_classes(LOGITS, [1, 0])), 1.842340)
    for pair, wanted in enumerate([0.325748, 3.358931]):
        data = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([1 - pair], num_classes=3))
        close(KCL().loss(step_with(data.batch([torch.arange(1)]), LOGITS[2 * pair : 2 * pair + 2])), wanted, 1e-6)


def test_the_first_distribution_of_a_divergence_is_held_fixed() -> None:
    gradient = gradient_of(KCL(), b1()[:2], PairSimilarity.of([1, 1]))
    first, second = b1()[:2].sigmoid().unbind(1)
    close(gradient, torch.stack([first - second, second - first], 1) / 2, ROUNDING)


def test_pairs_that_are_far_enough_apart_are_left_alone() -> None:
    far = torch.tensor([[6.0, -6.0], [0.5, 0.4]], dtype=torch.float64)
    gradient = gradient_of(KCL(), far, PairSimilarity.of([0, 0]))
    assert not gradient[0].any()
    assert gradient[1].all()


# Relations.


@named
def test_the_members_of_a_pair_may_be_exchanged(method: AbstractMethod) -> None:
    close(loss_of(method, b1().flip(1), ALIKE), loss_of(method, b1(), ALIKE), ROUNDING)


@pytest.mark.parametrize("name", ["logistic", "double_hinge"])
def test_exchanging_the_classes_changes_nothing(name: Surrogate) -> None:
    close(loss_of(RiskSD(0.7, name), -b1(), ALIKE), loss_of(RiskSD(0.3, name), b1(), ALIKE), ROUNDING)


@named
def test_only_the_difference_of_the_logits_counts(method: AbstractMethod) -> None:
    assert_same_for_any_head(method, b1(), ALIKE)


@named
def test_the_loss_is_defined_at_the_edges(method: AbstractMethod) -> None:
    assert_defined_at_the_edges(method, ALIKE)
    assert_defined_at_the_edges(method, PairSimilarity.of([1, 1, 1, 1]))
    assert_defined_at_the_edges(method, PairSimilarity.of([0, 0, 0, 0]))


# Errors.


@pytest.mark.parametrize("prior", [0.5, 0.495, 0.509])
def test_an_even_prior_is_refused(prior: float) -> None:
    with pytest.raises(DataError) as caught:
        RiskSD(prior)
    wanted = f"the prior must differ from 1/2 by 0.01 or more (the risk is divided by 2π - 1), found {prior}"
    assert str(caught.value) == wanted
    assert RiskSD(0.49).prior < RiskSD(0.51).prior


@pytest.mark.parametrize("prior", [0.0, 1.0, float("nan")])
def test_a_prior_that_is_no_share_is_refused(prior: float) -> None:
    with pytest.raises(DataError) as caught:
        RiskSD(prior)
    assert str(caught.value) == f"the prior, the share of the positive class, must lie between 0 and 1, found {prior}"


def test_a_loss_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        RiskSD(0.4, "hinge")  # type: ignore[arg-type]
    wanted = "surrogate must be one of logistic, sigmoid, double_hinge, squared, found 'hinge'"
    assert str(caught.value) == wanted


@named
def test_other_kinds_are_refused_in_one_line(method: AbstractMethod) -> None:
    name = type(method).__name__
    assert_refuses_other_kinds(method, f"{name} learns from similar or dissimilar pairs (PairSimilarity), found Labels")


def test_only_the_risk_refuses_three_classes() -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([1], num_classes=3))
    MCL().check(data)
    KCL().check(data)
    with pytest.raises(DataError) as caught:
        RiskSD(0.4).check(data)
    assert str(caught.value) == "RiskSD is for two classes, the weak labels are over 3"


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize("method", [RiskSD(0.2), RiskSD(0.2, "logistic"), MCL(), KCL()], ids=repr)
def test_two_gaussians_are_told_apart(method: AbstractMethod) -> None:
    instances, labels, _ = gaussians(6000, 0.2)
    data = pair_similarity(labels, 3000, 0.2, generator=torch.Generator().manual_seed(0)).dataset(instances)
    model = train(method, data, MLP((10,), 2, hidden=(16,)), num_epochs=6, num_batches=20)
    tested, truth, _ = gaussians(2000, 0.5, seed=1)
    plain = accuracy(model, tested, truth)
    known = (
        plain if isinstance(method, RiskSD) else max(plain, 1 - plain)
    )  # the others do not know which class is which
    assert known > 0.75  # of balanced classes: 0.90 at best, 0.50 by saying one class


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@named
def test_the_loss_is_the_same_on_a_gpu(method: AbstractMethod) -> None:
    assert_same_on_a_gpu(method, b1(), ALIKE)
