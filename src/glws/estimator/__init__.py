"""`WeakClassifier`: the face of the package towards scikit-learn. Numpy in, numpy out."""

from glws.estimator._classifier import WeakClassifier as WeakClassifier
