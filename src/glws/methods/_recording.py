"""`Recording`: what the trainer must know of a step to replay it from a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Recordable(Protocol):
    """Weak labels of a batch as tensors, in a dataclass. `glws.inference.AbstractForm` is one."""

    def is_capturable(self, device: torch.device) -> bool:
        """Whether a CUDA graph may hold what is computed from it: nothing that the host has to look at."""

    def tensors(self) -> Sequence[Tensor]:
        """Its tensors: all that differs between two steps of the same shape."""

    def with_tensors(self, left: Iterator[Tensor]) -> Any:
        """The same with the next of these in their places."""


@dataclass(frozen=True)
class Recording:
    """What the loss of a step reads, beside the network and its teacher.

    `views` are the views of the instances that the loss looks at: the first is trained on, the others are only looked
    at, without gradient. `forms` are the weak labels of each part of the batch; `stand_ins` makes of such forms what
    the loss takes in place of the weak labels themselves.
    """

    views: tuple[str, ...]
    forms: tuple[Recordable, ...]
    stand_ins: Callable[[Sequence[Any]], Sequence[Any]]
