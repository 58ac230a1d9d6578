"""Instances that are encoded when they are taken: tables with categories and texts, and sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.data._scaling import Scaling, scaled, scaling_of
from glws.data.tables._schema import DAY, Coded, Column, Schema

DENSE_BYTES = 1 << 28
"""Encoded instances up to this size are kept in memory; larger ones are encoded batch by batch."""
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class EncodedInstances:
    """Rows of a coded table as a network takes them: encoded, and standardized if there is a scaling."""

    __repr__ = short_repr

    schema: Schema
    coded: Coded
    scaling: Scaling | None = None

    def __len__(self) -> int:
        return len(self.coded)

    def take(self, numbers: Int[Tensor, "chosen"]) -> Tensor:
        """The chosen rows, in float32."""
        return self._encoded(numbers.cpu().numpy()) if self.values is None else self.values[numbers.cpu()]

    @cached_property
    def values(self) -> Tensor | None:
        """All rows, if they are few enough to be kept."""
        width = self.schema.width
        if 4 * len(self) * width > DENSE_BYTES:
            return None
        found = torch.empty(len(self), width)
        for first in range(0, len(self), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            found[rows] = self._encoded(rows)
        return found

    def _encoded(self, rows: Any) -> Float[Tensor, "rows width"]:
        return scaled(self.schema.encoded(self.coded[rows]), self.scaling)

    def shown(self, number: int) -> Mapping[str, float | str]:
        """One row for people: numbers, and categories by their words; empty cells are left out."""
        values = iter(self.coded.matrix[number].tolist())
        found: dict[str, float | str] = {}
        for column in self.schema.features:
            cells = [next(values) for _ in range(column.num_coded)]
            if len(cells) == 1 and not np.isnan(cells[0]):
                found[column.name] = _shown(column, cells[0])
        return found


def _shown(column: Column, value: float) -> float | str:
    if column.type == "category":
        return column.words[int(value)] if value < len(column.words) else "other"
    if column.type == "date":
        return str(np.datetime64(int(value), "s")).replace("T00:00:00", "")
    return value


def schema_scaling(schema: Schema, coded: Coded) -> dict[str, Tensor]:
    """Mean and spread of the encoded numbers and days; 0 and 1, which change nothing, for all other columns."""
    mean, spread = np.zeros(schema.width), np.ones(schema.width)
    found = [_column_scaling(column, values) for column, values in _scaled_columns(schema, coded)]
    if found:
        mean[schema.is_scaled], spread[schema.is_scaled] = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return {"mean": torch.from_numpy(mean), "spread": torch.from_numpy(spread)}


def _scaled_columns(schema: Schema, coded: Coded) -> Any:
    place = 0
    for column in schema.features:
        if any(column.is_scaled):
            yield column, coded.matrix[:, place : place + column.num_coded]
        place += column.num_coded


def _column_scaling(column: Column, values: Any) -> tuple[Any, Any]:
    filled = np.where(np.isnan(values), column.fill, values).astype(np.float64)
    filled = filled / DAY if column.type == "date" else filled
    found = scaling_of(filled, filled[0], len(filled))
    return found["mean"].numpy(), found["spread"].numpy()
