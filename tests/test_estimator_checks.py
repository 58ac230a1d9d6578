"""scikit-learn's own checks of what calls itself a classifier."""

from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from glws import WeakClassifier

NETWORK = WeakClassifier("linear", epochs=10, learning_rate=0.1, device="cpu")
BASED = WeakClassifier(base_estimator=LogisticRegression(), device="cpu")
EXPECTED = {
    "check_classifiers_classes": "it trains on the labels -1 and 1, and -1 is a row without a label here, "
    "as in scikit-learn's own semi-supervised classifiers"
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* of the training instances are predicted")  # labels of noise
@parametrize_with_checks([NETWORK, BASED], expected_failed_checks=lambda estimator: EXPECTED)
def test_it_is_a_classifier_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
