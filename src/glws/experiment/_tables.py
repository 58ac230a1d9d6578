"""Tables of predictions and of posterior labels: a row for each instance, the same for every way to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glws._aliases import Report
from glws.data import Groups, Instances
from glws.errors import DataError
from glws.evaluation import balanced_posterior
from glws.experiment._data import ExperimentData
from glws.inference import Posterior
from glws.training import Predictor, log_probs_of, posteriors

GROUP = "group_"
"""What columns begin with that are about the group of a row."""
ERROR = "approximation_error"

OWN_NAMES = ("row", "kind", "group", "label", "joint_label", "entropy", "log_likelihood", ERROR)
"""Columns that predictions and labels have besides probabilities."""

Columns = dict[str, Any]
"""A table to write: names and columns of one length."""


def prediction_columns(
    predict: Predictor,
    instances: Instances,
    groups: Sequence[Groups],
    rows: Any,
    classes: Sequence[str],
    ids: Mapping[str, Any] | None = None,
) -> Columns:
    """For each instance its ids, its most likely class and the probability of every class, in the order of the file.

    Of a training that was given the shares of the classes, the class is the best one for balanced accuracy, as in its
    scores. Of a method that predicts whole groups, `group_p(...)` says what the group of the row is, where each row is
    in one group. `row` is the place in the file, the first being 0.
    """
    log_probs = log_probs_of(instances, predict).double()
    labels = balanced_posterior(log_probs, predict.config.shares).argmax(1)
    order = np.argsort(rows, kind="stable")
    columns = {"row": rows, **_id_columns(ids or {}), "label": _named(labels, classes)}
    columns |= _columns(log_probs.exp(), classes)
    columns |= _columns_of_own_group(predict, instances, groups, classes)
    return {name: np.asarray(column)[order] for name, column in columns.items()}


def label_columns(predict: Predictor, data: ExperimentData, report: Report) -> Columns:
    """For each instance of each group: the posterior given network and weak label, and what it makes of the group.

    `label` is the most likely class of the instance by itself, `joint_label` its class in the most likely labeling of
    the whole group, `entropy` that of its posterior in nats, `log_likelihood` that of the group's weak label, `p(...)`
    the posterior. Of a method that predicts whole groups, `group_p(...)` is its prediction. Where the predictions rule
    out the weak label there is no label, and the posterior is 0. `row` is the place in the file, the first being 0.
    Where some posteriors are approximate, `approximation_error` estimates how far those of the group may be off; it is
    0 where they are exact.
    """
    of_groups = _group_probs(predict, data.whole.instances, data.whole.groups[0])
    pieces = [
        {**_piece(data, data.rows, *answer), **_group_columns(of_groups, answer, data.classes)}
        for answer in posteriors(data.whole, predict)
    ]
    if not pieces:
        raise DataError("there are no groups to label")
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return _checked_errors(columns, report)


def _checked_errors(columns: Columns, report: Report) -> Columns:
    """Without the column of errors where all posteriors are exact; where some are not, says so."""
    errors = columns[ERROR]
    if not errors.any():
        return {name: column for name, column in columns.items() if name != ERROR}
    report(
        f"the posteriors of {int((errors > 0).sum()):,} of {len(errors):,} rows are approximate and may be off by up "
        f"to {errors.max():.2g} (estimate): see the column {ERROR}"
    )
    return columns


def _columns_of_own_group(
    predict: Predictor, instances: Instances, groups: Sequence[Groups], classes: Sequence[str]
) -> Columns:
    """For each instance what its group is, where the method predicts that and each instance is in one group."""
    if len(groups) != 1 or not torch.equal(groups[0].indices.sort().values, torch.arange(len(instances))):
        return {}
    probs = _group_probs(predict, instances, groups[0])
    if probs is None:
        return {}
    group_of_member = torch.repeat_interleave(torch.arange(len(groups[0])), groups[0].lengths)
    return _columns(probs.double()[group_of_member[groups[0].indices.argsort()]], classes, GROUP)


def _group_probs(predict: Predictor, instances: Instances, groups: Groups) -> Tensor | None:
    """What whole groups are; None if the method predicts instances only."""
    return predict.group_probs(instances, groups) if predict.method.predicts_groups else None


def _group_columns(
    probs: Tensor | None, answer: tuple[int, Tensor, Tensor, Posterior], classes: Sequence[str]
) -> Columns:
    """For each row what its whole group is, where the method predicts that."""
    if probs is None:
        return {}
    _, groups, _, posterior = answer
    return _columns(probs.double()[groups.repeat_interleave(posterior.lengths)], classes, GROUP)


def _piece(data: ExperimentData, rows: Any, kind: int, groups: Tensor, members: Tensor, answer: Posterior) -> Columns:
    """The rows of some groups."""
    weak = data.whole.weak[kind]
    real = torch.arange(members.shape[1]) < answer.lengths[:, None]
    marginals = answer.marginals.double()[real]
    error = torch.zeros(len(groups)).double() if answer.error is None else answer.error.double()
    single = torch.where(answer.impossible[:, None], -1, answer.marginals.argmax(2))
    repeated = groups[:, None].expand_as(members)[real]
    names = data.group_names[kind] if data.group_names else np.arange(len(weak))
    return {
        "row": rows[members[real].numpy()],
        **_id_columns({name: values[members[real].numpy()] for name, values in data.ids.items()}),
        "kind": np.full(len(repeated), type(weak).__name__),
        "group": np.asarray([str(names[number]) for number in repeated.tolist()]),
        "label": _named(single[real], data.classes),
        "joint_label": _named(answer.mode()[real], data.classes),
        "entropy": torch.special.entr(marginals).sum(1).numpy(),
        "log_likelihood": answer.log_likelihood.double()[:, None].expand_as(members)[real].numpy(),
        ERROR: error[:, None].expand_as(members)[real].numpy(),
        **_columns(marginals, data.classes),
    }


def _id_columns(ids: Mapping[str, Any]) -> Columns:
    """The id columns, so that outputs can be joined with other tables; one called like an output is renamed."""
    return {f"{name} (id)" if name in OWN_NAMES else name: values for name, values in ids.items()}


def _named(numbers: Tensor, classes: Sequence[str]) -> Any:
    """Class names; empty for -1."""
    return np.asarray([*classes, ""])[numbers.numpy()]


def _columns(probs: Tensor, classes: Sequence[str], whose: str = "") -> Columns:
    return {f"{whose}p({name})": probs[:, number].numpy() for number, name in enumerate(classes)}
