"""A small table with bags of two classes, and runs of it in every state, made once for many tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from glws.cli import run

CLASSES = ("benign", "malignant")
QUICK = ["training.epochs=2", "model.name=linear", "training.batch_size=4"]

DESCRIPTION = """\
data: bags.csv
features: "f*"
classes: [benign, malignant]
group: bag
kind: proportions
weak: {count: n}
label: truth
"""


def write_table(folder: Path, num_bags: int = 12) -> Path:
    """Writes bags.csv and bags.yaml; rows of a bag do not stand together."""
    generator = np.random.default_rng(3)
    bags = generator.permutation(np.repeat(np.arange(num_bags), 3))
    values = generator.normal(size=(len(bags), 2))
    truth = values[:, 0] > 0.3 * values[:, 1]
    counts = np.bincount(bags, truth).astype(int)
    rows = [
        f"b{bag},{x:.4f},{y:.4f},{counts[bag]},{CLASSES[int(label)]}"
        for bag, (x, y), label in zip(bags, values, truth, strict=True)
    ]
    (folder / "bags.csv").write_text("\n".join(["bag,f1,f2,n,truth", *rows]) + "\n")
    (folder / "bags.yaml").write_text(DESCRIPTION)
    return folder / "bags.yaml"


def train(folder: Path, *arguments: str) -> Path:
    """A finished run."""
    assert run(["train", *QUICK, "--out", str(folder), *arguments]) == 0
    return folder


def unfinished(finished: Path, folder: Path) -> Path:
    """A copy of a run that was killed before it wrote its result."""
    shutil.copytree(finished, folder)
    for name in ("result.json", "report.html", "content.json"):
        (folder / name).unlink()
    return folder
