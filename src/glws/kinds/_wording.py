"""Classes in words, by number or, where names are given, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from torch import Tensor

Names = Sequence[str] | None
"""What the classes are called; None for their numbers."""
MOST = 6
"""How many values of a list are printed."""


def plain(value: object) -> str:
    """A value in plain numbers and lists, the first few of many.

    >>> import torch
    >>> plain(torch.tensor([0.25, 1.0], dtype=torch.float64)), plain(torch.arange(9))
    ('[0.25, 1.0]', '[0, 1, 2, 3, 4, 5, ... 3 more]')
    """
    if isinstance(value, Tensor | np.generic):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return repr(value)
    items = [plain(item) for item in value[:MOST]]
    more = [f"... {len(value) - MOST} more"] if len(value) > MOST else []
    return f"[{', '.join(items + more)}]"


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
