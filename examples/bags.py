"""Bags with answers: slides of a pathologist, or a table of bags, from files to predictions for whole bags.

python examples/bags.py FOLDER      # features/ and labels.csv (slide, diagnosis): train, predict, explain
python examples/bags.py BAGS.npz    # X, bag and y_bag: ten-fold cross-validation over bags, with default settings
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from glws import WeakClassifier
from glws.cli import run

DESCRIPTION = """slides: features
data: labels.csv
classes: [normal, tumor]
weak: {present: diagnosis}
"""


def slides(folder: Path, changes: list[str]) -> None:
    """Describe, check, train, predict every slide, and explain the first one."""
    (folder / "slides.yaml").write_text(DESCRIPTION)
    description, out = str(folder / "slides.yaml"), str(folder / "run")
    first = (folder / "labels.csv").read_text().splitlines()[1].split(",")[0]
    commands = [
        ["doctor", description],
        ["train", "--data", description, *changes, "--out", out],
        ["predict", out, description, "--out", str(folder / "predictions.parquet")],
        ["explain", out, "--group", first, "--out", str(folder / "slide.svg")],
    ]
    for command in commands:
        print("glws", *command, flush=True)
        if run(command):
            raise SystemExit(1)


def cross_validated(
    x: NDArray[np.float64], bag: NDArray[np.int64], labels: NDArray[np.int64], seed: int
) -> list[float]:
    """Accuracy, AUC and mean log-likelihood of held-out bags, ten-fold."""
    probs = np.zeros(len(labels))
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(labels, labels):
        inside = np.isin(bag, train)
        model = WeakClassifier(kind="multi_instance", random_state=seed, device="cpu")
        model.fit(x[inside], labels[bag[inside]], groups=bag[inside])
        probs[np.sort(test)] = model.predict_proba_bags(x[~inside], bag[~inside])[:, 1]
    right = np.where(labels == 1, probs, 1 - probs)
    return [float(((probs > 0.5) == labels).mean()), float(roc_auc_score(labels, probs)), float(np.log(right).mean())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a folder of slides, or a .npz of bags")
    parser.add_argument("changes", nargs="*", help="changes to the configuration, such as training.epochs=5")
    parser.add_argument("--repetitions", type=int, default=1, help="random splits of the bags of a .npz")
    asked = parser.parse_args()
    if asked.path.is_dir():
        slides(asked.path, asked.changes)
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    with np.load(asked.path, allow_pickle=False) as data:
        x, bag, labels = data["X"], data["bag"].astype(np.int64), data["y_bag"].astype(np.int64)
    found = [cross_validated(x, bag, labels, seed) for seed in range(asked.repetitions)]
    accuracy, area, likelihood = np.mean(found, axis=0)
    print(f"{len(labels)} bags: accuracy {accuracy:.3f}, AUC {area:.3f}, log-likelihood {likelihood:.3f}")


if __name__ == "__main__":
    main()
