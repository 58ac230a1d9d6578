"""The small data sets of scikit-learn, which need no download."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glws._optional import needed
from glws.data.sources._source import Source, Split

BUNDLED = {"digits": "load_digits", "breast_cancer": "load_breast_cancer", "wine": "load_wine", "iris": "load_iris"}
"""The names of the sets, and their functions in `sklearn.datasets`."""

BRIGHTEST = {"digits": 16.0}
"""Images are divided by their brightest value; the columns of the other sets are not scaled."""


def load_bundled(name: str) -> Source:
    """One of the bundled sets as a float table; every fifth instance of each class is for testing.

    That rule needs no random numbers, keeps the classes in proportion and never changes. Columns other than pixels are
    in their own units: scale them by statistics of the training part.

    >>> load_bundled("digits")
    Source(digits: 1442 + 355, 10 classes)
    """
    bundle = getattr(needed("sklearn.datasets", "scikit-learn", f"the data set {name}"), BUNDLED[name])()
    inputs = np.asarray(bundle.data, np.float32) / np.float32(BRIGHTEST.get(name, 1.0))
    labels = np.asarray(bundle.target, np.int64)
    is_test = _every_fifth(labels)
    classes, columns = (tuple(str(item) for item in names) for names in (bundle.target_names, bundle.feature_names))
    train, test = (Split(inputs[rows], labels[rows]) for rows in (~is_test, is_test))
    return Source(name, classes, train, test, columns=columns)


def _every_fifth(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_test = np.zeros(len(labels), bool)
    for number in np.unique(labels):
        is_test[np.flatnonzero(labels == number)[4::5]] = True
    return is_test
