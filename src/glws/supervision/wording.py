"""Classes in words, by number or, where names are given, by name."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

Names = Sequence[str] | None
"""What the classes are called; None for their numbers."""


def called(number: int, names: Names) -> str:
    """One class: 1, or dog."""
    return str(number) if names is None else names[number]


def listed(mask: Bool[Tensor, "classes"], names: Names) -> str:
    """The chosen classes: {0, 2}, or {cat, bird}."""
    return "{" + ", ".join(called(number, names) for number in mask.nonzero()[:, 0].tolist()) + "}"


def of_classes(mask: Bool[Tensor, "classes"], names: Names) -> str:
    """The chosen classes after a count: "of class 1", "of classes {0, 2}"."""
    if int(mask.sum()) == 1:
        return f"of class {called(int(mask.int().argmax()), names)}"
    return f"of classes {listed(mask, names)}"
