"""The kinds of weak labels that a table can hold: the columns each needs, and the class it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glws import kinds as supervision
from glws.data.tables._cells import ClassNames
from glws.errors import DataError
from glws.kinds import AbstractSupervision

Weak = Mapping[str, NDArray[Any]]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class KindRequest:
    """What a kind is made from: its weak values, the classes, the groups' lengths, the options that were given."""

    weak: Weak
    classes: tuple[str, ...]
    lengths: NDArray[np.int64]
    options: Options

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    def counted(self) -> dict[str, Any]:
        """The arguments of a kind that counts: which classes, by number, and of how many; and the other options."""
        others = {name: value for name, value in self.options.items() if name != "counted"}
        if "counted" not in self.options and self.num_classes != 2:
            raise DataError(f"with {self.num_classes} classes say which is counted: options: {{counted: name}}")
        chosen = self.options.get("counted", self.classes[1])
        names = chosen if isinstance(chosen, list | tuple) else [chosen]
        return {"counted": [self._number(name) for name in names], "num_classes": self.num_classes, **others}

    def _number(self, name: Any) -> int:
        known = ClassNames(self.classes)
        if known.number(name) < 0:
            raise DataError(f"option counted: {known.complaint(name)}")
        return known.number(name)


@dataclass(frozen=True)
class Kind:
    """A kind in a table. `forms` are the sets of weak values it can be given by, and how each is read."""

    forms: tuple[dict[str, str], ...]
    build: Callable[[KindRequest], AbstractSupervision]
    options: tuple[str, ...] = ()

    def make(
        self, weak: Weak, classes: tuple[str, ...], lengths: NDArray[np.int64], options: Options
    ) -> AbstractSupervision:
        """The weak labels; what the kind refuses, options of a wrong type included, is a `DataError`."""
        try:
            return self.build(KindRequest(weak, classes, lengths, options))
        except TypeError as error:
            raise DataError(f"the options {dict(options)} do not fit: {error}") from error


def _partial(asked: KindRequest) -> AbstractSupervision:
    if "excluded" in asked.weak:
        return supervision.PartialLabels.complementary(asked.weak["excluded"], asked.num_classes, **asked.options)
    return supervision.PartialLabels.of(asked.weak["candidates"], **asked.options)


def _noisy_labels(asked: KindRequest) -> AbstractSupervision:
    if "rate" in asked.options:
        return supervision.NoisyLabels.symmetric(asked.weak["label"], asked.num_classes, float(asked.options["rate"]))
    if "transition" not in asked.options:
        raise DataError("noisy_labels needs options: {rate: 0.1}, or a matrix {transition: [[...], ...]}")
    return supervision.NoisyLabels.of(asked.weak["label"], asked.options["transition"])


def _multi_instance(asked: KindRequest) -> AbstractSupervision:
    if "classes" in asked.weak:
        return supervision.PresentClasses.of(asked.weak["classes"], **asked.options)
    return supervision.MultiInstance.of(asked.weak["present"], **asked.counted())


def _proportions(asked: KindRequest) -> AbstractSupervision:
    weak = asked.weak
    if "counts" in weak:
        return supervision.ClassCounts.of(weak["counts"])
    if "share" in weak:
        return supervision.Proportions.of(_whole_counts(weak["share"], asked.lengths), **asked.counted())
    if "low" in weak:
        return supervision.Proportions.between(weak["low"], weak["high"], **asked.counted())
    if "within" in asked.options:
        return supervision.Proportions.around(weak["count"], **asked.counted())
    return supervision.Proportions.of(weak["count"], **asked.counted())


def _whole_counts(shares: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Counts from shares that were rounded to two decimals or better; a share that is no whole count is refused."""
    exact = shares * lengths
    allowed = np.where(lengths <= 100, np.maximum(0.005 * lengths, 0.05), 0.05) + 1e-9
    wrong = np.flatnonzero(np.abs(exact - np.round(exact)) > allowed)
    if len(wrong):
        group = wrong[0]
        raise DataError(f"group {group}: a share of {shares[group]:g} of {lengths[group]} instances is no whole number")
    return np.asarray(np.round(exact))


def _noisy_proportions(asked: KindRequest) -> AbstractSupervision:
    if "scale" not in asked.options:
        raise DataError("noisy_proportions needs options: {scale: 1.0}")
    return supervision.NoisyProportions.of(asked.weak["count"], **asked.counted())


def _comparison(asked: KindRequest) -> AbstractSupervision:
    winner = asked.weak.get("winner", np.zeros(len(asked.lengths), np.int64))
    return supervision.PairComparison.of(winner, asked.num_classes, **asked.options)


def _constraints(asked: KindRequest) -> AbstractSupervision:
    names: Any = asked.num_classes if asked.classes[0] == "0" else asked.classes
    return supervision.Constraints.of([str(text) for text in asked.weak["constraint"]], names)


KINDS: dict[str, Kind] = {
    "labels": Kind(
        ({"label": "class or none"},),
        lambda asked: supervision.Labels(torch.as_tensor(asked.weak["label"]), asked.num_classes),
    ),
    "partial_labels": Kind(({"candidates": "set"}, {"excluded": "class"}), _partial, ("miss_rate",)),
    "soft_labels": Kind(
        ({"scores": "number of each class"},),
        lambda asked: supervision.SoftLabels.of(asked.weak["scores"], **asked.options),
        ("prior", "reading"),
    ),
    "positive_confidence": Kind(
        ({"confidence": "share"},),
        lambda asked: supervision.PositiveConfidence.of(asked.weak["confidence"], **asked.options),
        ("reading", "clip"),
    ),
    "noisy_labels": Kind(({"label": "class"},), _noisy_labels, ("rate", "transition")),
    "multi_instance": Kind(({"present": "flag"}, {"classes": "set"}), _multi_instance, ("counted", "flip", "share")),
    "proportions": Kind(
        ({"count": "count"}, {"share": "share"}, {"low": "count", "high": "count"}, {"counts": "count of each class"}),
        _proportions,
        ("counted", "within"),
    ),
    "noisy_proportions": Kind(({"count": "number"},), _noisy_proportions, ("counted", "scale", "kernel")),
    "pair_comparison": Kind(({}, {"winner": "first or second"}), _comparison, ("ties", "flip")),
    "pair_similarity": Kind(
        ({"same": "flag"},),
        lambda asked: supervision.PairSimilarity.of(asked.weak["same"], asked.num_classes, **asked.options),
        ("flip",),
    ),
    "similarity_confidence": Kind(
        ({"confidence": "share"},),
        lambda asked: supervision.SimilarityConfidence.of(asked.weak["confidence"], asked.num_classes, **asked.options),
        ("reading", "prior", "clip"),
    ),
    "confidence_difference": Kind(
        ({"difference": "signed"},),
        lambda asked: supervision.ConfidenceDifference.of(asked.weak["difference"], **asked.options),
        ("convention",),
    ),
    "unlabeled": Kind(
        ({"prior": "share"},),
        lambda asked: supervision.Unlabeled.of(asked.weak["prior"], **asked.counted()),
        ("counted", "count"),
    ),
    "triplets": Kind(
        ({"closer": "second or third"},),
        lambda asked: supervision.Triplets.of(asked.weak["closer"], asked.num_classes, **asked.options),
        ("flip",),
    ),
    "constraints": Kind(({"constraint": "text"},), _constraints),
}
"""By the name that a description gives."""
