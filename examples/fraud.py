"""A fraud analyst's data: some confirmed positives, everything else unlabeled, and no idea how many there are.

    python examples/fraud.py && glws doctor fraud.yaml && glws train --data fraud.yaml

Writes fraud.csv and fraud.yaml into the current folder: tumors of scikit-learn's breast cancer data, of which some
malignant ones are confirmed.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

DESCRIPTION = """\
data: fraud.csv
features: "x*"
classes: [benign, malignant]
kind: positive_unlabeled
weak: {positive: confirmed}     # 1, or empty
options: {prior: estimate}      # or a number, or a range such as [0.2, 0.5]
label: truth                    # for evaluation only
"""


def write(folder: Path, confirmed: int = 60, seed: int = 0) -> None:
    """Writes the table and its description."""
    features, benign = load_breast_cancer(return_X_y=True)
    random = np.random.default_rng(seed)
    chosen = set(random.choice(np.flatnonzero(benign == 0), confirmed, replace=False).tolist())
    with (folder / "fraud.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{number}" for number in range(features.shape[1])), "confirmed", "truth"])
        for row, values in enumerate(features):
            truth = ("malignant", "benign")[benign[row]]
            writer.writerow([*values, "1" if row in chosen else "", truth])
    (folder / "fraud.yaml").write_text(DESCRIPTION)


if __name__ == "__main__":
    write(Path())
