"""`LLPVAT`: mean predictions of bags match their shares, with virtual adversarial training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

from glws.data import Batch, WeakDataset
from glws.errors import DataError
from glws.kinds import AbstractSupervision, ClassCounts, Proportions
from glws.methods._abstract import AbstractMethod
from glws.methods._mean_proportion import check_exact_counts, proportion_loss
from glws.methods._positive_unlabeled import members
from glws.methods._recipe import Recipe
from glws.methods._step import Network, Progress, Step


@dataclass(frozen=True)
class LLPVAT(AbstractMethod):
    """LLP-VAT (Tsai and Lin, ACML 2020): proportion matching and virtual adversarial training (Miyato et al., 2018).

        loss = -Σ_c ρ_c log p̄_c, mean over bags, + λ_t · mean over instances of KL(π_i ‖ p(x_i + r_i))

    π_i = p(x_i), held constant, of the same view or of `target_view`; r_i has length `radius` and the direction in
    which the prediction changes most, approximated by `iterations` steps of the power method from a random start, with
    differences over a distance `probe`: d ← ∇_d KL(π ‖ p(x + probe · d)), normalized. Gradient only through the last
    prediction; perturbed instances do not update the running statistics of batch norms. λ_t = `weight` · exp(-5 (1 -
    t/T)²) rises for the first share `ramp` of training, T = ramp · all steps; 0 means no ramp.

    Ours: the gradient is scaled before its length is computed, and `probe` is 0.1. The published probe, 1e-6, is below
    the resolution of float32: the direction becomes noise (so does 0.1 in bfloat16; use 1 there). Weight 0.05, radius 6
    and ramp 0.4 are the authors'; Chen et al. (ICML 2024) use weight 1 without a ramp. Instances are weighted by how
    often they occur in the bags of the step.
    """

    summary: ClassVar[str] = "class shares of bags with virtual adversarial training (Tsai and Lin, ACML 2020)"
    takes: ClassVar[str] = "bags with counts"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((Proportions,), (ClassCounts,))

    view: str = "weak"
    target_view: str | None = None
    weight: float = 0.05
    radius: float = 6.0
    probe: float = 0.1
    iterations: int = 1
    ramp: float = 0.4

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless there is one kind, with exact counts."""
        super().check(data)
        check_exact_counts(self, data)

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """Proportion matching, plus the weighted consistency."""
        (part,) = step.batch.parts
        matched = proportion_loss(part, step.logits(self.view).log_softmax(-1))
        consistency = self._consistency(step)
        step.note("proportion_loss", matched)
        step.note("consistency", consistency)
        return matched + self.weight * ramped(step.progress, self.ramp) * consistency

    def _consistency(self, step: Step) -> Float[Tensor, ""]:
        inputs, target = step.inputs(self.view), step.detached(self.target_view or self.view).log_softmax(-1)
        if not inputs.is_floating_point():
            raise DataError(f"LLPVAT perturbs instances, so they must be floating point, found {inputs.dtype}")
        shares = shares_of_rows(step.batch).to(target)
        start = torch.randn(inputs.shape, generator=step.generator, device=step.generator.device).to(inputs)
        with frozen_statistics():
            direction = adversarial_direction(step.network, inputs, target, shares, start, self.probe, self.iterations)
            return divergence(step.network, inputs + self.radius * direction, target, shares)

    def recipe(self) -> Recipe | None:
        """CIFAR-10."""
        return Recipe(
            "CIFAR-10: the code of Tsai and Lin",
            {
                "optimizer": "adam",
                "learning_rate": 0.0003,
                "weight_decay": 0.0,
                "schedule": "multistep",
                "milestones": (0.8,),
                "decay": 0.2,
                "batch_size": 2,
            },
        )


def adversarial_direction(
    network: Network,
    inputs: Float[Tensor, "own ..."],
    target: Float[Tensor, "rows classes"],
    shares: Float[Tensor, "rows"],
    start: Float[Tensor, "own ..."],
    probe: float,
    iterations: int = 1,
) -> Float[Tensor, "own ..."]:
    """For each instance the unit direction in which Σ_i share_i KL(target_i ‖ p(x_i + probe · d)) grows most.

    The power method on its second derivative, from `start`. `target` are log-probabilities, without gradient.
    """
    direction = unit_length(start)
    for _ in range(iterations):
        direction.requires_grad_()
        with torch.enable_grad():
            changed = divergence(network, inputs.detach() + probe * direction, target, shares)
        (gradient,) = torch.autograd.grad(changed, direction)
        direction = unit_length(gradient, direction.detach())
    return direction


def divergence(
    network: Network,
    inputs: Float[Tensor, "own ..."],
    target: Float[Tensor, "rows classes"],
    shares: Float[Tensor, "rows"],
) -> Float[Tensor, ""]:
    """Σ_i share_i KL(target_i ‖ p(inputs_i)); the target as log-probabilities, 0 log 0 being 0."""
    log_probs = network(inputs).logits.log_softmax(-1)
    return (shares * (target.exp() * (target - log_probs)).sum(1)).sum()


def unit_length(values: Float[Tensor, "own ..."], instead: Tensor | None = None) -> Float[Tensor, "own ..."]:
    """Each instance divided by its length, safe at any scale.

    An instance of zeros has no direction: it is replaced by `instead`, or 0.

    >>> unit_length(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    flat = values.flatten(1)
    largest = flat.abs().amax(1, keepdim=True)
    scaled = torch.where(largest > 0, flat / torch.where(largest > 0, largest, 1.0), 0.0)
    length = scaled.norm(dim=1, keepdim=True)
    other = torch.zeros_like(flat) if instead is None else instead.flatten(1)
    return torch.where(length > 0, scaled / torch.where(length > 0, length, 1.0), other).view_as(values)


def shares_of_rows(batch: Batch) -> Float[Tensor, "rows"]:
    """The share of each row of a batch among the members of all its groups, with repetition."""
    counts = torch.zeros(len(batch.numbers), dtype=torch.int64)
    for part in batch.parts:
        counts += torch.bincount(members(part).cpu(), minlength=len(counts))
    return counts.double() / counts.sum().clamp_min(1)


def ramped(progress: Progress, ramp: float) -> float:
    """exp(-5 (1 - t/T)²) with T the share `ramp` of all steps, and 1 from there on.

    >>> [round(ramped(Progress(step=step, num_steps=10), 0.4), 6) for step in (0, 2, 4, 9)]
    [0.006738, 0.286505, 1.0, 1.0]
    """
    missing = 0.0 if ramp <= 0 else max(0.0, 1 - progress.share / ramp)
    return math.exp(-5 * missing**2)


@contextmanager
def frozen_statistics() -> Iterator[None]:
    """A context in which batch norms do not update their running statistics."""
    changed: list[_BatchNorm] = []

    def forget(module: nn.Module, _: object) -> None:
        if isinstance(module, _BatchNorm) and module.training and module.track_running_stats:
            module.track_running_stats = False
            changed.append(module)

    hook = register_module_forward_pre_hook(forget)
    try:
        yield
    finally:
        hook.remove()
        for module in changed:
            module.track_running_stats = True
