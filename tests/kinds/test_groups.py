"""Bags, counts and unlabeled groups: worked numbers, options against hand-written weights, edges, errors."""

import math

import pytest
import torch
from torch import Tensor

from glws.kinds import (
    ClassCounts,
    Labels,
    MultiInstance,
    NoisyProportions,
    PresentClasses,
    Proportions,
    Together,
    Unlabeled,
    UnlabeledClasses,
    one_against_rest,
)

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SIX_DIGITS = 6e-7
BAG = [0.2, 0.5, 0.7, 0.9]
OTHER_BAG = [0.9, 0.2, 0.6, 0.3]
THREE_CLASSES = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]]


def close(found: Tensor, wanted: object, tolerance: float = SIX_DIGITS) -> None:
    torch.testing.assert_close(found.double(), torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=tolerance)


def binary(positive: list[float] | Tensor, groups: int = 1) -> Tensor:
    p = torch.as_tensor(positive, dtype=torch.float64)
    return torch.stack([1 - p, p], 1).log().expand(groups, -1, -1)


def many() -> Tensor:
    return torch.tensor([THREE_CLASSES], dtype=torch.float64).log()


def cross_entropy(marginals: Tensor, log_probs: Tensor) -> Tensor:
    return -(marginals * log_probs).sum(2)


# Bags with or without a positive


def test_bags_have_the_worked_numbers() -> None:
    answer = MultiInstance.of([0, 1]).infer(binary(BAG, 2))
    close(-answer.log_likelihood, [4.422849, 0.012073])
    close(answer.marginals[1, :, 1], [0.202429, 0.506073, 0.708502, 0.910931])
    entropies = cross_entropy(answer.marginals, binary(BAG, 2))
    close(entropies.sum(1), [4.422849, 2.101642])
    close(entropies.mean(1), [1.105712, 0.525411])


@pytest.mark.parametrize(("p", "wanted"), [(0.05, 0.189), (0.7, 0.7005)])
def test_bags_of_six_alike_have_the_exact_posterior(p: float, wanted: float) -> None:
    """Where the released backward pass is off by up to 0.62."""
    answer = MultiInstance.of([1]).infer(binary([p] * 6))
    close(answer.marginals[0, :, 1], [wanted] * 6, 5e-4)


@pytest.mark.parametrize(("p", "length", "loss"), [(0.5, 30, 20.8), (0.1, 200, 21.07)])
def test_a_long_negative_bag_has_a_finite_loss_and_the_right_gradient(p: float, length: int, loss: float) -> None:
    logits = torch.full((1, length), math.log(p / (1 - p))).requires_grad_()
    log_probs = torch.nn.functional.logsigmoid(torch.stack([-logits, logits], 2))
    value = -MultiInstance.of([0]).infer(log_probs).log_likelihood
    value.sum().backward()
    assert float(value.detach()) == pytest.approx(loss, abs=0.06)
    assert logits.grad is not None
    close(logits.grad, [[p] * length], 1e-6)


def test_present_classes_against_the_rest_have_the_worked_numbers() -> None:
    answer = PresentClasses.of([[1, 0, 1]]).per_class().infer(one_against_rest(many()))
    close(-answer.log_likelihood, [0.209487, 0.839330, 0.134675])
    close(-answer.log_likelihood.mean(), 0.394497)


def test_present_classes_together_are_exact() -> None:
    answer = PresentClasses.of([[1, 0, 1]]).infer(many())
    p = torch.tensor(THREE_CLASSES, dtype=torch.float64)
    either, first, third = (p[:, columns].sum(1).prod() for columns in ([0, 2], [0], [2]))
    close(answer.log_likelihood.exp(), [float(either - first - third)], 1e-12)
    assert bool((answer.marginals[..., 1] == 0).all())


def test_present_classes_share_automata() -> None:
    masks = torch.tensor([[1, 0, -1], [0, 1, 1]]).repeat(500, 1)
    assert len(PresentClasses.of(masks).form(torch.full((1000,), 4)).automata) == 2


def test_kinds_together_share_automata() -> None:
    weak = Together.of(MultiInstance.of([0, 1, 1] * 100), Proportions.between([0] * 300, [2] * 300))
    assert len(weak.form(torch.full((300,), 4)).automata) == 2
    assert len(weak.form(torch.arange(300) % 2 + 3).automata) == 4


def test_marks_of_unknown_classes_stay_open() -> None:
    weak = PresentClasses.of([[1, -1, 0]])
    assert weak.automaton(0, 2).count(2) == 3  # 00, 01, 10
    assert weak.describe(0) == "classes {0} and none of {2}"


# Counts


def test_counts_have_the_worked_numbers() -> None:
    answer = Proportions.of(range(5)).infer(binary(BAG, 5))
    close(answer.log_likelihood.exp(), [0.012, 0.151, 0.425, 0.349, 0.063], 1e-12)
    close(-answer.log_likelihood[2:4], [0.855666, 1.052683])
    close(torch.tensor(BAG) - answer.marginals[2, :, 1], [0.112941, 0.172941, 0.024706, -0.010588])


def test_hard_counts_have_the_worked_numbers() -> None:
    answer = Proportions.of(range(5)).infer(binary(OTHER_BAG, 5))
    close(answer.log_likelihood.exp(), [0.0224, 0.2504, 0.4644, 0.2304, 0.0324], 1e-12)
    close(-answer.log_likelihood[2], 0.767009)
    posterior = answer.marginals[:, :, 1]
    close(posterior[0], [0.0] * 4, 1e-15)
    close(posterior[1], [0.805112, 0.022364, 0.134185, 0.038339])
    close(posterior[2], [0.945736, 0.131783, 0.700258, 0.222222])
    close(posterior[3], [0.984375, 0.4375, 0.90625, 0.671875])
    close(posterior[4], [1.0] * 4, 1e-15)
    close(posterior.sum(1), [0.0, 1.0, 2.0, 3.0, 4.0], 1e-12)
    close(torch.tensor(OTHER_BAG) - posterior[2], [-0.045736, 0.068217, -0.100258, 0.077778])
    close(cross_entropy(answer.marginals[2:3], binary(OTHER_BAG)).mean(), 0.451937)
    close(cross_entropy(answer.marginals[2:3], binary([0.8, 0.3, 0.5, 0.2])).mean(), 0.497765)


def test_positive_and_unlabeled_terms_add_up_to_the_worked_totals() -> None:
    scores = torch.tensor([2.0, 0.5, -1.0], dtype=torch.float64)
    log_probs = torch.nn.functional.logsigmoid(torch.stack([-scores, scores], 1))[:, None]
    positive = -Labels.of([1, 1, 1], 2).infer(log_probs).log_likelihood.mean()
    targets = Unlabeled.of([0.5], "hard").infer(binary(OTHER_BAG)).marginals
    close(positive, 0.638089)
    close(positive + cross_entropy(targets, binary([0.8, 0.3, 0.5, 0.2])).mean(), 1.135854)


def test_count_likelihoods_of_a_prior_add_up_to_the_worked_totals() -> None:
    positive = -Labels.of([1, 1], 2).infer(binary([0.8, 0.6])[0][:, None]).log_likelihood.mean()
    close(positive, 0.366985)
    for rounding, total in (("hard", 1.222651), ("floor", 2.257460)):
        close(positive - Unlabeled.of([0.4], rounding).infer(binary(BAG)).log_likelihood[0], total)


@pytest.mark.parametrize(
    ("length", "count", "p", "gradient"),
    [(50, 25, 0.1, -0.40), (64, 25, 0.05, -0.34), (20, 10, 0.01, -0.49), (64, 25, 0.9, 0.51)],
)
def test_very_wrong_counts_keep_their_gradient(length: int, count: int, p: float, gradient: float) -> None:
    """Where the released loss is clamped and its gradient is 0."""
    answer = Proportions.of([count]).infer(binary([p] * length).float())
    close(p - answer.marginals[0, :, 1], [gradient] * length, 6e-3)


def test_an_overcounted_bag_has_the_exact_loss() -> None:
    close(-Proportions.of([25]).infer(binary([0.9] * 64)).log_likelihood, [51.9], 0.05)


def test_class_counts_have_the_worked_numbers() -> None:
    answer = ClassCounts.of([[1, 0, 2]]).infer(many())
    close(answer.log_likelihood.exp(), [0.195], 1e-12)
    close(
        answer.marginals[0],
        [[0.861538, 0, 0.138462], [0.123077, 0, 0.876923], [0.015385, 0, 0.984615]],
    )
    entropies = cross_entropy(answer.marginals, many())
    close(entropies[0], [0.626109, 1.203973, 0.255135])
    close(entropies.mean(), 0.695072)
    close(answer.marginals[0].sum(0), [1.0, 0.0, 2.0], 1e-12)


def test_tilted_class_counts_keep_the_counts_and_are_near_the_exact_ones() -> None:
    log_probs = torch.randn(1, 30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(2)
    weak = ClassCounts.of([[12, 8, 10]])
    tilted, exact = (weak.solved_by(method).infer(log_probs) for method in ("tilted", "exact"))
    close(tilted.marginals[0].sum(0), [12.0, 8.0, 10.0], 1e-9)
    close(exact.marginals[0].sum(0), [12.0, 8.0, 10.0], 1e-9)
    assert 1e-6 < float((tilted.marginals - exact.marginals).abs().max()) < 0.03  # the saddle point is off by O(1 / n)


def test_large_sets_of_classes_are_answered_by_automata() -> None:
    present = [1] * 13 + [0]
    log_probs = torch.zeros(1, 13, 14, dtype=torch.float64)
    answer = PresentClasses.of([present]).infer(log_probs)
    close(answer.log_likelihood, [math.lgamma(14)], 1e-9)


def test_class_counts_against_the_rest_have_the_worked_numbers() -> None:
    weak = ClassCounts.of([[1, 0, 2]]).per_class()
    answer = weak.infer(one_against_rest(many()))
    close(-answer.log_likelihood, [0.610646, 0.839330, 1.280134])
    close(-answer.log_likelihood.mean(), 0.910037)
    close(answer.marginals[2, :, 1], [0.223022, 0.798561, 0.978417])


def test_per_class_groups_are_in_the_order_of_groups() -> None:
    counts = ClassCounts.of([[1, 0, 2], [0, 2, 0]]).per_class()
    assert counts.low.tolist() == [1, 0, 2, 0, 2, 0]
    assert PresentClasses.of([[1, 0, 1], [0, 1, -1]]).per_class().present.tolist() == [1, 0, 1, 0, 1, -1]
    log_probs = torch.randn(2, 3, 3).log_softmax(2)
    torch.testing.assert_close(one_against_rest(log_probs)[3 + 1, :, 1], log_probs[1, :, 1])


def test_shares_become_the_nearest_counts() -> None:
    assert Proportions.from_shares([0.29, 1 / 3, 0.0], [100, 3, 5]).low.tolist() == [29, 1, 0]


def test_noisy_counts_have_the_weights_written_by_hand() -> None:
    halves = NoisyProportions.of([1], scale=1 / math.log(2)).form(torch.tensor([2]))
    close(halves.weights.log_weights.exp(), [[1 / 6, 1 / 3, 1 / 6]], 1e-12)
    laplace = NoisyProportions.of([0.5], scale=0.5, kernel="laplace").form(torch.tensor([2]))
    close(laplace.weights.log_weights, [[-1.0, -1.0, -3.0]], 1e-12)


# Unlabeled groups


def test_binomial_and_hypergeometric_priors_have_the_worked_numbers() -> None:
    binomial = Unlabeled.of([0.5], "binomial").infer(binary(OTHER_BAG))
    close(binomial.log_likelihood.exp(), [0.297775])
    close(-binomial.log_likelihood, [1.211417])
    close(binomial.marginals[0, :, 1], [0.919570, 0.173201, 0.619847, 0.274788])
    close(torch.tensor(OTHER_BAG) - binomial.marginals[0, :, 1], [-0.019570, 0.026799, -0.019847, 0.025212])
    finite = Unlabeled.hypergeometric([0.5], [20]).infer(binary(OTHER_BAG))
    close(-finite.log_likelihood, [1.153413])
    close(finite.marginals[0, :, 1], [0.922418, 0.169022, 0.625435, 0.270175])


def test_prior_weights_are_those_written_by_hand() -> None:
    lengths = torch.tensor([4])
    binomial = Unlabeled.of([0.4], "binomial").form(lengths)
    close(binomial.weights.weighted(lengths).log_weights.exp(), [[0.1296, 0.3456, 0.3456, 0.1536, 0.0256]], 1e-12)
    finite = Unlabeled.hypergeometric([0.5], [20]).form(lengths)
    close(finite.weights.log_weights.exp(), [[0.043344, 0.247678, 0.417957, 0.247678, 0.043344]])


def test_mixing_hard_counts_by_their_prior_has_the_worked_numbers() -> None:
    prior = torch.tensor([0.0625, 0.25, 0.375, 0.25, 0.0625], dtype=torch.float64)
    answer = Proportions.of(range(5)).infer(binary(OTHER_BAG, 5))
    close(prior @ answer.marginals[:, :, 1], [0.864523, 0.226885, 0.585206, 0.323387])
    close(prior @ (prior.log() - answer.log_likelihood), 0.045023)


def test_a_known_total_of_the_data_set_has_the_worked_numbers() -> None:
    rest = torch.tensor([0.7, 0.1, 0.5, 0.4, 0.8, 0.2], dtype=torch.float64)
    exact = Proportions.of([5]).infer(binary([*OTHER_BAG, *rest.tolist()]))
    close(exact.log_likelihood.exp(), [0.284680])
    close(exact.marginals[0, :4, 1], [0.930883, 0.2, 0.662751, 0.312674])
    variance = float((rest * (1 - rest)).sum())
    gaussian = Unlabeled.dataset([0.5], [10], [float(rest.sum())], [variance]).infer(binary(OTHER_BAG))
    close(gaussian.marginals[0, :, 1], [0.931519, 0.199108, 0.664729, 0.311828])


@pytest.mark.parametrize(
    ("positives", "hard", "binomial", "dataset", "losses"),
    [
        (20, (0.9993, 0.1139), (0.9931, 0.0135), (0.9901, 0.0101), (9.71, 3.19)),
        (25, (0.9962, 0.0024), (0.9905, 0.0099), (0.9900, 0.0100), (0.55, 2.31)),
        (30, (0.8329, 0.0004), (0.9873, 0.0074), (0.9899, 0.0099), (11.74, 2.93)),
        (34, (0.7351, 0.0003), (0.9840, 0.0059), (0.9898, 0.0098), (24.22, 4.46)),
    ],
)
def test_why_hard_counts_hurt(
    positives: int,
    hard: tuple[float, float],
    binomial: tuple[float, float],
    dataset: tuple[float, float],
    losses: tuple[float, float],
) -> None:
    """A batch of 64 at prior 0.4, well predicted, whose true count is not the expected one."""
    log_probs = binary([0.99] * positives + [0.01] * (64 - positives))
    rest = 49_000 - 64
    kinds = (
        Unlabeled.of([0.4], "floor"),
        Unlabeled.of([0.4], "binomial"),
        Unlabeled.dataset([0.4], [49_000], [0.4 * rest], [0.01 * 0.99 * rest]),
    )
    answers = [weak.infer(log_probs) for weak in kinds]
    for answer, wanted in zip(answers, (hard, binomial, dataset), strict=True):
        close(answer.marginals[0, [0, -1], 1], wanted, 5.1e-5)
    for answer, loss in zip(answers, losses, strict=False):
        close(-answer.log_likelihood, [loss], 6e-3)


def test_rounding_is_as_named() -> None:
    priors, sizes = [0.4, 0.509933, 0.3, 0.4, 0.6, 0.8, 0.2, 0.6, 0.8, 0.2, 0.7], [64] * 3 + [32] + [64] * 3 + [32] * 3
    lengths = torch.tensor([*sizes, 64])
    floor, hard = (Unlabeled.of(priors, rounding).form(lengths).weights.count for rounding in ("floor", "hard"))
    assert floor.tolist() == [25, 32, 19, 12, 38, 51, 12, 19, 25, 6, 44]
    assert hard.tolist() == [26, 33, 19, 13, 38, 51, 13, 19, 26, 6, 45]
    assert Unlabeled.of([0.29, 0.57], "floor").form(torch.tensor([100, 100])).weights.count.tolist() == [29, 57]


def test_stochastic_rounding_is_right_on_average() -> None:
    weak = Unlabeled.of([0.4] * 4000, "stochastic", generator=torch.Generator().manual_seed(0))
    counts = weak.form(torch.full((4000,), 64)).weights.count.double()
    assert set(counts.tolist()) == {25.0, 26.0}
    assert abs(float(counts.mean()) - 25.6) < 0.04  # five standard errors: sqrt(0.24 / 4000) = 0.0077
    assert torch.equal(weak[:7].form(torch.full((7,), 64)).weights.count.double(), counts[:7])


def test_expected_counts_are_met_by_one_common_shift() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 5 * torch.randn(6, 50, generator=generator, dtype=torch.float64)
    log_probs = torch.nn.functional.logsigmoid(torch.stack([-scores, scores], 2))
    priors, lengths = [0.5, 0.31, 0.02, 0.999, 0.1, 0.7], [50, 40, 50, 50, 1, 2]
    answer = Unlabeled.of(priors).infer(log_probs, lengths)
    positive = answer.marginals[..., 1]
    close(positive.sum(1), [prior * length for prior, length in zip(priors, lengths, strict=True)], 1e-9)
    shift = positive.log() - answer.marginals[..., 0].log() - scores
    for group, length in enumerate(lengths):
        assert float(shift[group, :length].max() - shift[group, :length].min()) < 1e-6


def test_expected_count_is_minus_the_relative_entropy_it_took() -> None:
    answer = Unlabeled.of([0.7]).infer(binary(OTHER_BAG))
    q, log_p = answer.marginals, binary(OTHER_BAG)
    close(answer.log_likelihood, [float(-(q * (q.log() - log_p)).sum())], 1e-9)


def test_expected_count_bounds_the_probability_of_the_hard_count() -> None:
    tilted, hard = Unlabeled.of([0.75]).infer(binary(BAG)), Unlabeled.of([0.75], "hard").infer(binary(BAG))
    assert float(hard.log_likelihood) < float(tilted.log_likelihood) < 0


def test_expected_count_near_the_hard_posterior_in_a_large_group() -> None:
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(2000, generator=generator, dtype=torch.float64)
    tilted, hard = (Unlabeled.of([0.6], count).infer(binary(p)) for count in ("expected", "hard"))
    assert float((tilted.marginals - hard.marginals).abs().max()) < 1e-3  # the saddle point is off by O(1 / n)


def test_expected_count_leaves_certain_predictions_and_notices_when_they_leave_no_room() -> None:
    p = torch.tensor([[1.0, 0.0, 0.5, 0.2], [1.0, 1.0, 1.0, 0.2], [1.0, 0.0, 0.5, 0.2]], dtype=torch.float64)
    log_probs = torch.stack([1 - p, p], 2).log()
    answer = Unlabeled.of([0.5, 0.5, 0.25]).infer(log_probs)
    assert answer.impossible.tolist() == [False, True, False]
    assert answer.marginals[0, :2, 1].tolist() == [1.0, 0.0]
    close(answer.marginals[0, :, 1].sum(), 2.0, 1e-9)
    close(answer.marginals[2, :, 1], [1.0, 0.0, 0.0, 0.0], 1e-12)


def test_a_positive_unlabeled_problem_of_many_classes_counts_one_of_them() -> None:
    log_probs = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64).log_softmax(2)
    answer = Unlabeled.of([0.5], counted=[1, 2], num_classes=4).infer(log_probs)
    close(answer.marginals[0, :, 1:3].sum(), 3.0, 1e-9)
    before, after = log_probs[0, :, 0] - log_probs[0, :, 3], answer.marginals[0].log()
    torch.testing.assert_close(after[:, 0] - after[:, 3], before)


def test_expected_shares_of_two_classes_are_the_expected_count() -> None:
    log_probs = torch.randn(3, 9, 2, generator=torch.Generator().manual_seed(6), dtype=torch.float64).log_softmax(2)
    priors, lengths = torch.tensor([0.3, 0.8, 0.5], dtype=torch.float64), [9, 5, 2]
    every = UnlabeledClasses.of(torch.stack([1 - priors, priors], 1)).infer(log_probs, lengths)
    one = Unlabeled.of(priors).infer(log_probs, lengths)
    torch.testing.assert_close(every.marginals, one.marginals)
    torch.testing.assert_close(every.log_likelihood, one.log_likelihood)


def test_expected_shares_are_met() -> None:
    log_probs = torch.randn(1, 11, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64).log_softmax(2)
    prior = [0.4, 0.0, 0.25, 0.35]
    answer = UnlabeledClasses.of([prior]).infer(3 * log_probs)
    close(answer.marginals[0].mean(0), prior, 1e-9)
    assert UnlabeledClasses.of([prior]).per_class().prior.tolist() == prior


def test_expected_shares_of_extreme_predictions_are_numbers() -> None:
    choice = torch.randint(5, (20, 4, 3), generator=torch.Generator().manual_seed(8))
    values = torch.tensor([1e30, -1e30, -torch.inf, 1e4, 0.0])[choice].requires_grad_()
    answer = UnlabeledClasses.of([[0.2, 0.3, 0.5]] * 20).infer(values)
    answer.log_likelihood[~answer.impossible].sum().backward()
    assert values.grad is not None
    assert not bool(answer.log_likelihood.isnan().any() | answer.marginals.isnan().any() | values.grad.isnan().any())


def test_expected_shares_notice_certain_predictions_without_room() -> None:
    sure = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]], dtype=torch.float64).log()
    assert UnlabeledClasses.of([[0.2, 0.3, 0.5]]).infer(sure).num_impossible == 1


# Simulation and errors


def test_simulated_groups_agree_with_their_labels() -> None:
    labels = torch.randint(3, (200, 6), generator=torch.Generator().manual_seed(0))
    lengths = torch.randint(1, 7, (200,), generator=torch.Generator().manual_seed(1))
    padded = torch.where(torch.arange(6) < lengths[:, None], labels, 99)
    kinds = (
        MultiInstance.from_labels(padded, lengths, counted=[0, 2], num_classes=3),
        PresentClasses.from_labels(padded, lengths, num_classes=3),
        Proportions.from_labels(padded, lengths, counted=1, num_classes=3),
        ClassCounts.from_labels(padded, lengths, num_classes=3),
    )
    for weak in (*kinds, Together.of(*kinds)):
        weak.check(lengths, 3)
        for group, (row, length) in enumerate(zip(labels.tolist(), lengths.tolist(), strict=True)):
            assert weak.log_weight(group, row[:length]) == 0.0


def test_simulated_noise_has_its_scale() -> None:
    labels = torch.zeros(20_000, 2, dtype=torch.long)
    for kernel, spread in (("laplace", 1.5), ("geometric", 1 / math.sinh(1 / 1.5))):
        weak = NoisyProportions.from_labels(labels, None, 1.5, kernel, generator=torch.Generator().manual_seed(2))
        assert abs(float(weak.observed.abs().mean()) - spread) < 0.06  # five standard errors: 1.5 / sqrt(20000) = 0.011


def test_unlabeled_groups_of_labels_get_their_common_share() -> None:
    assert Unlabeled.from_labels([[0, 1, 1], [1, 0, 9]], [3, 2]).prior.tolist() == [0.6, 0.6]
    close(UnlabeledClasses.from_labels([[0, 1, 1], [1, 0, 9]], [3, 2]).prior, [[0.4, 0.6]] * 2, 1e-12)


@pytest.mark.parametrize(
    ("weak", "lengths", "message"),
    [
        (
            Proportions.of([1] * 17 + [5]),
            [3] * 18,
            "group 17: exactly 5 of class 1 cannot hold in a group of 3 instances",
        ),
        (Proportions.between([2], [4], [0, 2], 3), [1], r"group 0: between 2 and 4 of classes \{0, 2\} cannot hold"),
        (
            ClassCounts.of([[1, 1], [1, 2]]),
            [2, 2],
            "group 1: exactly 1 × class 0, 2 × class 1 cannot hold in a group of 2",
        ),
        (MultiInstance.of([0, 1]), [0, 0], "group 1: at least one of class 1 cannot hold in a group of 0 instances"),
        (PresentClasses.of([[1, 1, 0]]), [1], r"group 0: classes \{0, 1\} and no others cannot hold in a group of 1"),
        (Unlabeled.hypergeometric([0.5], [4]), [5], r"group 0: a share of 0\.5 of class 1 cannot hold in a group of 5"),
        (Proportions.of([1]), [1, 2], "there are 1 weak labels but 2 groups"),
        (
            Together.of(Proportions.of([1, 2]), Proportions.of([1, 1])),
            [2, 2],
            "group 1: exactly 2 of class 1 and exactly 1 of class 1 cannot hold in a group of 2 instances",
        ),
    ],
)
def test_a_group_that_nothing_satisfies_is_named(weak: object, lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weak.check(lengths, weak.num_classes)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Proportions.of([1, 0.5]), r"group 1: counts must be whole numbers|group 1: low must be whole numbers"),
        (lambda: Proportions.between([1, 3], [2, 2]), "group 1: the range from 3 to 2 is empty"),
        (lambda: Proportions.between([1], [2, 2]), "low and high must have one entry for each group, found 1 and 2"),
        (lambda: Proportions.of([1], counted=2), r"class 2 is not one of 0\.\.1"),
        (lambda: Proportions.from_shares([1.5], [4]), r"group 0: proportions must be within 0 and 1, found 1\.5"),
        (lambda: ClassCounts.of([[1, -1]]), r"group 0: counts must be >= 0, found \(1, -1\)"),
        (lambda: ClassCounts.of([[1, 1]]).solved_by("fast"), "method must be one of auto, exact, tilted, found 'fast'"),
        (lambda: PresentClasses.of([[1]]).solved_by("tilted"), "sets of classes are answered exactly, or per class"),
        (lambda: MultiInstance.of([1, 2]), r"group 1: present must be within -1\.\.1, found 2"),
        (lambda: NoisyProportions.of([1], scale=0.0), "scale must be above 0, found 0"),
        (
            lambda: NoisyProportions.of([1], 1.0, "normal"),
            "geometric, laplace, gaussian, found 'normal'",
        ),
        (lambda: NoisyProportions.of([1.5], 1.0), r"group 0: observed must be whole numbers, found 1\.5"),
        (lambda: UnlabeledClasses.of([[0.5, 0.4]]), r"group 0: a prior sums to 1, found \(0\.5, 0\.4\)"),
        (lambda: Unlabeled.of([1.5]), r"group 0: prior must be within 0 and 1, found 1\.5"),
        (
            lambda: Unlabeled.of([0.5], "dataset"),
            "count must be one of expected, hard, floor, stochastic, binomial",
        ),
        (lambda: Unlabeled.dataset([0.5], [10], [3.0], [0.0]), "group 0: rest_variance must be above 0, found 0"),
        (lambda: MultiInstance.from_labels([[0, 1]], [3]), "group 0: length 3 does not fit its labels"),
        (lambda: MultiInstance.from_labels([[0, 1]], [1, 1]), "there are 1 groups of labels but 2 lengths"),
        (lambda: MultiInstance.from_labels([[0, 2]]), r"group 0: labels must be within 0\.\.1, found \(0, 2\)"),
    ],
)
def test_mistakes_are_named(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_an_expected_count_cannot_be_intersected() -> None:
    weak = Together.of(Unlabeled.of([0.5]), Proportions.of([1]))
    with pytest.raises(ValueError, match="ExpectedCount is a projection of the predictions"):
        weak.infer(binary([0.5, 0.5]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_the_search_of_a_device_finds_the_tilt_of_the_plain_one(seed: int, device: str) -> None:
    from glws.kinds._expected_count import _compiled_search, _fused_search, _plain_search, _search

    assert _search(torch.device(device)) is (_compiled_search if device == "cpu" else _fused_search)
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-2, 2.5, 40, dtype=torch.float64)[:, None]
    odds = torch.randn(40, 33, generator=generator, dtype=torch.float64) * scale
    free = torch.rand(40, 33, generator=generator) < 0.8
    free[:, 0] = True
    number, goal = free.sum(1), torch.randn(40, generator=generator, dtype=torch.float64) * 3
    low = goal - torch.where(free, odds, -torch.inf).amax(1)
    high = goal - torch.where(free, odds, torch.inf).amin(1)
    asked = [part.to(device) for part in (odds, free, number, goal, low, high)]
    own, plain = (
        torch.where(free, torch.sigmoid(odds + search(*asked).cpu()[:, None]), 0.0)
        for search in (_search(torch.device(device)), _plain_search)
    )
    torch.testing.assert_close(own, plain, rtol=0, atol=1e-12)
