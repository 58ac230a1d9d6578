"""Scores against plain counting, and the edges."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from strategies import random_log_probs

import glws
from glws.automata import any_of, exactly
from glws.errors import DataError
from glws.evaluation import balanced_posterior, confusion, matched_accuracy, reliability_curve, scores, weak_scores


def predictions(seed: int = 0, instances: int = 300, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    log_probs = random_log_probs(seed, 1, instances, classes)[0]
    noise = torch.randint(classes, (instances,), generator=torch.Generator().manual_seed(seed))
    keep = torch.rand(instances, generator=torch.Generator().manual_seed(seed + 1)) < 0.7
    return log_probs, torch.where(keep, log_probs.argmax(1), noise)


def test_scores_agree_with_scikit_learn() -> None:
    log_probs, labels = predictions()
    found = scores(log_probs, labels)
    predicted = log_probs.argmax(1)
    assert found.accuracy == pytest.approx(accuracy_score(labels, predicted))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, predicted))
    for label, recall in enumerate(found.per_class):
        assert recall == pytest.approx(float((predicted[labels == label] == label).double().mean()))


def test_a_class_that_does_not_occur_is_not_a_class_that_is_never_right() -> None:
    log_probs, labels = predictions()
    found = scores(log_probs, torch.where(labels == 2, 3, labels))
    assert found.per_class[2] is None
    recalls = [recall for recall in found.per_class if recall is not None]
    assert found.balanced_accuracy == pytest.approx(sum(recalls) / 3)


def test_renamed_classes_are_matched_but_the_plain_accuracy_stays_low() -> None:
    log_probs, labels = predictions()
    renamed = log_probs[:, [2, 3, 1, 0]]
    assert scores(renamed, labels).matched_accuracy == pytest.approx(scores(log_probs, labels).accuracy)
    assert scores(renamed, labels).accuracy < 0.5


def test_matching_is_the_best_of_all_renamings() -> None:
    from itertools import permutations

    table = np.random.default_rng(0).integers(0, 50, (4, 4))
    best = max(sum(table[i, p[i]] for i in range(4)) for p in permutations(range(4)))
    assert matched_accuracy(table) == pytest.approx(best / table.sum())


def test_calibrated_predictions_have_no_calibration_error() -> None:
    generator = torch.Generator().manual_seed(3)
    p = torch.rand(200_000, generator=generator, dtype=torch.float64)
    labels = (torch.rand(200_000, generator=generator, dtype=torch.float64) < p).long()
    log_probs = torch.stack([1 - p, p], 1).log()
    assert scores(log_probs, labels).calibration_error < 0.01
    overconfident = (log_probs * 5).log_softmax(1)
    assert scores(overconfident, labels).calibration_error > 0.1


def test_calibration_error_weighs_bins_by_their_size() -> None:
    """Three in four predictions are right with confidence .95, one in four wrong with confidence .55."""
    probs = torch.tensor([[0.95, 0.05]] * 30 + [[0.55, 0.45]] * 10, dtype=torch.float64)
    labels = torch.tensor([0] * 30 + [1] * 10)
    assert scores(probs.log(), labels).calibration_error == pytest.approx(0.75 * 0.05 + 0.25 * 0.55)


def test_the_reliability_curve_is_plain_averaging() -> None:
    log_probs, labels = predictions(5, 50, 2)
    curve = reliability_curve(log_probs, labels)
    confidence = log_probs.exp().amax(1)
    inside = (confidence >= 8 / 15) & (confidence < 9 / 15)
    where = np.flatnonzero((curve.confidence >= 8 / 15) & (curve.confidence < 9 / 15))[0]
    assert curve.count.sum() == 50
    assert curve.count[where] == int(inside.sum())
    assert curve.confidence[where] == pytest.approx(float(confidence[inside].mean()))


def test_unknown_labels_are_left_out() -> None:
    log_probs, labels = predictions()
    hidden = labels.clone()
    hidden[::2] = -1
    assert scores(log_probs, hidden) == scores(log_probs[1::2], labels[1::2])


def test_auc_is_for_two_classes_that_both_occur() -> None:
    log_probs, labels = predictions(6, 100, 2)
    found = scores(log_probs, labels)
    positive, negative = log_probs[labels == 1, 1], log_probs[labels == 0, 1]
    assert found.auc == pytest.approx(float((positive[:, None] > negative[None]).double().mean()))
    assert scores(log_probs, torch.zeros_like(labels)).auc is None
    assert scores(*predictions()).auc is None
    assert scores(log_probs, torch.zeros_like(labels)).per_class[1] is None


def test_confusion_counts_pairs() -> None:
    table = confusion(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), 3)
    assert table.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]


def test_weak_scores_need_no_labels() -> None:
    log_probs = random_log_probs(7, 3, 4, 2)
    log_probs[1] = torch.tensor([0.0, -torch.inf])
    answer = glws.infer(log_probs, any_of(1), [4, 4, 2])
    found = weak_scores(answer)
    kept = answer.log_likelihood[[0, 2]]
    assert found.impossible == 1
    assert found.log_likelihood == pytest.approx(float(kept.mean()))
    assert found.per_instance == pytest.approx(float(kept.sum() / 6))
    certain = glws.infer(torch.tensor([[[0.0, -torch.inf], [-torch.inf, 0.0]]]), exactly(1))
    assert weak_scores(certain).entropy == 0.0


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match=r"found \[3, 2\] and \[2\]"):
        scores(torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(DataError, match=r"label 2 must be in 0\.\.1"):
        scores(torch.zeros(1, 2), torch.tensor([2]))
    with pytest.raises(DataError, match="no true labels"):
        scores(torch.zeros(1, 2), torch.tensor([-1]))


def test_as_if_even_is_the_likelihood_of_each_class() -> None:
    """p(k | x) of classes that are not as frequent is p(x | k) share(k) over a sum; back to p(x | k) over theirs."""
    likelihood = torch.rand(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.01
    shares = torch.tensor([0.7, 0.25, 0.05], dtype=torch.float64)
    found = balanced_posterior((likelihood * shares).log().log_softmax(1), shares)
    torch.testing.assert_close(found.exp(), likelihood / likelihood.sum(1, keepdim=True))


def test_as_if_even_has_the_better_balanced_accuracy_and_the_worse_accuracy() -> None:
    """Two overlapping bells, one nine times as frequent as the other, and their true posterior."""
    generator = torch.Generator().manual_seed(1)
    shares = torch.tensor([0.9, 0.1], dtype=torch.float64)
    labels = (torch.rand(20_000, generator=generator) < 0.1).long()
    x = torch.randn(len(labels), generator=generator, dtype=torch.float64) + 2 * labels
    posterior = (torch.stack([-(x**2) / 2, -((x - 2) ** 2) / 2], 1) + shares.log()).log_softmax(1)
    plain, even = scores(posterior, labels), scores(balanced_posterior(posterior, shares), labels)
    assert even.balanced_accuracy == pytest.approx(0.8413, abs=0.01)  # Φ(1)
    assert even.balanced_accuracy > plain.balanced_accuracy + 0.1
    assert even.accuracy < plain.accuracy
