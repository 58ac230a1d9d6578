"""Learned noise: the rates that training finds where some were planted, and what they are worth.

For each data set, kind of noise, planted rate and seed one network is trained four times: the weak labels taken as
right ("ignored"), with the planted noise given ("given"), with noise that is learned ("learned"), and with noise that
is learned by EM on the training groups themselves ("joint EM", `checks_itself`). Accuracy is on true labels of a
quarter of the data; the network is the default one (an MLP), and training as long as by default.

    python -m benchmarks.learned_noise                        # all cases, 3 seeds
    python -m benchmarks.learned_noise --only digits --seeds 1
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glws.data import WeakDataset
from glws.kinds import LearnsNoise, MultiInstance, NoisyCandidates, NoisyLabels, PairComparison
from glws.models import build
from glws.training import Fitted, TrainingConfig, fit

Planted = Callable[[Tensor, int, torch.Generator], LearnsNoise]
"""From the true labels of groups to weak labels with the noise that made them."""


class Part(NamedTuple):
    """Instances and true labels to train on and to test on."""

    x: Tensor
    labels: Tensor
    test_x: Tensor
    test_labels: Tensor

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return int(self.labels.max()) + 1


def loaded(name: str, seed: int) -> Part:
    """Standardized features, split at random."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    if name == "generated":
        x, y = datasets.make_classification(3000, 20, n_informative=8, flip_y=0, random_state=seed)
    else:
        found = getattr(datasets, f"load_{name}")()
        x, y = found.data, found.target
    if name == "digits, 2 classes":
        y = (y > 4).astype(int)
    parts = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    mean_, spread = parts[0].mean(0), parts[0].std(0) + 1e-9
    first, then = (torch.tensor((each - mean_) / spread, dtype=torch.float32) for each in parts[:2])
    return Part(first, torch.as_tensor(parts[2]), then, torch.as_tensor(parts[3]))


@dataclass(frozen=True)
class Case:
    """Planted noise: of which data, groups of so many instances, the noise that is planted, and how it is made."""

    data: str
    noise: str
    size: int
    make: Planted
    start: Callable[[LearnsNoise], LearnsNoise]
    ignored: Callable[[LearnsNoise], Any] | None = None


def labels_at(rate: float, data: str) -> Case:
    """Labels that are wrong at a rate, all wrong ones as likely as any."""

    def make(labels: Tensor, classes: int, generator: torch.Generator) -> LearnsNoise:
        matrix = NoisyLabels.symmetric([], classes, rate).transition
        seen = NoisyLabels.from_labels(labels[:, 0], matrix, generator).observed
        return NoisyLabels.symmetric(seen, classes, rate)

    def from_rate(weak: Any, at: float) -> LearnsNoise:
        return NoisyLabels.symmetric(weak.observed, weak.num_classes, at)

    def start(weak: Any) -> LearnsNoise:
        return from_rate(weak, NoisyLabels.noise_starts(weak.num_classes)["rate"])

    return Case(data, f"labels, rate {rate:g}", 1, make, start, lambda weak: from_rate(weak, 0.0))


def matrix_of(data: str) -> Case:
    """Labels that are wrong by a matrix of their own for each pair of classes."""

    def make(labels: Tensor, classes: int, generator: torch.Generator) -> LearnsNoise:
        matrix = torch.eye(classes, dtype=torch.float64) * 0.7
        matrix[torch.arange(classes), (torch.arange(classes) + 1) % classes] += 0.25
        matrix[torch.arange(classes), (torch.arange(classes) + 2) % classes] += 0.05
        return NoisyLabels.from_labels(labels[:, 0], matrix, generator)

    def start(weak: Any) -> LearnsNoise:
        return NoisyLabels.of(weak.observed, NoisyLabels.noise_starts(weak.num_classes)["transition"])

    def ignored(weak: Any) -> Any:
        return NoisyLabels.symmetric(weak.observed, weak.num_classes, 0.0)

    return Case(data, "labels, matrix .7 .25 .05", 1, make, start, ignored)


def candidates_of(data: str) -> Case:
    """Candidate sets that miss the class at a rate of 0.2."""

    def make(labels: Tensor, classes: int, generator: torch.Generator) -> LearnsNoise:
        matrix = torch.full((classes, classes), 0.3, dtype=torch.float64).fill_diagonal_(0.8)
        return NoisyCandidates.from_labels(labels[:, 0], matrix, generator)

    def start(weak: Any) -> LearnsNoise:
        classes = weak.num_classes
        return NoisyCandidates.of(weak.candidates, torch.full((classes, classes), 0.4).fill_diagonal_(0.7))

    return Case(data, "candidate sets, .8 and .3", 1, make, start)


def pairs_at(rate: float, data: str) -> Case:
    """Pairs reported the wrong way round."""

    def make(labels: Tensor, classes: int, generator: torch.Generator) -> LearnsNoise:
        return PairComparison.from_labels(labels, classes, flip=rate, generator=generator)

    def start(weak: Any) -> LearnsNoise:
        return replace(weak, flip=torch.tensor([0.3], dtype=torch.float64))

    return Case(data, f"pairs, flip {rate:g}", 2, make, start, lambda weak: replace(weak, flip=0 * weak.flip))


def bags_at(none: float, some: float, data: str) -> Case:
    """Bags of three, reported wrongly at one rate where none is positive and another where some are."""

    def make(labels: Tensor, classes: int, generator: torch.Generator) -> LearnsNoise:
        return MultiInstance.from_labels(labels, flip=[none, some], generator=generator)

    def start(weak: Any) -> LearnsNoise:
        return replace(weak, flip=torch.full((2,), 0.3, dtype=torch.float64))

    return Case(data, f"bags, flips {none:g} and {some:g}", 3, make, start)


def cases() -> Iterator[Case]:
    """All of them."""
    for data in ("breast_cancer", "wine", "generated"):
        for rate in (0.1, 0.2, 0.3, 0.4):
            yield labels_at(rate, data)
    for rate in (0.1, 0.3, 0.6, 0.75, 0.81):  # 0.81: nine in ten labels are drawn again from all ten classes
        yield labels_at(rate, "digits")
    yield matrix_of("wine")
    yield matrix_of("digits")
    yield candidates_of("digits")
    for rate in (0.1, 0.3):
        yield pairs_at(rate, "generated")
        yield pairs_at(rate, "breast_cancer")
    yield bags_at(0.1, 0.2, "generated")
    yield bags_at(0.1, 0.2, "breast_cancer")


class Found(NamedTuple):
    """Of one seed: the planted and the learned mean noise, its interval, by training groups, and the accuracies."""

    planted: float
    learned: float
    low: float
    high: float
    is_weak: bool
    joint: float
    accuracy: dict[str, float]


def measured(case: Case, seed: int) -> Found:
    """The four trainings."""
    part, generator = loaded(case.data, seed), torch.Generator().manual_seed(seed)
    size = len(part.x) // case.size
    groups = torch.randperm(len(part.x), generator=generator)[: size * case.size].view(size, case.size)
    planted = case.make(part.labels[groups], part.num_classes, generator)
    start = case.start(planted).learning()
    weak = {"given": planted, "learned": start, "joint": _joint(start)}
    if case.ignored is not None:
        weak["ignored"] = case.ignored(planted)
    fitted = {name: _trained(part, groups, each, seed) for name, each in weak.items()}
    estimates = fitted["learned"].noise.estimates
    return Found(
        _mean(planted),
        mean(each.value for each in estimates),
        mean(each.low for each in estimates),
        mean(each.high for each in estimates),
        any(each.is_weak for each in estimates),
        mean(each.value for each in fitted["joint"].noise.estimates),
        {name: _accuracy(each, part) for name, each in fitted.items()},
    )


def _joint(weak: LearnsNoise) -> LearnsNoise:
    """The same weak labels, their noise learned from training groups."""
    kind = type(type(weak).__name__, (type(weak),), {"checks_itself": True})
    made: LearnsNoise = kind(**{item.name: getattr(weak, item.name) for item in fields(weak)})  # type: ignore[arg-type]
    return made


def _trained(part: Part, groups: Tensor, weak: Any, seed: int) -> Fitted:
    model = build("mlp", [part.x.shape[1]], part.num_classes, torch.Generator().manual_seed(seed))
    data = WeakDataset(part.x, groups, weak)
    return fit(model, data, config=TrainingConfig(seed=seed, device="cpu"))


def _mean(weak: LearnsNoise) -> float:
    return mean(weak.noise().values())


def _accuracy(fitted: Fitted, part: Part) -> float:
    return float((fitted.predict(part.test_x).argmax(1) == part.test_labels).double().mean())


HEAD = "| data | noise | planted | learned | 95 % interval | joint EM | ignored | given | learned | joint EM |"


def table(rows: Sequence[tuple[Case, Sequence[Found]]]) -> Iterator[str]:
    """Lines of Markdown."""
    yield HEAD
    yield "|" + " --- |" * (HEAD.count("|") - 1)
    for case, found in rows:
        learned = [each.learned for each in found]
        mark = " (weak)" if any(each.is_weak for each in found) else ""
        low, high = mean(each.low for each in found), mean(each.high for each in found)
        scores = [_percent([each.accuracy.get(name) for each in found]) for name in ACCURACIES]
        yield (
            f"| {case.data} | {case.noise} | {mean(each.planted for each in found):.3f} "
            f"| {mean(learned):.3f} ± {np.std(learned):.3f}{mark} | {low:.2f} to {high:.2f} "
            f"| {mean(each.joint for each in found):.3f} | {' | '.join(scores)} |"
        )


ACCURACIES = ("ignored", "given", "learned", "joint")


def _percent(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return f"{100 * mean(known):.1f}" if known else ""


def main() -> None:
    """Prints the table, a line when its seeds are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only cases whose data or noise contain this")
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    is_first = True
    for case in cases():
        if chosen.only in f"{case.data}, {case.noise}":
            lines = list(table([(case, [measured(case, seed) for seed in range(chosen.seeds)])]))
            print("\n".join(lines if is_first else lines[2:]), flush=True)
            is_first = False


if __name__ == "__main__":
    main()
