"""Folds, likelihood, calibration and set facts, each against a slow and obvious version."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from glws import infer
from glws.data import Groups
from glws.errors import DataError
from glws.kinds import Labels, MultiInstance, PartialLabels, Proportions, Unlabeled
from glws.selection import (
    WeakLabels,
    calibrated,
    cross_calibrated,
    estimate_class_prior,
    folds_of,
    posterior_of_rows,
    set_facts,
    split_sets,
    weak_fit,
)

Array = NDArray[np.float64]


def bags(num_rows: int = 60, size: int = 4, seed: int = 0) -> tuple[Array, NDArray[np.int64], WeakLabels]:
    """Logits that know the labels somewhat, the labels, and counts in bags."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(num_rows) < 0.3).astype(int)
    score = rng.normal(size=num_rows) + 1.5 * labels
    table = np.arange(num_rows).reshape(-1, size)
    known = WeakLabels((Groups.of(table),), (Proportions.of(labels[table].sum(1)),))
    return np.stack([np.zeros(num_rows), score], 1), labels, known


# ------------------------------------------------------------ likelihood


def test_the_gradient_is_that_of_the_summed_log_likelihood() -> None:
    logits, _, known = bags(12)
    found = weak_fit(logits, known)
    for row, label in [(0, 0), (5, 1), (11, 1)]:
        moved = [logits.copy(), logits.copy()]
        moved[0][row, label] -= 1e-5
        moved[1][row, label] += 1e-5
        low, high = (weak_fit(each, known).log_likelihood.sum() for each in moved)
        assert found.gradient[row, label] == pytest.approx((high - low) / 2e-5, abs=1e-6)


def test_impossible_groups_are_counted_and_left_out() -> None:
    known = WeakLabels((Groups.of([[0], [1]]),), (Labels.of([0, 1], 2),))
    found = weak_fit(np.array([[-np.inf, 0.0], [0.0, 0.0]]), known)
    assert found.impossible == 1
    np.testing.assert_allclose(found.log_likelihood, [0, -np.log(2)])


def test_the_posterior_of_rows_is_that_of_their_groups() -> None:
    logits, _, known = bags(8)
    log_probs = torch.from_numpy(logits).log_softmax(1)
    expected = infer(log_probs.view(2, 4, 2), known.weak[0]).marginals.reshape(8, 2)
    np.testing.assert_allclose(posterior_of_rows(log_probs.numpy(), known), expected, atol=1e-12)


# ------------------------------------------------------------ folds


def test_every_group_is_held_out_once_and_whole() -> None:
    _, _, known = bags(60)
    folds = folds_of(known, 60, 3, seed=1)
    held_out = [folds.held_out(known, fold).groups[0].indices for fold in range(3)]
    assert sorted(torch.cat(held_out).tolist()) == list(range(60))
    for fold in range(3):
        rest = folds.training(known, fold).groups[0].indices
        assert not torch.isin(rest, held_out[fold]).any()
        np.testing.assert_array_equal(folds.of_rows[held_out[fold].numpy()], fold)


def test_folds_have_their_share_of_positive_bags() -> None:
    present = np.repeat([0, 1], [45, 5])
    known = WeakLabels((Groups.of(np.arange(150).reshape(50, 3)),), (MultiInstance.of(present),))
    folds = folds_of(known, 150, 5, seed=0)
    assert [int(present[folds.of_groups[0] == fold].sum()) for fold in range(5)] == [1] * 5


def test_groups_that_all_hang_together_are_assigned_one_by_one() -> None:
    table = np.random.default_rng(0).integers(0, 40, (30, 5))
    known = WeakLabels((Groups.of(table),), (Proportions.of([2] * 30),))
    folds = folds_of(known, 40, 3, seed=0)
    assert np.bincount(folds.of_groups[0]).tolist() == [10, 10, 10]
    alone = np.flatnonzero(folds.of_rows >= 0)
    for row in alone:
        assert set(folds.of_groups[0][(table == row).any(1)]) == {folds.of_rows[row]}


def test_unlabeled_sets_are_divided_and_keep_their_priors() -> None:
    known = WeakLabels((Groups.of([range(0, 50), range(50, 80)]),), (Unlabeled.of([0.2, 0.6]),))
    found = split_sets(known, 20, seed=0)
    assert sorted(found.groups[0].indices.tolist()) == list(range(80))
    for group in range(len(found.weak[0])):
        rows = found.groups[0][group].indices
        assert bool((rows < 50).all() if float(found.weak[0].prior[group]) == 0.2 else (rows >= 50).all())


# ------------------------------------------------------------ calibration


def test_calibration_repairs_predictions_that_are_too_sure_and_biased() -> None:
    logits, _, known = bags(4000, 4)
    truth = calibrated(logits, known)(logits)
    spoiled = 3 * logits + np.array([0.0, 2.0])
    np.testing.assert_allclose(np.exp(calibrated(spoiled, known)(spoiled)), np.exp(truth), atol=0.01)
    fits = [weak_fit(each, known).log_likelihood.mean() for each in (spoiled, truth)]
    assert fits[1] > fits[0] + 0.5


def test_held_out_calibration_uses_the_other_folds() -> None:
    logits, _, known = bags(80)
    folds = folds_of(known, 80, 2, seed=0)
    found = cross_calibrated(logits, known, folds)
    other = calibrated(logits, folds.held_out(known, 1))(logits)
    mine = folds.of_rows == 0
    np.testing.assert_allclose(found[mine], other[mine])


def test_nothing_to_learn_from_leaves_predictions_alone() -> None:
    known = WeakLabels((Groups.singles(5),), (PartialLabels.of(np.ones((5, 3), bool)),))
    found = calibrated(np.zeros((5, 3)), known)
    assert found.factor == 1
    assert not found.offset.any()


# ------------------------------------------------------------ sets


def test_set_facts_are_the_posterior_of_the_set_by_bayes() -> None:
    known = WeakLabels((Groups.of([range(6), range(6, 10)]),), (Unlabeled.of([0.5, 0.25]),))
    facts = set_facts(known)
    assert facts is not None
    order = facts.known.groups[0].indices.argsort()
    scores = facts.known.weak[0].scores[order]  # type: ignore[attr-defined]
    np.testing.assert_allclose(scores[0], [3 / 6, 3 / 4])
    np.testing.assert_allclose(scores[9], [3 / 6, 1 / 4])
    np.testing.assert_allclose(facts.pooled, [0.6, 0.4])
    np.testing.assert_allclose(facts.target, facts.pooled)


def test_weak_labels_that_are_no_sets_are_left_alone() -> None:
    everything = Labels.of([0, 1], 2)
    known = WeakLabels((Groups.singles(2), Groups.of([[2, 3]])), (everything, Unlabeled.of([0.5])))
    assert set_facts(known) is None
    assert set_facts(bags()[2]) is None


def test_other_kinds_stay_beside_the_sets() -> None:
    weak = (Labels.of([1], 2), Unlabeled.of([0.5]), Proportions.of([1]))
    facts = set_facts(WeakLabels((Groups.of([[0]]), Groups.of([[1, 2]]), Groups.of([[3, 4]])), weak))
    assert facts is not None
    assert [type(each).__name__ for each in facts.known.weak] == ["SoftLabels", "Proportions"]


# ------------------------------------------------------------ class prior


def test_the_class_prior_is_within_its_interval_and_needs_enough_rows() -> None:
    rng = np.random.default_rng(3)
    labels = np.concatenate([np.ones(450, int), np.zeros(450, int)])
    x = rng.normal(size=(900, 3)) + 3 * labels[:, None]
    found = estimate_class_prior(x, np.arange(200), np.arange(200, 900), seed=1)
    assert found.low <= 250 / 700 <= found.high
    assert found.share == pytest.approx(250 / 700, abs=0.05)
    with pytest.raises(DataError, match="at least 10 positives, found 3"):
        estimate_class_prior(x, [0, 1, 2], np.arange(200, 900))
