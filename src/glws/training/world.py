"""`World`: the processes that train together. Each computes its share of the rows; all know the answers of all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch import distributed as dist

from glws.errors import ConfigError


@dataclass(frozen=True)
class World:
    """This process among `size` of them.

    The network runs on the rows that are this process's own; its outputs, small beside the work, are handed round, and
    every process computes the loss of the whole batch from the outputs of all rows, with gradients through its own. So
    the sum of the processes' gradients is the gradient of the batch: whatever the loss does with means, however ragged
    the groups, and however uneven the shares.

    `bounds` are the numbers of the instances at which the parts of the processes begin, where each has loaded only its
    own; without them the rows of each batch are shared out evenly.
    """

    rank: int = 0
    size: int = 1
    bounds: tuple[int, ...] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0

    def share(self, numbers: Int[Tensor, "rows"]) -> slice:
        """Which of the sorted instance numbers are this process's own."""
        if self.bounds is None:
            return slice(self.rank * len(numbers) // self.size, (self.rank + 1) * len(numbers) // self.size)
        edges = torch.searchsorted(numbers, torch.tensor(self.bounds), right=False).tolist()
        return slice(edges[self.rank], edges[self.rank + 1])

    def gathered(self, own: Float[Tensor, "own *rest"]) -> Float[Tensor, "rows *rest"]:
        """The rows of all processes, in order; the gradient goes to one's own."""
        if self.size == 1:
            return own
        rows: Tensor = _Gathered.apply(own, self)  # type: ignore[no-untyped-call]
        return rows

    def sum_gradients(self, modules: Iterable[nn.Module]) -> None:
        """Adds up the gradients of all processes, in one message."""
        if self.size == 1:
            return
        weights = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
        for weight in weights:
            if weight.grad is None:  # a process without rows has nothing to add
                weight.grad = torch.zeros_like(weight)
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        totals = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, total in zip(gradients, totals, strict=True):
            gradient.copy_(total.view_as(gradient))

    def agreed(self, tensors: Iterable[Tensor]) -> None:
        """Gives every process the first one's values, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def any(self, is_so: bool) -> bool:
        """Whether it is so in any process."""
        if self.size == 1:
            return is_so
        flag = torch.tensor(float(is_so), device=_message_device())
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier()


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, own: Tensor, world: World) -> Tensor:
        counts = _counts(len(own), own.device, world)
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: len(own)] = own
        pieces = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(pieces, padded)
        context.first, context.number = sum(counts[: world.rank]), len(own)
        return torch.cat([piece[:count] for piece, count in zip(pieces, counts, strict=True)])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[context.first : context.first + context.number], None


def _counts(own: int, device: torch.device, world: World) -> list[int]:
    numbers = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world.size)]
    dist.all_gather(numbers, torch.tensor([own], device=device))
    return [int(number) for number in numbers]


def _message_device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def join_world() -> World:
    """The processes that `torchrun` started, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not dist.is_initialized():
        try:
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"cannot join the other processes: {reason}; start them with torchrun") from error
    return World(dist.get_rank(), dist.get_world_size())


def leave_world() -> None:
    """Ends the work with other processes, if there was any."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
