"""What `glws explain` is given, read and checked: classes, predictions, length."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glws.cli._failures import UsageError

MAX_CLASSES = 10_000
MAX_LENGTH = 100_000
FORMATS = (".svg", ".dot")

FloatArray = npt.NDArray[np.float64]


def read_classes(text: str) -> int | list[str]:
    """A number of classes, or their names."""
    names = [name.strip() for name in text.split(",")]
    if len(names) == 1 and names[0].lstrip("+-").isdecimal():
        return _number_of_classes(names[0])
    if len(names) < 2 or not all(names):
        raise UsageError(f"--classes must be a number >= 2 or two or more names joined by commas, found {text!r}")
    repeated = [name for index, name in enumerate(names) if name in names[:index]]
    if repeated:
        raise UsageError(f"--classes names {repeated[0]!r} twice")
    if len(names) > MAX_CLASSES:
        raise UsageError(f"--classes must be at most {MAX_CLASSES:,} names, found {len(names):,}")
    return names


def _number_of_classes(text: str) -> int:
    if len(text) > 9 or not 2 <= int(text) <= MAX_CLASSES:
        raise UsageError(f"--classes must be a number from 2 to {MAX_CLASSES:,}, found {text[:20]}")
    return int(text)


def read_probs(text: str, num_classes: int) -> FloatArray:
    """Predictions [length, classes]: "0.9,0.2" is p(class 1) of two instances, "0.2,0.3,0.5;0.1,0.1,0.8" are rows."""
    rows = [
        [_probability(cell, f"--probs, row {index + 1}" if ";" in text else "--probs") for cell in row.split(",")]
        for index, row in enumerate(text.split(";"))
    ]
    if num_classes == 2 and len(rows) == 1:
        return np.array([[1 - p, p] for p in rows[0]])
    for index, row in enumerate(rows):
        if len(row) != num_classes:
            raise UsageError(
                f"--probs, row {index + 1}: expected {num_classes} numbers, one for each class, found {len(row)}"
            )
        if abs(math.fsum(row) - 1) > 1e-3 + 1e-9:  # leaves room for thirds written as 0.333
            raise UsageError(
                f"--probs, row {index + 1}: expected probabilities that sum to 1, found {math.fsum(row):g}"
            )
    table = np.array(rows)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _probability(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{where}: {text.strip()!r} is not a number") from None
    if not 0 <= value <= 1:
        raise UsageError(f"{where}: {text.strip()} is not a probability from 0 to 1")
    return value


def read_length(text: str) -> int:
    """A number of instances."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9 or int(digits) > MAX_LENGTH:
        raise UsageError(f"--length must be a whole number from 0 to {MAX_LENGTH:,}, found {text[:40]!r}")
    return int(digits)


def agreed_length(length: int | None, probs: FloatArray | None) -> int | None:
    """The length asked for, or that of the predictions."""
    if length is not None and probs is not None and length != len(probs):
        raise UsageError(f"--length is {length}, but --probs are those of {len(probs)} instances")
    return length if probs is None else len(probs)


def check_output(path: Path | None) -> None:
    """Refuses a file whose ending does not say what to write, before anything is computed."""
    if path is not None and path.suffix.lower() not in FORMATS:
        raise UsageError(f"--out must end in {' or '.join(FORMATS)}, found {str(path)!r}")
