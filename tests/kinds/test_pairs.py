"""Pairs and triplets: worked numbers, options against hand-written weights, symmetries."""

import pytest
import torch
from torch import Tensor

from glws.inference import log_sum_of_others
from glws.kinds import ConfidenceDifference, PairComparison, PairSimilarity, SimilarityConfidence, Together, Triplets

# Four pairs of scores, the worked batch of all numbers below, given to six digits.
FIRST = torch.tensor([0.8, -0.3, 1.5, 0.1], dtype=torch.float64)
SECOND = torch.tensor([-0.5, 0.6, 0.9, -1.2], dtype=torch.float64)
SAME = [0, 1, 1, 0]
CONFIDENCE = [0.30, 0.85, 0.62, 0.10]
DIFFERENCE = [-0.6, 0.2, 0.1, -0.35]
SIX_DIGITS = 6e-7


def log_probs() -> Tensor:
    scores = torch.stack([FIRST, SECOND], 1)
    return torch.nn.functional.logsigmoid(torch.stack([-scores, scores], 2))


def close(found: Tensor, wanted: list[float] | list[list[float]] | float, tolerance: float = SIX_DIGITS) -> None:
    torch.testing.assert_close(found.double(), torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=tolerance)


def cross_entropy(marginals: Tensor) -> Tensor:
    """The unsupervised term on the same view: mean over instances of -Σ_k q log p."""
    return -(marginals * log_probs()).sum(2).mean()


def test_comparison_with_half_ties_has_the_worked_numbers() -> None:
    answer = PairComparison.of([0] * 4).infer(log_probs())
    close(answer.log_likelihood.exp(), [0.656217, 0.389951, 0.553312, 0.646752])
    close(-answer.log_likelihood.mean(), 0.597656)
    close(answer.marginals[:, 0, 1], [0.852962, 0.739005, 0.952350, 0.717770])
    close(answer.marginals[:, 1, 1], [0.198481, 0.352306, 0.525249, 0.093946])


def test_comparison_as_in_the_paper_has_the_worked_numbers() -> None:
    answer = PairComparison.of([0] * 4, ties="paper").infer(log_probs())
    close(answer.log_likelihood.exp(), [0.882953, 0.629108, 0.870305, 0.890044])
    close(-answer.log_likelihood.mean(), 0.210833)
    close(answer.marginals[:, 0, 1], [0.781440, 0.676446, 0.939412, 0.589835])
    close(answer.marginals[:, 1, 1], [0.295025, 0.436752, 0.667874, 0.136532])
    close(cross_entropy(answer.marginals), 0.593145)


def test_comparison_as_in_the_code_has_the_worked_numbers() -> None:
    scores = torch.stack([FIRST, SECOND], 1)
    logits = torch.stack([torch.zeros_like(scores), scores], 2)
    answer = PairComparison.of([0] * 4, ties="code").infer(logits)
    close(answer.marginals[:, 0, 1], [0.691821, 0.583351, 0.688129, 0.691821])
    close(answer.marginals[:, 1, 1], [0.207464, 0.342486, 0.285405, 0.207464])


def test_comparison_as_in_the_code_gives_a_sure_tie_two_thirds() -> None:
    logits = torch.tensor([[[0.0, 30.0], [0.0, 30.0]]])
    answer = PairComparison.of([0], ties="code").infer(logits)
    close(answer.marginals[0, :, 1], [2 / 3, 1 / 3], 1e-6)


def test_only_the_paper_weights_reward_a_constant_prediction() -> None:
    constant = torch.tensor([0.01, 0.99], dtype=torch.float64).log().expand(1, 2, 2)
    right = torch.tensor([[[0.01, 0.99], [0.99, 0.01]]], dtype=torch.float64).log()
    paper, half = PairComparison.of([0], ties="paper"), PairComparison.of([0])
    assert float(paper.infer(constant).log_likelihood) > -0.011
    assert float(half.infer(right).log_likelihood - half.infer(constant).log_likelihood) > 0.6


def test_comparison_weights_are_those_written_by_hand() -> None:
    half = PairComparison.of([0], num_classes=3).form(torch.tensor([2]))
    paper = PairComparison.of([1], num_classes=3, ties="paper", flip=0.25).form(torch.tensor([2]))
    close(half.log_weights[0].exp(), [[0.5, 0, 0], [1, 0.5, 0], [1, 1, 0.5]])
    close(paper.log_weights[0].exp(), [[1, 0.75, 0.75], [0.25, 1, 0.75], [0.25, 0.25, 1]])


def test_exchanging_a_pair_exchanges_its_winner() -> None:
    given = PairComparison.of([0, 1, 1, 0]).infer(log_probs())
    exchanged = PairComparison.of([1, 0, 0, 1]).infer(log_probs().flip(1))
    torch.testing.assert_close(exchanged.marginals.flip(1), given.marginals)


def test_the_orders_of_a_pair_exhaust_the_possibilities() -> None:
    both = sum(PairComparison.of([winner] * 4, flip=0.2).infer(log_probs()).log_likelihood.exp() for winner in (0, 1))
    close(torch.as_tensor(both), [1.0] * 4, 1e-12)


def test_similarity_has_the_worked_numbers() -> None:
    answer = PairSimilarity.of(SAME).infer(log_probs())
    similar = PairSimilarity.of([1] * 4).infer(log_probs()).log_likelihood.exp()
    close(similar, [0.453472, 0.478314, 0.633984, 0.486585])
    close(answer.marginals[:, 0, 1], [0.785835, 0.574443, 0.916827, 0.785835])
    close(answer.marginals[:, 1, 1], [0.214165, 0.574443, 0.916827, 0.214165])
    close(-answer.log_likelihood.mean(), 0.616015)
    close(cross_entropy(answer.marginals), 0.558922)
    close(cross_entropy(answer.marginals) - answer.log_likelihood.mean(), 1.174937)


def test_similarity_of_three_classes_has_the_worked_numbers() -> None:
    logits = [[[1, 0, -1], [0.5, -0.5, 0]], [[0.2, 0.5, -0.3], [-1, 0.3, 0.7]]]
    given = torch.tensor(logits, dtype=torch.float64).log_softmax(2)
    answer = PairSimilarity.of([1, 0], num_classes=3).infer(given)
    close(PairSimilarity.of([1, 1], num_classes=3).infer(given).log_likelihood.exp(), [0.410187, 0.309235])
    close(answer.marginals[0, 0], [0.821409, 0.111166, 0.067425])
    close(answer.marginals[0, 1], [0.821409, 0.111166, 0.067425])
    close(answer.marginals[1, 0], [0.441399, 0.421880, 0.136721])
    close(answer.marginals[1, 1], [0.094447, 0.284579, 0.620974])
    close(-answer.log_likelihood.mean(), 0.630549)
    entropies = -(answer.marginals * given).sum(2).mean(1)
    close(entropies, [0.739385, 0.958482])
    close(entropies.mean(), 0.848934)


def test_similarity_of_given_probabilities_has_the_worked_numbers() -> None:
    given = torch.tensor([[[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]] * 2, dtype=torch.float64).log()
    answer = PairSimilarity.of([1, 0], num_classes=3).infer(given)
    close(answer.log_likelihood.exp(), [0.37, 0.63], 1e-12)
    close(answer.marginals[0], [[0.810811, 0.081081, 0.108108]] * 2)
    close(answer.marginals[1], [[0.476190, 0.428571, 0.095238], [0.317460, 0.111111, 0.571429]])
    close(-(answer.marginals * given).sum(2).mean(1), [0.804248, 0.989008])


def test_one_pair_of_similarity_and_unlabeled_data_has_the_worked_numbers() -> None:
    given = torch.tensor([[[0.2, 0.8], [0.7, 0.3]]] * 2, dtype=torch.float64).log()
    answer = PairSimilarity.of([True, False]).infer(given)
    close(-answer.log_likelihood, [0.967584, 0.478036])
    close(answer.marginals[:, :, 1], [[0.631579, 0.631579], [0.903226, 0.096774]])


def test_similarity_of_many_classes_needs_no_table() -> None:
    given = torch.randn(3, 2, 5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(2)
    answer = PairSimilarity.of([1, 0, 0], num_classes=5000).infer(given)
    same = (given[:, 0] + given[:, 1]).exp().sum(1)
    close(answer.log_likelihood.exp(), torch.stack([same[0], 1 - same[1], 1 - same[2]]).tolist(), 1e-12)


def test_sum_of_others_does_not_cancel() -> None:
    values = torch.tensor([0.0, -50.0, -torch.inf], dtype=torch.float64)
    close(log_sum_of_others(values), [-50.0, 0.0, 1.9287498479639178e-22], 1e-15)


def test_similarity_confidence_has_the_worked_numbers() -> None:
    answer = SimilarityConfidence.of(CONFIDENCE).infer(log_probs())
    close(answer.log_likelihood.exp(), [0.518611, 0.484820, 0.532156, 0.510732])
    close(answer.marginals[:, 0, 1], [0.730383, 0.528378, 0.845953, 0.734760])
    close(answer.marginals[:, 1, 1], [0.308673, 0.596476, 0.769815, 0.217554])
    close(cross_entropy(answer.marginals), 0.597969)
    target = SimilarityConfidence.of(CONFIDENCE, reading="target").infer(log_probs())
    close(cross_entropy(answer.marginals) - target.log_likelihood.mean(), 1.278258)


def test_similarity_confidence_as_a_target_has_the_worked_numbers() -> None:
    answer = SimilarityConfidence.of(CONFIDENCE, reading="target").infer(log_probs())
    close(-answer.log_likelihood.mean(), 0.680289)
    close(answer.marginals[:, 0, 1], [0.722417, 0.531634, 0.813782, 0.732225])
    close(answer.marginals[:, 1, 1], [0.322248, 0.594919, 0.703084, 0.217723])


def test_similarity_confidence_as_in_the_code_leaves_the_second_instance_alone() -> None:
    answer = SimilarityConfidence.of(CONFIDENCE, reading="code").infer(log_probs())
    close(answer.marginals[:, 0, 1], [0.730383, 0.528378, 0.845953, 0.734760])
    close(answer.marginals[:, 1, 1], [0.377541, 0.645656, 0.710950, 0.231475])


def test_a_confidence_equal_to_its_prior_says_nothing() -> None:
    answer = SimilarityConfidence.of([0.68] * 4, prior=0.68).infer(log_probs())
    torch.testing.assert_close(answer.marginals, log_probs().exp())


def test_confidence_difference_has_the_worked_numbers() -> None:
    answer = ConfidenceDifference.of(DIFFERENCE).infer(log_probs())
    close(answer.log_likelihood.exp(), [0.439077, 0.456830, 0.583555, 0.457491])
    close(answer.marginals[:, 0, 1], [0.824197, 0.481166, 0.896451, 0.481318])
    close(answer.marginals[:, 1, 1], [0.237310, 0.643543, 0.918676, 0.172654])
    close(-answer.log_likelihood.mean(), 0.731785)
    close(cross_entropy(answer.marginals), 0.549045)


def test_confidence_difference_the_wrong_way_round_has_the_worked_numbers() -> None:
    answer = ConfidenceDifference.of([-c for c in DIFFERENCE]).infer(log_probs())
    close(answer.marginals[:, 0, 1], [0.414111, 0.605533, 0.920135, 0.222648])
    close(answer.marginals[:, 1, 1], [0.693219, 0.532475, 0.880365, 0.331127])


def test_confidence_difference_as_in_the_code_loses_negative_values_and_turns_positive_ones() -> None:
    weights = ConfidenceDifference.of([-0.6, 0.2], "code").log_table().exp()
    close(weights, [[[1 - 1e-8, 0], [1e-8, 1 - 1e-8]], [[0.8, 0], [0.2, 0.8]]], 1e-15)


def test_exchanging_a_pair_turns_its_difference() -> None:
    given = ConfidenceDifference.of(DIFFERENCE).infer(log_probs())
    exchanged = ConfidenceDifference.of([-c for c in DIFFERENCE]).infer(log_probs().flip(1))
    torch.testing.assert_close(exchanged.marginals.flip(1), given.marginals)


def test_triplet_weights_are_those_written_by_hand() -> None:
    weak = Triplets.of([1, 2], num_classes=2, flip=0.25)
    second = [[[0.5, 0.75], [0.25, 0.5]], [[0.5, 0.25], [0.75, 0.5]]]
    close(weak.log_table()[0].exp(), second)
    close(weak.log_table()[1].exp(), [[[0.5, 0.25], [0.75, 0.5]], [[0.5, 0.75], [0.25, 0.5]]])


def test_together_multiplies() -> None:
    similar, ordered = PairSimilarity.of([0] * 4), PairComparison.of([0] * 4)
    answer = Together.of(similar, ordered).infer(log_probs())
    close(answer.marginals[:, :, 1], [[1.0, 0.0]] * 4, 1e-12)
    expected = log_probs()[:, 0, 1] + log_probs()[:, 1, 0]
    torch.testing.assert_close(answer.log_likelihood, expected)


def test_simulated_pairs_agree_with_their_labels() -> None:
    labels = torch.randint(3, (500, 2), generator=torch.Generator().manual_seed(2))
    assert PairSimilarity.from_labels(labels, 3).same.tolist() == (labels[:, 0] == labels[:, 1]).tolist()
    order = PairComparison.from_labels(labels, 3, generator=torch.Generator().manual_seed(3))
    rows = torch.arange(500)
    assert bool((labels[rows, order.winner] >= labels[rows, 1 - order.winner]).all())
    ties = labels[:, 0] == labels[:, 1]
    assert 0.35 < float(order.winner[ties].double().mean()) < 0.65
    triplets = torch.randint(3, (500, 3), generator=torch.Generator().manual_seed(4))
    closer = Triplets.from_labels(triplets, 3, generator=torch.Generator().manual_seed(5))
    assert all(closer.weight(group, labels) > 0 for group, labels in enumerate(triplets.tolist()))


def test_confidences_of_a_model_are_those_written_by_hand() -> None:
    both = [[[0.3, 0.7], [0.8, 0.2]], [[0.5, 0.5], [0.1, 0.9]]]
    close(SimilarityConfidence.from_probabilities(both).confidence, [0.24 + 0.14, 0.5], 1e-12)
    close(ConfidenceDifference.from_probabilities(both).difference, [-0.5, 0.4], 1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PairComparison.of([0, 2]), r"group 1: winner must be within 0\.\.1, found 2"),
        (lambda: PairComparison.of([0], ties="all"), "ties must be one of half, paper, code, found 'all'"),
        (lambda: PairSimilarity.of([True, 2]), "group 1: same must be true or false, found 2"),
        (lambda: PairSimilarity.of([True], flip=1.5), r"flip must be within 0 and 1, found 1\.5"),
        (lambda: PairSimilarity.of([True], flip=[0.1, 0.2, 0.3]), r"flip must be one number or 2, found shape \[3\]"),
        (lambda: SimilarityConfidence.of([0.1, 1.1]), r"group 1: confidence must be within 0 and 1, found 1\.1"),
        (lambda: SimilarityConfidence.of([0.1], reading="mean"), "reading must be one of evidence, target, code"),
        (lambda: SimilarityConfidence.of([0.1], prior=0.0), "prior must be between 0 and 1"),
        (lambda: ConfidenceDifference.of([0.0, -1.5]), r"group 1: a difference is within -1 and 1, found -1\.5"),
        (lambda: ConfidenceDifference.of([0.0], "theirs"), "convention must be one of signed, code"),
        (lambda: ConfidenceDifference.from_probabilities([[[0.5, 0.5]]]), r"must be \[groups, 2, classes\]"),
        (lambda: SimilarityConfidence.from_probabilities([[[1.0], [0.9]]]), r"must sum to 1, found \(1, 0\.9"),
        (lambda: Triplets.of([1, 0], 3), r"group 1: closer must be within 1\.\.2, found 0"),
        (lambda: Together.of(), "at least one kind"),
        (lambda: Together.of(Triplets.of([1], 3), Triplets.of([1, 2], 3)), r"different numbers of groups: \[1, 2\]"),
        (lambda: Together.of(Triplets.of([1], 3), Triplets.of([1], 2)), r"different numbers of classes: \[2, 3\]"),
    ],
)
def test_mistakes_are_named(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]
