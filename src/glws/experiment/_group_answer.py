"""`GroupAnswer`: the predictions and posteriors of a run for one group, and what decided it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._messages import hint
from glws._reprs import short_repr
from glws.data import Groups, WeakDataset, united
from glws.errors import DataError
from glws.experiment._bags import BagReading
from glws.experiment._data import ExperimentData
from glws.training import Predictor, log_probs_of

Floats = NDArray[np.float64]
PLACES = ("x", "y")
"""The id columns with the coordinates of an instance."""


@dataclass(frozen=True, eq=False)
class GroupAnswer:
    """A group: its weak label in words, the predictions for its instances, and their posterior given the label.

    `bag_label` and `bag_probability` are predicted for the whole group, where its kind has a `bag_rule`; `without` is
    the probability that the group would have without each instance. `watched` is the class whose probabilities are
    shown: the counted one. `attention` is that of methods with attention. `ids` name the instances.
    """

    __repr__ = short_repr

    group: str
    weak: str
    classes: tuple[str, ...]
    watched: tuple[int, ...]
    log_likelihood: float
    predictions: Floats
    posterior: Floats
    ids: Mapping[str, NDArray[Any]]
    bag_label: str | None = None
    bag_probability: float | None = None
    without: Floats | None = None
    attention: Floats | None = None

    @property
    def before(self) -> Floats:
        """The predicted probability of the watched classes for each instance."""
        return np.asarray(self.predictions[:, list(self.watched)].sum(1))

    @property
    def after(self) -> Floats:
        """The posterior probability of the watched classes for each instance."""
        return np.asarray(self.posterior[:, list(self.watched)].sum(1))

    @property
    def coords(self) -> Floats | None:
        """Where the instances are, [instances, 2], where their ids tell it in numbers."""
        known = [np.asarray(self.ids[name]) for name in PLACES if name in self.ids]
        if len(known) < len(PLACES) or any(column.dtype.kind not in "iuf" for column in known):
            return None
        places = np.stack(known, 1).astype(np.float64)
        return None if np.isnan(places).any() else places

    @property
    def order(self) -> NDArray[np.int64]:
        """The instances by how much they decide: by attention, by what is lost without them, or by their posterior."""
        weight = self.attention
        if weight is None:
            weight = self.after if self.without is None else self.after - self.without
        return np.argsort(-weight, kind="stable")

    def name(self, place: int) -> str:
        """What an instance is called: its ids, or its place in the group."""
        shown = [f"{name} {self.ids[name][place]}" for name in self.ids if name not in PLACES]
        return ", ".join(shown) or f"instance {place + 1}"


def find_group(data: ExperimentData, name: str) -> tuple[int, int]:
    """The kind and the number of the group of this name; `DataError` with the nearest name if there is none."""
    names = data.group_names or tuple(np.arange(len(groups)) for groups in data.whole.groups)
    for kind, known in enumerate(names):
        found = [number for number, one in enumerate(known) if str(one) == name]
        if found:
            return kind, found[0]
    every = [str(one) for known in names for one in known]
    raise DataError(f"there is no group {name!r} in the data; {hint(name, every, '{}', 'there are')}")


def group_answer(data: ExperimentData, predict: Predictor, name: str, bags: BagReading | None) -> GroupAnswer:
    """The predictions and the posterior of the group of this name."""
    kind, number = find_group(data, name)
    members = data.whole.groups[kind][number].indices
    if not len(members):
        raise DataError(f"group {name} has no instances")
    log_probs = _in_order(data.whole, predict, members)
    weak, lengths = data.whole.weak[kind][[number]], torch.tensor([len(members)])
    rows = united(data.whole).evidence
    evidence = None if rows is None or weak.is_evidence else rows[members][None]
    answer = weak.infer(log_probs[None], lengths, evidence)
    made = GroupAnswer(
        group=name,
        weak=weak.describe(0, data.classes),
        classes=data.classes,
        watched=bags.rule.sets[0] if bags is not None and len(bags.rule.sets) == 1 else (len(data.classes) - 1,),
        log_likelihood=float(answer.log_likelihood[0]),
        predictions=log_probs.exp().numpy(),
        posterior=answer.marginals[0].numpy(),
        ids={key: np.asarray(column)[members.numpy()] for key, column in data.ids.items()},
    )
    return made if bags is None else _with_bag(made, data, predict, members, log_probs, bags)


def _in_order(data: WeakDataset, predict: Predictor, members: Tensor) -> Tensor:
    """Log-probabilities of the members, each instance predicted once."""
    numbers, places = torch.unique(members, return_inverse=True)
    return log_probs_of(data.instances, predict, None, numbers).double()[places]


def _with_bag(
    made: GroupAnswer, data: ExperimentData, predict: Predictor, members: Tensor, log_probs: Tensor, bags: BagReading
) -> GroupAnswer:
    group = Groups.of([members.tolist()])
    odds = bags.log_odds(predict, data.whole.instances, group)
    attention = predict.attention(data.whole.instances, group).numpy() if predict.method.has_attention else None
    made = replace(made, bag_label=str(bags.labels(odds, data.classes)[0]))
    if len(bags.rule.sets) > 1:
        return made
    without = None
    if attention is None:
        left = bags.rule.without_each(log_probs)
        without = (left if bags.calibration is None else bags.calibration(left)).sigmoid().numpy()
    return replace(made, bag_probability=float(odds[0, 0].sigmoid()), without=without, attention=attention)
