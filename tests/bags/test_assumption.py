"""The algorithmic unit tests of Raff and Holt (NeurIPS 2023): a bag is positive by what is in it, never by what is not.

Each test trains on bags with an easy signal that a model of the assumption must not use, and tests on bags where that
signal says the opposite: a model that uses it has an AUC below one half. Constructions follow their algorithms 1 to 3.
"""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from glws import WeakClassifier

Bag = NDArray[np.float64]
Draw = Callable[[np.random.Generator, bool, bool], Bag]
WIDTH = 16


def background(rng: np.random.Generator, number: int) -> Bag:
    return rng.normal(size=(number, WIDTH))


def poison(rng: np.random.Generator, is_in: bool) -> Bag:
    """The easy signal: in negative bags to train on, in positive bags to test on."""
    return rng.normal(-10, 0.1, size=(int(is_in), WIDTH))


def concept(rng: np.random.Generator, which: int, number: int) -> Bag:
    return rng.normal(2 + which, 0.1, size=(number, WIDTH))


def single_concept(rng: np.random.Generator, is_positive: bool, is_train: bool) -> Bag:
    """Algorithm 1: positive by an instance of one of two wide clouds."""
    clouds = [rng.normal(0, 3, WIDTH) if rng.random() < 0.5 else rng.normal(1, 1, WIDTH) for _ in range(3)]
    positives = np.stack(clouds)[: int(rng.integers(1, 4)) * is_positive]
    return np.concatenate([background(rng, 10), poison(rng, is_positive != is_train), positives])


def multi_concept(rng: np.random.Generator, is_positive: bool, is_train: bool) -> Bag:
    """Algorithm 2: positive by two concepts together; negative bags have one of them."""
    number, one = int(rng.integers(1, 4)), int(rng.integers(2))
    found = [concept(rng, 0, number), concept(rng, 1, number)] if is_positive else [concept(rng, one, 1)]
    return np.concatenate([background(rng, int(rng.integers(1, 10))), poison(rng, is_positive != is_train), *found])


def false_frequency(rng: np.random.Generator, is_positive: bool, is_train: bool) -> Bag:
    """Algorithm 3: positive by two concepts together; negative bags have one of them, many times in the test."""
    times = 1 if is_train else int(rng.integers(35, 45))
    found = [concept(rng, 0, 1), concept(rng, 1, 1)] if is_positive else [concept(rng, 0, times)]
    return np.concatenate([background(rng, int(rng.integers(1, 10))), *found])


def bags(draw: Draw, number: int, is_train: bool, seed: int) -> tuple[list[Bag], NDArray[np.int64]]:
    rng, labels = np.random.default_rng(seed), np.arange(number) % 2
    return [draw(rng, bool(label), is_train) for label in labels], labels


@pytest.mark.slow
@pytest.mark.parametrize("draw", [single_concept, multi_concept, false_frequency])
def test_the_default_keeps_the_assumption(draw: Draw) -> None:
    model = WeakClassifier(kind="multi_instance", random_state=0, device="cpu", calibrate_bags=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*bags(draw, 160, True, 0))
    for is_train in (True, False):
        shown, labels = bags(draw, 60, is_train, 1)
        assert roc_auc_score(labels, model.predict_proba_bags(shown)[:, 1]) > 0.7
