"""Many small networks trained at once on weak labels: one batched product per layer for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glws._seeds import derived_generator
from glws.inference import infer
from glws.kinds import AbstractSupervision
from glws.selection import WeakLabels

Array = NDArray[np.float64]
START = 0.15
"""The share of steps in which the targets are soft labels that the weak labels give under even predictions."""
LARGE, MOST_ROWS, GROUPS_IN_STEP = 8000, 8192, 16
FEWEST_STEPS, PASSES = 400, 12


@dataclass(frozen=True)
class StackOptions:
    """How a stack is trained; `weight_decay` has a number for each member."""

    hidden: tuple[int, ...]
    weight_decay: tuple[float, ...]
    dropout: float = 0.0
    learning_rate: float = 1e-2
    steps: int | None = None
    rows_per_step: int | None = None


class Stack(nn.Module):
    """Networks of one shape: from rows [n, d] to logits [members, n, classes]."""

    def __init__(
        self,
        num_members: int,
        num_features: int,
        num_classes: int,
        hidden: Sequence[int],
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = [num_features, *hidden, num_classes]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for place, (before, after) in enumerate(pairwise(widths)):
            spread = math.sqrt(2 / before) if place < len(hidden) else 0.1 / math.sqrt(before)
            self.weights.append(nn.Parameter(torch.randn(num_members, before, after, generator=generator) * spread))
            self.biases.append(nn.Parameter(torch.zeros(num_members, 1, after)))
        self.dropout = dropout

    def forward(self, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The logits; with a generator, hidden units are dropped."""
        values = rows.expand(len(self.biases[0]), -1, -1)
        last = len(self.weights) - 1
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, values, weight)
            if place < last:
                values = values.relu()
                if generator is not None and self.dropout > 0:
                    kept = torch.rand(values.shape, generator=generator) >= self.dropout
                    values = values * kept / (1 - self.dropout)
        return values

    def members(self, numbers: Sequence[int]) -> Stack:
        """A stack of these members alone."""
        chosen = deepcopy(self)
        for own in (chosen.weights, chosen.biases):
            for parameter in own:
                parameter.data = parameter.data[list(numbers)].clone()
        return chosen

    @torch.no_grad()
    def rename(self, number: int, order: Sequence[int]) -> None:
        """Class k of a member becomes what its class `order[k]` was."""
        for parameter in (self.weights[-1], self.biases[-1]):
            parameter[number] = parameter[number][:, list(order)]


def train_stack(
    features: Tensor, known: WeakLabels, masks: Sequence[Tensor], begun: Tensor, options: StackOptions, seed: int
) -> Stack:
    """Trains every member to maximize the likelihood of its weak labels.

    `masks` has one weight for each member and group, kind by kind: 0 where a group is held out from a member. The
    objective of a member is the sum of log p(w | x) over its groups, divided by its number of rows, so that a kind
    counts for what it says and not for how its rows are packed. In the first steps the targets are `begun`, soft labels
    that ignore the features: a convex start for linear models.
    """
    num_members = len(options.weight_decay)
    generator = derived_generator("cpu", seed, "stack", len(options.hidden))
    stack = Stack(num_members, features.shape[1], known.num_classes, options.hidden, options.dropout, generator)
    optimizer = torch.optim.Adam(stack.parameters(), lr=options.learning_rate, betas=(0.9, 0.99))
    decay = torch.tensor(options.weight_decay)[:, None, None]
    batches = _Batches(known, options.rows_per_step or _usual_rows(known), seed)
    steps = options.steps or _usual_steps(batches)
    for step in range(steps):
        share = step / steps
        rate = options.learning_rate * (1 + math.cos(math.pi * share)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = _loss(stack, features, known, masks, batches.next(), begun if share < START else None, generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            for weight in stack.weights:
                weight.mul_(1 - rate * decay)
    return stack


def _loss(
    stack: Stack,
    features: Tensor,
    known: WeakLabels,
    masks: Sequence[Tensor],
    chosen: list[Tensor],
    begun: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    members = [groups.padded(some) for groups, some in zip(known.groups, chosen, strict=True)]
    numbers, places = torch.unique(torch.cat([table.reshape(-1) for table, _ in members]), return_inverse=True)
    log_probs: Tensor = stack(features[numbers], generator).log_softmax(2)
    pieces = places.split([table.numel() for table, _ in members])
    total, count = log_probs.new_zeros(len(log_probs)), log_probs.new_zeros(len(log_probs))
    for piece, (table, lengths), weak, some, mask in zip(pieces, members, known.weak, chosen, masks, strict=True):
        if not len(some):
            continue
        kept = mask[:, some]
        here = log_probs[:, piece.view(table.shape)]
        if begun is None:
            values = _log_likelihoods(here, weak, some, lengths)
        else:
            real = torch.arange(table.shape[1]) < lengths[:, None]
            values = ((begun[table] * here).sum(3) * real).sum(2)
        total = total + (values * kept).sum(1)
        count = count + (kept * lengths).sum(1)
    return -(total / count.clamp_min(1)).sum()


def _log_likelihoods(log_probs: Tensor, weak: AbstractSupervision, some: Tensor, lengths: Tensor) -> Tensor:
    """log p(w | x) of each group under each member, 0 where it is impossible."""
    members, groups = log_probs.shape[:2]
    copies = log_probs.reshape(members * groups, *log_probs.shape[2:])
    values = infer(copies, weak[some.repeat(members)], lengths.repeat(members)).log_likelihood
    possible = torch.where(values.detach() > -torch.inf, values, 0.0)
    return possible.view(int(members), int(groups))


def _usual_rows(known: WeakLabels) -> int:
    """128 rows, 1,024 for large data, and at least a few groups."""
    longest = max(float(groups.lengths.double().mean()) for groups in known.groups)
    members = sum(len(groups.indices) for groups in known.groups)
    return int(min(max(128 if members < LARGE else 1024, GROUPS_IN_STEP * longest), MOST_ROWS))


def _usual_steps(batches: _Batches) -> int:
    """At least 400 steps, and 12 passes through large data."""
    return max(FEWEST_STEPS, PASSES * batches.steps)


class _Batches:
    """Groups of all kinds, in random order, as many per step as have about the wanted number of rows."""

    def __init__(self, known: WeakLabels, wanted: int, seed: int) -> None:
        total = sum(len(groups.indices) for groups in known.groups)
        self.steps = max(1, round(total / wanted))
        self.known, self.seed, self.epoch, self.left = known, seed, 0, list[list[Tensor]]()

    def next(self) -> list[Tensor]:
        """The numbers of the groups of each kind in the next step."""
        if not self.left:
            generator = derived_generator("cpu", self.seed, "order", self.epoch)
            orders = [torch.randperm(len(weak), generator=generator) for weak in self.known.weak]
            parts = [order.tensor_split(self.steps) for order in orders]
            self.left, self.epoch = [list(each) for each in zip(*parts, strict=True)], self.epoch + 1
        return self.left.pop()


def stack_log_probs(stack: Stack, features: Tensor, rows_at_once: int = 4096) -> Array:
    """Log-probabilities [members, rows, classes] in float64."""
    with torch.no_grad():
        found = [stack(piece).double().log_softmax(2) for piece in torch.split(features, rows_at_once)]
    return np.asarray(torch.cat(found, 1).numpy())
