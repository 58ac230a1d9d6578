"""The tilt: expected counts fit whatever the predictions, and the error against the exact answer is what we say."""

from __future__ import annotations

import math

import pytest
import torch
from strategies import random_log_probs
from torch import Tensor
from torch.nn.functional import one_hot

import glws
from glws.inference import STATE_BUDGET, Exactly, JointCounts, count_posterior
from glws.inference._joint.groups import gather_columns
from glws.inference._joint.tilting import tilted

pytestmark = pytest.mark.slow


def likely_counts(seed: int, log_probs: Tensor) -> Tensor:
    """The counts of labels drawn from the predictions."""
    groups, instances, classes = log_probs.shape
    labels = torch.multinomial(log_probs.exp().flatten(0, 1), 1, generator=torch.Generator().manual_seed(seed))
    return one_hot(labels.view(groups, instances), classes).sum(1)


def uniform_counts(seed: int, groups: int, instances: int, classes: int) -> Tensor:
    labels = torch.randint(classes, (groups, instances), generator=torch.Generator().manual_seed(seed))
    return one_hot(labels, classes).sum(1)


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize(("classes", "instances"), [(2, 10), (2, 200), (3, 12), (10, 20), (10, 200), (30, 60)])
def test_expected_counts_fit(classes: int, instances: int, scale: float) -> None:
    """Counts that have nothing to do with the predictions, which are as sharp as can be."""
    log_probs = random_log_probs(classes, 16, instances, classes, scale)
    counts = uniform_counts(classes, 16, instances, classes)
    for method in ("tilted", "corrected"):
        log_likelihood, marginals = JointCounts(counts, method).solve(log_probs, torch.full((16,), instances))
        assert (marginals.sum(1) - counts).abs().max() <= 1e-9
        assert (marginals.sum(2) - 1.0).abs().max() <= 1e-12
        assert log_likelihood.isfinite().all()


BOUNDS = {  # (classes, instances): mean |Δq| tilted, corrected, mean |Δ log Z|; measured below 0.8 of these
    (3, 5): (0.06, 0.018, 0.15),
    (3, 12): (0.04, 0.012, 0.09),
    (10, 12): (0.04, 0.013, 0.40),
    (2, 100): (0.004, 0.0001, 0.005),
    (3, 60): (0.008, 0.0006, 0.02),
}


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("shape", BOUNDS)
def test_the_error_against_the_exact_answer_is_bounded(shape: tuple[int, int], scale: float) -> None:
    classes, instances = shape
    log_probs, lengths = random_log_probs(2, 100, instances, classes, scale), torch.full((100,), instances)
    counts = likely_counts(1, log_probs)
    methods = ("exact", "tilted", "corrected")
    exact, tilt, corrected = (JointCounts(counts, method).solve(log_probs, lengths) for method in methods)
    assert (exact[1] - tilt[1]).abs().mean() <= BOUNDS[shape][0]
    assert (exact[1] - corrected[1]).abs().mean() <= BOUNDS[shape][1]
    assert (exact[0] - tilt[0]).abs().mean() <= BOUNDS[shape][2]
    assert torch.equal(tilt[0], corrected[0])


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0, 300.0])
def test_the_likelihood_is_within_its_bounds(scale: float) -> None:
    """Dual + log M(n) <= log Z <= dual, M the multinomial law of mean n: both the exact one and the approximation."""
    log_probs, lengths = random_log_probs(3, 50, 9, 4, scale), torch.full((50,), 9)
    counts = uniform_counts(3, 50, 9, 4)
    dual = tilted(gather_columns(log_probs, counts, lengths)[0]).dual
    n = counts.double()
    log_alike = math.lgamma(10) - torch.lgamma(n + 1).sum(1) + torch.special.xlogy(n, n / 9.0).sum(1)
    slack = 1e-9 * (1.0 + dual.abs())
    for method in ("exact", "tilted"):
        log_likelihood = JointCounts(counts, method).solve(log_probs, lengths)[0]
        assert (log_likelihood <= dual + slack).all()
        assert (log_likelihood >= dual + log_alike - slack).all()


def test_the_likelihood_is_exact_where_all_instances_are_alike_and_where_they_are_certain() -> None:
    alike = random_log_probs(4, 5, 1, 4).expand(-1, 9, -1)
    certain = 300.0 * one_hot(torch.tensor([0, 0, 1, 2, 2, 2, 3, 1, 0]), 4).double().expand(5, -1, -1)
    counts, lengths = torch.tensor([[3, 2, 3, 1]] * 5), torch.full((5,), 9)
    for potentials in (alike, certain):
        exact = JointCounts(counts, "exact").solve(potentials, lengths)
        for method in ("tilted", "corrected"):
            close = JointCounts(counts, method).solve(potentials, lengths)
            assert (exact[0] - close[0]).abs().max() <= 1e-10
            assert (exact[1] - close[1]).abs().max() <= 1e-10


@pytest.mark.parametrize("length", [10, 100, 1000])
def test_two_classes_approach_the_count_engine_as_one_over_the_length(length: int) -> None:
    log_probs, lengths = random_log_probs(5, 20, length, 2, 1.0), torch.full((20,), length)
    counts = likely_counts(5, log_probs)
    exact = count_posterior(log_probs[:, :, 0], log_probs[:, :, 1], lengths, Exactly(counts[:, 1]))
    close, closer = (JointCounts(counts, method).solve(log_probs, lengths) for method in ("tilted", "corrected"))
    assert (exact.marginals - close[1][:, :, 1]).abs().mean() <= 0.4 / length
    assert (exact.marginals - closer[1][:, :, 1]).abs().mean() <= 0.8 / length**2
    assert (exact.log_likelihood - close[0]).abs().mean() <= 0.4 / length


def test_hard_zeros_fit_or_are_impossible() -> None:
    """The same groups are possible as by the exact recursion; those that are have the right expected counts."""
    log_probs = random_log_probs(6, 80, 6, 3)
    zeros = torch.rand(log_probs.shape, generator=torch.Generator().manual_seed(2)) < 0.4
    log_probs = torch.where(zeros, -torch.inf, log_probs)
    counts, lengths = uniform_counts(6, 80, 6, 3), torch.full((80,), 6)
    possible = JointCounts(counts, "exact").solve(log_probs, lengths)[0] > -torch.inf
    assert 10 < int(possible.sum()) < 70
    for method in ("tilted", "corrected"):
        log_likelihood, marginals = JointCounts(counts, method).solve(log_probs, lengths)
        assert torch.equal(log_likelihood > -torch.inf, possible)
        assert (marginals.sum(1) - counts)[possible].abs().max() <= 1e-9
        assert torch.all(marginals[~possible] == 0)
        assert torch.all(marginals[zeros] == 0)


def test_ragged_groups_do_not_see_their_padding() -> None:
    log_probs, counts = random_log_probs(7, 1, 8, 3), torch.tensor([[2, 1, 2]])
    alone = JointCounts(counts, "tilted").solve(log_probs[:, :5], torch.tensor([5]))
    longer = JointCounts(torch.cat([counts, torch.tensor([[0, 8, 0], [0, 0, 0]])]), "tilted").solve(
        log_probs.expand(3, -1, -1), torch.tensor([5, 8, 0])
    )
    assert torch.allclose(longer[0][:1], alone[0], atol=1e-12)
    assert torch.allclose(longer[1][:1, :5], alone[1], atol=1e-12)
    assert torch.all(longer[1][0, 5:] == 0)
    assert (longer[0][1] - log_probs[0, :, 1].sum()).abs() < 1e-12
    assert longer[0][2] == 0.0


def test_auto_is_exact_within_the_budget_and_corrected_above() -> None:
    counts, lengths = torch.tensor([[10, 10, 10, 5, 5], [12, 12, 12, 12, 12]]), torch.tensor([40, 60])
    small, large = (counts + 1).prod(1).tolist()
    assert small <= STATE_BUDGET < large
    log_probs = random_log_probs(9, 2, 60, 5)
    exact, close, mixed = (JointCounts(counts, m).solve(log_probs, lengths) for m in ("exact", "corrected", "auto"))
    assert torch.allclose(mixed[1][0], exact[1][0], atol=1e-12)
    assert torch.allclose(mixed[1][1], close[1][1], atol=1e-12)
    assert 1e-5 < (exact[1] - close[1]).abs().max() < 0.1


def test_the_gradient_is_that_of_the_leading_term() -> None:
    log_probs = random_log_probs(10, 2, 30, 3).requires_grad_()
    form = JointCounts(torch.tensor([[10, 15, 5], [8, 8, 14]]), "tilted")
    answer = glws.infer(log_probs, form)
    answer.log_likelihood.sum().backward()
    assert torch.equal(log_probs.grad, answer.marginals)  # type: ignore[arg-type]
    base, step, lengths = log_probs.detach(), 1e-6, torch.tensor([30, 30])
    moved = base.clone()
    moved[:, 4, 2] += step
    duals = [tilted(gather_columns(given, form.counts, lengths)[0]).dual for given in (base, moved)]
    by_class = answer.marginals[:, 4, 2]
    assert ((duals[1] - duals[0]) / step - by_class).abs().max() < 1e-5  # second order in the step
