"""`WeakClassifier`: the face of the package towards scikit-learn. Numpy in, numpy out."""

from glws.estimator.classifier import WeakClassifier as WeakClassifier
