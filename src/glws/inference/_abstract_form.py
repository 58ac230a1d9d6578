"""`AbstractForm`: what every form of weak labels offers; `AbstractCompiledForm`: one with a kernel for the CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.automata import Automaton
from glws.errors import AutomatonError
from glws.inference import _trellis as trellis
from glws.inference._compiled_forms import Found
from glws.inference._rows import RowArrays, Rows, Solution, least

Potentials = Float[Tensor, "groups instances classes"]
Labelings = Int[Tensor, "groups instances"]
"""One labeling of each group; -1 in padding and in impossible groups."""
Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]
"""log Z of each group, and the posterior of each label."""


FormT = TypeVar("FormT", bound="AbstractForm")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy the tensor to a device; copies to a GPU are asynchronous, from pinned memory."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.contiguous().pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class AbstractForm(ABC):
    """The weak labels of a batch, as tensors whose first axis is the group."""

    is_plain: ClassVar[bool] = False
    """Whether the answer is a fixed sequence of sums and products, which never reads a value on the host."""

    selection: AbstractForm | None = None
    """p(selected | y), if the groups were sampled conditional on their weak label (`Selected`)."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # else dataclass writes one, which prints tensors
            cls.__repr__ = short_repr  # type: ignore[method-assign]

    @abstractmethod
    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """log Z and q_j(k), in the dtype of the potentials; padding holds finite numbers."""

    def solution(
        self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Solution:
        """`solve` with engine and error; forms with approximate answers override this."""
        return Solution(*self.solve(potentials, lengths))

    def solution_of_rows(self, rows: Rows) -> Solution:
        """`solution` for groups without padding, q as [rows, classes]: padded, few groups at a time."""
        return rows.solved(lambda groups, values, lengths: self.select(groups).solution(values, lengths))

    @abstractmethod
    def automaton(self, group: int, length: int) -> Automaton:
        """The weak label of one group of this length, as an automaton."""

    # Queries about whole labelings, for possible groups only. Potentials are float64. Answers in padding are ignored.
    # The defaults use the trellis, which answers for any automaton.

    def mode(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Labelings:
        """The most likely labeling of each group."""
        return trellis.most_likely(*self._trellis(potentials, lengths, "the most likely labeling"))

    def sample(
        self,
        potentials: Potentials,
        lengths: Int[Tensor, "groups"],
        num_samples: int,
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, "n groups instances"]:
        """Independent samples of labelings from the posterior."""
        return trellis.sample(*self._trellis(potentials, lengths), num_samples, generator)

    def entropy(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Float[Tensor, "groups"]:
        """Entropy of the posterior over labelings, in nats."""
        return trellis.entropy(*self._trellis(potentials, lengths, "the entropy over labelings"))

    def _trellis(
        self, potentials: Potentials, lengths: Int[Tensor, "groups"], single_paths_for: str | None = None
    ) -> tuple[Tensor, Tensor, trellis.Trellis]:
        automata, index = self.machines(lengths)
        if single_paths_for and any(a.sum_paths and not a.is_unambiguous() for a in automata):
            raise AutomatonError(
                f"{single_paths_for} is not available for an automaton that sums over several paths of one labeling"
            )
        return trellis.centered(potentials)[0], lengths, trellis.build(automata, index)

    def machines(self, lengths: Int[Tensor, "groups"]) -> tuple[tuple[Automaton, ...], Int[Tensor, "groups"]]:
        """The distinct automata, and the number of the automaton of each group."""
        automata = tuple(self.automaton(group, length) for group, length in enumerate(lengths.tolist()))
        return automata, torch.arange(len(automata), device=lengths.device)

    def engine(self, size: int | None) -> str:
        """Name of the engine for groups of this common size (None: sizes differ)."""
        return "closed"

    def select(self: FormT, groups: Int[Tensor, "chosen"]) -> FormT:
        """The form of some of the groups."""
        return self._mapped(lambda value: value[groups.to(value.device)])

    def between(self: FormT, first: int, last: int) -> FormT:
        """The form of the groups from the first up to the last."""
        return self._mapped(lambda value: value[first:last])

    def to(self: FormT, device: torch.device) -> FormT:
        """The form with its tensors on another device."""
        if device.type == "cpu" and _first_tensor(self).device.type == "cpu":
            return self
        return self._mapped(lambda value: to_device(value, device))

    def is_capturable(self, device: torch.device) -> bool:
        """Whether a CUDA graph can record `solve` on this device: the host reads no value."""
        return self.is_plain and device.type == "cuda"

    def tensors(self) -> list[Tensor]:
        """All its tensors, nested ones included, in a fixed order."""
        found: list[Tensor] = []

        def append(value: Tensor) -> Tensor:
            found.append(value)
            return value

        self._mapped(append)
        return found

    def with_tensors(self: FormT, tensors: Iterator[Tensor]) -> FormT:
        """The form with its tensors replaced by the next of these, in the order of `tensors`."""
        return self._mapped(lambda _: next(tensors))

    def repeated(self: FormT) -> FormT:
        """The form of the batch twice in a row."""
        return self._mapped(lambda value: torch.cat([value, value]))

    def _mapped(self: FormT, change: Callable[[Tensor], Tensor]) -> FormT:
        return _with_tensors(self, change)


class AbstractCompiledForm(AbstractForm):
    """A form that a compiled kernel answers on the CPU, in linear space; plain torch answers what is left."""

    @abstractmethod
    def compiled(self, rows: RowArrays) -> Found | None:
        """The answer of a compiled kernel; None without one."""

    @abstractmethod
    def in_log_space(
        self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Answer:
        """The answer in plain torch, for any range of numbers."""

    def on_gpu(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Answer | None:
        """The answer of a GPU kernel; None without one."""
        return None

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """By a kernel if there is one."""
        answer = self.solution(potentials, lengths)
        return answer.log_likelihood, answer.marginals

    def solution(self, potentials: Potentials, lengths: Int[Tensor, "groups"]) -> Solution:
        """By a kernel if there is one."""
        if not potentials.is_cpu:
            return Solution(*(self.on_gpu(potentials, lengths) or self.in_log_space(potentials, lengths)))
        rows = RowArrays.of_padded(potentials, lengths) if potentials.numel() else None
        if rows is None or (found := self.compiled(rows)) is None:
            return Solution(*self.in_log_space(potentials, lengths))
        return self._finished(rows, found, potentials.shape)

    def solution_of_rows(self, rows: Rows) -> Solution:
        """`solution` for groups without padding: nothing is padded for a kernel on the CPU."""
        arrays = rows.arrays() if rows.values.is_cpu else None
        if arrays is None or (found := self.compiled(arrays)) is None:
            return super().solution_of_rows(rows)
        return self._finished(arrays, found, rows.values.shape)

    def _finished(self, rows: RowArrays, found: Found, shape: Sequence[int]) -> Solution:
        """log Z in the type of the values; groups that the kernel left (NaN) are answered in log space."""
        (log_z, marginals), are_possible = found, least(found.log_z) > LEAST_FLOAT
        if not are_possible:
            self._answer_others(rows.tensors(), *map(torch.from_numpy, found))
        answer = torch.from_numpy(marginals.reshape(shape))
        return Solution(torch.from_numpy(log_z).to(answer.dtype), answer, None, None, are_possible)

    def _answer_others(self, rows: Rows, log_z: Tensor, marginals: Tensor) -> None:
        """Answer the groups without one, and write zeros where float32 takes a group as impossible."""
        left = log_z.isnan().nonzero()[:, 0]
        others = rows.select(left)
        for some in others.pieces() if len(left) else ():
            form, potentials = self.select(left[some]), others.padded(some).double()
            log_z[left[some]], answer = form.in_log_space(potentials, others.lengths[some])
            others.put(marginals, some, answer.to(marginals.dtype))
        if marginals.dtype == torch.float32:
            marginals.copy_(rows.where_possible_classes(marginals, log_z.float()))


LEAST_FLOAT = -3e38
"""About the least number of float32."""
T = TypeVar("T")


def _with_tensors(record: T, change: Callable[[Tensor], Tensor]) -> T:
    """A dataclass with `change` applied to its tensors, nested ones included."""
    changed: T = object.__new__(type(record))
    for name in _names(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if isinstance(value, Tensor):
            value = change(value)
        elif is_dataclass(value):
            value = _with_tensors(value, change)
        object.__setattr__(changed, name, value)
    return changed


def _first_tensor(record: Any) -> Tensor:
    """The first tensor of a dataclass, nested ones included; without one, any on the CPU."""
    for name in _names(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if isinstance(value, Tensor):
            return value
        if is_dataclass(value):
            return _first_tensor(value)
    return torch.empty(0)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))
