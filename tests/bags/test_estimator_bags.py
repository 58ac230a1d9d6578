"""`WeakClassifier` on bags: lists of arrays, class names, answers about whole bags."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from glws import WeakClassifier
from glws.errors import DataError
from glws.kinds import PresentClasses

Bags = list[NDArray[np.float64]]


def drawn(number: int, seed: int) -> tuple[Bags, NDArray[Any]]:
    """Bags of 1 to 6 rows; a row above 1.1 in its first feature makes it a tumor."""
    rng = np.random.default_rng(seed)
    bags = [rng.normal(size=(size, 3)) for size in rng.integers(1, 7, number)]
    return bags, np.array(["tumor" if (bag[:, 0] > 1.1).any() else "normal" for bag in bags])


def classifier(**options: Any) -> WeakClassifier:
    usual = {"kind": "multi_instance", "classes": ["normal", "tumor"], "epochs": 40, "learning_rate": 0.1}
    return WeakClassifier("linear", **{**usual, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted() -> WeakClassifier:
    return classifier().fit(*drawn(120, 0))


def test_a_list_of_bags_with_names_is_learned_from_and_predicted(fitted: WeakClassifier) -> None:
    bags, names = drawn(100, 1)
    assert (fitted.predict_bags(bags) == names).mean() > 0.9
    rows = fitted.predict(bags)
    assert [len(row) for row in rows] == [len(bag) for bag in bags]
    assert (np.concatenate(rows) == np.where(np.concatenate(bags)[:, 0] > 1.1, "tumor", "normal")).mean() > 0.95
    assert fitted.predict_proba(bags)[3].shape == (len(bags[3]), 2)


def test_probabilities_are_calibrated_and_go_with_the_decision(fitted: WeakClassifier) -> None:
    bags, names = drawn(400, 2)
    probs = fitted.predict_proba_bags(bags)
    assert np.allclose(probs.sum(1), 1)
    assert ((probs[:, 1] > 0.5) == (fitted.predict_bags(bags) == "tumor")).all()
    scores = fitted.bag_scores(bags, names)
    assert scores["auc"] > 0.97
    assert scores["calibration_error"] < 0.1
    assert fitted.bag_calibration_ is not None


def test_without_calibration_it_is_one_minus_the_product() -> None:
    bags, names = drawn(60, 0)
    model = classifier(calibrate_bags=False, epochs=5).fit(bags, names)
    wanted = [1 - np.prod(1 - row[:, 1]) for row in model.predict_proba(bags)]
    assert np.allclose(model.predict_proba_bags(bags)[:, 1], wanted, atol=1e-6)
    assert model.bag_calibration_ is None


def test_rows_with_groups_are_the_same_as_a_list(fitted: WeakClassifier) -> None:
    bags, _ = drawn(20, 3)
    names = np.repeat([f"bag {number:02}" for number in range(20)], [len(bag) for bag in bags])
    assert np.array_equal(fitted.predict_bags(np.concatenate(bags), names), fitted.predict_bags(bags))


def test_numbers_as_labels_give_numbers_and_a_forest_answers_too() -> None:
    bags, names = drawn(60, 0)
    forest = RandomForestClassifier(20, random_state=0, min_samples_leaf=3)
    model = WeakClassifier(base_estimator=forest, kind="multi_instance", start="even", rounds=1, random_state=0)
    model.fit(bags, (names == "tumor").astype(int))
    assert set(model.predict_bags(bags)) <= {0, 1}
    assert (model.predict_bags(bags) == (names == "tumor")).mean() > 0.8


def test_sets_of_classes_are_masks() -> None:
    rng = np.random.default_rng(0)
    X, bag = rng.normal(size=(240, 2)), np.arange(240) // 3
    truth = np.digitize(X[:, 0], [-0.5, 0.5])
    present = np.stack([np.bincount(bag, truth == number) > 0 for number in range(3)], 1).astype(int)
    model = WeakClassifier("linear", epochs=30, learning_rate=0.1, random_state=0, calibrate_bags=False)
    model.fit(X, PresentClasses.of(present), groups=[np.flatnonzero(bag == number) for number in range(80)])
    assert (model.predict_bags(X, bag) == present).mean() > 0.85
    assert model.predict_proba_bags(X, bag).shape == (80, 3)


def test_attention_gives_its_weights_and_predicts_bags() -> None:
    bags, names = drawn(120, 0)
    model = classifier(method="attention_mil", calibrate_bags=False).fit(bags, names)
    weights = model.bag_attention(bags)
    assert all(np.isclose(each.sum(), 1) for each in weights)
    assert (model.predict_bags(bags) == names).mean() > 0.75
    with pytest.raises(DataError, match="GLWS has no attention; attention_mil has"):
        classifier(calibrate_bags=False, epochs=1).fit(bags, names).bag_attention(bags)


def test_a_pickled_model_answers_the_same(fitted: WeakClassifier) -> None:
    bags, _ = drawn(10, 4)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba_bags(bags), fitted.predict_proba_bags(bags))
