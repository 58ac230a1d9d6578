"""The objective of a small batch on a GPU, computed on the host.

An objective whose values the host reads would sync with the GPU again and again. The logits of a batch are a few
kilobytes: it is faster to copy them to the CPU, compute everything there, and copy the gradient back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glws.data import Batch
from glws.inference import to_device
from glws.methods import AbstractMethod, Outputs, Step

MOST = 1 << 16
"""The most logits that are copied to the host."""


def loss_on_host(method: AbstractMethod, step: Step) -> Tensor | None:
    """The loss with its gradient and metrics; None if this does not pay.

    It does not pay if the method has no recording (`AbstractMethod.recording`), if every form has kernels for the
    device, and for large batches.
    """
    recording = method.recording(step.batch, step.progress)
    if recording is None:
        return None
    device, logits = step.batch.instances.device, step.logits(recording.views[0])
    if logits.numel() > MOST or all(form.is_capturable(device) for form in recording.forms):
        return None
    here = logits.detach().cpu().requires_grad_()
    inner = _inner_step(recording.views[0], step, here)
    loss = method.loss(inner)
    (gradient,) = torch.autograd.grad(loss, here)
    values = to_device(torch.stack([loss.detach(), *(value.to(loss.dtype) for value in inner.notes.values())]), device)
    for name, value in zip(inner.notes, values[1:].unbind(0), strict=True):
        step.note(name, value)
    result: Tensor = _WithGradient.apply(logits, values[0], to_device(gradient, device))  # type: ignore[no-untyped-call]
    return result


def _inner_step(trained: str, step: Step, logits: Tensor) -> Step:
    """The same step on the CPU: logits of the trained view, and of other views on request.

    A number stands for a view: its instances are not needed here.
    """
    names: list[str] = []

    def view(name: str) -> Tensor:
        names.append(name)
        return torch.tensor(len(names) - 1)

    def network(number: Tensor) -> Outputs:
        assert not torch.is_grad_enabled(), "only the first view of a recording is trained on"
        seen = step.detached(names[int(number)]).cpu()
        return Outputs(seen, seen)

    def averaged(number: Tensor) -> Outputs:
        seen = step.teacher(names[int(number)]).logits.cpu()
        return Outputs(seen, seen)

    parts = tuple(replace(part, rows=part.rows.cpu()) for part in step.batch.parts)
    inner = Step(Batch(logits, step.batch.numbers, parts), network, view, averaged, progress=step.progress)
    inner._outputs[trained] = Outputs(logits, logits)
    return inner


class _WithGradient(torch.autograd.Function):
    """A value with a given gradient with respect to the logits."""

    @staticmethod
    def forward(context: Any, logits: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        context.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(context: Any, scale: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return scale * gradient, None, None
