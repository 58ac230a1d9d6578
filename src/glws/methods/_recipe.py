"""`Recipe`: the published training options of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """The training options of the authors of a method in one experiment; unknown ones are left out.

    of:        the experiment, and the source of the values.
    training:  fields of `glws.training.TrainingConfig`. The number of epochs is not among them.
    model:     options of the network "mlp", if theirs was one.

    >>> from glws.methods._catalog import build_method
    >>> build_method("attention_mil").recipe().training["optimizer"]
    'adam'
    """

    of: str
    training: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
