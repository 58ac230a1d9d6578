"""Two unlabeled sets of MNIST on a task of its own, judged on training images: instance by instance, or by counts.

    python benchmarks/two_sets.py --folder data singly counts counts_weak_view

Digits below 5 against the others. Two sets of 10,000 with 40 % and 60 % of them, drawn from the first 40,000 training
images; the accuracy is that on the other 20,000, after 50 epochs. The test images are not read.

    singly              which set an instance is from as a noisy label, batches of 256, rate 0.001
    counts              binomial counts of groups of 64 through the same eyes, at the paper's rate of 0.0005
    counts_weak_view    the same with the E-step on the weak view and the likelihood beside it, rate 0.001
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from glws.data import load
from glws.data.weaken import unlabeled_unlabeled
from glws.methods import GLWS
from glws.models import build
from glws.paper import cell
from glws.paper.plans import plan
from glws.paper.weakening import sets_singly
from glws.training.evaluate import Labelled
from glws.training.loop import fit

TRAINED = 40_000
VARIANTS: dict[str, tuple[GLWS, dict[str, Any]]] = {
    "singly": (GLWS(), {"batch_size": 256, "learning_rate": 1e-3}),
    "counts": (GLWS(), {"batch_size": (1, 1), "learning_rate": 5e-4}),
    "counts_weak_view": (GLWS(e_step="weak", supervised=1.0), {"batch_size": (1, 1), "learning_rate": 1e-3}),
}


def accuracy(name: str, folder: Path) -> float:
    """Of the last epoch."""
    train = load("mnist", folder, verify=False).train
    images, labels = torch.as_tensor(train.inputs), (torch.as_tensor(train.labels) < 5).long()
    drawn: dict[str, Any] = {"group_size": 64, "count": "binomial", "generator": torch.Generator().manual_seed(7)}
    record = unlabeled_unlabeled(labels[:TRAINED], (10_000, 10_000), (0.4, 0.6), **drawn)
    method, options = VARIANTS[name]
    made = plan(cell("unlabeled_unlabeled", "mnist", "size=10000,priors=0.4-0.6"), "glws", 7, "cpu")
    fitted = fit(
        build(made.model, (1, 28, 28), 2, torch.Generator().manual_seed(3)),
        (sets_singly(record) if name == "singly" else record).dataset(images[:TRAINED]),
        method,
        replace(made.config, evaluate_every=made.config.epochs, **options),
        views=made.look,
        test=Labelled.of(images[TRAINED:], labels[TRAINED:]),
    )
    return float(fitted.history[-1]["test_accuracy"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"all, or some of {', '.join(VARIANTS)}")
    parser.add_argument("--folder", type=Path, default=Path("data"))
    given = parser.parse_args()
    for each in given.variants or VARIANTS:
        print(f"{each:18} {100 * accuracy(each, given.folder):.2f}", flush=True)
