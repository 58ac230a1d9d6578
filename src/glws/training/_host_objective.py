"""The objective of a small batch on a GPU, worked out by the host.

Where the host has to look at values on the way, it would wait for the GPU again and again. The logits of a batch are a
few kilobytes: it is quicker to bring them over, do all sums on the CPU, and send the gradient back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from glws.data import Batch
from glws.inference import to_device
from glws.methods import GLWS, Outputs, Step
from glws.training._step_graphs import form_of

MOST = 1 << 16
"""So many logits at most are brought over."""


def loss_on_host(method: GLWS, step: Step) -> Tensor | None:
    """The loss with its gradient, notes taken; None where that does not pay, and nothing is done but views and logits.

    That is where every form of what is known is answered by the device alone, and where the batch is large.
    """
    if step.batch.evidence is not None or method.is_starting(step.batch, step.progress):
        return None
    device, logits = step.batch.instances.device, step.logits(method.m_step)
    if logits.numel() > MOST or all(form_of(part, method).is_capturable(device) for part in step.batch.parts):
        return None
    here = logits.detach().cpu().requires_grad_()
    inner = _inner_step(method, step, here)
    loss = method.loss(inner)
    (gradient,) = torch.autograd.grad(loss, here)
    values = to_device(torch.stack([loss.detach(), *(value.to(loss.dtype) for value in inner.notes.values())]), device)
    for name, value in zip(inner.notes, values[1:].unbind(0), strict=True):
        step.note(name, value)
    known: Tensor = _Known.apply(logits, values[0], to_device(gradient, device))  # type: ignore[no-untyped-call]
    return known


def _inner_step(method: GLWS, step: Step, logits: Tensor) -> Step:
    """The same step on the CPU, with what the network says of each view that the method looks at."""
    parts = tuple(replace(part, rows=part.rows.cpu()) for part in step.batch.parts)
    batch = Batch(logits, step.batch.numbers, parts)
    inner = Step(batch, lambda _: Outputs(logits, logits), lambda _: logits, progress=step.progress)
    inner._outputs[method.m_step] = Outputs(logits, logits)
    if method.e_step == "teacher":
        seen = step.teacher("weak").logits.cpu()
        inner.averaged = lambda _: Outputs(seen, seen)
    elif method.e_step == "weak" and method.m_step != "weak":
        seen = step.detached("weak").cpu()
        inner._outputs["weak"] = Outputs(seen, seen)
    return inner


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
