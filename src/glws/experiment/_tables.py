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
from glws.experiment._bags import BagReading
from glws.experiment._data import ExperimentData
from glws.inference import Posterior
from glws.training import Predictor, log_probs_of, posteriors

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
    bags: BagReading | None = None,
) -> Columns:
    """For each instance its ids, its most likely class and the probability of every class, in the order of the file.

    Of a training that was given the shares of the classes, the class is the best one for balanced accuracy, as in its
    scores. With `bags`, `group_label` and `group_p(...)` say what the group of the row is, and `attention` how much the
    row counts in that for methods with attention, if each row is in one group. `row` is the place in the file, the
    first being 0.
    """
    log_probs = log_probs_of(instances, predict).double()
    labels = balanced_posterior(log_probs, predict.config.shares).argmax(1)
    order = np.argsort(rows, kind="stable")
    columns = {"row": rows, **_id_columns(ids or {}), "label": _named(labels, classes)}
    columns |= _columns(log_probs.exp(), classes)
    columns |= _columns_of_own_group(predict, instances, groups, classes, bags)
    return {name: np.asarray(column)[order] for name, column in columns.items()}


def label_columns(predict: Predictor, data: ExperimentData, report: Report, bags: BagReading | None = None) -> Columns:
    """For each instance of each group: the posterior given network and weak label, and what it makes of the group.

    `label` is the most likely class of the instance by itself, `joint_label` its class in the most likely labeling of
    the whole group, `entropy` that of its posterior in nats, `log_likelihood` that of the group's weak label, `p(...)`
    the posterior. With `bags`, `group_label` and `group_p(...)` are predicted for the group, ignoring its weak label.
    Where the predictions rule out the weak label there is no label, and the posterior is 0. `row` is the place in the
    file, the first being 0.
    Where some posteriors are approximate, `approximation_error` estimates how far those of the group may be off; it is
    0 where they are exact.
    """
    of_groups = {} if bags is None else bags.columns(predict, data.whole.instances, data.whole.groups[0], data.classes)
    pieces = [
        {**_piece(data, data.rows, *answer), **_group_columns(of_groups, answer)}
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
    predict: Predictor,
    instances: Instances,
    groups: Sequence[Groups],
    classes: Sequence[str],
    bags: BagReading | None,
) -> Columns:
    """For each instance what its group is, where each instance is in one group."""
    if (
        bags is None
        or len(groups) != 1
        or not torch.equal(groups[0].indices.sort().values, torch.arange(len(instances)))
    ):
        return {}
    place = groups[0].indices.argsort()
    owner = torch.repeat_interleave(torch.arange(len(groups[0])), groups[0].lengths)[place].numpy()
    found = {name: column[owner] for name, column in bags.columns(predict, instances, groups[0], classes).items()}
    if not predict.method.has_attention:
        return found
    weights = predict.attention(instances, groups[0])[place].numpy()
    return {**found, **({"attention": weights} if weights.ndim == 1 else _columns_of_attention(weights, classes))}


def _columns_of_attention(weights: Any, classes: Sequence[str]) -> Columns:
    return {f"attention({name})": weights[:, number] for number, name in enumerate(classes)}


def _group_columns(of_groups: Columns, answer: tuple[int, Tensor, Tensor, Posterior]) -> Columns:
    """For each row what its whole group is."""
    _, groups, _, posterior = answer
    rows = groups.repeat_interleave(posterior.lengths).numpy()
    return {name: column[rows] for name, column in of_groups.items()}


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


def _columns(probs: Tensor, classes: Sequence[str]) -> Columns:
    return {f"p({name})": probs[:, number].numpy() for number, name in enumerate(classes)}
