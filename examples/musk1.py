"""MUSK1: predict which molecules are musks, trained on bags of their shapes; accuracy on held-out bags.

python examples/musk1.py FILE            # musk1.npz with X, bag and y_bag; writes docs/measurements/tables.md
python examples/musk1.py FILE --repetitions 1 --out x.md
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from pages import PAGE, mean_and_spread, rewrite, table
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from glws import WeakClassifier

FOLDS, INNER_FOLDS = 10, 3
WEIGHT_DECAYS = [0.01, 1.0]
CHOICES: list[dict[str, Any]] = [
    {"model": ["linear"], "weight_decay": WEIGHT_DECAYS},
    {"model": ["mlp"], "model_options": [{"hidden": [64]}], "weight_decay": WEIGHT_DECAYS},
]
"""The grid for model selection, by the likelihood of bag labels within the training folds."""

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def chosen_model(seed: int) -> GridSearchCV:
    model = WeakClassifier(kind="multi_instance", epochs=30, learning_rate=0.01, random_state=seed, device="cpu")
    return GridSearchCV(model, CHOICES, cv=GroupKFold(INNER_FOLDS))


def bag_probabilities(probs: Array, bag: Integers, bags: Integers) -> Array:
    """p(bag) = 1 - Π (1 - p), the probability that at least one of its instances is positive."""
    return np.array([1 - np.prod(1 - probs[bag == number]) for number in bags])


def fold_answer(x: Array, bag: Integers, labels: Integers, test: Integers, seed: int) -> tuple[NDArray[np.bool_], str]:
    """Whether each held-out bag is predicted correctly, and the selected model."""
    train = ~np.isin(bag, test)
    search = chosen_model(seed).fit(x[train], labels[bag[train]], groups=bag[train])
    probs = bag_probabilities(search.predict_proba(x[~train])[:, 1], bag[~train], test)
    name = f"{search.best_params_['model']}, weight decay {search.best_params_['weight_decay']}"
    return (probs > 0.5) == labels[test], name


def repetition(x: Array, bag: Integers, labels: Integers, seed: int, names: Counter[str]) -> float:
    """Cross-validated accuracy on bags."""
    right = np.zeros(len(labels), bool)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(labels, labels)
    for _, test in folds:
        right[test], name = fold_answer(x, bag, labels, test, seed)
        names[name] += 1
    return float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="musk1.npz")
    parser.add_argument("--repetitions", type=int, default=5, help="number of random splits into folds")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sklearn.set_config(enable_metadata_routing=True)  # cross-validation passes groups
    with np.load(arguments.file, allow_pickle=False) as data:
        x, bag, labels = data["X"], data["bag"].astype(np.int64), data["y_bag"].astype(np.int64)
    began, names, found = time.perf_counter(), Counter[str](), []
    for seed in range(arguments.repetitions):
        found.append(100 * repetition(x, bag, labels, seed, names))
        print(f"repetition {seed}: {found[-1]:.1f} ({time.perf_counter() - began:.0f} s)", flush=True)
    most = f"{100 * max(labels.mean(), 1 - labels.mean()):.1f}"
    chosen = "; ".join(f"{name}: {number}" for name, number in names.most_common())
    cells = [str(len(labels)), str(len(x)), most, mean_and_spread(found, 1), chosen]
    header = ["bags", "instances", "majority", "accuracy of bags", "chosen in the folds"]
    rewrite(arguments.out, "musk1", table(header, [cells]))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
