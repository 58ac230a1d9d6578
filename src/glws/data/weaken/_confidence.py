"""Sources of confidences: probabilities of your own model, or of one fitted to held-out data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._optional import needed
from glws._reprs import short_repr
from glws.errors import DataError
from glws.kinds import Numbers
from glws.kinds._arrays import class_mask, classes, reals, refuse, same_length, shares, shown

Table = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Class probabilities of the instances that the model was not fitted to.

    `scored` are their numbers, `probabilities` their rows; `temperature` divided the model's log-probabilities (1:
    they were calibrated, above 1: overconfident).
    """

    __repr__ = short_repr

    scored: Int[Tensor, "scored"]
    probabilities: Float[Tensor, "scored classes"]
    temperature: float


def positive_scores(probabilities: Numbers, positive: Sequence[int]) -> Float[Tensor, "instances"]:
    """P(positive) from the probabilities [instances, classes] of any model: the sum over the positive classes.

    >>> positive_scores([[0.2, 0.3, 0.5]], positive=[0, 2])
    tensor([0.7000], dtype=torch.float64)
    """
    values = shares(probabilities, "probabilities", 2)
    total = values.sum(1)
    off = (total - 1).abs() > 1e-4  # float32 softmax over a thousand classes
    refuse(off, lambda row: f"probabilities must sum to 1, found {shown(total[row])}")
    return (values[:, class_mask(positive, values.shape[1])].sum(1) / total).clamp(0.0, 1.0)


def held_out_scores(
    inputs: Numbers,
    labels: Numbers,
    num_classes: int,
    *,
    generator: torch.Generator,
    held_out: float = 0.3,
    classifier: Any = None,
) -> HeldOutScores:
    """Class probabilities from a classifier fitted to a random part of the data, for all the others.

    `held_out` is the share of the data for the classifier: four fifths of it for fitting, one fifth for the
    temperature that calibrates its probabilities (by likelihood). These instances get no scores, since
    a model is overconfident on its own training data. `classifier` is anything with `fit` and `predict_proba`, by
    default scikit-learn's logistic regression. `inputs` are flattened to [instances, features].

    >>> inputs = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> labels = (inputs[:, 0] > 0).long()
    >>> answer = held_out_scores(inputs, labels, 2, generator=torch.Generator().manual_seed(1))
    >>> answer.probabilities.shape
    torch.Size([70, 2])
    """
    true, table = classes(labels, "labels", num_classes), _table(inputs)
    order = torch.randperm(len(true), generator=generator)
    number = round(len(true) * held_out)
    seen, scored = order.tensor_split([number])
    probabilities, temperature = _scored(classifier, table, true, seen, scored, num_classes)
    return HeldOutScores(scored, probabilities, temperature)


def crossed_scores(
    inputs: Numbers,
    labels: Numbers,
    num_classes: int,
    *,
    generator: torch.Generator,
    parts: int = 2,
    classifier: Any = None,
) -> Float[Tensor, "instances classes"]:
    """Class probabilities of all instances, each from a classifier that was not fitted to it.

    The data are divided at random; for each part the classifier is fitted to the others and calibrated, as in
    `held_out_scores`. It costs as many fits as there are parts, and no instance is lost.

    >>> inputs = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> labels = (inputs[:, 0] > 0).long()
    >>> scores = crossed_scores(inputs, labels, 2, generator=torch.Generator().manual_seed(1))
    >>> scores.shape, (scores.argmax(1) == labels).float().mean() > 0.9
    (torch.Size([100, 2]), tensor(True))
    """
    true, table = classes(labels, "labels", num_classes), _table(inputs)
    if parts < 2:
        raise DataError(f"cross-fitting needs at least 2 parts, found {parts}")
    found = torch.empty(len(true), num_classes, dtype=torch.float64)
    divided = torch.randperm(len(true), generator=generator).tensor_split(parts)
    for number, scored in enumerate(divided):
        seen = torch.cat([part for other, part in enumerate(divided) if other != number])
        found[scored] = _scored(classifier, table, true, seen, scored, num_classes)[0]
    return found


def _scored(
    classifier: Any, table: Table, true: Tensor, seen: Tensor, scored: Tensor, num_classes: int
) -> tuple[Float[Tensor, "scored classes"], float]:
    """Probabilities from a classifier fitted to four fifths of its instances, and the temperature from the rest."""
    fitted, calibrated = seen.tensor_split([len(seen) - len(seen) // 5])
    if len(fitted) == 0 or len(calibrated) == 0 or len(scored) == 0:
        raise DataError(f"seeing {len(seen)} of {len(true)} instances leaves nothing to fit, calibrate or score")
    model = classifier if classifier is not None else _logistic_regression()
    model.fit(table[fitted.numpy()], true[fitted].numpy())
    temperature = fitted_temperature(_probabilities(model, table[calibrated.numpy()], num_classes), true[calibrated])
    log_scores = _probabilities(model, table[scored.numpy()], num_classes).log()
    return (log_scores / temperature).softmax(1), temperature


def _table(inputs: Numbers) -> Table:
    """One row for each instance; whole numbers, such as pixels, keep their type."""
    values = np.asarray(inputs)
    kept = values if values.dtype.kind in "iu" else values.astype(np.float64)
    return kept.reshape(len(kept), -1)


def fitted_temperature(probabilities: Numbers, labels: Numbers) -> float:
    """The temperature t within 1/20 and 20 that maximizes the likelihood of the labels under p^(1/t), normalized.

    >>> round(fitted_temperature([[0.9, 0.1]] * 10, [0] * 7 + [1] * 3), 2)  # says 0.9, is right 7 times in 10
    2.59
    """
    log_scores = reals(probabilities, "probabilities", 2).clamp_min(1e-12).log()
    true = classes(labels, "labels", log_scores.shape[1])
    same_length("probabilities and labels", log_scores, true)
    observed = log_scores.gather(1, true[:, None]).mean()
    low, high = 0.05, 20.0  # of 1/t, in which the likelihood is concave: halve until its slope is 0
    for _ in range(50):
        middle = math.sqrt(low * high)
        expected = ((middle * log_scores).softmax(1) * log_scores).sum(1).mean()
        low, high = (middle, high) if bool(observed > expected) else (low, middle)
    return 1 / middle


def _logistic_regression() -> Any:
    linear_model = needed("sklearn.linear_model", "scikit-learn", "fitting a model to held-out data")
    return linear_model.LogisticRegression(max_iter=1000)


def _probabilities(model: Any, table: Table, num_classes: int) -> Float[Tensor, "rows classes"]:
    """Predicted probabilities with a column for every class, also for those absent from the fit."""
    predicted = torch.as_tensor(np.asarray(model.predict_proba(table)), dtype=torch.float64)
    columns = torch.as_tensor(np.asarray(model.classes_), dtype=torch.int64)
    full = torch.zeros(len(predicted), num_classes, dtype=torch.float64)
    full[:, columns] = predicted
    return full.clamp_min(1e-12)
