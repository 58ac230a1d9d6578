"""The objective of a small batch on a GPU: the loss of `GLWS`, its notes and its gradient by the logits, in one go.

Its kernels are many and small. Where the forms of what is known are answered without the host looking at a value, they
are recorded once for each shape of a batch; a step then copies logits, rows, lengths and forms into place and replays.
Where the host has to look at values anyway, it does the sums itself: the logits of a batch are a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glws.data.dataset import Batch, BatchPart
from glws.inference.forms import AbstractForm, sent
from glws.inference.gpu.language import power_of_two
from glws.methods.em import GLWS
from glws.methods.step import Outputs, Progress, Step
from glws.training.graphs import Replayed

LATER = Progress(epoch=1 << 30)
MOST_ON_HOST = 1 << 16
"""So many logits at most are sent to the host."""


class ObjectiveGraphs:
    """The loss of a method for a step, None where neither way is open: then the method is asked as usual."""

    def __init__(self, method: GLWS) -> None:
        self._method = method
        self._recorded: dict[Hashable, _Recorded] = {}

    def __call__(self, step: Step) -> Tensor | None:
        """The loss, with gradient; notes are taken."""
        parts, device = step.batch.parts, step.batch.instances.device
        if step.batch.evidence is not None or any(self._is_guessed(step, part) for part in parts):
            return None
        forms = [_form(part, self._method) for part in parts]
        logits, other = step.logits(self._method.m_step), self._other(step)
        if all(form.is_unwatched(device) for form in forms):
            names, values, gradient = self._replayed(step, forms, logits, other)
        elif logits.numel() <= MOST_ON_HOST:
            names, values, gradient = _on_host(self._method, step.batch, logits, other)
        else:
            return None
        for name, value in zip(names, values[1:].unbind(0), strict=True):
            step.note(name, value)
        loss: Tensor = _Known.apply(logits, values[0], gradient)  # type: ignore[no-untyped-call]
        return loss

    def _replayed(self, step: Step, forms: list[AbstractForm], logits: Tensor, other: Tensor | None) -> Found:
        rows = [_widened(part.rows) for part in step.batch.parts]
        key = (power_of_two(len(logits)), *(item.shape for item in rows), *(form.signature() for form in forms))
        if key not in self._recorded:
            self._recorded[key] = _Recorded.of(self._method, step, rows, forms, logits, other)
        values, gradient = self._recorded[key].replayed(step, rows, forms, logits, other)
        return self._recorded[key].names, values, gradient[: len(logits)]

    def _is_guessed(self, step: Step, part: BatchPart) -> bool:
        return self._method._first_guess(step, part) is not None

    def _other(self, step: Step) -> Tensor | None:
        """The logits of the E-step, where they are others than those of the M-step."""
        method = self._method
        if method.e_step == "same" or (method.e_step == "weak" and method.m_step == "weak"):
            return None
        return step.teacher("weak").logits if method.e_step == "teacher" else step.detached("weak")


Found = tuple[list[str], Tensor, Tensor]
"""The names of the notes; the loss and the notes; the gradient of the loss by the logits."""


def _form(part: BatchPart, method: GLWS) -> AbstractForm:
    """What is known of a part of the batch, as `em_loss` would ask for it."""
    weak: Any = part.weak
    if method.multiclass == "per_class" and hasattr(weak, "per_class"):
        return weak.per_class().form(part.lengths.repeat_interleave(weak.num_classes))  # type: ignore[no-any-return]
    if method.multiclass in ("joint", "tilted") and hasattr(weak, "solved_by"):
        weak = weak.solved_by("exact" if method.multiclass == "joint" else "tilted")
    form: AbstractForm = weak.form(part.lengths)
    return form


@dataclass(frozen=True, eq=False)
class _Asked:
    """A form in the place of the weak labels that it was made of, for `em_loss`, which asks again."""

    form: AbstractForm

    def per_class(self) -> AbstractForm:
        return self.form

    def solved_by(self, method: str) -> AbstractForm:
        return self.form


def _stand_in(part: BatchPart, method: GLWS, form: AbstractForm) -> Any:
    """`em_loss` takes a form as it takes weak labels, unless it is to ask these for another one."""
    asked = {"per_class": "per_class", "joint": "solved_by", "tilted": "solved_by"}.get(method.multiclass)
    return _Asked(form) if asked is not None and hasattr(part.weak, asked) else form


def _on_host(method: GLWS, batch: Batch, logits: Tensor, other: Tensor | None) -> Found:
    """Everything from copies on the CPU."""
    place = logits.detach().cpu().requires_grad_()
    parts = tuple(replace(part, rows=part.rows.cpu()) for part in batch.parts)
    names, values, gradient = _solved(
        method, Batch(place, batch.numbers, parts), place, None if other is None else other.cpu()
    )
    return names, sent(values, logits.device), sent(gradient, logits.device)


def _solved(method: GLWS, batch: Batch, logits: Tensor, other: Tensor | None) -> Found:
    """The method's loss as a function of the logits."""
    inner = Step(batch, lambda _: Outputs(logits, logits), lambda _: logits, progress=LATER)
    inner._outputs[method.m_step] = Outputs(logits, logits)
    if other is not None:
        inner._outputs.setdefault("weak", Outputs(other, other))
        inner.averaged = lambda _: Outputs(other, other)
    with torch.enable_grad():
        loss = method.loss(inner)
        (gradient,) = torch.autograd.grad(loss, logits)
    values = torch.stack([loss.detach(), *(value.to(loss.dtype) for value in inner.notes.values())])
    return list(inner.notes), values, gradient


@dataclass(frozen=True, eq=False)
class _Recorded:
    """One graph, and the places it reads from."""

    logits: Tensor
    other: Tensor | None
    rows: list[Tensor]
    lengths: list[Tensor]
    forms: list[AbstractForm]
    names: list[str]
    replay: Replayed

    @classmethod
    def of(
        cls,
        method: GLWS,
        step: Step,
        rows: list[Tensor],
        forms: list[AbstractForm],
        logits: Tensor,
        other: Tensor | None,
    ) -> _Recorded:
        device, names = logits.device, list[str]()
        place = logits.new_zeros(power_of_two(len(logits)), logits.shape[1]).requires_grad_()
        second = None if other is None else torch.zeros_like(place)
        tables, lengths = [item.clone() for item in rows], [part.lengths.to(device) for part in step.batch.parts]
        here = [form.to(device).cloned() for form in forms]
        pieces = zip(step.batch.parts, tables, lengths, here, strict=True)
        parts = tuple(replace(part, rows=r, lengths=n, weak=_stand_in(part, method, f)) for part, r, n, f in pieces)

        def once() -> tuple[Tensor, Tensor]:
            names[:], values, gradient = _solved(method, Batch(place, step.batch.numbers, parts), place, second)
            return values, gradient

        return cls(place.detach(), second, tables, lengths, here, names, Replayed(once))

    def replayed(
        self, step: Step, rows: list[Tensor], forms: list[AbstractForm], logits: Tensor, other: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Loss and notes, and the gradient, of a step of the same shapes."""
        self.logits[: len(logits)].copy_(logits.detach())
        if self.other is not None and other is not None:
            self.other[: len(other)].copy_(other)
        for place, table in zip(self.rows, rows, strict=True):
            place.copy_(table)
        known = [part.lengths for part in step.batch.parts] + [value for form in forms for value in form.tensors()]
        places = self.lengths + [value for form in self.forms for value in form.tensors()]
        for place, value in zip(places, known, strict=True):
            place.copy_(value.contiguous().pin_memory(), non_blocking=True)
        values, gradient = self.replay()
        return values, gradient


def _widened(rows: Tensor) -> Tensor:
    """The table of a batch with more columns, so that few widths occur; they hold row 0, as padding may."""
    return torch.nn.functional.pad(rows, (0, power_of_two(rows.shape[1]) - rows.shape[1]))


class _Known(torch.autograd.Function):
    """A value whose gradient by the logits is known."""

    @staticmethod
    def forward(context: Any, logits: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        context.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(context: Any, scale: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return scale * gradient, None, None
