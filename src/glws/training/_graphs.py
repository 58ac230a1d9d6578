"""CUDA graphs: the kernels of a step are recorded once and replayed.

A graph has a fixed number of rows. Batches of ragged groups have many: they are padded to the next of four sizes per
doubling, by repeating their rows from the first on. Outputs for the repeated rows are dropped, so their gradient is
zero; only batch norm is affected, whose statistics then count some rows twice.
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
    """The smallest padded size that is not below `rows`, a function of `rows` only.

    >>> [padded_size(rows) for rows in (1, 7, 41, 64, 65, 120)]
    [1, 7, 48, 64, 80, 128]
    """
    step = max((1 << (rows - 1).bit_length()) // (2 * SIZES_PER_DOUBLING), 1)
    return -(-rows // step) * step


def fill_by_repeating(buffer: Tensor, rows: Tensor) -> None:
    """Write the rows into the buffer, repeated from the first on if it is longer.

    >>> buffer = torch.zeros(5)
    >>> fill_by_repeating(buffer, torch.tensor([1.0, 2.0, 3.0]))
    >>> buffer
    tensor([1., 2., 3., 1., 2.])
    """
    for piece in torch.split(buffer, len(rows)):
        piece.copy_(rows[: len(piece)])


class GraphReplay:
    """A function without arguments, recorded once; each call replays it and copies its results.

    It reads and writes tensors at fixed addresses. It samples from the `generators` (and from torch's own), as they are
    seeded at the time of the replay.
    """

    def __init__(self, function: Callable[[], tuple[Tensor, ...]], generators: Sequence[torch.Generator] = ()) -> None:
        _warmed_up(function)
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph):
            self._results = function()

    def again(self) -> tuple[Tensor, ...]:
        """The results at their fixed addresses; the next replay overwrites them."""
        self._graph.replay()
        return self._results

    def __call__(self) -> tuple[Tensor, ...]:
        """A copy of the results."""
        return tuple(result.clone() for result in self.again())


def _warmed_up(function: Callable[[], object]) -> None:
    """Call the function a few times on a side stream, so that first allocations are not recorded."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(side)


class ViewGraphs:
    """The views of a data set, one graph per view and size; equal seeds give equal views."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._recorded: dict[Hashable, tuple[Tensor, torch.Generator, GraphReplay]] = {}

    def __call__(self, name: str, instances: Tensor, seed: int) -> Tensor:
        """The view of that name ("weak", "strong", "plain") of these instances."""
        key = (name, padded_size(len(instances)), instances.shape[1:], instances.dtype)
        if key not in self._recorded:
            self._recorded[key] = self._record(getattr(self._views, name), instances, padded_size(len(instances)))
        buffer, generator, replay = self._recorded[key]
        fill_by_repeating(buffer, instances)
        generator.manual_seed(seed)
        return replay()[0][: len(instances)]

    def _record(self, look: Augmentation, instances: Tensor, size: int) -> tuple[Tensor, torch.Generator, GraphReplay]:
        buffer = instances.new_empty(size, *instances.shape[1:])
        fill_by_repeating(buffer, instances)
        generator = torch.Generator(instances.device)
        return (
            buffer,
            generator,
            recorded("a view", lambda: GraphReplay(lambda: (look(buffer, generator),), [generator])),
        )


class RecordedPass:
    """The forward pass of a network on a buffer, and the backward pass to the weights, both recorded.

    They are recorded on aliases of the weights, same memory but other tensors: autograd stores for each tensor the
    stream of its first use, and would wait for that of the training, which is not allowed while recording.
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
        """The outputs for the current content of the buffer; they overwrite those of an earlier call."""
        results: tuple[Tensor, ...] = _ReplayFunction.apply(self, *self.weights)  # type: ignore[no-untyped-call]
        return results


class _ReplayFunction(torch.autograd.Function):
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
    """Forward and backward pass of a network in training, one graph for each size.

    A graph keeps the inputs of its backward pass at fixed addresses, so it must not run again in between: the second
    call with gradient in a step has another graph than the first, and so on (`begin_step` resets the count). Calls
    without gradient have their own.
    """

    def __init__(self, model: nn.Module, call: nn.Module, precision: Callable[[], AbstractContextManager[Any]]) -> None:
        self._model, self._call, self._precision = model, call, precision
        self._learning: dict[Hashable, RecordedPass] = {}
        self._looking: dict[Hashable, tuple[Tensor, GraphReplay]] = {}
        self._calls = 0

    def begin_step(self) -> None:
        """Release the graphs of earlier calls with gradient."""
        self._calls = 0

    def __call__(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and features of these rows, in the memory format of the network."""
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

    def _looker(self, buffer: Tensor) -> GraphReplay:
        return GraphReplay(lambda: self._call(buffer))

    def _recorded(self, record: Callable[[Tensor], Any], buffer: Tensor) -> Any:
        def inside() -> Any:
            with self._precision():
                return record(buffer)

        return recorded("the network", lambda: restoring_state(self._model, buffer.device, inside))


Result = TypeVar("Result")


def restoring_state(model: nn.Module, device: torch.device, record: Callable[[], Result]) -> Result:
    """Record with the statistics of the network and torch's generators restored afterwards."""
    buffers = [(kept, kept.clone()) for kept in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        result = record()
    with torch.no_grad():
        for kept, before in buffers:
            kept.copy_(before)
    return result


def _buffer(instances: Tensor, size: int) -> Tensor:
    """A buffer for `size` rows, in the memory format of these, filled with them."""
    is_image = instances.ndim == 4 and instances.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_image else torch.contiguous_format
    buffer = torch.empty(
        (size, *instances.shape[1:]), dtype=instances.dtype, device=instances.device, memory_format=layout
    )
    fill_by_repeating(buffer, instances)
    return buffer


def recorded(what: str, record: Callable[[], Result]) -> Result:
    """The result of recording, or a one-line error with the reason."""
    try:
        return record()
    except RuntimeError as error:
        reason = one_line(error)
        raise ConfigError(
            f'`training.speed` is graphs, but {what} cannot be recorded; set "eager". {reason}'
        ) from error
