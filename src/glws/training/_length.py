"""Defaults of the training: batch sizes and numbers of epochs from the data, the learning rate from the model."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import nn

from glws.data import WeakDataset
from glws.models import Linear
from glws.training._config import TrainingConfig
from glws.training._order import BudgetOrder, Order

LINEAR_RATE = 0.03
STEPS = 1000
"""The default number of steps, within the limits on epochs."""
FEWEST_EPOCHS, MOST_EPOCHS = 20, 100
"""More epochs do not improve predictions, but make them overconfident."""
MOST_VISITS, LEAST_EPOCHS = 5_000_000, 3
"""Limit on the instances of all steps together, and the fewest epochs under that limit."""


def with_length(config: TrainingConfig, data: WeakDataset) -> TrainingConfig:
    """The configuration with defaults for the numbers of epochs and of groups in a step.

    A step has about 128 instances of each kind, more for large data (`usual_batch`). The number of epochs gives 1,000
    steps, within 20 and 100; fewer, 3 at least, if that would visit more than 5 million instances. Values that the
    configuration sets are kept.

    >>> import torch
    >>> from glws.kinds import Proportions
    >>> bags = WeakDataset(torch.zeros(600, 1), torch.arange(600).view(60, 10), Proportions.of([5] * 60))
    >>> config = with_length(TrainingConfig(), bags)
    >>> config.epochs, config.batch_size
    (100, (13,))
    """
    order = Order.of(data, config.batch_size, config.seed, config.step_instances, config.order)
    chosen = replace(config, batch_size=order.batch) if config.batch_size is None else config
    if isinstance(order, BudgetOrder):
        chosen = replace(config, step_instances=order.step_instances)
    return chosen if config.epochs is not None else replace(chosen, epochs=_epochs(order, data))


def with_rate(config: TrainingConfig, model: nn.Module) -> TrainingConfig:
    """The configuration with a learning rate for this model, unless it has one."""
    if config.learning_rate is not None:
        return config
    return replace(config, learning_rate=LINEAR_RATE if isinstance(model, Linear) else config.rate)


def _epochs(order: Order, data: WeakDataset) -> int:
    """The number of epochs for the usual number of steps, within the limits."""
    steps = max(order.steps_per_epoch, 1)
    lengths = [len(groups.indices) / max(len(groups), 1) for groups in data.groups]
    per_step = sum(
        min(batch, size) * length for batch, size, length in zip(order.batch, order.sizes, lengths, strict=True)
    )
    wanted = min(max(math.ceil(STEPS / steps), FEWEST_EPOCHS), MOST_EPOCHS)
    return min(wanted, max(int(MOST_VISITS / max(steps * per_step, 1)), LEAST_EPOCHS))
