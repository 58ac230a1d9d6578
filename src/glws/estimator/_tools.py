"""Tools of scikit-learn around the estimator that would read -1, a row without a label, as a class."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws.errors import DataError
from glws.estimator._targets import missing_labels

READERS = ("calibration", "ensemble", "multiclass", "multioutput", "metrics")
"""Modules of scikit-learn that take every value of y for a class."""
RANKING = ("roc_auc_score", "average_precision_score")
"""Scores that rank models on positive and unlabeled rows."""


def check_tools(kind: Any) -> None:
    """Raises `DataError` if a tool that called the estimator reads its own y otherwise than the estimator does.

    `CalibratedClassifierCV`, ensembles and scorers encode y before the estimator sees it, or never show it: -1 becomes
    a class of theirs, and what they answer is wrong without a word. Only their stack frames tell, so these are looked
    at. With `kind`, y holds weak labels instead of classes.
    """
    complaints = [_complaint(frame, module, kind) for frame, module in _frames()]
    for complaint in filter(None, reversed(complaints)):  # the outermost tool is the one that a person called
        raise DataError(complaint)


def check_positive_unlabeled_tools(is_new: bool) -> None:
    """Raises `DataError` for scores that read unlabeled rows as negatives; warns about calibration.

    With marks of positive and unlabeled rows in y, `roc_auc` ranks models as it would with true labels, while accuracy
    and the like do not. `CalibratedClassifierCV` calibrates towards the probability that a row is labeled.
    """
    frames = _frames()
    if is_new and any(module.startswith("calibration") for _, module in frames):
        warnings.warn(
            "CalibratedClassifierCV reads y as labeled or not: its probabilities are p(labeled | x), which is "
            "p(positive | x) times the label frequency; rankings are right, the threshold 1/2 is not",
            stacklevel=4,
        )
    if not any(module.startswith("model_selection") for _, module in frames):
        return
    for frame, module in frames:
        name = getattr(getattr(frame.f_locals.get("self"), "_score_func", None), "__name__", "")
        if module.startswith("metrics") and name and name not in RANKING:
            raise DataError(
                f"{name} reads unlabeled rows as negatives: search with scoring='roc_auc', or leave `scoring` out for "
                "the likelihood of held-out rows"
            )


def is_inside_tools() -> bool:
    """Whether a tool of scikit-learn is fitting several estimators."""
    return bool(_frames())


def _frames() -> list[tuple[FrameType, str]]:
    """The frames of scikit-learn's tools that are running, innermost first, and their modules."""
    frame: FrameType | None = sys._getframe(1)
    found = []
    while frame is not None:
        package, _, module = str(frame.f_globals.get("__name__", "")).partition(".")
        if package == "sklearn" and module.split(".")[0] in (*READERS, "model_selection"):
            found.append((frame, module))
        frame = frame.f_back
    return found


def _complaint(frame: FrameType, module: str, kind: Any) -> str | None:
    if module.startswith("model_selection"):
        return None
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
