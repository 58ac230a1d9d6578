"""The optimizer, and its learning rate as a function of the completed share of training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from glws.training._config import TrainingConfig


def learning_rate(config: TrainingConfig, share: float) -> float:
    """The learning rate at a completed share of training from 0 to 1.

    cosine: from the first to the final rate along half a cosine, again after each restart; the parts are equally long.
    fixmatch: times cos(7π/16 · share). multistep: times `decay` at each milestone. During the `warm_up` it rises
    linearly from 0 to the rate of the schedule.

    >>> config = TrainingConfig(learning_rate=1.0, final_learning_rate=0.0)
    >>> [round(learning_rate(config, share), 3) for share in (0, 0.5, 1)]
    [1.0, 0.5, 0.0]
    >>> learning_rate(TrainingConfig(learning_rate=1.0, schedule="constant", warm_up=0.1), 0.05)
    0.5
    """
    warmth = min(share / config.warm_up, 1.0) if config.warm_up else 1.0
    return warmth * _without_warm_up(config, share)


def _without_warm_up(config: TrainingConfig, share: float) -> float:
    first, last = config.rate, min(config.final_learning_rate, config.rate)
    if config.schedule == "cosine":
        part = share if share >= 1 else share * (config.restarts + 1) % 1
        return last + (first - last) * (1 + math.cos(math.pi * part)) / 2
    if config.schedule == "fixmatch":
        return first * math.cos(7 * math.pi / 16 * share)
    if config.schedule == "multistep":
        return first * config.decay ** sum(share >= milestone for milestone in config.milestones)
    return first


def build_optimizer(
    modules: Iterable[nn.Module], config: TrainingConfig, device: torch.device
) -> torch.optim.Optimizer:
    """The torch optimizer of the configuration, for all trainable weights."""
    parameters = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    matrices = [weight for weight in parameters if weight.ndim > 1]
    vectors = [weight for weight in parameters if weight.ndim <= 1]
    decays = (config.weight_decay, config.weight_decay if config.decay_biases else 0.0)
    groups: list[dict[str, Any]] = [{"params": [*matrices, *vectors], "weight_decay": decays[0]}]
    if decays[0] != decays[1]:
        parts = zip((matrices, vectors), decays, strict=True)
        groups = [{"params": params, "weight_decay": decay} for params, decay in parts]
    fused = device.type in ("cpu", "cuda")
    if config.optimizer == "sgd":
        nesterov = config.nesterov and config.momentum > 0
        return torch.optim.SGD(groups, config.rate, config.momentum, nesterov=nesterov, fused=fused)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, config.rate, config.betas, fused=fused)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


@torch.no_grad()
def moved(optimizer: torch.optim.Optimizer) -> None:
    """A step of the optimizer: of AdamW on the CPU by one call of its kernel for each group of weights.

    That is what `step` does in the end; on the way it takes several times as long, as long as a small network.
    """
    if type(optimizer) is not torch.optim.AdamW or not _is_usual(optimizer):
        optimizer.step()
        return
    for group in filter(lambda group: group["params"], optimizer.param_groups):
        weights = group["params"]
        states = [optimizer.state[weight] for weight in weights]
        means, squares, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            weights, [weight.grad for weight in weights], means, squares, [], steps, amsgrad=False, lr=group["lr"],
            beta1=group["betas"][0], beta2=group["betas"][1], weight_decay=group["weight_decay"], eps=group["eps"],
            maximize=False, grad_scale=None, found_inf=None,
        )  # fmt: skip


def _is_usual(optimizer: torch.optim.Optimizer) -> bool:
    """Whether all weights are on the CPU, and have gradients and a state: not so in the first step."""
    return all(
        weight.device.type == "cpu" and weight.grad is not None and weight in optimizer.state
        for group in optimizer.param_groups
        for weight in group["params"]
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of the optimizer, by the number of the parameter and the name of the value."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state of `optimizer_tensors`, in the memory format of the weights, as fused optimizers need."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = _laid_out_as(weights[int(number)], value)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _laid_out_as(weight: Tensor, value: Tensor) -> Tensor:
    return torch.empty_like(weight, dtype=value.dtype).copy_(value) if value.shape == weight.shape else value
