"""What a report is made of: plain data about a run, with nothing of training in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from glws._reprs import short_repr
from glws.errors import DataError
from glws.evaluation import ReliabilityCurve

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]
Image = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class KnownPart:
    """One kind of weak labels: what it is called, how large its groups are, and a few of them in words.

    `group_sizes` [groups] has one entry for each group. `descriptions` are `weak.describe(group)` for some of
    them; `automaton_svg` is a drawing of one and `automaton_of` names its group.
    """

    __repr__ = short_repr

    kind: str
    group_sizes: Integers
    descriptions: tuple[str, ...] = ()
    automaton_svg: str | None = None
    automaton_of: str = ""

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return len(self.group_sizes)


@dataclass(frozen=True, eq=False)
class Instance:
    """One instance as the report shows it.

    `prediction` [classes] is what the model says, p_j(k); `posterior` [classes] what is believed given the weak label
    too, q_j(k). Shown is the `image` (uint8, [channels, height, width], one channel or three) or the `features`, value
    by name. `label` is the true class where somebody knows it; `name` may be a row, a file, a path.
    """

    __repr__ = short_repr

    prediction: Floats
    posterior: Floats | None = None
    image: Image | None = None
    features: Mapping[str, float | str] = field(default_factory=dict)
    label: int | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Example:
    """An instance and the weak label of its group, in words."""

    instance: Instance
    known: str = ""


@dataclass(frozen=True, eq=False)
class Surprise:
    """A group that the model finds unlikely: its number or name, its weak label, log p(w | x), and its instances.

    A log-likelihood of -inf means that the weak label is impossible under the predictions.
    """

    group: str
    known: str
    log_likelihood: float
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A section of your own for the page: a heading, paragraphs of plain text, and a table of names and values."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BagMap:
    """Where the instances of a bag are, colored by a value between 0 and 1: uint8 [3, height, width].

    `caption` is the weak label of the bag and the prediction for it.
    """

    __repr__ = short_repr

    group: str
    caption: str
    image: Image


@dataclass(frozen=True, eq=False)
class RunContent:
    """Everything the page of one run shows.

    `facts` are versions, seed, device and the like; `config` may be nested, its leaves are plain values. `learned_from`
    is what follows "Trained on" ("143 bags (0 labeled rows)"). `metrics` are the rows of the metrics log, the
    last one last: `epoch` and `step` say where, all other numbers are drawn as curves. `scores` and `weak_scores` are
    those of the last epoch (`glws.evaluation`, as dicts), None where they were not measured. `identifiability` is
    the result of `glws.identify` in words, empty if it was not asked. `confusion` [classes, classes] counts true
    classes in rows and predicted ones in columns. `maps` show where the instances of some bags are. `sections` are a
    user's own. What does not fit together raises `DataError`; NaN and infinite values are fine, a report must be able
    to show a run that went wrong.

    >>> RunContent("first", "glws train", {}, {}, ("cat", "dog"), confusion=np.eye(3))
    Traceback (most recent call last):
    glws.errors.DataError: run 'first': expected a confusion matrix of shape [2, 2] (2 classes), found [3, 3]
    """

    __repr__ = short_repr

    name: str
    command: str
    facts: Mapping[str, str]
    config: Mapping[str, object]
    classes: tuple[str, ...]
    known: tuple[KnownPart, ...] = ()
    learned_from: str = ""
    metrics: Sequence[Mapping[str, object]] = ()
    scores: Mapping[str, object] | None = None
    weak_scores: Mapping[str, object] | None = None
    confusion: Integers | Floats | None = None
    reliability: ReliabilityCurve | None = None
    examples: tuple[Example, ...] = ()
    surprising: tuple[Surprise, ...] = ()
    warnings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    identifiability: tuple[str, ...] = ()
    maps: tuple[BagMap, ...] = ()

    def __post_init__(self) -> None:
        classes = len(self.classes)
        if self.confusion is not None and self.confusion.shape != (classes, classes):
            raise DataError(
                f"run {self.name!r}: expected a confusion matrix of shape [{classes}, {classes}] ({classes} classes), "
                f"found {list(self.confusion.shape)}"
            )
        self._check_reliability()
        for part in self.known:
            if part.group_sizes.ndim != 1:
                raise DataError(
                    f"run {self.name!r}: group sizes of {part.kind} are [groups], found shape "
                    f"{list(part.group_sizes.shape)}"
                )
        for one in self.maps:
            _check_image(one.image, f"run {self.name!r}: map of {one.group}")
        for where, instance in self._instances():
            _check_instance(instance, classes, f"run {self.name!r}: {where}")

    def _check_reliability(self) -> None:
        curve = self.reliability
        if curve is None:
            return
        sizes = [array.shape for array in (curve.confidence, curve.accuracy, curve.count)]
        if len(set(sizes)) > 1 or len(sizes[0]) != 1:
            shapes = ", ".join(str(list(size)) for size in sizes)
            raise DataError(f"run {self.name!r}: confidence, accuracy and count must be [bins], found {shapes}")

    def _instances(self) -> list[tuple[str, Instance]]:
        """All instances, and where each is."""
        found = [(f"example {number}", example.instance) for number, example in enumerate(self.examples)]
        for surprise in self.surprising:
            members = enumerate(surprise.instances)
            found += [(f"group {surprise.group}, instance {number}", instance) for number, instance in members]
        return found


def _check_instance(instance: Instance, classes: int, where: str) -> None:
    for name, probs in (("prediction", instance.prediction), ("posterior", instance.posterior)):
        if probs is not None and probs.shape != (classes,):
            raise DataError(f"{where}: expected a {name} of shape [{classes}], found {list(probs.shape)}")
    if instance.label is not None and not 0 <= instance.label < classes:
        raise DataError(f"{where}: label {instance.label} is not one of 0..{classes - 1}; use None where it is unknown")
    if instance.image is not None:
        _check_image(instance.image, where)


def _check_image(image: Image, where: str) -> None:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3) or 0 in image.shape:
        raise DataError(
            f"{where}: expected an image as uint8 [channels, height, width] with 1 or 3 channels, "
            f"found {image.dtype} {list(image.shape)}"
        )
