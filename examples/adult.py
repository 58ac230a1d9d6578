"""Adult: predict who earns more than 50,000 dollars, trained on counts in bags of 100 people.

python examples/adult.py FOLDER          # with adult.data.gz and adult.test.gz; writes docs/measurements/tables.md
python examples/adult.py FOLDER --seeds 1 --out x.md
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pages import PAGE, mean_and_spread, rewrite, table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from glws import WeakClassifier
from glws.kinds import Proportions

NUMBERS = (0, 2, 4, 10, 11, 12)
CATEGORIES = (1, 3, 5, 6, 7, 8, 9, 13)
BAG = 100
PASSES = {1: 40, 10: 6, 20: 4}
"""The number of random partitions into bags, and the epochs of training on all of them."""
NETWORK: dict[str, Any] = {
    "model": "mlp",
    "model_options": {"hidden": [64]},
    "learning_rate": 3e-3,
    "weight_decay": 1e-2,
}
NAMES = ("HistGradientBoosting", "MLP")

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


# ---------------------------------------------------------------- the data


def read_rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file) if len(row) == 15]


def columns(rows: list[list[str]], values: list[list[str]]) -> Array:
    """Numbers unchanged; one indicator column per category value of the training data."""
    numbers = np.array([[float(row[place]) for place in NUMBERS] for row in rows])
    marks = [
        np.array([row[place] for row in rows])[:, None] == np.array(known)
        for place, known in zip(CATEGORIES, values, strict=True)
    ]
    return np.hstack([numbers, *marks]).astype(np.float64)


def read(folder: Path) -> tuple[Array, Integers, Array, Integers]:
    """Training and test data: features, and 1 for an income above 50,000."""
    train, test = (read_rows(folder / name) for name in ("adult.data.gz", "adult.test.gz"))
    values = [sorted({row[place] for row in train}) for place in CATEGORIES]
    labels = [np.array([row[14].startswith(">50K") for row in rows]).astype(int) for rows in (train, test)]
    return columns(train, values), labels[0], columns(test, values), labels[1]


def bags_of(num_rows: int, times: int, rng: np.random.Generator) -> Integers:
    """Random partitions of all rows into bags; an incomplete last bag is left out."""
    whole = num_rows // BAG * BAG
    return np.concatenate([rng.permutation(num_rows)[:whole].reshape(-1, BAG) for _ in range(times)])


# ---------------------------------------------------------------- the models


def learner(name: str, seed: int, epochs: int, batch_size: int) -> WeakClassifier:
    base = HistGradientBoostingClassifier() if name == NAMES[0] else None
    chosen = {**NETWORK, "epochs": epochs, "batch_size": batch_size}
    return WeakClassifier(base_estimator=base, rounds=3, random_state=seed, **chosen)


def from_counts(name: str, x: Array, labels: Integers, times: int, seed: int) -> WeakClassifier:
    bags = bags_of(len(x), times, np.random.default_rng(seed))
    counts = Proportions.of(labels[bags].sum(1))  # all that is known
    return learner(name, seed, PASSES[times], 8).fit(x, counts, groups=bags)


def from_labels(name: str, x: Array, labels: Integers, seed: int, number: int | None = None) -> WeakClassifier:
    """The same model, trained on all labels or on a number of them."""
    chosen = np.random.default_rng(seed).permutation(len(x))[:number]
    return learner(name, seed, 8 if number is None else 60, 256 if number is None else 32).fit(
        x[chosen], labels[chosen]
    )


# ---------------------------------------------------------------- the table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where adult.data.gz and adult.test.gz are")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x, labels, test_x, test_labels = read(arguments.folder)

    def areas(what: str, make: Any) -> list[float]:
        began = time.perf_counter()
        found = [roc_auc_score(test_labels, make(seed).predict_proba(test_x)[:, 1]) for seed in range(arguments.seeds)]
        print(f"{what:50s} {mean_and_spread(found, 4)}  ({time.perf_counter() - began:.0f} s)", flush=True)
        return [float(value) for value in found]

    rows = []
    for name in NAMES:
        every = areas(f"{name}, all labels", lambda seed, name=name: from_labels(name, x, labels, seed))
        few = areas(f"{name}, 325 labels", lambda seed, name=name: from_labels(name, x, labels, seed, 325))
        for times in PASSES:
            number = len(x) // BAG * times
            found = areas(f"{name}, {number} bags", lambda s, n=name, t=times: from_counts(n, x, labels, t, s))
            gap = f"{np.mean(every) - np.mean(found):.3f}"
            cells = [mean_and_spread(values, 3) for values in (found, every, few)]
            rows.append([name, f"{number:,}", str(times), cells[0], cells[1], gap, cells[2]])
    header = [
        "model",
        "bags of 100",
        "bags a row is in",
        "AUC from counts",
        "AUC, all labels",
        "gap",
        "AUC, 325 labels",
    ]
    rewrite(arguments.out, "adult", table(header, rows))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
