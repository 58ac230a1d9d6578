"""Bags as scikit-learn users have them: lists of arrays, and answers about whole bags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._seeds import derived_generator
from glws.data import Groups
from glws.errors import DataError
from glws.estimator._targets import ParsedTargets
from glws.evaluation import FEWEST_BAGS, BagCalibration, bag_scores
from glws.kinds import BagRule

Array = NDArray[np.float64]
OddsOf = Callable[[ParsedTargets, Groups], Tensor]
"""From the weak labels to train on, and other groups, to the log-odds of these groups."""

MOST_CROSS_FITTED = 1000
"""With `calibrate_bags="auto"`, more bags than this are not cross-fitted."""


def is_list_of_bags(X: Any) -> bool:
    """Whether it is a list with one array [rows, features] for each bag.

    >>> is_list_of_bags([np.zeros((3, 2)), np.zeros((5, 2))]), is_list_of_bags([[0.0, 1.0], [1.0, 0.0]])
    (True, False)
    """
    return isinstance(X, list | tuple) and len(X) > 0 and all(getattr(bag, "ndim", None) == 2 for bag in X)


def rows_of_bags(X: Any, groups: Any = None) -> tuple[Any, Any]:
    """All rows of a list of bags, and the number of its bag for each; anything else as it is."""
    if not is_list_of_bags(X):
        return X, groups
    if groups is not None:
        raise DataError("X is a list of bags, which are the groups; leave groups= out")
    widths = [int(bag.shape[1]) for bag in X]
    wrong = next((number for number, width in enumerate(widths) if width != widths[0]), None)
    if wrong is not None:
        raise DataError(f"X: bag 0 has {widths[0]} features and bag {wrong} has {widths[wrong]}")
    return np.concatenate([np.asarray(bag) for bag in X]), np.repeat(np.arange(len(X)), [len(bag) for bag in X])


def like_bags(X: Any, rows: NDArray[Any]) -> Any:
    """Answers for all rows as a list with one array for each bag, where X is such a list."""
    return np.split(rows, np.cumsum([len(bag) for bag in X])[:-1]) if is_list_of_bags(X) else rows


def bag_rule_of(known: ParsedTargets) -> BagRule | None:
    """What the weak labels say about whole groups, if they are of one kind that does."""
    return known.weak[0].bag_rule() if len(known.weak) == 1 else None


def cross_fitted(known: ParsedTargets, folds: int, seed: int, odds_of: OddsOf) -> BagCalibration | None:
    """The calibration of bags by the predictions of models that were not trained on them; None for too few bags.

    The bags are split into `folds`, each with its share of both labels of the first question.
    """
    (groups,), (weak,) = known.groups, known.weak
    marks = weak.bag_marks()
    assert marks is not None, "a kind with a bag_rule has bag_marks"
    if not is_enough(marks):
        return None
    fold = stratified_folds(marks[:, 0], folds, seed)
    odds = torch.full(marks.shape, torch.nan, dtype=torch.float64)
    for number in range(folds):
        kept, held = (fold != number).nonzero()[:, 0], (fold == number).nonzero()[:, 0]
        odds[held] = odds_of(replace(known, groups=(groups[kept],), weak=(weak[kept],)), groups[held])
    return BagCalibration.fitted(odds, marks)


def calibrated(known: ParsedTargets, odds: Tensor) -> BagCalibration | None:
    """The calibration of bags by log-odds of models that were not trained on them; None for too few bags."""
    marks = known.weak[0].bag_marks()
    assert marks is not None, "a kind with a bag_rule has bag_marks"
    return BagCalibration.fitted(odds, marks) if is_enough(marks) else None


def is_enough(marks: Tensor) -> bool:
    """Whether there are `FEWEST_BAGS` of either label."""
    return min(int((marks == 1).sum()), int((marks == 0).sum())) >= FEWEST_BAGS


def stratified_folds(labels: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of each bag: random, and even for each label.

    >>> stratified_folds(torch.tensor([1, 1, 0, 0]), 2, 0).view(2, 2).sum(1).tolist()
    [1, 1]
    """
    order = torch.randperm(len(labels), generator=derived_generator("cpu", seed, "bag folds"))
    order = order[labels[order].argsort(stable=True)]
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(order)) % folds
    return fold


def is_cross_fitted(wanted: bool | str, known: ParsedTargets) -> bool:
    """Whether bags are calibrated: "auto" for up to `MOST_CROSS_FITTED` bags."""
    return wanted is True or (wanted == "auto" and len(known.weak[0]) <= MOST_CROSS_FITTED)


def probabilities(odds: Tensor) -> Array:
    """[bags, 2] for a single question: no, yes; [bags, questions] of yes otherwise."""
    yes = odds.double().sigmoid().numpy()
    return np.column_stack([torch.sigmoid(-odds.double()).numpy(), yes]) if yes.shape[1] == 1 else yes


def named(odds: Tensor, rule: BagRule, classes: NDArray[Any]) -> NDArray[Any]:
    """What each bag is: the class of two, 1 or 0 for one question about more, a mask for several questions."""
    yes = (odds > 0).numpy()
    if len(rule.sets) > 1:
        return np.asarray(yes)
    (counted,) = rule.sets
    if len(classes) == 2 and len(counted) == 1:
        return np.asarray(classes[np.where(yes[:, 0], counted[0], 1 - counted[0])])
    return yes[:, 0].astype(np.int64)


def scored(odds: Tensor, known: ParsedTargets) -> dict[str, float | None]:
    """Accuracy, balanced accuracy, AUC, calibration error and mean log-likelihood of bag labels."""
    marks = known.weak[0].bag_marks()
    found = None if marks is None else bag_scores(odds, marks)
    if found is None or marks is None:
        raise DataError("y has no bag label to compare with")
    signed = torch.where(marks == 1, odds, -odds)[marks >= 0]
    likelihood = float(torch.nn.functional.logsigmoid(signed.double()).mean())
    names: Sequence[str] = ("accuracy", "balanced_accuracy", "auc", "calibration_error")
    return {**{name: getattr(found, name) for name in names}, "log_likelihood": likelihood}
