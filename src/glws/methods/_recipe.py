"""`Recipe`: how the authors of a method trained it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How the authors of a method trained it in one experiment; what is not known is left out.

    of:        the experiment, and where the values are from.
    training:  fields of `glws.training.TrainingConfig`. The number of epochs is not among them.
    model:     options of the network "mlp", where theirs was one.

    >>> from glws.methods._catalog import build_method
    >>> build_method("attention_mil").recipe().training["optimizer"]
    'adam'
    """

    of: str
    training: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
