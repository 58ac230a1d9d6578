"""Runs that nobody ran, and images that nobody drew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glws.data import Source, Split
from reproduction import Record

RUN: dict[str, Any] = {
    "setting": "proportions",
    "dataset": "mnist",
    "cell": "classes=2,mean=10",
    "method": "glws",
    "options": {},
    "seed": 0,
    "accuracy": 0.9911,
    "balanced_accuracy": 0.9752,
    "matched_accuracy": 0.9933,
    "best_on_test": 0.9864,
    "seconds": 12.5,
    "epochs": 100,
    "device": "cpu",
    "curve": [0.5, 0.9864, 0.9752],
    "chosen": None,
}


def run(**changes: Any) -> Record:
    """A run of label proportions on MNIST, with changes."""
    return {**RUN, **changes}  # type: ignore[typeddict-item]


def tiny(name: str, folder: Path | None = None, verify: bool = True) -> Source:
    """Images whose brightness in one corner tells the class."""
    generator = np.random.default_rng(0)

    def part(number: int) -> Split:
        labels = np.arange(number) % 10
        images = generator.integers(0, 40, (number, 1, 28, 28), dtype=np.uint8)
        images[np.arange(number), 0, 2 * labels, 2 * labels] = 255
        return Split(images, labels)

    return Source("mnist", tuple("0123456789"), part(300), part(100))
