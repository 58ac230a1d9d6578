"""Tools of scikit-learn around the estimator that would read -1, a row without a label, as a class."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.errors import DataError
from glws.estimator._targets import missing_labels

READERS = ("calibration", "ensemble", "multiclass", "multioutput", "metrics")
"""Modules of scikit-learn that take every value of y for a class."""


def check_tools(kind: Any) -> None:
    """Raises `DataError` if a tool that called the estimator reads its own y otherwise than the estimator does.

    `CalibratedClassifierCV`, ensembles and scorers encode y before the estimator sees it, or never show it: -1 becomes
    a class of theirs, and what they answer is wrong without a word. Only their stack frames tell, so these are looked
    at. With `kind`, y holds weak labels instead of classes.
    """
    frame: FrameType | None = sys._getframe(1)
    complaints = []
    while frame is not None:
        package, _, module = str(frame.f_globals.get("__name__", "")).partition(".")
        if package == "sklearn" and module.split(".")[0] in READERS:
            complaints.append(_complaint(frame, module, kind))
        frame = frame.f_back
    for complaint in filter(None, reversed(complaints)):  # the outermost tool is the one that a person called
        raise DataError(complaint)


def _complaint(frame: FrameType, module: str, kind: Any) -> str | None:
    y = frame.f_locals.get("y", frame.f_locals.get("y_true"))
    tool = type(frame.f_locals["self"]).__name__ if "self" in frame.f_locals else f"sklearn.{module}"
    if y is None or (kind is None and not _has_gaps(y)):
        return None
    if module.startswith("metrics"):
        return (
            "a scorer of scikit-learn reads -1 in y as a class, but it is a row without a label: leave `scoring` out "
            "(WeakClassifier.score skips such rows), or score rows with labels only"
        )
    what = "-1 in y as a class, but it is a row without a label"
    if kind is not None:
        what = f"y as class labels, but with kind={kind!r} it holds weak labels"
    after = f"then give {tool} FrozenEstimator(model) and rows with labels only"
    return f"{tool} reads {what}: fit WeakClassifier by itself, {after}"


def _has_gaps(y: Any) -> bool:
    values: NDArray[Any] = np.asarray(y)
    return values.ndim == 1 and bool(missing_labels(values).any())
