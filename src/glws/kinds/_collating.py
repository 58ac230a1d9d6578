"""Several weak labels of one kind put together, also by the `default_collate` of torch's loaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from glws.errors import DataError
from glws.kinds._abstract import AbstractSupervision, Kind


def collated(kinds: Sequence[Kind], *, collate_fn_map: Any = None) -> Kind:
    """One kind with the weak labels of several, in order; what all groups share is that of the first.

    >>> from glws.kinds import Labels
    >>> collated([Labels.of([0], 3), Labels.of([2, 1], 3)]).labels
    tensor([0, 2, 1])
    """
    first = kinds[0]
    for kind in kinds:
        if type(kind) is not type(first) or kind.num_classes != first.num_classes:
            raise DataError(f"only weak labels of one kind are put together, found {first} and {kind}")
    own = [item.name for item in fields(first) if not item.metadata.get("shared")]  # type: ignore[arg-type]
    changes = {name: _joined([getattr(kind, name) for kind in kinds]) for name in own}
    return replace(first, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[type-var]


def _joined(values: Sequence[Any]) -> Any:
    """Tensors one below the other, tuples one after the other; None for a field that is not set."""
    if isinstance(values[0], Tensor):
        return torch.cat(list(values))
    return None if values[0] is None else tuple(item for value in values for item in value)


default_collate_fn_map[AbstractSupervision] = collated
