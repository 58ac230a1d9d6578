"""Features as people pass them: arrays, sparse matrices, and tables of several types; as each learner takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import diags_array, issparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from glws.data import (
    Coded,
    EncodedInstances,
    Scaling,
    Schema,
    frame_features,
    is_frame,
    scaling_of,
    schema_scaling,
)
from glws.errors import DataError

Array = NDArray[np.float64]
CATEGORICAL = "categorical_features"
"""The parameter by which an estimator of scikit-learn is given the columns that are categories."""


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows of a table with categories, dates, texts or empty cells, coded by their schema."""

    schema: Schema
    coded: Coded

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and features as the table has them."""
        return len(self.coded), len(self.schema.feature_names)

    def for_network(self, scaling: Scaling | None) -> EncodedInstances:
        """What a network learns from: encoded when it is taken."""
        return EncodedInstances(self.schema, self.coded, scaling)

    def scaling(self) -> dict[str, torch.Tensor]:
        """Mean and spread of the encoded numbers."""
        return schema_scaling(self.schema, self.coded)

    def for_estimator(self, estimator: Any, scaling: Scaling | None) -> Array:
        """What a classifier of scikit-learn learns from: codes and NaN where it takes them, else encoded columns."""
        if not takes_categories(estimator):
            encoded = np.asarray(self.schema.encoded(self.coded), np.float64)
            return encoded if scaling is None else (encoded - scaling["mean"].numpy()) / scaling["spread"].numpy()
        texts = [] if self.coded.texts is None else [self.coded.texts.toarray()]
        return np.column_stack([self.coded.matrix, *texts]).astype(np.float64)

    def naming_categories(self, estimator: Any) -> Any:
        """The estimator with its categorical columns named, unless its user has named them."""
        if not takes_categories(estimator) or estimator.get_params()[CATEGORICAL] not in (None, "from_dtype"):
            return estimator
        width = 0 if self.coded.texts is None else self.coded.texts.shape[1]
        mask = np.append(self.schema.is_category, np.zeros(width, bool))
        return clone(estimator).set_params(**{CATEGORICAL: mask if mask.any() else None})


def takes_categories(estimator: Any) -> bool:
    """Whether an estimator takes codes of categories and empty cells as they are.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> takes_categories(HistGradientBoostingClassifier()), takes_categories(LogisticRegression())
    (True, False)
    """
    return hasattr(estimator, "get_params") and CATEGORICAL in estimator.get_params()


def as_frame(X: Any, schema: Schema | None) -> Any:
    """The table that X is, or that an array of texts or with empty cells stands for; None for plain numbers.

    With the `schema` of an earlier table everything is a table.
    """
    if is_frame(X):
        return X if schema is not None or isinstance(X, Mapping) or not _holds_numbers(X) else None
    if schema is None and not _has_words(X):
        return None
    values = np.asarray(X, object) if not isinstance(X, np.ndarray) else X
    names = schema.feature_names if schema is not None else [f"x{number}" for number in range(values.shape[1])]
    if values.ndim != 2 or values.shape[1] != len(names):
        raise DataError(f"X must have the {len(names)} columns that were learned from, found shape {values.shape}")
    return {name: values[:, place].tolist() for place, name in enumerate(names)}


def mixed_rows(frame: Any, columns: Mapping[str, Any], schema: Schema | None) -> MixedRows:
    """The rows of a table, by the schema of those that were learned from, if there is one."""
    return MixedRows(*frame_features(frame, columns, schema))


def _holds_numbers(frame: Any) -> bool:
    """Whether a DataFrame of pandas or polars holds numbers only, which scikit-learn reads as they are."""
    if not hasattr(frame, "__array__"):
        return False
    try:
        values = np.asarray(frame)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind in "biu" or (values.dtype.kind == "f" and not np.isnan(values).any())


def _has_words(X: Any) -> bool:
    """Whether it is a matrix of single values, some of them texts or empty cells among texts."""
    if hasattr(X, "toarray") or isinstance(X, torch.Tensor):
        return False
    try:
        values = X if isinstance(X, np.ndarray) else np.array(X, object)
    except ValueError:
        return False
    if values.ndim != 2 or values.dtype.kind not in "OU":
        return False
    cells = values.ravel().tolist()
    return any(isinstance(cell, str) for cell in cells) and all(
        cell is None or isinstance(cell, str | int | float | np.number) for cell in cells
    )


class Standardizer(NamedTuple):
    """What is subtracted from each feature and what it is divided by, in float64; None changes nothing."""

    mean: Array | None = None
    spread: Array | None = None

    @classmethod
    def of(cls, features: Any) -> Standardizer:
        """Of these features: those of a sparse matrix keep their zeros, NaN is no value."""
        if isinstance(features, MixedRows):
            scaling = features.scaling()
        elif issparse(features):
            return cls(np.zeros(features.shape[1]), StandardScaler(with_mean=False).fit(features).scale_)
        else:
            scaling = scaling_of(features, features[0], len(features))
        return cls.from_scaling(scaling)

    @classmethod
    def from_scaling(cls, scaling: Scaling | None) -> Standardizer:
        """The same as arrays."""
        return cls() if scaling is None else cls(scaling["mean"].numpy(), scaling["spread"].numpy())

    def as_scaling(self) -> Scaling | None:
        """The same as tensors; None for one that changes nothing."""
        if self.mean is None or self.spread is None:
            return None
        return {"mean": torch.from_numpy(self.mean), "spread": torch.from_numpy(self.spread)}

    def transform(self, features: Any) -> Any:
        """Features less their mean, in units of their spread."""
        if isinstance(features, MixedRows):
            return features.for_network(self.as_scaling())
        if self.mean is None or self.spread is None:
            return features
        if issparse(features):
            return (features @ diags_array(1 / self.spread)).tocsr()
        return (features - self.mean) / self.spread


def for_starting_network(features: Any) -> Any:
    """What the network learns from that an EM with a base estimator starts with: standardized, gaps at the mean."""
    if isinstance(features, MixedRows):
        return features.for_network(features.scaling())
    found = StandardScaler(with_mean=not issparse(features)).fit_transform(features)
    return found if issparse(found) else np.nan_to_num(np.asarray(found, np.float64))


def dense(features: Any, rows: Any) -> Array:
    """Some rows as plain numbers: encoded, gaps as 0, sparse rows written out."""
    if isinstance(features, MixedRows):
        return np.asarray(features.schema.encoded(features.coded[rows]), np.float64)
    found = features[rows]
    return np.nan_to_num(np.asarray(found.toarray() if issparse(found) else found, np.float64))


def written_out(features: Any) -> Array:
    """All rows as plain numbers, for learners that take nothing else; an array as it is."""
    return features if isinstance(features, np.ndarray) else dense(features, slice(None))
