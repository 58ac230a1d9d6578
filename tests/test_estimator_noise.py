"""The estimator learns the noise of weak labels: by the network, by any classifier, through scikit-learn's tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

from glws import WeakClassifier
from glws.kinds import PairComparison

Array = NDArray[Any]


def rows(seed: int = 0, size: int = 900, rate: float = 0.25) -> tuple[Array, Array, Array]:
    """Features, true labels, and labels of which a part is wrong."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=size)
    features = random.normal(size=(size, 4)) + 2.5 * labels[:, None] * np.array([1, -1, 0, 0])
    return features, labels, np.where(random.random(size) < rate, 1 - labels, labels)


def classifier(**options: Any) -> WeakClassifier:
    return WeakClassifier(
        "linear", kind="noisy_labels", epochs=10, learning_rate=0.1, random_state=0, device="cpu", **options
    )


@pytest.mark.parametrize("base", [None, LogisticRegression()])
def test_a_planted_rate_comes_back_with_an_interval(base: Any) -> None:
    features, labels, seen = rows()
    model = classifier(kind_options={"rate": "learn"}, base_estimator=base).fit(features, seen)
    (estimate,) = model.noise_
    assert estimate.value == pytest.approx(0.25, abs=0.08)  # 2.5 standard errors of 270 kept labels
    assert estimate.low < 0.25 < estimate.high
    assert (model.predict(features) == labels).mean() > 0.93


def test_given_noise_is_not_learned() -> None:
    features, _, seen = rows(size=100)
    assert classifier(kind_options={"rate": 0.1}).fit(features, seen).noise_ == ()


def test_posterior_and_score_are_those_of_the_learned_noise() -> None:
    features, _, seen = rows()
    model = classifier(kind_options={"rate": "learn"}).fit(features, seen)
    wrong, probs = model.noise_[0].value, model.predict_proba(features)
    weights = probs * np.where(seen[:, None] == [0, 1], 1 - wrong, wrong)
    np.testing.assert_allclose(model.posterior_, weights / weights.sum(1, keepdims=True), atol=1e-9)
    assert model.score(features, seen) == pytest.approx(np.log(weights.sum(1)).mean())


def test_it_goes_through_clone_cross_validation_and_a_grid() -> None:
    features, _, seen = rows(size=300)
    model = clone(classifier(kind_options={"rate": "learn"}))
    assert np.isfinite(cross_val_score(model, features, seen, cv=3)).all()
    grid = GridSearchCV(model, {"kind_options": [{"rate": "learn"}, {"rate": 0.001}]}, cv=2).fit(features, seen)
    assert grid.best_params_ == {"kind_options": {"rate": "learn"}}


def test_a_rate_that_the_data_do_not_tell_is_a_warning() -> None:
    """Features that say nothing about the labels, and coins for labels."""
    random = np.random.default_rng(0)
    features, seen = random.normal(size=(200, 3)), random.integers(2, size=200)
    with pytest.warns(ConvergenceWarning, match="the noise of NoisyLabels is weakly identified: rate may be"):
        model = classifier(kind_options={"rate": "learn"}).fit(features, seen)
    assert model.noise_[0].is_weak


def test_kinds_that_are_given_as_objects_learn_too() -> None:
    features, labels, _ = rows(size=1200)
    pairs = np.arange(1200).reshape(-1, 2)
    weak = PairComparison.from_labels(labels[pairs], flip=0.2, generator=torch.Generator().manual_seed(0))
    start = PairComparison.of(weak.winner, flip=0.3).learning()
    model = WeakClassifier("linear", epochs=10, learning_rate=0.1, random_state=0, device="cpu")
    (estimate,) = model.fit(features, start, groups=pairs.tolist()).noise_
    assert estimate.low < 0.2 < estimate.high
