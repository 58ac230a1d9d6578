"""`model="auto"`: stacks, trees, mixtures and their calibration, by weak labels alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score

from glws import WeakClassifier
from glws.data import Groups, WeakDataset
from glws.kinds import Labels, PairSimilarity, PositiveUnlabeled, Proportions, Unlabeled
from glws.selection import (
    WeakLabels,
    folds_of,
    log_mixture,
    mixture_weights,
    posterior_of_rows,
    stated_prior,
    weak_fit,
    with_mean,
)
from glws.training import StackOptions, fit, stack_log_probs, train_stack
from glws.training import _mixture_search as auto
from glws.training import _mixture_training as training_module
from glws.training import _stack as stack_module
from glws.training._bag_means import bag_means, fitted_to_means, has_bags
from glws.training._mixture import class_order, squashed
from glws.training._trees import tree_families

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def data(num_rows: int, seed: int = 0, prior: float = 0.35) -> tuple[Array, Integers]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(num_rows) < prior).astype(int)
    return rng.normal(size=(num_rows, 4)) + labels[:, None] * [1.5, 1.0, 0.0, 0.0], labels


def even(num_rows: int, num_classes: int = 2) -> torch.Tensor:
    return torch.full((num_rows, num_classes), 1 / num_classes)


# ------------------------------------------------------------ stacks


def test_a_linear_stack_on_labels_is_logistic_regression() -> None:
    x, labels = data(200)
    known = WeakLabels((Groups.singles(200),), (Labels.of(labels, 2),))
    options = StackOptions((), (0.0, 0.0), rows_per_step=200, steps=300, learning_rate=0.1)
    stack = train_stack(torch.tensor(x).float(), known, [torch.ones(2, 200)], even(200), options, seed=0)
    expected = LogisticRegression(C=np.inf).fit(x, labels).predict_log_proba(x)
    for member in stack_log_probs(stack, torch.tensor(x).float()):
        np.testing.assert_allclose(member, expected, atol=0.02)
    alone = stack_log_probs(stack.members([1]), torch.tensor(x).float())[0]
    np.testing.assert_array_equal(alone, stack_log_probs(stack, torch.tensor(x).float())[1])


def test_a_member_never_sees_its_held_out_groups() -> None:
    x, labels = data(40)
    mask = torch.ones(2, 10)
    mask[0, :4] = 0
    begun = even(40)
    rows, found = torch.tensor(x).float(), []
    for counts in (labels.reshape(10, 4).sum(1), np.r_[np.zeros(4, int), labels.reshape(10, 4).sum(1)[4:]]):
        known = WeakLabels((Groups.of(np.arange(40).reshape(10, 4)),), (Proportions.of(counts),))
        options = StackOptions((8,), (0.1, 0.1), dropout=0.2, steps=20)
        found.append(stack_log_probs(train_stack(rows, known, [mask], begun, options, 0), rows))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.abs(found[0][1] - found[1][1]).max() > 1e-3


def test_squashed_features_are_bounded_and_keep_their_order() -> None:
    values = squashed(torch.tensor([-1e6, 0.0, 1.0, 1e6]))
    assert bool((values.diff() > 0).all())
    assert float(values.abs().max()) <= 5


# ------------------------------------------------------------ names, trees, mixtures


def test_swapped_classes_are_put_right_by_the_class_prior() -> None:
    logits = np.log(np.where(np.arange(20)[:, None] < 15, [[0.1, 0.9]], [[0.9, 0.1]]))
    known = WeakLabels((Groups.of([range(20)]),), (Unlabeled.of([0.25]),))
    assert class_order(logits, known, None) == (1, 0)
    assert class_order(logits[:, [1, 0]], known, None) == (0, 1)


def test_names_that_nothing_identifies_follow_the_reference() -> None:
    logits = np.log(np.random.default_rng(0).dirichlet([1, 1], 20))
    pairs = WeakLabels((Groups.of(np.arange(20).reshape(10, 2)),), (PairSimilarity.of([0, 1] * 5),))
    assert class_order(logits, pairs, logits) == (0, 1)
    assert class_order(logits[:, [1, 0]], pairs, logits) == (1, 0)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_trees_predict_probabilities_that_rule_nothing_out(num_classes: int) -> None:
    x, _ = data(250)
    soft = np.eye(num_classes)[(x[:, 0] > 0.5).astype(int)]
    for family in tree_families(250, num_classes):
        found = family.fit(x, soft, 0)(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(np.exp(found).sum(1), 1)
        assert np.isfinite(found).all()
        assert (found.argmax(1) == soft.argmax(1)).mean() > 0.95
    assert {family.name for family in tree_families(10_000, num_classes)} <= {"gradient boosting"}


def test_a_mixture_is_at_least_as_likely_as_equal_weights() -> None:
    x, labels = data(300)
    known = WeakLabels((Groups.of(np.arange(300).reshape(-1, 3)),), (Proportions.of(labels.reshape(-1, 3).sum(1)),))
    tables = [np.log(np.stack([1 - p, p], 1)) for p in 1 / (1 + np.exp(-x.T))]
    weights = mixture_weights(tables, known)
    likelihoods = [
        weak_fit(log_mixture(tables, each), known).log_likelihood.sum() for each in (weights, np.full(4, 0.25))
    ]
    assert weights.sum() == pytest.approx(1)
    assert likelihoods[0] > likelihoods[1]


def test_an_offset_gives_the_mean_prediction_the_prior() -> None:
    log_probs = np.log(np.random.default_rng(0).dirichlet([1, 2, 3], 50))
    prior = np.array([0.7, 0.1, 0.2])
    moved = np.exp(log_probs + with_mean(log_probs, prior))
    np.testing.assert_allclose((moved / moved.sum(1, keepdims=True)).mean(0), prior, atol=1e-5)


def test_held_out_weak_labels_are_those_of_the_folds_even_if_rows_are_shared() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 30, (20, 4))
    known = WeakLabels((Groups.of(table),), (Proportions.of(rng.integers(0, 5, 20)),))
    folds = folds_of(known, 30, 3, seed=0)
    logits = rng.normal(size=(3, 30, 2))
    combined = folds.combined(known)
    found = weak_fit(combined.pick(list(logits)), combined.known).log_likelihood.sum()
    each = [weak_fit(logits[fold], folds.held_out(known, fold)).log_likelihood.sum() for fold in range(3)]
    assert found == pytest.approx(sum(each))


# ------------------------------------------------------------ the estimator


@pytest.mark.slow
def test_the_default_learns_from_positives_and_keeps_the_class_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 60)
    x, labels = data(500)
    positives, rest = np.flatnonzero(labels)[:50], np.setdiff1d(np.arange(400), np.flatnonzero(labels)[:50])
    prior = labels[rest].mean()
    groups = [[[row] for row in positives], [rest.tolist()]]
    model = WeakClassifier(random_state=0).fit(x, [Labels.of([1] * 50, 2), Unlabeled.of([prior])], groups=groups)
    probs = model.predict_proba(x)[:, 1]
    assert probs[rest].mean() == pytest.approx(prior, abs=0.03)
    assert roc_auc_score(labels[400:], probs[400:]) > 0.85
    assert sum(candidate.weight for candidate in model.candidates_) == pytest.approx(1)
    scores = [candidate.score for candidate in model.candidates_]
    assert scores == sorted(scores, reverse=True)
    assert not hasattr(model, "loss_curve_")


@pytest.mark.slow
def test_the_default_never_swaps_classes_that_a_prior_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "tree_families", lambda *_: [])
    monkeypatch.setattr(auto, "NARROW", auto.LINEAR._replace(weight_decay=(0.1,)))
    monkeypatch.setattr(auto, "WIDE", auto.NARROW._replace(weight_decay=(0.2,)))
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 100)
    for seed in range(3):
        x, labels = data(300, seed, prior=0.3)
        same = labels[:200:2] == labels[1:200:2]
        weak = [PairSimilarity.of(same.astype(int)), Unlabeled.of([0.3])]
        groups = [np.arange(200).reshape(-1, 2).tolist(), [list(range(200, 300))]]
        model = WeakClassifier(random_state=seed).fit(x, weak, groups=groups)
        assert (model.predict(x) == labels).mean() > 0.7


SEARCHED = {
    "pairs and a set": [PairSimilarity.of([1, 0] * 50), Unlabeled.of([0.3])],
    "one training set": [PositiveUnlabeled.of([1] * 30 + [0] * 170, prior=0.4)],
    "two samples": [PositiveUnlabeled.of([1] * 30 + [0] * 170, prior=0.4, scenario="case_control")],
}


@pytest.mark.slow
def test_similar_pairs_and_a_prior_are_never_swapped_in_one_kind_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 60)
    monkeypatch.setattr(auto, "tree_families", lambda *_: [])
    for seed in range(2):
        x, labels = data(300, seed, prior=0.3)
        same = np.repeat((labels[:200:2] == labels[1:200:2]).astype(float), 2)
        marks, groups = np.r_[same, np.full(100, np.nan)], np.r_[np.arange(200) // 2, np.arange(100, 200)]
        options = {"prior": float(labels[200:].mean())}
        model = WeakClassifier(kind="similar_dissimilar_unlabeled", kind_options=options, random_state=seed)
        assert (model.fit(x, marks, groups=groups).predict(x) == labels).mean() > 0.7


@pytest.mark.parametrize("name", SEARCHED)
def test_a_stated_prior_is_kept_by_predictions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 10)
    monkeypatch.setattr(auto, "tree_families", lambda *_: [])
    weak, (x, _) = SEARCHED[name], data(300)
    pairs = [np.arange(200).reshape(-1, 2).tolist(), [list(range(200, 300))]]
    groups = pairs if len(weak) == 2 else [Groups.singles(200)]
    known = WeakLabels(tuple(map(Groups.of, groups)), tuple(weak))
    stated = stated_prior(known)
    assert stated is not None
    expected = {"pairs and a set": range(200, 300), "one training set": range(200), "two samples": range(30, 200)}
    assert stated.rows.tolist() == list(expected[name])
    found = auto.MixtureSearch(torch.tensor(x).float(), known, 0).run()
    is_stated = np.isin(found.held_out.rows, stated.rows)
    np.testing.assert_allclose(np.exp(found.held_out_log_probs[is_stated]).mean(0), stated.prior, atol=1e-4)


@pytest.mark.filterwarnings("ignore:100.0% of the training instances")
def test_a_single_bag_is_enough_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 5)
    x, labels = data(30)
    model = WeakClassifier(random_state=0).fit(x, Proportions.of([int(labels.sum())]), groups=[list(range(30))])
    assert model.posterior_[:, 1].sum() == pytest.approx(labels.sum())
    assert np.isfinite(model.predict_proba(x)).all()


def test_an_option_of_the_training_means_one_network() -> None:
    x, labels = data(40)
    model = WeakClassifier(epochs=20, batch_size=10, random_state=0).fit(x, labels)
    assert not hasattr(model, "candidates_")
    assert type(model.network_.model).__name__ == "MLP"


# ------------------------------------------------------------ bag means


def test_a_ridge_on_bag_means_is_that_of_scikit_learn_and_ranks_rows() -> None:
    x, labels = data(1200, seed=3)
    bags = np.arange(1200).reshape(-1, 12)
    known = WeakLabels((Groups.of(bags),), (Proportions.of(labels[bags].sum(1)),))
    even_log = np.full((1200, 2), -np.log(2))
    soft = posterior_of_rows(even_log, known)
    means, shares = bag_means(torch.tensor(x), known, soft)
    np.testing.assert_allclose(means, x[bags].mean(1))
    np.testing.assert_allclose(shares[:, 1], labels[bags].mean(1))
    assert has_bags(known, shares)
    kept = [np.arange(100) >= 20, np.arange(100) < 80]
    stack = fitted_to_means(means, shares, kept)
    for number, mask in enumerate(kept):
        expected = RidgeCV(np.logspace(-2, 4, 13)).fit(means[mask], shares[mask, 1]).predict(x)
        found = stack(torch.tensor(x).float())[number].detach().numpy()
        np.testing.assert_allclose((found[:, 1] - found[:, 0]) / 4 + 0.5, expected, atol=1e-5)
        assert roc_auc_score(labels, expected) > 0.85


def test_single_rows_and_pairs_that_say_nothing_have_no_bag_means() -> None:
    pairs = WeakLabels((Groups.of(np.arange(40).reshape(-1, 2)),), (PairSimilarity.of([0, 1] * 10),))
    singles = WeakLabels((Groups.singles(40),), (Labels.of([0, 1] * 20, 2),))
    for known in (pairs, singles):
        soft = posterior_of_rows(np.full((40, 2), -np.log(2)), known)
        assert not has_bags(known, bag_means(torch.zeros(40, 3), known, soft)[1])


def test_large_tables_get_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_module, "MOST_VALUES", 100)
    x, labels = data(26)
    assert hasattr(WeakClassifier(random_state=0).fit(x, labels), "loss_curve_")
    with pytest.raises(ValueError, match="chooses for rows of numbers in memory, at most 100 numbers; pass a model"):
        fit(data=WeakDataset(torch.tensor(x).float(), Groups.singles(26), Labels.of(labels, 2)))
