"""Soft-label EM: the posterior of rows, the weighted copies, the folds."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from glws.data import Groups
from glws.estimator._posteriors import first_posterior, informed_rows, row_posterior
from glws.estimator._soft_em import SoftEM, folds_of, log_probs
from glws.estimator._targets import ParsedTargets
from glws.kinds import Labels, MultiInstance, PairSimilarity, PartialLabels, Proportions, Unlabeled

Array = NDArray[np.float64]


def drawn(num_rows: int, num_classes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).dirichlet(np.ones(num_classes), num_rows)


def by_enumeration(probs: Array, known: ParsedTargets) -> tuple[Array, Array, list[float]]:
    """All labelings of every group, one by one."""
    told, times, likelihoods = np.ones_like(probs), np.zeros(len(probs)), []
    for groups, weak in zip(known.groups, known.weak, strict=True):
        for group in range(len(groups)):
            members = groups[group].indices.numpy()
            table = np.zeros((len(members), probs.shape[1]))
            for labeling in product(range(probs.shape[1]), repeat=len(members)):
                chance = np.exp(weak.log_weight(group, labeling)) * np.prod(probs[members, labeling])
                table[np.arange(len(members)), labeling] += chance
            likelihoods.append(np.log(table[0].sum()))
            told[members] *= table / table[0].sum() / probs[members]
            times[members] += 1
    whole, damped = probs * told, probs * told ** (1 / np.maximum(times, 1))[:, None]
    return whole / whole.sum(1, keepdims=True), damped / damped.sum(1, keepdims=True), likelihoods


def several_kinds() -> ParsedTargets:
    """Three classes, eight rows: ragged bags that overlap, pairs, labels; of row 7 nothing is known."""
    bags = Groups.of([[0, 1, 2, 3], [3, 4], [2, 4, 5]])
    counted = Proportions.of([2, 1, 1], counted=[1, 2], num_classes=3)
    pairs, same = Groups.of([[5, 6], [0, 6]]), PairSimilarity.of([1, 0], 3)
    return ParsedTargets(np.arange(3), (bags, pairs, Groups.of([[1], [7]])), (counted, same, Labels.of([2, -1], 3)))


def test_the_posterior_of_rows_is_that_of_all_labelings() -> None:
    probs, known = drawn(8, 3), several_kinds()
    answer, expected = row_posterior(np.log(probs), known), by_enumeration(probs, known)
    assert np.allclose(answer.probs, expected[0], atol=1e-10)
    assert np.allclose(answer.damped, expected[1], atol=1e-10)
    assert np.allclose(answer.log_likelihood, expected[2], atol=1e-10)


def test_impossible_groups_tell_nothing_and_contradictions_leave_the_prediction() -> None:
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
    groups = (Groups.of([[0]]), Groups.of([[2]]), Groups.of([[2]]))
    weak = (Labels.of([1], 2), Labels.of([0], 2), Labels.of([1], 2))
    with np.errstate(divide="ignore"):
        answer = row_posterior(np.log(probs), ParsedTargets(np.arange(2), groups, weak))
    assert np.array_equal(answer.probs, probs)
    assert answer.log_likelihood[0] == -np.inf


def test_it_begins_with_what_is_known_or_with_the_guess_of_the_kind() -> None:
    groups = (Groups.of([[0, 1, 2, 3]]), Groups.of([[0], [4]]))
    known = ParsedTargets(np.arange(2), groups, (Unlabeled.of([0.3]), Labels.of([1, 0], 2)))
    expected = [[0, 1], [0.7, 0.3], [0.7, 0.3], [0.7, 0.3], [1, 0], [0.5, 0.5]]
    assert np.allclose(first_posterior(known, 6).probs, expected)


def test_rows_of_which_nothing_is_known_are_found() -> None:
    mask = np.array([[1, 1, 0], [1, 1, 1]])
    kinds = (PartialLabels.of(mask), MultiInstance.of([-1, 0], 1, 3))
    known = ParsedTargets(np.arange(3), (Groups.of([[0], [1]]), Groups.of([[1, 2], [3, 4]])), kinds)
    assert informed_rows(known, 6, 0).tolist() == [True, False, False, True, True, False]


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted to, and asked."""

    fits: list[tuple[Array, Array, Array]] = []  # noqa: RUF012
    asked: list[Array] = []  # noqa: RUF012

    def fit(self, X: Array, y: Array, sample_weight: Array) -> "Recorder":
        self.classes_ = np.unique(y)
        self.fits.append((X, y, sample_weight))
        return self

    def predict_proba(self, X: Array) -> Array:
        self.asked.append(X)
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_every_row_is_fitted_to_once_for_each_class_it_may_have() -> None:
    Recorder.fits.clear()
    x = np.arange(8.0)[:, None]
    known, probs = several_kinds(), drawn(8, 3)
    probs[2] = [0.99995, 0.00005, 0.0]
    SoftEM(Recorder(), 0, 2, 0)._fitted(x, probs, np.array([0, 2, 5]))
    ((rows, labels, weights),) = Recorder.fits
    assert rows[:, 0].tolist() == [0, 0, 0, 2, 5, 5, 5]
    assert labels.tolist() == [0, 1, 2, 0, 0, 1, 2]
    assert np.array_equal(weights, [*probs[0], 0.99995, *probs[5]])
    assert informed_rows(known, 8, 0).tolist() == [True] * 7 + [False]


def test_predictions_come_from_other_folds_with_groups_whole() -> None:
    Recorder.fits.clear()
    Recorder.asked.clear()
    x = np.arange(40.0)[:, None]
    bags = np.random.default_rng(0).permutation(40).reshape(10, 4)
    known = ParsedTargets(np.arange(2), (Groups.of(bags),), (Proportions.of([1] * 10),))
    begun = first_posterior(known, 40)
    learned = SoftEM(Recorder(), 1, 3, 0).fit(x, known, begun, np.arange(40))
    assert len(Recorder.fits) == 4  # three folds, and everything
    for (fitted, _, _), asked in zip(Recorder.fits, Recorder.asked, strict=False):
        seen, new = set(fitted[:, 0].tolist()), set(asked[:, 0].tolist())
        assert not seen & new
        assert len(seen | new) == 40
        assert all(set(bag.tolist()) <= seen or set(bag.tolist()) <= new for bag in bags)
    assert len(learned.losses) == 1


def test_folds_keep_what_hangs_together_and_are_of_rows_where_all_does() -> None:
    pairs = Groups.of([[0, 1], [1, 2], [3, 4], [5, 6], [6, 7]])
    known = ParsedTargets(np.arange(2), (pairs,), (PairSimilarity.of([1] * 5, 2),))
    fold = folds_of(known, np.arange(8), 3, 0)
    assert fold[0] == fold[1] == fold[2]
    assert fold[3] == fold[4]
    assert fold[5] == fold[6] == fold[7]
    assert sorted(set(fold.tolist())) == [0, 1, 2]
    chain = Groups.of([[row, row + 1] for row in range(7)])
    known = ParsedTargets(np.arange(2), (chain,), (PairSimilarity.of([1] * 7, 2),))
    assert np.bincount(folds_of(known, np.arange(8), 3, 0)).tolist() == [3, 3, 2]


def test_nothing_is_ruled_out_by_a_classifier_that_has_not_met_it() -> None:
    learner = LogisticRegression().fit([[0.0], [1.0]], [0, 2])
    answer = np.exp(log_probs(learner, np.array([[0.3]]), 3, 4))
    assert answer.sum() == pytest.approx(1)
    assert answer[0, 1] == pytest.approx(1 / 3 / 5)
    assert answer[0, 0] == pytest.approx((4 * learner.predict_proba([[0.3]])[0, 0] + 1 / 3) / 5)


def test_even_starts_learn_where_groups_differ() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    labels = (x[:, 0] > 0).astype(int)
    order = np.argsort(x[:, 0] + 0.5 * rng.normal(size=300)).reshape(30, 10)
    known = ParsedTargets(np.arange(2), (Groups.of(order),), (Proportions.of(labels[order].sum(1)),))
    learned: Any = SoftEM(LogisticRegression(), 20, 3, 0).fit(x, known, first_posterior(known, 300), np.arange(300))
    assert (learned.estimator.predict(x) == labels).mean() > 0.95
    assert learned.losses[-1] < learned.losses[0]
    assert all(after < before + 1e-3 for before, after in zip(learned.losses, learned.losses[1:], strict=False))
