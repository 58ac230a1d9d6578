"""CUDA graphs: what a step launches is recorded once and replayed, so that the host no longer holds up the device.

A graph is of one number of rows. Batches of ragged groups have many: they are padded to the next of four sizes per
doubling, by repeating their rows from the first on. What the network says of the repeated rows is cut off, so their
gradient is zero; only batch norm notices them, whose statistics then count some rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glws._messages import one_line
from glws.data.augment import Augmentation, Views
from glws.errors import ConfigError

SIZES_PER_DOUBLING = 4
WARM_UP = 3


def padded_size(rows: int) -> int:
    """The smallest size that is not below `rows`: a function of nothing else, so that a resumed training pads alike.

    >>> [padded_size(rows) for rows in (1, 7, 41, 64, 65, 120)]
    [1, 7, 48, 64, 80, 128]
    """
    step = max((1 << (rows - 1).bit_length()) // (2 * SIZES_PER_DOUBLING), 1)
    return -(-rows // step) * step


def fill_by_repeating(buffer: Tensor, rows: Tensor) -> None:
    """Writes the rows into the buffer, from the first on again where it is longer.

    >>> buffer = torch.zeros(5)
    >>> fill_by_repeating(buffer, torch.tensor([1.0, 2.0, 3.0]))
    >>> buffer
    tensor([1., 2., 3., 1., 2.])
    """
    for piece in torch.split(buffer, len(rows)):
        piece.copy_(rows[: len(piece)])


class Replayed:
    """A function without arguments, recorded once; each call replays it and gives its results a place of their own.

    It reads and writes tensors that stay where they are. What it draws, it draws from the `generators` (and from
    torch's own), as they are seeded at the time of the replay.
    """

    def __init__(self, function: Callable[[], tuple[Tensor, ...]], generators: Sequence[torch.Generator] = ()) -> None:
        _warmed_up(function)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph):
            self._results = function()

    def again(self) -> tuple[Tensor, ...]:
        """What the function gives now, in the place where it always is: the next replay writes over it."""
        self._graph.replay()
        return self._results

    def __call__(self) -> tuple[Tensor, ...]:
        """What the function gives now."""
        return tuple(result.clone() for result in self.again())


def _warmed_up(function: Callable[[], object]) -> None:
    """Called a few times beside the stream of the training: what is made at the first call is no part of a graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(side)


class ViewGraphs:
    """The views of a data set, one graph for each view and size. The same seed gives the same view."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._recorded: dict[Hashable, tuple[Tensor, torch.Generator, Replayed]] = {}

    def __call__(self, name: str, instances: Tensor, seed: int) -> Tensor:
        """The view of that name ("weak", "strong", "plain") of these instances."""
        key = (name, padded_size(len(instances)), instances.shape[1:], instances.dtype)
        if key not in self._recorded:
            self._recorded[key] = self._record(getattr(self._views, name), instances, padded_size(len(instances)))
        buffer, generator, replay = self._recorded[key]
        fill_by_repeating(buffer, instances)
        generator.manual_seed(seed)
        return replay()[0][: len(instances)]

    def _record(self, look: Augmentation, instances: Tensor, size: int) -> tuple[Tensor, torch.Generator, Replayed]:
        buffer = instances.new_empty(size, *instances.shape[1:])
        fill_by_repeating(buffer, instances)
        generator = torch.Generator(instances.device)
        return buffer, generator, recorded("a view", lambda: Replayed(lambda: (look(buffer, generator),), [generator]))


class RecordedPass:
    """A network's answer to a buffer, and the backward pass from it to the weights, both recorded.

    They are recorded on aliases of the weights, same memory but other tensors: autograd remembers for each tensor the
    stream it was first used on, and would wait for that of the training, which a recording must not do.
    """

    def __init__(self, call: nn.Module, buffer: Tensor) -> None:
        learned = {name: weight for name, weight in call.named_parameters() if weight.requires_grad}
        aliases = {name: weight.detach().requires_grad_() for name, weight in learned.items()}

        def answers() -> tuple[Tensor, ...]:
            found: tuple[Tensor, ...] = functional_call(call, aliases, (buffer,))
            return found

        def backwards(results: Sequence[Tensor], into: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(results, list(aliases.values()), into, allow_unused=True)

        def both() -> None:
            results = answers()
            backwards(results, [torch.zeros_like(result) for result in results])

        _warmed_up(both)
        self.buffer, self.weights = buffer, list(learned.values())
        self.ahead, self.behind = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.ahead):
            results = answers()
        self.into = [torch.zeros_like(result) for result in results]
        with torch.cuda.graph(self.behind, pool=self.ahead.pool()):
            self.gradients = backwards(results, self.into)
        self.results = [result.detach() for result in results]

    def __call__(self) -> tuple[Tensor, ...]:
        """The answer to what the buffer now holds; what an earlier call gave is written over."""
        results: tuple[Tensor, ...] = _Replayed.apply(self, *self.weights)  # type: ignore[no-untyped-call]
        return results


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, recorded: RecordedPass, *weights: Tensor) -> tuple[Tensor, ...]:
        context.recorded = recorded
        context.set_materialize_grads(False)
        recorded.ahead.replay()
        return tuple(result.detach() for result in recorded.results)

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        recorded: RecordedPass = context.recorded
        for place, gradient in zip(recorded.into, gradients, strict=True):
            place.zero_() if gradient is None else place.copy_(gradient)
        recorded.behind.replay()
        return None, *(None if found is None else found.detach() for found in recorded.gradients)


class NetworkGraphs:
    """A network in training, forwards and backwards, one graph for each size.

    A graph keeps in one place what its backward pass reads, so between the two it must not run again: the second call
    with gradient in a step has another graph than the first, and so on (`begin_step` starts to count anew). Calls
    without gradient have their own.
    """

    def __init__(self, model: nn.Module, call: nn.Module, precision: Callable[[], AbstractContextManager[Any]]) -> None:
        self._model, self._call, self._precision = model, call, precision
        self._learning: dict[Hashable, RecordedPass] = {}
        self._looking: dict[Hashable, tuple[Tensor, Replayed]] = {}
        self._calls = 0

    def begin_step(self) -> None:
        """What was computed with gradient before is done with."""
        self._calls = 0

    def __call__(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of these rows, which are laid out as the network takes them."""
        rows, size = len(instances), padded_size(len(instances))
        logits, features = (self._learn if torch.is_grad_enabled() else self._look)(instances, size)
        return logits[:rows], features[:rows]

    def _learn(self, instances: Tensor, size: int) -> tuple[Tensor, Tensor]:
        key = (self._calls, size)
        self._calls += 1
        if key not in self._learning:
            self._learning[key] = self._recorded(self._learner, _buffer(instances, size))
        fill_by_repeating(self._learning[key].buffer, instances)
        logits, features = self._learning[key]()
        return logits, features

    def _look(self, instances: Tensor, size: int) -> tuple[Tensor, Tensor]:
        if size not in self._looking:
            buffer = _buffer(instances, size)
            self._looking[size] = buffer, self._recorded(self._looker, buffer)
        buffer, replay = self._looking[size]
        fill_by_repeating(buffer, instances)
        logits, features = replay()
        return logits, features

    def _learner(self, buffer: Tensor) -> RecordedPass:
        return RecordedPass(self._call, buffer)

    def _looker(self, buffer: Tensor) -> Replayed:
        return Replayed(lambda: self._call(buffer))

    def _recorded(self, record: Callable[[Tensor], Any], buffer: Tensor) -> Any:
        def inside() -> Any:
            with self._precision():
                return record(buffer)

        return recorded("the network", lambda: unnoticed(self._model, buffer.device, inside))


Made = TypeVar("Made")


def unnoticed(model: nn.Module, device: torch.device, record: Callable[[], Made]) -> Made:
    """What is recorded. That runs the network a few times: neither its statistics nor torch's stream shall know."""
    buffers = [(kept, kept.clone()) for kept in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        made = record()
    with torch.no_grad():
        for kept, before in buffers:
            kept.copy_(before)
    return made


def _buffer(instances: Tensor, size: int) -> Tensor:
    """Room for so many rows, laid out as these are, and filled with them."""
    is_image = instances.ndim == 4 and instances.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_image else torch.contiguous_format
    buffer = torch.empty(
        (size, *instances.shape[1:]), dtype=instances.dtype, device=instances.device, memory_format=layout
    )
    fill_by_repeating(buffer, instances)
    return buffer


def recorded(what: str, record: Callable[[], Made]) -> Made:
    """What is recorded, or one line that says why it cannot be."""
    try:
        return record()
    except RuntimeError as error:
        reason = one_line(error)
        raise ConfigError(
            f'`training.speed` is graphs, but {what} cannot be recorded; take "eager". {reason}'
        ) from error
