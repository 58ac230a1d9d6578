"""What a person would write in a few lines of scikit-learn instead: predictions for test rows, [rows, classes]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def logistic(weight: float = 1.0) -> Any:
    """Logistic regression on standardized features."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=weight, max_iter=2000))


def _two(score: Array) -> Array:
    return np.stack([1 - score, score], 1)


def bag_means(rows: Array, bags: Integers, counts: Integers, test: Array) -> Array:
    """Ridge regression of shares on bag means, with a penalty chosen by leaving bags out."""
    scaler = StandardScaler().fit(rows)
    means = scaler.transform(rows)[bags].mean(1)
    return _two(RidgeCV(np.logspace(-2, 4, 13)).fit(means, counts / bags.shape[1]).predict(scaler.transform(test)))


def imputed_shares(rows: Array, bags: Integers, counts: Integers, test: Array) -> Array:
    """Boosted trees on the share of its bag as the target of each row."""
    target = np.repeat(counts / bags.shape[1], bags.shape[1])
    return _two(HistGradientBoostingRegressor(random_state=0).fit(rows[bags.ravel()], target).predict(test))


def naive_positive(rows: Array, positive: Integers, test: Array) -> Array:
    """Logistic regression of positives against all others."""
    marks = np.isin(np.arange(len(rows)), positive).astype(int)
    return np.asarray(logistic().fit(rows, marks).predict_proba(test))


def elkan_noto(rows: Array, positive: Integers, test: Array) -> Array:
    """A forest of positives against all others, divided by its mean for positives out of the bag."""
    marks = np.isin(np.arange(len(rows)), positive).astype(int)
    forest = RandomForestClassifier(300, min_samples_leaf=5, oob_score=True, random_state=0).fit(rows, marks)
    labeled = forest.oob_decision_function_[positive, 1].mean()
    return _two(np.minimum(forest.predict_proba(test)[:, 1] / labeled, 1))


def which_set(rows: Array, first: Integers, second: Integers, test: Array) -> Array:
    """Logistic regression on the set that a row is from."""
    chosen = np.r_[first, second]
    marks = np.repeat([1, 0], [len(first), len(second)])
    return np.asarray(logistic().fit(rows[chosen], marks).predict_proba(test))


def mean_of_candidates(rows: Array, masks: NDArray[np.bool_], test: Array, is_forest: bool) -> Array:
    """Copies of each row with each candidate as its label."""
    places, labels = np.nonzero(masks)
    weight = 1 / masks.sum(1)[places]
    if is_forest:
        model: Any = ExtraTreesClassifier(300, min_samples_leaf=2, random_state=0)
        model.fit(rows[places], labels, sample_weight=weight)
    else:
        model = logistic().fit(rows[places], labels, logisticregression__sample_weight=weight)
    return _all_classes(model, test, masks.shape[1])


def pooled(rows: Array, known: Sequence[Integers], labels: Integers, asked: Sequence[Integers], kind: str) -> Array:
    """A classifier of the mean, the least and the greatest of each feature of a bag."""
    train, test = (
        np.array([np.r_[rows[bag].mean(0), rows[bag].min(0), rows[bag].max(0)] for bag in some])
        for some in (known, asked)
    )
    if kind == "lr":
        return np.asarray(logistic(0.1).fit(train, labels).predict_proba(test))
    machine = make_pipeline(StandardScaler(), SVC()).fit(train, labels)
    return _two((machine.decision_function(test) > 0).astype(np.float64))


def labeled_only(rows: Array, labels: Integers, test: Array) -> Array:
    """Logistic regression on the labeled rows."""
    return np.asarray(logistic().fit(rows[labels >= 0], labels[labels >= 0]).predict_proba(test))


def all_labels(rows: Array, labels: Integers, test: Array, num_classes: int) -> list[Array]:
    """With every label: logistic regression, and trees."""
    trees: Any = (
        HistGradientBoostingClassifier(random_state=0)
        if num_classes == 2 and len(rows) > 2000
        else ExtraTreesClassifier(300, random_state=0)
    )
    return [_all_classes(model.fit(rows, labels), test, num_classes) for model in (logistic(), trees)]


def _all_classes(model: Any, test: Array, num_classes: int) -> Array:
    table = np.zeros((len(test), num_classes))
    table[:, model.classes_] = model.predict_proba(test)
    return table
