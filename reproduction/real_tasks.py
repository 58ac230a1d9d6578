"""Weakly labeled problems from real data: each with its weak labels, a test part, a score and simple peers."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold

from glws.data import Groups
from glws.kinds import AbstractSupervision, Labels, MultiInstance, PairSimilarity, PartialLabels, Proportions, Unlabeled
from reproduction import real_peers as peers

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
NUMBERS = (0, 2, 4, 10, 11, 12)
CATEGORIES = (1, 3, 5, 6, 7, 8, 9, 13)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows with weak labels, and test rows with true labels; `labels` are used by the ceiling alone.

    `bags` are the test bags of bag-level problems, and `test_labels` are then theirs. `peers` predict the test rows (or
    bags) from what is in the problem; `methods` are methods of glws that apply.
    """

    rows: Array
    weak: Sequence[AbstractSupervision]
    groups: Sequence[Any]
    test_rows: Array
    test_labels: Integers
    metric: Literal["auc", "accuracy"]
    labels: Integers | None = None
    bags: Sequence[Integers] | None = None
    peers: Mapping[str, Callable[[], Array]] = field(default_factory=dict)
    methods: Sequence[str] = ()


Make = Callable[[Path, int], Problem]


# ------------------------------------------------------------ sources


@cache
def adult(folder: Path) -> tuple[Array, Integers, Array, Integers]:
    """Census income: numbers, and one indicator column for each category of the training file."""
    train, test = (_csv(folder / "adult" / name) for name in ("adult.data.gz", "adult.test.gz"))
    values = [sorted({row[place] for row in train}) for place in CATEGORIES]
    labels = [np.array([row[14].startswith(">50K") for row in rows]).astype(int) for rows in (train, test)]
    return _columns(train, values), labels[0], _columns(test, values), labels[1]


def _csv(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file) if len(row) == 15]


def _columns(rows: list[list[str]], values: list[list[str]]) -> Array:
    numbers = np.array([[float(row[place]) for place in NUMBERS] for row in rows])
    marks = [
        np.array([row[k] for row in rows])[:, None] == np.array(v) for k, v in zip(CATEGORIES, values, strict=True)
    ]
    return np.hstack([numbers, *marks]).astype(np.float64)


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file."""
    with np.load(path, allow_pickle=False) as content:
        return dict(content)


def breast_cancer(seed: int) -> tuple[Array, Integers, Array, Integers]:
    """400 tumors to train on and 169 to test on; class 1 is malignant."""
    rows, benign = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = order[:400], order[400:]
    return rows[train], 1 - benign[train], rows[test], 1 - benign[test]


# ------------------------------------------------------------ problems


def adult_bags(size: int, num_rows: int = 8192) -> Make:
    """Counts in random bags."""

    def make(folder: Path, seed: int) -> Problem:
        rows, labels, test_rows, test_labels = adult(folder)
        chosen = np.random.default_rng(seed).permutation(len(rows))[:num_rows]
        rows, labels = rows[chosen], labels[chosen]
        bags = np.arange(num_rows).reshape(-1, size)
        counts = labels[bags].sum(1)
        return Problem(
            rows,
            [Proportions.of(counts)],
            [bags],
            test_rows,
            test_labels,
            "auc",
            labels,
            peers={
                "ridge of shares on bag means": lambda: peers.bag_means(rows, bags, counts, test_rows),
                "boosting on shares": lambda: peers.imputed_shares(rows, bags, counts, test_rows),
            },
            methods=("count_loss",),
        )

    return make


def positive_unlabeled(rows: Array, labels: Integers, number: int, test_rows: Array, test_labels: Integers) -> Problem:
    """Some positives, and the class prior of the others."""
    positive = np.flatnonzero(labels)[:number]
    others = np.setdiff1d(np.arange(len(rows)), positive)
    return Problem(
        rows,
        [Labels.of([1] * number, 2), Unlabeled.of([labels[others].mean()])],
        [[[row] for row in positive.tolist()], [others.tolist()]],
        test_rows,
        test_labels,
        "auc",
        labels,
        peers={
            "LR, positives against unlabeled": lambda: peers.naive_positive(rows, positive, test_rows),
            "Elkan-Noto forest": lambda: peers.elkan_noto(rows, positive, test_rows),
        },
        methods=("nnpu",),
    )


def adult_positives(folder: Path, seed: int) -> Problem:
    """300 positives among 8,000 rows."""
    rows, labels, test_rows, test_labels = adult(folder)
    chosen = np.random.default_rng(seed).permutation(len(rows))[:8000]
    return positive_unlabeled(rows[chosen], labels[chosen], 300, test_rows, test_labels)


def cancer_positives(folder: Path, seed: int) -> Problem:
    """30 positives among 400 rows."""
    rows, labels, test_rows, test_labels = breast_cancer(seed)
    return positive_unlabeled(rows, labels, 30, test_rows, test_labels)


def cancer_sets(folder: Path, seed: int) -> Problem:
    """Two unlabeled sets of 120 and 150 rows with class priors of 2/3 and 1/5."""
    rows, labels, test_rows, test_labels = breast_cancer(seed)
    positive, negative = np.flatnonzero(labels), np.flatnonzero(1 - labels)
    first, second = np.r_[positive[:80], negative[:40]], np.r_[positive[80:110], negative[40:160]]
    return Problem(
        rows,
        [Unlabeled.of([2 / 3, 0.2])],
        [[first.tolist(), second.tolist()]],
        test_rows,
        test_labels,
        "auc",
        labels,
        peers={"LR on which set": lambda: peers.which_set(rows, first, second, test_rows)},
    )


def cancer_pairs(folder: Path, seed: int) -> Problem:
    """100 pairs, similar or not, and 200 unlabeled rows with a class prior."""
    rows, labels, test_rows, test_labels = breast_cancer(seed)
    pairs = np.arange(200).reshape(-1, 2)
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    weak = [PairSimilarity.of(same.astype(int)), Unlabeled.of([labels[200:].mean()])]
    groups = [pairs, [list(range(200, 400))]]
    return Problem(rows, weak, groups, test_rows, test_labels, "accuracy", labels)


def candidates(name: str) -> Make:
    """Real candidate sets; 80 % of the rows are trained on."""

    def make(folder: Path, seed: int) -> Problem:
        found = arrays(folder / "pll" / f"{name}.npz")
        rows, masks, labels = found["X"].astype(np.float64), found["candidates"].astype(bool), found["y"].astype(int)
        order = np.random.default_rng(seed).permutation(len(rows))
        train, test = np.split(order, [int(0.8 * len(rows))])
        averaged = partial(peers.mean_of_candidates, rows[train], masks[train], rows[test])
        return Problem(
            rows[train],
            [PartialLabels.of(masks[train])],
            [Groups.singles(len(train))],
            rows[test],
            labels[test],
            "accuracy",
            labels[train],
            peers={
                "LR, mean of candidates": lambda: averaged(False),
                "forest, mean of candidates": lambda: averaged(True),
            },
            methods=("proden",),
        )

    return make


def bags(name: str) -> Make:
    """Real bags; the seed is the number of one of ten folds."""

    def make(folder: Path, seed: int) -> Problem:
        found = arrays(folder / "mil" / f"{name}.npz")
        rows, bag, labels = found["X"].astype(np.float64), found["bag"], found["y_bag"].astype(int)
        members = [np.flatnonzero(bag == number) for number in np.unique(bag)]
        train, test = list(StratifiedKFold(10, shuffle=True, random_state=0).split(labels, labels))[seed % 10]
        known = [members[number] for number in train]
        asked = [members[number] for number in test]
        return Problem(
            rows,
            [MultiInstance.of(labels[train])],
            [[each.tolist() for each in known]],
            rows,
            labels[test],
            "accuracy",
            bags=asked,
            peers={
                "pooled LR": lambda: peers.pooled(rows, known, labels[train], asked, "lr"),
                "pooled SVC": lambda: peers.pooled(rows, known, labels[train], asked, "svc"),
            },
            methods=("attention_mil",),
        )

    return make


def digits_few(folder: Path, seed: int) -> Problem:
    """Five labels of each digit; everything else is unlabeled."""
    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = order[:1200], order[1200:]
    known = np.full(1200, -1)
    for number in range(10):
        places = np.flatnonzero(labels[train] == number)[:5]
        known[places] = number
    return Problem(
        rows[train],
        [Labels.of(known, 10)],
        [Groups.singles(1200)],
        rows[test],
        labels[test],
        "accuracy",
        labels[train],
        peers={"LR on the labels": lambda: peers.labeled_only(rows[train], known, rows[test])},
    )


TASKS: dict[str, Make] = {
    **{f"adult, bags of {size}": adult_bags(size) for size in (8, 32, 128, 512)},
    "adult, 300 positives": adult_positives,
    "breast cancer, 30 positives": cancer_positives,
    "breast cancer, two sets": cancer_sets,
    "breast cancer, pairs and a prior": cancer_pairs,
    "lost": candidates("lost"),
    "msrcv2": candidates("msrcv2"),
    "musk1": bags("musk1"),
    "elephant": bags("elephant"),
    "digits, 50 labels": digits_few,
}
