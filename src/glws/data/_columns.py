"""Checks of single columns: values lost in rounding, constant features, labels among the features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws.data._scaling import Scaling, scaled
from glws.kinds import is_class

if TYPE_CHECKING:
    from glws.data.tables._description import Description
    from glws.data.tables._table import Table

ROWS_LOOKED_AT = 4096
"""Distinct values are counted in this many evenly spaced rows; with more, float32 loses a few of any column."""
TOLERATED = 0.01
"""The share of distinct values that rounding may lose without a remark."""
NAMED = 5


def column_remarks(table: Table, about: Description) -> list[str]:
    """A line for each problem with the feature columns of a table as they will be used."""
    if not table.feature_names or table.shard is not None:
        return []
    values = np.asarray(table.features)
    names = table.feature_names if table.schema is None else table.schema.coded_names
    lost = lost_values(values, table.scaling(), names) if table.schema is None else []
    return [*lost, *_constant(values, names), *_listed(about), *_equal(table, values, names, about)]


def lost_values(features: NDArray[Any], scaling: Scaling | None, names: Sequence[str]) -> list[str]:
    """A line about columns with fewer distinct values in float32, standardized if there is a `scaling`.

    >>> lost_values(1.7e9 + np.arange(1200.0)[:, None] / 10, None, ["time"])
    ['column time keeps 2 of its 1,200 distinct values when rounded to float32: standardize it, or subtract an offset']
    """
    some = features[:: -(-len(features) // ROWS_LOOKED_AT) or 1]
    before, after = _num_distinct(some), _num_distinct(scaled(some, scaling).numpy())
    lost = np.flatnonzero(before - after > TOLERATED * before)
    if not len(lost):
        return []
    first = int(lost[0])
    kept = f"{after[first]:,} of its {before[first]:,} distinct values"
    if scaling is None:
        reason = "when rounded to float32: standardize it, or subtract an offset"
    else:
        reason = "when standardized in float32: its range is too wide; clip what lies far out, or take the logarithm"
    also = f" (also {_named([names[each] for each in lost[1:].tolist()])})" if len(lost) > 1 else ""
    return [f"column {names[first]} keeps {kept} {reason}{also}"]


def _num_distinct(values: NDArray[Any]) -> NDArray[np.int64]:
    """Number of distinct values of each column."""
    ordered = np.sort(values, axis=0)
    return np.asarray((ordered[1:] != ordered[:-1]).sum(0) + min(len(values), 1))


def _constant(values: NDArray[Any], names: Sequence[str]) -> Iterator[str]:
    constant = np.flatnonzero(values.min(0) == values.max(0))
    if len(constant) and len(values) > 1:
        what = "columns hold" if len(constant) > 1 else "column holds"
        named = _named([names[each] for each in constant.tolist()])
        yield f"{len(constant):,} feature {what} one value in all rows ({named})"


def _listed(about: Description) -> Iterator[str]:
    """Feature columns that the description also uses as a group or a weak label."""
    for block in about.blocks:
        for name in block.columns:
            if name in about.features:
                what = "group" if name == block.group else "weak label"
                yield f"column {name} is a feature and the {what} of {block.kind}: leave it out of the features"


def _equal(table: Table, values: NDArray[Any], names: Sequence[str], about: Description) -> Iterator[str]:
    """Feature columns that repeat the true label or a weak label."""
    answers = list(_answers(table, about))
    for number, name in enumerate(names):
        for answer in answers:
            if answer.is_repeated_by(values[answer.rows, number]):
                yield f"column {name} {answer.words}: leave it out of the features"


class _Answer(NamedTuple):
    """A column that is to be learned: its rows with a value, and the number of each value.

    `values` are the distinct values, and `first` is the place of one occurrence of each. Class numbers may have other
    names in a column that repeats them (`is_class`), everything else has its own values.
    """

    words: str
    rows: NDArray[np.int64]
    values: NDArray[Any]
    first: NDArray[np.int64]
    places: NDArray[np.int64]
    is_class: bool

    @classmethod
    def of(cls, words: str, rows: NDArray[np.int64], values: NDArray[Any], is_class: bool) -> _Answer:
        """The answer of these rows and values; class -1 is no label."""
        has_value = values >= 0 if is_class else np.ones(len(values), bool)
        return cls(
            words, rows[has_value], *np.unique(values[has_value], return_index=True, return_inverse=True), is_class
        )

    def is_repeated_by(self, column: NDArray[Any]) -> bool:
        """Whether a column determines at least two values one to one (and equals them unless `is_class`)."""
        column_values = column[self.first]
        if len(column_values) < 2 or not np.array_equal(column, column_values[self.places]):
            return False
        return (
            len(np.unique(column_values)) == len(column_values)
            if self.is_class
            else np.array_equal(column_values, self.values)
        )


def _answers(table: Table, about: Description) -> Iterator[_Answer]:
    if table.labels is not None:
        yield _Answer.of(f"reveals the true label ({about.label})", np.arange(len(table)), table.labels, True)
    for block, described in zip(table.blocks, about.blocks, strict=True):
        for name, values in block.weak.items():
            if not isinstance(values, np.ndarray):  # joined votes
                continue
            if values.ndim == 1 and values.dtype.kind in "iuf" and described.weak[name] not in about.features:
                repeated = np.repeat(values, block.lengths)
                words = f"repeats the weak label {name} of {block.kind}"
                yield _Answer.of(words, block.members, repeated, is_class(block.reads[name]))


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
