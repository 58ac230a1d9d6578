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
from glws.methods import GLWS, Outputs, Step
from glws.training._step_graphs import form_of

MOST = 1 << 16
"""The most logits that are copied to the host."""


def loss_on_host(method: GLWS, step: Step) -> Tensor | None:
    """The loss with its gradient and metrics; None if this does not pay.

    It does not pay if every form has kernels for the device, and for large batches.
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
    result: Tensor = _WithGradient.apply(logits, values[0], to_device(gradient, device))  # type: ignore[no-untyped-call]
    return result


def _inner_step(method: GLWS, step: Step, logits: Tensor) -> Step:
    """The same step on the CPU, with the network's outputs for each view that the method uses."""
    parts = tuple(replace(part, rows=part.rows.cpu()) for part in step.batch.parts)
    batch = Batch(logits, step.batch.numbers, parts)
    inner = Step(batch, lambda _: Outputs(logits, logits), lambda _: logits, progress=step.progress)
    inner._outputs[method.m_step] = Outputs(logits, logits)
    if method.e_step == "teacher":
        teacher_logits = step.teacher("weak").logits.cpu()
        inner.averaged = lambda _: Outputs(teacher_logits, teacher_logits)
    elif method.e_step == "weak" and method.m_step != "weak":
        weak_logits = step.detached("weak").cpu()
        inner._outputs["weak"] = Outputs(weak_logits, weak_logits)
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
