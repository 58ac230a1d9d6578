"""The checked input of `infer`: potentials, lengths and the form of the weak labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference._automata_form import Automata, common_size
from glws.inference._forms import AbstractForm, to_device
from glws.inference._rows import Rows, least


@runtime_checkable
class HasForm(Protocol):
    """Any batch of weak labels that has a form; every kind of `glws.kinds` is one."""

    @property
    def num_classes(self) -> int:
        """Number of classes of the weak labels."""

    def __len__(self) -> int:
        """Number of groups."""

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """The form of these weak labels for groups of these lengths."""


_CHECKS_VALUES: ContextVar[bool] = ContextVar("checks_values", default=True)


@contextmanager
def skip_nan_check() -> Iterator[None]:
    """Skip the NaN check on CUDA to avoid a device sync; a NaN reaches the loss.

    Training checks its loss once per epoch instead.
    """
    before = _CHECKS_VALUES.set(False)
    try:
        yield
    finally:
        _CHECKS_VALUES.reset(before)


Weak = Automaton | Sequence[Automaton] | AbstractForm | HasForm
"""What `infer` takes as weak labels: an automaton, one for each group, a form, or a kind."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of groups and the form of their weak labels.

    Potentials φ_j(k) are log-probabilities plus log-evidence, float32 or float64, 0 in padding.
    """

    potentials: Float[Tensor, "groups instances classes"] | Float[Tensor, "rows classes"]
    lengths: Int[Tensor, "groups"]
    form: AbstractForm
    is_full: bool = False
    """Whether the host knows that there is no padding."""

    @property
    def rows(self) -> Rows | None:
        """The groups one after the other, if that is how they came; None for padded ones."""
        return Rows.packed(self.potentials.detach(), self.lengths) if self.potentials.ndim == 2 else None

    def common_size(self) -> int | None:
        """1 or 2 if all groups have that size, else None."""
        if self.potentials.ndim == 3:
            return common_size(self.potentials, self.lengths)
        sizes = set(self.lengths.tolist())
        return sizes.pop() if sizes in ({1}, {2}) else None


def checked_problem(
    log_probs: Tensor, weak: Weak, lengths: Tensor | Sequence[int] | None = None, evidence: Tensor | None = None
) -> Problem:
    """The arguments of `infer`, checked and converted; differentiable in log_probs and evidence."""
    check_log_probs(log_probs, is_packed=lengths is not None)
    sizes = _lengths(lengths, log_probs)
    form = _form(weak, sizes, log_probs.shape[-1]).to(log_probs.device)
    sizes = to_device(sizes, log_probs.device) if not (log_probs.is_cpu and sizes.is_cpu) else sizes
    potentials = log_probs if log_probs.dtype == torch.float64 else log_probs.float()
    if evidence is not None:
        potentials = potentials + _evidence(evidence, potentials)
    is_full = lengths is None or log_probs.ndim == 2 or _are_full(sizes, log_probs.shape[1])
    if not is_full:
        steps = torch.arange(log_probs.shape[1], device=log_probs.device)
        potentials = torch.where((steps < sizes[:, None])[:, :, None], potentials, 0.0)
    _check_numbers(potentials, sizes)
    return Problem(potentials, sizes, form, is_full)


def check_log_probs(log_probs: Tensor, name: str = "log_probs", is_packed: bool = False) -> None:
    """Raise `DataError` unless `log_probs` is a floating point tensor with three axes, or two if packed."""
    if not isinstance(log_probs, Tensor) or not log_probs.is_floating_point():
        raise DataError(f"{name} must be a floating point tensor, found {_described(log_probs)}")
    if log_probs.ndim not in ((2, 3) if is_packed else (3,)) or log_probs.shape[-1] == 0:
        hint = f"; for groups of one instance pass {name}[:, None]" if log_probs.ndim == 2 else ""
        raise DataError(f"{name} must be [groups, instances, classes], found shape {list(log_probs.shape)}{hint}")


def _described(value: object) -> str:
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def _form(weak: Weak, lengths: Int[Tensor, "groups"], classes: int) -> AbstractForm:
    if isinstance(weak, AbstractForm):
        return weak
    if isinstance(weak, Automaton):
        return _checked(Automata.of(weak, len(lengths)), classes)
    if callable(getattr(weak, "form", None)):
        return _form_of_kind(cast(HasForm, weak), lengths, classes)
    return _checked(Automata.of(_sequence(weak, len(lengths)), len(lengths)), classes)


def _form_of_kind(weak: HasForm, lengths: Int[Tensor, "groups"], classes: int) -> AbstractForm:
    if weak.num_classes != classes:
        raise DataError(f"the weak labels are over {weak.num_classes} classes, log_probs over {classes}")
    if len(weak) != len(lengths):
        raise DataError(f"there are {len(lengths)} groups but {len(weak)} weak labels")
    return weak.form(lengths)


def _sequence(weak: object, groups: int) -> list[Automaton]:
    automata: list[Any] = list(weak) if isinstance(weak, Sequence) else [weak]
    for group, automaton in enumerate(automata):
        if not isinstance(automaton, Automaton):
            raise DataError(
                f"group {group}: expected an Automaton, found {type(automaton).__name__}; "
                "weak labels are a kind of glws.kinds, such as Proportions.of([2, 0])"
            )
    if len(automata) != groups:
        raise DataError(
            f"there are {groups} groups but {len(automata)} automata; give one for each group, or one for all"
        )
    return automata


def _checked(form: Automata, classes: int) -> Automata:
    wrong = {number for number, automaton in enumerate(form.automata) if automaton.num_symbols != classes}
    for group, number in enumerate(form.index.tolist() if wrong else []):
        if number in wrong:
            found = form.automata[number].num_symbols
            raise DataError(f"group {group}: the automaton is over {found} classes, log_probs over {classes}")
    return form


def _lengths(lengths: Tensor | Sequence[int] | None, log_probs: Tensor) -> Int[Tensor, "groups"]:
    if log_probs.ndim == 2:
        return _packed_lengths(lengths, len(log_probs))
    groups, instances, _ = log_probs.shape
    if lengths is None:
        return torch.full((groups,), instances, dtype=torch.int64, device=log_probs.device)
    sizes = _whole(lengths)  # checked on their own device
    if sizes.shape != (groups,):
        raise DataError(f"lengths must hold one number for each of {groups} groups, found shape {list(sizes.shape)}")
    if _is_recording(sizes):
        return sizes.long()
    read = sizes.cpu().numpy()
    if groups and not 0 <= least(read) <= read.item(read.argmax()) <= instances:
        group = int(((sizes < 0) | (sizes > instances)).nonzero()[0])
        raise DataError(f"group {group}: length {int(sizes[group])} must be in 0..{instances}, as in log_probs")
    return sizes.long()


def _whole(lengths: Tensor | Sequence[int] | None) -> Tensor:
    sizes = torch.as_tensor(lengths)
    if sizes.numel() and (sizes.is_floating_point() or sizes.is_complex() or sizes.dtype == torch.bool):
        raise DataError(f"lengths must be whole numbers, found {sizes.dtype}; for a padding mask pass mask.sum(1)")
    return sizes


def _packed_lengths(lengths: Tensor | Sequence[int] | None, rows: int) -> Int[Tensor, "groups"]:
    """The lengths of groups that lie one after the other."""
    sizes = _whole(lengths).long()
    if sizes.ndim != 1 or (sizes.numel() and int(sizes.min()) < 0) or int(sizes.sum()) != rows:
        raise DataError(
            f"lengths of packed groups must sum to the {rows} rows of log_probs, found {int(sizes.sum())} "
            f"in shape {list(sizes.shape)}"
        )
    return sizes


def place_of(place: Sequence[int], lengths: Tensor | Sequence[int] | None) -> str:
    """The words for an instance at [group, instance], or at [row] of packed groups.

    >>> place_of([3], [2, 4]), place_of([1, 1], None)
    ('group 1, instance 1', 'group 1, instance 1')
    """
    if len(place) == 2:
        return f"group {place[0]}, instance {place[1]}"
    ends = torch.as_tensor(lengths).cumsum(0)
    group = int(torch.searchsorted(ends.cpu(), place[0], right=True))
    return f"group {group}, instance {place[0] - (int(ends[group - 1]) if group else 0)}"


def _are_full(lengths: Int[Tensor, "groups"], instances: int) -> bool:
    """Whether no group has padding, as far as the host knows."""
    return lengths.is_cpu and (not len(lengths) or least(lengths.numpy()) == instances)


def _evidence(evidence: Tensor, potentials: Tensor) -> Tensor:
    if not isinstance(evidence, Tensor) or evidence.shape != potentials.shape:
        found = list(evidence.shape) if isinstance(evidence, Tensor) else type(evidence).__name__
        raise DataError(f"evidence must have the shape of log_probs, {list(potentials.shape)}, found {found}")
    return evidence.to(potentials)


def _check_numbers(potentials: Tensor, lengths: Tensor) -> None:
    """Raise on NaN or +inf outside padding, and name the first."""
    if not may_read_values(potentials):
        return
    values = potentials.detach()
    if values.numel() and not largest(values) < torch.inf:  # also true for NaN
        *place, label = (~(values < torch.inf)).nonzero()[0].tolist()
        value, where = float(values[(*place, label)]), place_of(place, lengths)
        raise DataError(f"{where}, class {label}: log-probability {value} must be a number below inf")


SMALL = 4096


def largest(values: Tensor) -> float:
    """The largest number, NaN if there is one; on the CPU without threads, which on a busy machine wait for each other.

    >>> largest(torch.tensor([1.0, 3.0])), largest(torch.tensor([torch.nan, 3.0]))
    (3.0, nan)
    """
    if not values.is_cpu:
        return float(values.amax())
    array = values.numpy()
    return float(array.item(array.argmax()) if array.size < SMALL else array.max())


def may_read_values(tensor: Tensor) -> bool:
    """Whether checks may read values: not during CUDA graph capture, nor inside `skip_nan_check` on CUDA."""
    return not _is_recording(tensor) and not (tensor.is_cuda and not _CHECKS_VALUES.get())


def _is_recording(tensor: Tensor) -> bool:
    """Whether a CUDA graph is being captured; the values of its tensors are not available then."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
