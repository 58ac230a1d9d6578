"""Kinds by name: those of this package, of installed packages, and of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._plugins import find
from glws.errors import DataError
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._columns import KindRequest
from glws.kinds._confidence_difference import ConfidenceDifference
from glws.kinds._constraints import Constraints
from glws.kinds._labels import Labels
from glws.kinds._multi_instance import MultiInstance
from glws.kinds._noise import LearnsNoise, asked_noise
from glws.kinds._noisy_labels import NoisyLabels
from glws.kinds._noisy_proportions import NoisyProportions
from glws.kinds._pair_comparison import PairComparison
from glws.kinds._pair_similarity import PairSimilarity
from glws.kinds._partial_labels import PartialLabels
from glws.kinds._positive_confidence import PositiveConfidence
from glws.kinds._positive_unlabeled import PositiveUnlabeled
from glws.kinds._proportions import Proportions
from glws.kinds._similar_dissimilar_unlabeled import SimilarDissimilarUnlabeled
from glws.kinds._similarity_confidence import SimilarityConfidence
from glws.kinds._soft_labels import SoftLabels
from glws.kinds._sums import Sums
from glws.kinds._triplets import Triplets
from glws.kinds._unlabeled import Unlabeled
from glws.kinds._unlabeled_unlabeled import UnlabeledUnlabeled
from glws.kinds._votes import Votes

Kind = type[AbstractSupervision]

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Labels,
        PartialLabels,
        SoftLabels,
        PositiveConfidence,
        NoisyLabels,
        MultiInstance,
        Proportions,
        NoisyProportions,
        PairComparison,
        PairSimilarity,
        SimilarityConfidence,
        ConfidenceDifference,
        Unlabeled,
        PositiveUnlabeled,
        UnlabeledUnlabeled,
        SimilarDissimilarUnlabeled,
        Triplets,
        Sums,
        Constraints,
        Votes,
    )
}
"""The kinds of this package that columns can give, by the name that a description gives."""


ELSEWHERE = {
    "class_counts": "kind: proportions with weak: {counts: [...]}, a column with the count of each class",
    "present_classes": "kind: multi_instance with weak: {classes: ...}, a column with the set of classes that occur",
    "noisy_candidates": "kind: partial_labels with options: {miss_rate: ...}",
    "unlabeled_classes": "kind: labels for the rows with labels, and kind: unlabeled for sets of the others",
    "expected_count": "kind: unlabeled with the share of the class",
}
"""Classes in Python that columns give under the name of another kind."""


def find_kind(name: str, allow_code: bool = False) -> Kind:
    """The kind of this name; with `allow_code` also a class of the user's own, as `package.module:Class`.

    >>> find_kind("proportions").columns[0]
    {'count': 'count'}
    """
    if name in ELSEWHERE:
        raise DataError(f"no kind of weak label is called {name!r}; say {ELSEWHERE[name]}")
    found: Any = find("glws.kinds", name, KINDS, allow_code)
    if not (isinstance(found, type) and issubclass(found, AbstractSupervision)):
        what = found.__name__ if isinstance(found, type) else type(found).__name__
        raise DataError(f"{name!r} is no kind of weak label: expected a subclass of AbstractSupervision, found {what}")
    return found


def kind_from_columns(
    kind: Kind,
    weak: Mapping[str, NDArray[Any]],
    classes: tuple[str, ...],
    lengths: NDArray[np.int64],
    options: Mapping[str, Any],
) -> AbstractSupervision:
    """The weak labels; what the kind refuses, options of a wrong type included, is a `DataError`."""
    values, prior = asked_noise(kind, options, len(classes))
    try:
        made = kind.from_columns(KindRequest(weak, classes, lengths, values))
    except TypeError as error:
        given = f"the options {dict(options)} do not fit" if options else f"{kind.__name__}.from_columns"
        raise DataError(f"{given}: {error}") from error
    return made.learning(prior) if prior is not None and isinstance(made, LearnsNoise) else made
