"""`World`: the processes that train together. Each computes a share of the rows; all receive all outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from glws._messages import one_line
from glws.errors import ConfigError, RunError

TIMEOUT = 60.0
"""Seconds that a process waits for the others before it gives up."""


@dataclass(frozen=True)
class World:
    """This process among `size` of them.

    Where the loss is a sum over groups, a process owns whole groups (`Ownership`) and computes their part of it, with
    the denominators of the whole batch. Otherwise the network runs on the rows of this process, its outputs, which are
    small, are gathered, and every process computes the loss of the whole batch from the outputs of all rows, with
    gradients through its own. Either way the sum of the processes' gradients is the gradient of the batch: whatever the
    loss does with means, however ragged the groups, and however uneven the shares.

    `bounds` are the instance numbers at which the parts of the processes begin, if each has loaded only its
    own; by default the rows of each batch are divided evenly.
    """

    rank: int = 0
    size: int = 1
    bounds: tuple[int, ...] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process writes the shared output."""
        return self.rank == 0

    def share(self, numbers: Int[Tensor, "rows"]) -> slice:
        """The slice of the sorted instance numbers that belongs to this process."""
        if self.bounds is None:
            return slice(self.rank * len(numbers) // self.size, (self.rank + 1) * len(numbers) // self.size)
        edges = torch.searchsorted(numbers, torch.tensor(self.bounds), right=False).tolist()
        return slice(edges[self.rank], edges[self.rank + 1])

    def gathered(self, own: Float[Tensor, "own *rest"]) -> Float[Tensor, "rows *rest"]:
        """The rows of all processes, in order; the gradient goes to those of this process."""
        if self.size == 1:
            return own
        rows: Tensor = _Gathered.apply(own, self)  # type: ignore[no-untyped-call]
        return rows

    def begin_sum(self, values: Tensor) -> Any:
        """Begins to sum a tensor over all processes, in place; `wait_for` the answer ends it."""
        with _communication_errors():
            return dist.all_reduce(values, async_op=True)

    def wait_for(self, pending: Any) -> None:
        """Wait for the end of what was begun."""
        with _communication_errors():
            pending.wait()

    def table(self, own: Float[Tensor, "numbers"]) -> Float[Tensor, "processes numbers"]:
        """The same numbers of all processes, in one message; there is no gradient."""
        own = own.detach()
        if self.size == 1:
            return own[None]
        rows = [torch.empty_like(own) for _ in range(self.size)]
        with _communication_errors():
            dist.all_gather(rows, own)
        return torch.stack(rows)

    def summed(self, own: Tensor) -> Tensor:
        """The sum over all processes of a tensor on the CPU."""
        total = own.clone()
        if self.size > 1:
            with _communication_errors():
                dist.all_reduce(total)
        return total

    def broadcast(self, number: int) -> int:
        """The number of the first process, on all processes."""
        return int(self.summed(torch.tensor(number if self.is_first else 0)))

    def begin_any(self, is_so: bool) -> Callable[[], bool]:
        """Begins to ask whether it holds in any of the processes; the function waits for the answer."""
        if self.size == 1:
            return lambda: is_so
        total = torch.tensor(int(is_so))
        pending = self.begin_sum(total)

        def answer() -> bool:
            self.wait_for(pending)
            return bool(total > 0)

        return answer

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.summed(torch.zeros(()))


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, own: Tensor, world: World) -> Tensor:
        counts = _counts(len(own), world)
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: len(own)] = own
        pieces = [torch.empty_like(padded) for _ in counts]
        with _communication_errors():
            dist.all_gather(pieces, padded)
        context.first, context.number = sum(counts[: world.rank]), len(own)
        return torch.cat([piece[:count] for piece, count in zip(pieces, counts, strict=True)])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[context.first : context.first + context.number], None


def _counts(own: int, world: World) -> list[int]:
    """The number of rows of each process."""
    counts = torch.zeros(world.size, dtype=torch.int64)
    counts[world.rank] = own
    found: list[int] = world.summed(counts).tolist()
    return found


@contextmanager
def _communication_errors() -> Iterator[None]:
    """Turn errors of communication, such as an ended or unreachable process, into one line."""
    try:
        yield
    except RuntimeError as error:
        waited = re.search(r"[Tt]imed out waiting (\d+)ms", str(error))
        if waited:
            seconds = int(waited[1]) / 1000
            raise RunError(
                f"another process of this training has not answered for {seconds:g} seconds; continue with --resume, "
                "or give it more time: training.timeout=600"
            ) from error
        reason = one_line(error)
        raise RunError(f"another process of this training is gone ({reason}); continue with --resume") from error


def join_world(timeout: float = TIMEOUT) -> World:
    """The processes that `torchrun` started, or only this one.

    Tensors on GPUs use nccl, others gloo. A process that waits for another longer than `timeout` seconds gives
    up: with gloo that is a `RunError`, with nccl torch ends the process.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not dist.is_initialized():
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local < torch.cuda.device_count():
            torch.cuda.set_device(local)
        _bind_defaults()
        try:
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
            own = dist.PrefixStore(_life(), store)  # type: ignore[attr-defined]
            dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
        except (RuntimeError, ValueError) as error:
            reason = one_line(error)
            raise ConfigError(f"cannot join the other processes: {reason}; start them with torchrun") from error
    return World(dist.get_rank(), dist.get_world_size())


def _life() -> str:
    """What the processes of this start have in common, and those of an earlier start of the same job have not.

    They would find the addresses of processes that are gone: torchrun keeps its store when it restarts them. On several
    machines the number of restarts may differ; there torchrun must open a new store (docs/training.md).
    """
    is_one_machine = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    return f"glws {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0') if is_one_machine else ''}"


def _bind_defaults() -> None:
    """Load the functions of torch that have the process group as a default, before it exists.

    Loaded later, as the optimizers of torch do, they would keep the group alive. Its threads would then outlive
    `leave_world`, and one that releases its last tensor while Python exits aborts the process.
    """
    import torch.distributed.nn  # noqa: F401


def leave_world() -> None:
    """End the communication with other processes, if any, and its threads."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def joined_world(timeout: float = TIMEOUT) -> Iterator[World]:
    """A context with the processes to train with, which are left on exit."""
    world = join_world(timeout)
    try:
        yield world
    finally:
        leave_world()
