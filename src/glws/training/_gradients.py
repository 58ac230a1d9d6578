"""The sum of the gradients of all processes, computed while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glws.training._world import World

BUCKET = 1 << 22
"""Gradients travel together in messages of about so many bytes."""


@contextmanager
def summed_gradients(model: nn.Module, world: World) -> Iterator[None]:
    """A context for a backward pass: on exit every gradient is the sum of those of all processes.

    Weights are put into buckets from the last to the first, about as their gradients arrive. A bucket is sent as soon
    as it is complete and all earlier ones are sent, so that processes send the same messages in the same order. What a
    process has no gradient for counts as 0; where no process has one, there is none, as in one process.
    """
    if world.size == 1:
        yield
        return
    sums = _Sums(model, world)
    handles: list[RemovableHandle] = [
        weight.register_post_accumulate_grad_hook(sums.arrived)  # type: ignore[no-untyped-call]
        for weight in sums.weights
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    sums.finish()


class _Sums:
    def __init__(self, model: nn.Module, world: World) -> None:
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._world = world
        self._buckets = buckets(self.weights[::-1])
        self._missing = [len(bucket) for bucket in self._buckets]
        self._bucket_of = {id(weight): place for place, bucket in enumerate(self._buckets) for weight in bucket}
        self._sent: list[tuple[Tensor, Any]] = []

    def arrived(self, weight: Tensor) -> None:
        """Notes that the gradient of this weight is there, and sends what is complete."""
        self._missing[self._bucket_of[id(weight)]] -= 1
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._send()

    def finish(self) -> None:
        """Sends what is left, waits for all, and puts the sums in place."""
        while len(self._sent) < len(self._buckets):
            self._send()
        for bucket, (flat, pending) in zip(self._buckets, self._sent, strict=True):
            self._world.wait_for(pending)
            _put_back(bucket, flat)

    def _send(self) -> None:
        """One message: the gradients, and for each weight whether there is one."""
        bucket = self._buckets[len(self._sent)]
        pieces = [torch.zeros_like(each).reshape(-1) if each.grad is None else each.grad.reshape(-1) for each in bucket]
        known = pieces[0].new_tensor([float(each.grad is not None) for each in bucket])
        flat = torch.cat([*pieces, known])
        self._sent.append((flat, self._world.begin_sum(flat)))


def buckets(weights: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """The weights in this order, in lists of about `BUCKET` bytes.

    >>> [len(bucket) for bucket in buckets([nn.Parameter(torch.zeros(size)) for size in (10, 1 << 20, 5, 5)])]
    [2, 2]
    """
    found: list[list[nn.Parameter]] = []
    size = BUCKET
    for weight in weights:
        if size >= BUCKET:
            found.append([])
            size = 0
        found[-1].append(weight)
        size += weight.nbytes
    return found


def _put_back(bucket: list[nn.Parameter], flat: Tensor) -> None:
    *totals, known = torch.split(flat, [*(weight.numel() for weight in bucket), len(bucket)])
    for place, (weight, total) in enumerate(zip(bucket, totals, strict=True)):
        if weight.grad is not None:
            weight.grad.copy_(total.view_as(weight))
        elif bool(known[place] > 0):
            weight.grad = total.view_as(weight).clone()
