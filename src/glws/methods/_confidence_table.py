"""Shared parts of methods for candidate sets: sets, class shares within them, and their table.

The table has a row for each weak label of the data, not for each instance: an instance with two candidate sets has two
rows. The index of a row is the number of its group, independent of the batch.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glws.inference import Posterior, log_sum_of_others
from glws.kinds import AbstractSupervision, PartialLabels
from glws.methods._abstract import AbstractMethod, Setup
from glws.methods._risks import mean
from glws.methods._step import State, Step

CONFIDENCES = "confidences"
"""The name of the table in a method's state."""


class AbstractCandidateMethod(AbstractMethod):
    """A method for candidate sets that ignores a miss rate of `PartialLabels`."""

    takes: ClassVar[str] = "a set of candidate classes for each instance"
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ((PartialLabels,),)


def candidates_of(step: Step, beside: Tensor) -> Bool[Tensor, "groups classes"]:
    """The candidate sets of a step, on the device of another tensor."""
    (part,) = step.batch.parts
    assert isinstance(part.weak, PartialLabels)
    return part.weak.candidates.to(beside.device)


def for_groups(step: Step, values: Float[Tensor, "rows columns"]) -> Float[Tensor, "groups columns"]:
    """Values of the instances of a batch, one row per weak label."""
    (part,) = step.batch.parts
    return values[part.rows[:, :1].flatten().to(values.device)]


def within(logits: Float[Tensor, "groups classes"], allowed: Bool[Tensor, "groups classes"]) -> Posterior:
    """The posterior of each instance given its allowed classes; with log-probs, the likelihood of the sets.

    If no class is allowed, `marginals` are 0.

    >>> allowed = torch.tensor([[True, True, False], [False, False, False]])
    >>> within(torch.tensor([[0.1, 0.3, 0.6], [0.2, 0.2, 0.6]]).log(), allowed).marginals[:, 0]
    tensor([[0.2500, 0.7500, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    return PartialLabels(allowed, torch.zeros(1, dtype=torch.float64, device=allowed.device)).infer(logits[:, None])


def shares_within(
    logits: Float[Tensor, "groups classes"], allowed: Bool[Tensor, "groups classes"]
) -> Float[Tensor, "groups classes"]:
    """p_j / Σ_{k allowed} p_k for the allowed classes, 0 for the others; without gradient."""
    return within(logits.detach(), allowed).marginals[:, 0]


def excluded_losses(
    log_probs: Float[Tensor, "groups classes"], candidates: Bool[Tensor, "groups classes"]
) -> Float[Tensor, "groups"]:
    """-Σ_{j not a candidate} log(1 - p_j), with log(1 - p_j) summed from the other classes: nothing cancels.

    >>> excluded_losses(torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([[True, True, False]])).neg().exp()
    tensor([0.7500])
    """
    return torch.where(candidates, 0.0, -log_sum_of_others(log_probs)).sum(1)


def weighted_cross_entropy(
    log_probs: Float[Tensor, "groups classes"], weights: Float[Tensor, "groups classes"]
) -> Float[Tensor, ""]:
    """-mean_i Σ_j weights_ij log p_j(x_i), 0 without rows."""
    return mean(-(weights * log_probs).sum(1))


def uniform_confidences(setup: Setup) -> State:
    """A table of uniform confidences over the candidates of a set, S_ij / |S_i|, and 0 elsewhere."""
    (weak,) = setup.data.weak
    assert isinstance(weak, PartialLabels)
    candidates = weak.candidates.to(setup.device, torch.float32)
    return {CONFIDENCES: candidates / candidates.sum(1, keepdim=True)}


def read_confidences(step: Step, beside: Tensor) -> Float[Tensor, "groups classes"]:
    """The rows of the table for the weak labels of a step, with device and dtype of `beside`."""
    table = step.state[CONFIDENCES]
    (part,) = step.batch.parts
    return table[part.groups.to(table.device)].to(beside)


def write_confidences(step: Step, values: Float[Tensor, "groups classes"]) -> None:
    """Write new rows of the table for the weak labels of a step; other rows stay."""
    table = step.state[CONFIDENCES]
    (part,) = step.batch.parts
    table[part.groups.to(table.device)] = values.detach().to(table)
