"""Whole steps from CUDA graphs, for networks whose kernels run faster than they are launched.

Loading the instances, their views, the network, the objective and the gradient are recorded once for each shape of a
batch. A step then packs its inputs (instances, groups, weak labels) into one block of memory, copies it to the device
at once, and replays. Random numbers come from seeds that are set before each replay, so a replayed step gives the same
result as an eager step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glws._launching import power_of_two
from glws.data import Batch, BatchPart
from glws.data.augment import Views
from glws.inference._problem import skip_nan_check
from glws.methods import AbstractMethod, Outputs, Progress, Recordable, Recording, Step
from glws.training._graphs import GraphReplay, padded_size, recorded, restoring_state
from glws.training._meters import predicted_counts, row_of
from glws.training._network import Forward

LATER = Progress(epoch=1 << 30)
ALIGNMENT = 16


class StepMetrics(NamedTuple):
    """The metrics of a step: names of numbers, the numbers with a 1 at their end, the predicted classes."""

    names: tuple[str, ...]
    row: Tensor
    predicted: Tensor


class StepGraphs:
    """Gradients of whole steps, one graph for each shape of a batch, of a method that can say what a step reads.

    `values` are all instances, on the GPU. `teacher` is the moving average of the network, if there is one.
    """

    def __init__(
        self,
        method: AbstractMethod,
        network: Forward,
        teacher: Forward | None,
        views: Views,
        values: Tensor,
        clip: float | None = None,
    ) -> None:
        self._method, self._network, self._teacher = method, network, teacher
        self._views, self._values, self._clip = views, values, clip
        self._recorded: dict[Hashable, _Recorded] = {}

    def __call__(self, batch: Batch, progress: Progress, seed: Callable[[str], int]) -> StepMetrics | None:
        """Set the gradients of the network's weights; None without any effect if recording is impossible.

        The instances of the batch are indices into all instances. `seed` returns the seed of each view.
        """
        recording = self._method.recording(batch, progress)
        if recording is None or not all(form.is_capturable(self._values.device) for form in recording.forms):
            return None
        arguments = _arguments(batch, recording.forms)
        key = (tuple(item.shape for item in arguments), *(_shape(form) for form in recording.forms))
        if key not in self._recorded:
            self._recorded[key] = recorded("a step", lambda: self._record(batch, recording, arguments))
        return self._recorded[key](arguments, seed)

    def _record(self, batch: Batch, recording: Recording, arguments: Sequence[Tensor]) -> _Recorded:
        place = Packed(arguments, self._values.device)
        place.fill(arguments)
        inside, generators = _Inside.of(place.views, batch, recording), dict[str, torch.Generator]()
        learned = {n: weight for n, weight in self._network.call.named_parameters() if weight.requires_grad}
        aliases = {name: weight.detach().requires_grad_() for name, weight in learned.items()}
        names: list[str] = []

        def once() -> tuple[Tensor, ...]:
            step = self._step(inside, aliases, generators)
            with torch.enable_grad(), skip_nan_check():
                loss = self._method.loss(step)
                found = torch.autograd.grad(loss, list(aliases.values()), allow_unused=True, materialize_grads=True)
            gradients = found if self._clip is None else _clipped(step, found, self._clip)
            step.note("loss", loss)
            names[:] = step.notes
            predicted = predicted_counts(step.seen(), inside.is_real)
            return row_of(step.notes.values(), loss.device), predicted, *gradients

        for name in recording.views:
            generators[name] = torch.Generator(self._values.device)
        result = restoring_state(
            self._network.model, self._values.device, lambda: GraphReplay(once, list(generators.values()))
        )
        return _Recorded(place, result, generators, names, list(learned.values()))

    def _step(self, inside: _Inside, aliases: dict[str, Tensor], generators: dict[str, torch.Generator]) -> Step:
        instances = self._values[inside.numbers]

        def view(name: str) -> Tensor:
            seen: Tensor = getattr(self._views, name.split("_")[0])(instances, generators[name])
            return seen

        def network(seen: Tensor) -> Outputs:
            return self._network.outputs(seen, aliases)

        batch = Batch(instances, inside.numbers, inside.parts)
        return Step(batch, network, view, None if self._teacher is None else self._teacher.outputs, progress=LATER)


def _clipped(step: Step, gradients: Sequence[Tensor], most: float) -> tuple[Tensor, ...]:
    """The gradients, scaled down to a total norm of at most this."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))
    step.note("gradient_norm", norm)
    return torch._foreach_mul(list(gradients), (most / (norm + 1e-6)).clamp_max(1.0))


# ---------------------------------------------------------------- inputs of a graph


def _arguments(batch: Batch, forms: Sequence[Recordable]) -> list[Tensor]:
    """All inputs of a step on the device, in few distinct shapes."""
    rows = len(batch.instances)
    padded = torch.arange(padded_size(rows))
    values = [batch.instances[padded % rows], padded < rows]
    for part in batch.parts:
        values += [_widened(part.padded_rows), part.lengths]
    return values + [value for form in forms for value in form.tensors()]


def _widened(rows: Tensor) -> Tensor:
    """The row numbers of a batch with more columns, so that few widths occur; padding is row 0."""
    return torch.nn.functional.pad(rows, (0, power_of_two(rows.shape[1]) - rows.shape[1]))


class Packed:
    """Tensors of fixed shapes in one block of memory on a device, written in one copy.

    >>> place = Packed([torch.zeros(3, dtype=torch.int64), torch.zeros(2, 2)], torch.device("cpu"))
    >>> place.fill([torch.arange(3), torch.eye(2)])
    >>> place.views[0], place.views[1][1]
    (tensor([0, 1, 2]), tensor([0., 1.]))
    """

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        self._places, total = list[slice](), 0
        for size in sizes:
            self._places.append(slice(total, total + size))
            total += -(-size // ALIGNMENT) * ALIGNMENT
        self._memory = torch.zeros(total, dtype=torch.uint8, device=device)
        self.views = list(self._viewed(self._memory, tensors))

    def fill(self, tensors: Sequence[Tensor]) -> None:
        """Write these values, of the same shapes."""
        is_far = self._memory.is_cuda
        packed = torch.empty(len(self._memory), dtype=torch.uint8, pin_memory=is_far)
        for place, tensor in zip(self._viewed(packed, tensors), tensors, strict=True):
            place.copy_(tensor)
        self._memory.copy_(packed, non_blocking=True)

    def _viewed(self, memory: Tensor, tensors: Sequence[Tensor]) -> Iterator[Tensor]:
        for place, tensor in zip(self._places, tensors, strict=True):
            yield memory[place].view(tensor.dtype).view(tensor.shape)


# ---------------------------------------------------------------- the recorded step


@dataclass(frozen=True, eq=False)
class _Inside:
    """A batch inside the recorded step: its instances, their padding mask, and their groups."""

    numbers: Tensor
    is_real: Tensor
    parts: tuple[BatchPart, ...]

    @classmethod
    def of(cls, views: Sequence[Tensor], batch: Batch, recording: Recording) -> _Inside:
        """The batch at these addresses, which `_arguments` fills."""
        left = iter(views)
        numbers, is_real = next(left), next(left)
        tables = [(next(left), next(left)) for _ in batch.parts]
        placed = recording.stand_ins([form.with_tensors(left) for form in recording.forms])
        parts = [
            replace(part, rows=rows, lengths=lengths, weak=weak, are_in_order=False, source=None)
            for part, (rows, lengths), weak in zip(batch.parts, tables, placed, strict=True)
        ]
        return cls(numbers, is_real, tuple(parts))


@dataclass(frozen=True, eq=False)
class _Recorded:
    """One graph, the addresses of its inputs, and the weights whose gradients it computes."""

    place: Packed
    replay: GraphReplay
    generators: dict[str, torch.Generator]
    names: list[str]
    weights: list[Tensor]

    def __call__(self, arguments: Sequence[Tensor], seed: Callable[[str], int]) -> StepMetrics:
        """Set the gradients, which stay until the next replay."""
        self.place.fill(arguments)
        for name, generator in self.generators.items():
            generator.manual_seed(seed(name))
        row, predicted, *gradients = self.replay.again()
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        return StepMetrics(tuple(self.names), row, predicted)


def _shape(record: Any) -> Hashable:
    """The shape of a form, equal for forms that differ only in the values of their tensors."""
    values = [getattr(record, item.name) for item in fields(record)]
    return type(record), *(
        (value.shape, value.dtype) if isinstance(value, Tensor) else _shape(value) if is_dataclass(value) else value
        for value in values
    )
