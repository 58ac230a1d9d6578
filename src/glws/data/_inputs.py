"""Instances of several tensors: what a model takes by keyword, such as the output of a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from glws.errors import DataError


class Inputs:
    """Named tensors of one length: a batch that a model is called with by keyword, `model(**inputs)`.

    It can be moved, cast and indexed like a tensor: `to` casts floats only, an index by name gives that tensor, any
    other index the rows.

    >>> batch = Inputs({"ids": torch.tensor([[1, 2], [3, 4]]), "weight": torch.tensor([0.5, 1.0])})
    >>> len(batch), batch[1:]["ids"].tolist(), batch.to(torch.float64)["ids"].dtype
    (2, [[3, 4]], torch.int64)
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = {str(name): torch.as_tensor(values) for name, values in fields.items()}
        lengths = {name: len(values) for name, values in self.fields.items()}
        if not lengths or len(set(lengths.values())) > 1:
            raise DataError(f"instances of several tensors need the same number of rows in each, found {lengths}")

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, str):
            return self.fields[chosen]
        return Inputs({name: values[chosen] for name, values in self.fields.items()})

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __repr__(self) -> str:
        return f"Inputs({', '.join(f'{name} {list(values.shape)}' for name, values in self.fields.items())})"

    def keys(self) -> list[str]:
        """The names, so that `**inputs` works."""
        return list(self.fields)

    def to(self, *where: Any, **options: Any) -> Inputs:
        """On another device, and floats in another type."""
        keep = [each for each in where if not isinstance(each, torch.dtype)]
        moved = {
            name: values.to(*(where if values.is_floating_point() else keep), **options) if where else values
            for name, values in self.fields.items()
        }
        return Inputs(moved)

    def contiguous(self) -> Inputs:
        """Each tensor in one piece of memory."""
        return Inputs({name: values.contiguous() for name, values in self.fields.items()})

    def pin_memory(self) -> Inputs:
        """Each tensor in memory that a GPU copies from."""
        return Inputs({name: values.pin_memory() for name, values in self.fields.items()})

    def is_floating_point(self) -> bool:
        """False: its tensors have types of their own."""
        return False

    @property
    def _first(self) -> Tensor:
        return next(iter(self.fields.values()))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and tensors."""
        return len(self), len(self.fields)

    @property
    def ndim(self) -> int:
        """Two: rows and tensors."""
        return 2

    @property
    def dtype(self) -> torch.dtype:
        """That of the first tensor."""
        return self._first.dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._first.device

    @property
    def is_cuda(self) -> bool:
        """Whether the tensors are on a GPU."""
        return self._first.is_cuda

    @property
    def requires_grad(self) -> bool:
        """False: gradients are those of the weights."""
        return False


@dataclass(frozen=True, eq=False)
class NamedInstances:
    """Instances of several tensors in memory."""

    inputs: Inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, numbers: Int[Tensor, "chosen"]) -> Any:
        """The chosen instances."""
        return self.inputs[numbers]
