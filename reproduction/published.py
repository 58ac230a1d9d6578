"""The cells of the paper's tables: setting, data set, configuration, published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data.sources import ClassSplit, class_split
from glws.data.weaken import Weakened
from glws.errors import DataError
from glws.kinds import Numbers
from reproduction.catalog import DATASETS, METHODS, SETTINGS, TABLES, Metric, Place, check_known
from reproduction.files import rows, value
from reproduction.notes import Note, notes
from reproduction.recipes import HyperParameters, Says, hyper_parameters
from reproduction.weakening import released_options, task_labels, weakened

OURS = "glws"


@dataclass(frozen=True)
class Published:
    """A printed number: mean and standard deviation over three runs, in percent, and the label of its table."""

    mean: float
    std: float
    table: str

    @property
    def place(self) -> Place:
        """Main text or appendix."""
        return TABLES[self.table].place

    def __str__(self) -> str:
        return f"{self.mean:.2f}±{self.std:.2f}"


@dataclass(frozen=True, eq=False)
class Cell:
    """One column of a table: configuration, and the numbers of each method.

    configuration:  what the head of the column says: ratio, prior, sizes, confidence model.
    published:      for each method (our name) its number in every table that has it, the main text first.

    >>> one = cell("proportions", "mnist", "classes=2,mean=50")
    >>> one.configuration["num_bags"], str(one.value("glws")), one.metric, one.positive
    (250, '97.05±0.13', 'balanced_accuracy', (9,))
    """

    setting: str
    dataset: str
    configuration: Mapping[str, Any]
    published: Mapping[str, tuple[Published, ...]]

    @property
    def name(self) -> str:
        """The name, unique within setting and data set."""
        return SETTINGS[self.setting].naming.format(**self.configuration)

    @property
    def metric(self) -> Metric:
        """The metric of the published numbers."""
        return SETTINGS[self.setting].metric

    @property
    def num_classes(self) -> int:
        """The number of classes of the task."""
        if self.setting == "partial_labels":
            return DATASETS[self.dataset].num_classes
        return int(self.configuration.get("num_classes", 2))

    @property
    def split(self) -> ClassSplit | None:
        """The split into positive and negative classes; None for multi-class tasks."""
        is_binary = self.setting != "partial_labels" and self.num_classes == 2
        return class_split(self.dataset, self.setting) if is_binary else None

    @property
    def positive(self) -> tuple[int, ...]:
        """The positive classes of the paper; empty for multi-class tasks."""
        return self.split.positive if self.split else ()

    @property
    def prior(self) -> float:
        """The class prior of a task of two classes, for methods that need it: the printed one, or that of the test set.

        Two unlabeled sets have a share of positives each; the classifier is tested on a set with another one.

        >>> cell("unlabeled_unlabeled", "fashion_mnist", "size=10000,priors=0.4-0.6").prior
        0.3
        """
        printed = self.configuration.get("prior")
        return len(self.positive) / DATASETS[self.dataset].num_classes if printed is None else float(printed)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on its numbers."""
        known = notes(self.setting, self.dataset, self.configuration)
        return (
            (*known, Note("text", f"Positive classes: {self.split.note}")) if self.split and self.split.note else known
        )

    @property
    def released(self) -> dict[str, Any]:
        """The simulation of the released code, as options of `weakened`.

        >>> cell("pair_similarity", "stl10", "prior=0.4").released
        {'rule': 'released', 'positive': (0, 1, 8, 9)}
        """
        return released_options(self)

    def value(self, method: str) -> Published | None:
        """The published number of a method, preferably from the main text; None if there is none."""
        check_known("method of the paper", method, METHODS)
        return self.published[method][0] if method in self.published else None

    def best_baseline(self) -> tuple[str, Published]:
        """The method other than GLWS with the highest published mean.

        >>> name, number = cell("positive_unlabeled", "cifar100", "positives=1000").best_baseline()
        >>> name, str(number)
        ('cvir', '78.56±0.22')
        """
        others = [(name, found[0]) for name, found in self.published.items() if name != OURS]
        return max(others, key=lambda pair: pair[1].mean)

    def hyper_parameters(self, says: Says = "paper") -> HyperParameters:
        """The hyperparameters, from the paper or from the released code."""
        return hyper_parameters(self.setting, self.dataset, self.configuration, says)

    def task_labels(self, labels: Numbers, positive: Sequence[int] | None = None) -> Int[Tensor, "instances"]:
        """Convert classes of the data set to those of the task: 1 and 0, or unchanged.

        >>> cell("pair_comparison", "stl10", "prior=0.5").task_labels([0, 1, 2])  # airplane, bird, car
        tensor([1, 0, 1])
        """
        if positive is not None and self.split is None:
            raise DataError(f"{self} tells all classes apart: there are no positive ones to choose")
        return task_labels(labels, self.dataset, self.positive if positive is None else positive)

    def weakened(
        self,
        labels: Numbers,
        generator: torch.Generator,
        *,
        scores: Numbers | None = None,
        positive: Sequence[int] | None = None,
        **options: Any,
    ) -> Weakened:
        """Simulate the weak data of this cell from the true classes of its data set.

        `scores` are probabilities of being positive for all instances, in the settings that know a confidence:
        `glws.data.weaken.positive_scores(probabilities, cell.positive)`. `positive` are other positive classes than the
        paper's. Further options go to the function of `glws.data.weaken` and replace what the paper says, for smaller
        data (`num_pairs=100`), other readings (`ties="paper"`) or the released sampler (`**cell.released`). STL-10 with
        positives counts on its 100,000 unlabeled images behind the labeled ones; `num_extra=0` leaves them out.

        >>> labels = torch.arange(10).repeat(200)
        >>> one = cell("pair_comparison", "mnist", "prior=0.8")
        >>> record = one.weakened(labels, torch.Generator().manual_seed(0), num_pairs=100)
        >>> [int(record.statistics[name]) for name in ("positive_pairs", "negative_pairs", "mixed_pairs")]
        [64, 4, 32]
        """
        return weakened(self, self.task_labels(labels, positive), generator, scores, options)

    def __repr__(self) -> str:
        return f"Cell({self.setting}, {self.dataset}, {self.name})"


def cells(setting: str | None = None, dataset: str | None = None) -> tuple[Cell, ...]:
    """All cells of the paper, or those of a setting, of a data set, or of both.

    >>> len(cells()), len(cells("partial_labels")), len(cells(dataset="imagenet100"))
    (187, 20, 6)
    """
    if setting is not None:
        check_known("setting of the paper", setting, SETTINGS)
    if dataset is not None:
        check_known("data set of the paper", dataset, DATASETS)
    found = [one for name in SETTINGS if setting in (None, name) for one in _of_setting(name)]
    return tuple(one for one in found if dataset in (None, one.dataset))


def cell(setting: str, dataset: str, name: str) -> Cell:
    """The cell of this name.

    >>> cell("partial_labels", "cifar10", "ratio=0.5")
    Cell(partial_labels, cifar10, ratio=0.5)
    """
    found = {one.name: one for one in cells(setting, dataset)}
    check_known(f"cell of {setting} on {dataset}", name, found)
    return found[name]


@cache
def _of_setting(setting: str) -> tuple[Cell, ...]:
    """The cells of a setting by data set and configuration; a column that two tables share is one cell."""
    found: dict[tuple[Any, ...], Cell] = {}
    for row in rows(setting):
        one = _from_row(setting, row)
        key = (list(DATASETS).index(one.dataset), *one.configuration.values())
        found[key] = _joined(found[key], one) if key in found else one
    return tuple(found[key] for key in sorted(found))


def _from_row(setting: str, row: Mapping[str, str]) -> Cell:
    head = {name: value(text) for name, text in row.items() if name not in METHODS and name not in ("table", "dataset")}
    numbers = {name: (_published(text, row["table"]),) for name, text in row.items() if name in METHODS and text}
    return Cell(setting, row["dataset"], MappingProxyType(head), MappingProxyType(numbers))


def _published(text: str, table: str) -> Published:
    mean, std = text.split("±")
    return Published(float(mean), float(std), table)


def _joined(one: Cell, again: Cell) -> Cell:
    """The cell with the numbers of both tables."""
    numbers = {name: (*found, *again.published.get(name, ())) for name, found in one.published.items()}
    return Cell(one.setting, one.dataset, one.configuration, MappingProxyType(numbers))
