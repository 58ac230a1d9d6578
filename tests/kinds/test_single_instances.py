"""Kinds about one instance: worked numbers, options, simulation, errors."""

import math

import pytest
import torch
from torch import Tensor

from glws.kinds import (
    Labels,
    NoisyCandidates,
    NoisyLabels,
    PartialLabels,
    PositiveConfidence,
    SoftLabels,
    shifted_prior,
)

SIX_DIGITS = 6e-7
LOGITS = torch.tensor([[2.0, 1.0, 0.5, -1.0], [0.2, -0.3, 0.4, 0.1]], dtype=torch.float64)
SETS = [[1, 1, 0, 0], [0, 1, 1, 1]]


def close(found: Tensor, wanted: object, tolerance: float = SIX_DIGITS) -> None:
    torch.testing.assert_close(found.double(), torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=tolerance)


def log_probs() -> Tensor:
    return LOGITS.log_softmax(1)[:, None]


def test_labels_give_the_cross_entropy_and_missing_ones_nothing() -> None:
    answer = Labels.of([2, -1], 4).infer(log_probs())
    close(-answer.log_likelihood, [float(-log_probs()[0, 0, 2]), 0.0], 1e-12)
    torch.testing.assert_close(answer.marginals[1], log_probs()[1].exp())


def test_candidate_sets_have_the_worked_numbers() -> None:
    given = log_probs().requires_grad_()
    answer = PartialLabels.of(SETS).infer(given)
    close(-answer.log_likelihood.detach(), [0.181920, 0.311835])
    close(-answer.log_likelihood.detach().mean(), 0.246877)
    close(answer.marginals[:, 0], [[0.731059, 0.268941, 0, 0], [0, 0.221947, 0.446947, 0.331106]])


def test_candidate_sets_have_the_worked_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    loss = -PartialLabels.of(SETS).infer(logits.log_softmax(1)[:, None]).log_likelihood.mean()
    loss.backward()
    assert logits.grad is not None
    close(logits.grad[0], [-0.060799, -0.022367, 0.067994, 0.015172])


def test_a_complementary_label_is_the_set_of_the_others() -> None:
    logits = [[0.5, -0.2, 1], [2, 0.1, -0.3], [0, 0.4, 0.3], [1.2, 0.7, -0.5]]
    given = torch.tensor(logits, dtype=torch.float64).log_softmax(1)[:, None]
    answer = PartialLabels.complementary([0, 0, 1, 2], 3).infer(given)
    close(-answer.log_likelihood.mean(), 0.647969)


def test_a_single_candidate_that_may_be_wrong_is_a_noisy_label() -> None:
    partial = PartialLabels.of([[0, 1, 0], [1, 0, 0]], miss_rate=0.3)
    noisy = NoisyLabels.symmetric([1, 0], num_classes=3, rate=0.3)
    torch.testing.assert_close(partial.log_table(), noisy.log_table())


def test_candidate_weights_are_probabilities_of_sets_of_a_size() -> None:
    pairs = torch.combinations(torch.arange(4), 2)
    masks = torch.zeros(6, 4, dtype=torch.bool).scatter_(1, pairs, True)
    table = PartialLabels.of(masks, miss_rate=0.2).log_table().exp()
    constant = math.comb(3, 1)  # the number of sets of two that hold a given class, left out of the weights
    close(table.sum(0) / constant, [1.0] * 4, 1e-12)


def test_independent_candidates_are_the_product_written_by_hand() -> None:
    matrix = [[0.9, 0.2], [0.4, 0.7]]
    weak = NoisyCandidates.of([[1, 0], [1, 1], [0, 0]], matrix)
    by_hand = [[0.9 * 0.8, 0.4 * 0.3], [0.9 * 0.2, 0.4 * 0.7], [0.1 * 0.8, 0.6 * 0.3]]
    close(weak.log_table().exp(), by_hand, 1e-12)


def test_independent_candidates_with_one_common_ratio_are_a_plain_set() -> None:
    ratio = torch.full((4, 4), 0.3, dtype=torch.float64).fill_diagonal_(1.0)
    plain, independent = (weak.infer(log_probs()) for weak in (PartialLabels.of(SETS), NoisyCandidates.of(SETS, ratio)))
    torch.testing.assert_close(independent.marginals, plain.marginals)


def test_positive_confidence_has_the_worked_numbers() -> None:
    scores = torch.tensor([0.8, -0.3, 1.5, 0.1], dtype=torch.float64)
    given = torch.nn.functional.logsigmoid(torch.stack([-scores, scores], 1))[:, None]
    confidence = [0.9, 0.6, 0.95, 0.4]
    answer = PositiveConfidence.of(confidence).infer(given)
    close(answer.marginals[:, 0, 1], [0.952449, 0.526342, 0.988393, 0.424222])
    close(-(answer.marginals * given).sum(2).mean(), 0.510550)
    close(-answer.log_likelihood.mean(), 0.523835)
    target = PositiveConfidence.of(confidence, reading="target").infer(given)
    close(-target.log_likelihood.mean(), 0.541566)
    close(target.marginals[:, 0, 1], confidence, 1e-12)


def test_confidence_is_clipped() -> None:
    assert PositiveConfidence.of([0.0, 1.0]).confidence.tolist() == [1e-4, 1 - 1e-4]
    assert PositiveConfidence.of([0.0, 1.0], clip=0.0).confidence.tolist() == [0.0, 1.0]


def test_positive_confidence_is_a_soft_label_of_two_classes() -> None:
    given = torch.tensor([[[0.3, 0.7]], [[0.9, 0.1]]], dtype=torch.float64).log()
    one = PositiveConfidence.of([0.8, 0.4]).infer(given)
    other = SoftLabels.of([[0.2, 0.8], [0.6, 0.4]]).infer(given)
    torch.testing.assert_close(one.marginals, other.marginals)


def test_scores_of_another_prior_are_shifted_to_the_worked_numbers() -> None:
    scores = torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64)
    shifted = shifted_prior(torch.stack([1 - scores, scores], 1), old=[0.6, 0.4], new=[0.4, 0.6])
    close(shifted[:, 1], [0.952941, 0.692308, 0.2])


def test_scores_relative_to_their_prior_shift_the_prediction() -> None:
    """Evidence beside a prediction that is only the new prior is the score shifted to it."""
    scores, prior = [[0.1, 0.9], [0.5, 0.5]], torch.tensor([0.4, 0.6], dtype=torch.float64)
    answer = SoftLabels.of(scores, prior=[0.6, 0.4]).infer(prior.log().expand(2, 1, 2))
    torch.testing.assert_close(answer.marginals[:, 0], shifted_prior(scores, [0.6, 0.4], prior))


def test_soft_targets_that_a_sure_prediction_excludes_are_impossible() -> None:
    sure = torch.tensor([[[0.0, 1.0]], [[0.0, 1.0]]]).log()
    answer = SoftLabels.of([[0.5, 0.5], [0.0, 1.0]], reading="target").infer(sure)
    assert answer.impossible.tolist() == [True, False]
    assert answer.marginals[:, 0].tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_simulated_sets_have_the_given_sizes_and_misses() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (20_000,), generator=generator)
    weak = PartialLabels.from_labels(labels, 10, ratio=0.3, miss_rate=0.1, generator=generator)
    sizes, held = weak.candidates.sum(1).double(), weak.candidates[torch.arange(20_000), labels].double()
    assert abs(float(sizes.mean()) - (1 + 9 * 0.3)) < 0.05  # five standard errors: sqrt(9 · 0.21 / 20000) = 0.01
    assert abs(float(held.mean()) - 0.9) < 0.011  # five standard errors


def test_simulated_noisy_labels_follow_the_matrix() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(10_000)
    matrix = torch.tensor([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]], dtype=torch.float64)
    weak = NoisyLabels.from_labels(labels, matrix, generator)
    found = torch.nn.functional.one_hot(weak.observed, 3).view(-1, 3, 3).double().mean(0)
    assert float((found - matrix).abs().max()) < 0.025  # five standard errors of a share of 10,000
    candidates = NoisyCandidates.from_labels(labels, matrix, generator).candidates.view(-1, 3, 3).double().mean(0)
    assert float((candidates - matrix).abs().max()) < 0.025


def test_simulated_labels_are_hidden_at_random() -> None:
    weak = Labels.from_labels(torch.arange(4).repeat(500), 4, known=0.25, generator=torch.Generator().manual_seed(1))
    known = weak.labels >= 0
    assert abs(float(known.double().mean()) - 0.25) < 0.05
    assert bool((weak.labels[known] == torch.arange(4).repeat(500)[known]).all())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Labels.of([0, 3], 3), r"group 1: labels must be within -1\.\.2, found 3"),
        (lambda: Labels.of([0, 0.5], 3), r"group 1: labels must be whole numbers, found 0\.5"),
        (lambda: Labels.of([[0], [1]], 3), r"labels must have 1 axis, found shape \[2, 1\]"),
        (lambda: Labels.of(["a"], 3), "labels cannot be read as an array of numbers"),
        (lambda: PartialLabels.of([[1, 0], [0, 0]]), "group 1: the set of candidates is empty"),
        (lambda: PartialLabels.of([[1, 0], [0, 3]]), r"group 1: candidates must be true or false, found \(0, 3\)"),
        (lambda: PartialLabels.of([[1, 0]], miss_rate=-0.1), "miss_rate must be within 0 and 1"),
        (lambda: NoisyCandidates.of([[1, 0]], [[0.5]]), r"inclusion must be \[2, 2\], found \[1, 1\]"),
        (lambda: NoisyLabels.of([0], [[0.5, 0.4], [0, 1]]), "the row of class 0 must sum to 1, found 0.9"),
        (lambda: NoisyLabels.of([0], [[0.5, 0.5]]), "transition must be a square matrix"),
        (lambda: NoisyLabels.of_sets([3, 1], [[0.5, 0.5]]), r"2 sets need as many rows and columns of priors"),
        (lambda: NoisyLabels.of_sets([3, 1], [[1.0, 0.0], [1.0, 0.0]]), "class 1 occurs in no set"),
        (lambda: SoftLabels.of([[0.5, 0.5], [0.0, 0.0]]), "group 1: all scores are 0"),
        (lambda: SoftLabels.of([[0.5, -0.5]]), "group 0: scores must be finite and >= 0"),
        (lambda: SoftLabels.of([[0.5, math.nan]]), "group 0: scores must be numbers, found"),
        (lambda: SoftLabels.of([[0.5, 0.5]], prior=[0.5, 0.0]), "a prior is 2 numbers above 0"),
        (lambda: SoftLabels.of([[0.5, 0.5]], reading="hard"), "reading must be one of evidence, target, found 'hard'"),
        (lambda: PositiveConfidence.of([0.5, 1.2]), r"group 1: confidence must be within 0 and 1, found 1\.2"),
    ],
)
def test_mistakes_are_named(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_an_observed_class_that_nothing_explains_is_named() -> None:
    weak = NoisyLabels.of([0, 1], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=r"group 1: one label observed as 1 cannot hold in a group of 1 instance$"):
        weak.check([1, 1], 2)
