"""Write an example of your own data: scikit-learn's breast-cancer set in bags with counts.

python examples/breast_cancer.py            # writes bags.csv and bags.yaml here
python examples/breast_cancer.py some/folder

Then:

glws doctor bags.yaml                       # checks the weak labels
glws train --data bags.yaml                 # trains on the counts
glws label runs/bags-1 --out labels.parquet # a posterior label for each row
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

NUM_BAGS = 71
SEED = 0

DESCRIPTION = """\
data: bags.csv
features: ["mean *", "* error", "worst *"]  # column names or patterns
classes: [benign, malignant]
group: bag                                  # rows with the same value form a group
kind: proportions                           # the kind of weak label: counts per bag
weak: {count: malignant_in_bag}
label: truth                                # true labels, for evaluation only; leave out if unknown
"""


def main() -> None:
    """Write the table and its description."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = table()
    with (folder / "bags.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    (folder / "bags.yaml").write_text(DESCRIPTION, encoding="utf-8")
    print(f"wrote {folder / 'bags.csv'} ({len(rows)} rows in {NUM_BAGS} bags) and {folder / 'bags.yaml'}")
    print(f"next: glws doctor {folder / 'bags.yaml'}")


def table() -> tuple[list[str], list[list[object]]]:
    """Column names and rows: patients in random order, with the number of malignant cases in their bag."""
    source = load_breast_cancer()
    order = np.random.default_rng(SEED).permutation(len(source.target))
    is_malignant = source.target[order] == list(source.target_names).index("malignant")
    bags = np.arange(len(order)) * NUM_BAGS // len(order)
    counts = np.bincount(bags, is_malignant).astype(int)
    rows: list[list[object]] = [
        [f"bag-{bag:02d}", *values, counts[bag], "malignant" if truth else "benign"]
        for bag, values, truth in zip(bags, source.data[order].tolist(), is_malignant, strict=True)
    ]
    return ["bag", *source.feature_names, "malignant_in_bag", "truth"], rows


if __name__ == "__main__":
    main()
