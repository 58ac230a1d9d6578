"""Classes in words, for messages."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor


def listed(mask: Bool[Tensor, "classes"]) -> str:
    """The chosen classes: {0, 2}."""
    return "{" + ", ".join(str(number) for number in mask.nonzero()[:, 0].tolist()) + "}"


def of_classes(mask: Bool[Tensor, "classes"]) -> str:
    """The chosen classes after a count: "of class 1", "of classes {0, 2}"."""
    return f"of class {int(mask.int().argmax())}" if int(mask.sum()) == 1 else f"of classes {listed(mask)}"
