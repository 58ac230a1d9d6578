"""Tables of predictions and of posterior labels: a row for each instance, the same for every way to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._aliases import Report
from glws.data import Groups, Instances, Scaling, Table, WeakDataset
from glws.errors import DataError
from glws.evaluation import balanced_posterior
from glws.experiment._bags import BagReading
from glws.experiment._data import ExperimentData
from glws.inference import Posterior
from glws.training import Predictions, Predictor, posteriors_given

ERROR = "approximation_error"

OWN_NAMES = ("row", "kind", "group", "prediction", "label", "joint_label", "entropy", "log_likelihood", ERROR)
"""Columns that predictions and labels have besides probabilities."""

Columns = dict[str, Any]
"""A table as arrays of numpy: names and columns of one length."""


@dataclass(frozen=True, eq=False)
class AskedRows:
    """What is asked about: instances, their groups of each kind, and what rows and groups are called.

    `data` has the weak labels too, where posteriors are asked for.
    """

    instances: Instances
    groups: tuple[Groups, ...]
    rows: NDArray[np.int64]
    ids: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    group_names: tuple[Any, ...] = ()
    data: WeakDataset | None = None

    @classmethod
    def of_data(cls, data: ExperimentData) -> AskedRows:
        """All instances of an experiment."""
        whole = data.whole
        return cls(whole.instances, whole.groups, data.rows, data.ids, data.group_names, whole)

    @classmethod
    def of_table(cls, table: Table, scaling: Scaling | None) -> AskedRows:
        """The rows of a table, whatever its weak labels are."""
        return cls(table.instances(scaling), tuple(table.groups()), table.places, table.ids)


def prediction_table(
    predict: Predictor, asked: AskedRows, classes: Sequence[str], bags: BagReading | None = None
) -> Any:
    """For each instance its ids, its most likely class and the probability of every class, in the order of the file.

    Of a training that was given the shares of the classes, the class is the best one for balanced accuracy, as in its
    scores. With `bags`, `group_label` and `group_p(...)` say what the group of the row is, and `attention` how much the
    row counts in that for methods with attention, if each row is in one group. `row` is the place in the file, the
    first being 0. The table is one of pyarrow.
    """
    import pyarrow

    known = Predictions.of_all(asked.instances, predict)
    log_probs = known.log_probs.double()
    columns = {"row": asked.rows, **_id_columns(asked.ids), "label": _best(predict, log_probs, classes)}
    columns |= _probabilities(log_probs.exp(), classes)
    columns |= _columns_of_own_group(predict, asked, classes, bags, known)
    table = pyarrow.table({name: _arrow(column) for name, column in columns.items()})
    order = np.argsort(asked.rows, kind="stable")
    return table if (order[1:] > order[:-1]).all() else table.take(order)


def label_table(predict: Predictor, asked: AskedRows, classes: Sequence[str], bags: BagReading | None = None) -> Any:
    """For each instance of each group: the posterior given network and weak label, and what it makes of the group.

    `prediction` is the class that the network alone predicts, `label` the most likely class of the instance given the
    weak label too, `joint_label` its class in the most likely labeling of the whole group, `entropy` that of its
    posterior in nats, `log_likelihood` that of the group's weak label, `p(...)` the posterior. With `bags`,
    `group_label` and `group_p(...)` are predicted for the group, ignoring its weak label.
    Where the predictions rule out the weak label there is no label, and the posterior is 0. `row` is the place in the
    file, the first being 0. `approximation_error` estimates how far the posteriors of the group may be off; it is 0
    where they are exact. The table is one of pyarrow.
    """
    import pyarrow

    data = asked.data
    assert data is not None, "there are weak labels"
    known = Predictions.of_members(data, predict)
    of_groups = {} if bags is None else bags.columns(predict, data.instances, data.groups[0], classes, known)
    pieces: dict[int, list[_Answers]] = {}
    for kind, groups, members, answer in posteriors_given(data, known):
        pieces.setdefault(kind, []).append(_Answers.of(groups, members, answer))
    if not pieces:
        raise DataError("there are no groups to label")
    best = _best(predict, known.log_probs.double(), classes)
    tables = []
    for kind, answers in pieces.items():
        found = _Answers.joined(answers)
        codes = best.codes[known.places(torch.from_numpy(found.members)).numpy()]
        columns = _label_columns(asked, kind, found, classes)
        columns["prediction"] = _Words(codes, best.words)
        columns |= {name: _taken(column, found.groups) for name, column in of_groups.items()}
        tables.append(pyarrow.table({name: _arrow(column) for name, column in columns.items()}))
    return pyarrow.concat_tables(tables)


@dataclass(frozen=True, eq=False)
class _Words:
    """A column of few distinct texts: the number of that of each row."""

    codes: NDArray[np.integer[Any]]
    words: Sequence[str]


@dataclass(frozen=True, eq=False)
class _Answers:
    """The posteriors of some groups of a kind, a row for each member."""

    members: NDArray[np.int64]
    groups: NDArray[np.int64]
    labels: NDArray[np.int64]
    joint: NDArray[np.int64]
    marginals: NDArray[np.float64]
    log_likelihood: NDArray[np.float64]
    error: NDArray[np.float64]

    @classmethod
    def of(cls, groups: Tensor, members: Tensor, answer: Posterior) -> _Answers:
        real = torch.arange(members.shape[1]) < answer.lengths[:, None]
        error = torch.zeros(len(groups)).double() if answer.error is None else answer.error.double()
        single = torch.where(answer.impossible[:, None], -1, answer.marginals.argmax(2))
        times = answer.lengths
        return cls(
            members[real].numpy(),
            groups.repeat_interleave(times).numpy(),
            single[real].numpy(),
            answer.mode()[real].numpy(),
            answer.marginals[real].double().numpy(),
            answer.log_likelihood.double().repeat_interleave(times).numpy(),
            error.repeat_interleave(times).numpy(),
        )

    @classmethod
    def joined(cls, pieces: Sequence[_Answers]) -> _Answers:
        return cls(*(np.concatenate(columns) for columns in zip(*(vars(piece).values() for piece in pieces),
                                                                strict=True)))  # fmt: skip


def _label_columns(asked: AskedRows, kind: int, found: _Answers, classes: Sequence[str]) -> Columns:
    """The columns of a kind in order; the predictions are filled in later."""
    assert asked.data is not None
    weak, words = asked.data.weak[kind], [*classes, ""]
    return {
        "row": asked.rows[found.members],
        **_id_columns({name: values[found.members] for name, values in asked.ids.items()}),
        "kind": _Words(np.zeros(len(found.members), np.int8), [type(weak).__name__]),
        "group": _Words(found.groups.astype(np.int32), _group_names(asked, kind, len(weak))),
        "prediction": None,
        "label": _Words(found.labels, words),
        "joint_label": _Words(found.joint, words),
        "entropy": torch.special.entr(torch.from_numpy(found.marginals)).sum(1).numpy(),
        "log_likelihood": found.log_likelihood,
        ERROR: found.error,
        **_probabilities(torch.from_numpy(found.marginals), classes),
    }


def _group_names(asked: AskedRows, kind: int, number: int) -> Any:
    """The names of the groups as texts."""
    import pyarrow

    names = asked.group_names[kind] if asked.group_names else np.arange(number)
    if isinstance(names, np.ndarray) and names.dtype.kind in "iu":
        return pyarrow.array(names).cast(pyarrow.string())
    return pyarrow.array([str(name) for name in names], pyarrow.string())


def _best(predict: Predictor, log_probs: Tensor, classes: Sequence[str]) -> _Words:
    """The class that is predicted for each instance."""
    return _Words(balanced_posterior(log_probs, predict.config.shares).argmax(1).numpy(), list(classes))


def _columns_of_own_group(
    predict: Predictor, asked: AskedRows, classes: Sequence[str], bags: BagReading | None, known: Predictions
) -> Columns:
    """For each instance what its group is, where each instance is in one group."""
    instances, groups = asked.instances, asked.groups
    if (
        bags is None
        or len(groups) != 1
        or not torch.equal(groups[0].indices.sort().values, torch.arange(len(instances)))
    ):
        return {}
    place = groups[0].indices.argsort()
    owner = torch.repeat_interleave(torch.arange(len(groups[0])), groups[0].lengths)[place].numpy()
    of_groups = bags.columns(predict, instances, groups[0], classes, known)
    found = {name: _taken(column, owner) for name, column in of_groups.items()}
    if not predict.method.has_attention:
        return found
    weights = predict.attention(instances, groups[0])[place].numpy()
    return {**found, **({"attention": weights} if weights.ndim == 1 else _columns_of_attention(weights, classes))}


def _columns_of_attention(weights: Any, classes: Sequence[str]) -> Columns:
    return {f"attention({name})": weights[:, number] for number, name in enumerate(classes)}


def _taken(column: NDArray[Any], owners: NDArray[np.int64]) -> Any:
    """What groups are, for each row; texts once."""
    return column[owners] if column.dtype.kind not in "OU" else _Words(owners, column.tolist())


def _id_columns(ids: Mapping[str, Any]) -> Columns:
    """The id columns, so that outputs can be joined with other tables; one called like an output is renamed."""
    return {f"{name} (id)" if name in OWN_NAMES else name: values for name, values in ids.items()}


def _probabilities(probs: Tensor, classes: Sequence[str]) -> Columns:
    return {f"p({name})": probs[:, number].numpy() for number, name in enumerate(classes)}


def _arrow(column: Any) -> Any:
    """A column of pyarrow; of texts the places of their words, -1 being the last."""
    import pyarrow

    if not isinstance(column, _Words):
        return pyarrow.array(column)
    words = column.words if isinstance(column.words, pyarrow.Array) else pyarrow.array(column.words, pyarrow.string())
    codes = np.where(column.codes < 0, len(words) - 1, column.codes).astype(np.int32)
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), words)


def with_plain_texts(table: Any) -> Any:
    """The same table with its texts written out."""
    import pyarrow

    for place, kind in enumerate(table.schema.types):
        if pyarrow.types.is_dictionary(kind):
            table = table.set_column(place, table.column_names[place], table.column(place).cast(pyarrow.string()))
    return table


def as_columns(table: Any) -> Columns:
    """A table of pyarrow as arrays of numpy."""
    plain = with_plain_texts(table)
    found = {name: plain[name].to_numpy() for name in plain.column_names}
    return {name: np.asarray(column.tolist()) if column.dtype == object else column for name, column in found.items()}


@dataclass
class Approximations:
    """How many rows of label tables have approximate posteriors, and how far these may be off."""

    rows: int = 0
    approximate: int = 0
    largest: float = 0.0
    unlabeled: int = 0

    def add(self, table: Any) -> Approximations:
        """Counts the rows of a table of labels."""
        import pyarrow

        errors = table[ERROR].to_numpy()
        self.rows += len(errors)
        self.approximate += int((errors > 0).sum())
        self.largest = max(self.largest, float(errors.max(initial=0.0)))
        labels = table["label"].combine_chunks()
        chunks = labels.chunks if isinstance(labels, pyarrow.ChunkedArray) else [labels]
        self.unlabeled += sum(_empty(chunk) for chunk in chunks)
        return self

    def merge(self, other: Approximations) -> None:
        """Adds those of another process."""
        self.rows, self.approximate = self.rows + other.rows, self.approximate + other.approximate
        self.largest, self.unlabeled = max(self.largest, other.largest), self.unlabeled + other.unlabeled

    def report(self, report: Report) -> None:
        """Says so where some posteriors are not exact."""
        if self.approximate:
            report(
                f"the posteriors of {self.approximate:,} of {self.rows:,} rows are approximate and may be off by up to "
                f"{self.largest:.2g} (estimate): see the column {ERROR}"
            )


def _empty(column: Any) -> int:
    """How many texts of a dictionary column are empty."""
    empty = [place for place, word in enumerate(column.dictionary.to_pylist()) if not word]
    return int(np.isin(column.indices.to_numpy(), empty).sum())
