"""Arithmetic of probabilities or of their logarithms, so that the plain torch recursions are written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Arithmetic(NamedTuple):
    """The operations that a recursion uses."""

    zero: float
    one: float
    times: Callable[[Tensor, Tensor], Tensor]
    total: Callable[[Tensor, int], Tensor]
    """The sum along an axis."""
    ratio: Callable[[Tensor, Tensor], Tensor]
    """a / b as an ordinary number; 0 if b is zero."""


def _quotient(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), 0.0)


def _quotient_of_logs(part: Tensor, whole: Tensor) -> Tensor:
    possible = whole > -torch.inf
    return torch.where(possible, torch.exp(part - torch.where(possible, whole, 0.0)), 0.0)


def _sum(values: Tensor, axis: int) -> Tensor:
    return values.sum(axis)


def _log_sum(values: Tensor, axis: int) -> Tensor:
    return torch.logsumexp(values, axis)


LINEAR = Arithmetic(0.0, 1.0, torch.mul, _sum, _quotient)
LOGS = Arithmetic(-torch.inf, 0.0, torch.add, _log_sum, _quotient_of_logs)
