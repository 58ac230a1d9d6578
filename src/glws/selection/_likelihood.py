"""The likelihood of weak labels under predictions for all rows, and its gradient with respect to their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._reprs import short_repr
from glws.data import Groups
from glws.inference import infer, padding_mask
from glws.kinds import AbstractSupervision

Array = NDArray[np.float64]
GROUPS_AT_ONCE = 512


class WeakLabels(NamedTuple):
    """The weak labels of rows: for each kind its groups of row numbers, and one weak label per group."""

    def __repr__(self) -> str:
        return short_repr(self)

    groups: tuple[Groups, ...]
    weak: tuple[AbstractSupervision, ...]

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return self.weak[0].num_classes

    def of(self, chosen: Sequence[NDArray[np.bool_]]) -> WeakLabels:
        """The groups of each kind that a mask selects."""
        numbers = [torch.from_numpy(np.flatnonzero(mask)) for mask in chosen]
        pairs = list(zip(self.groups, self.weak, numbers, strict=True))
        return WeakLabels(
            tuple(groups[some] for groups, _, some in pairs), tuple(weak[some] for _, weak, some in pairs)
        )


class WeakFit(NamedTuple):
    """How well predictions explain weak labels.

    log_likelihood: of each group, kind after kind, 0 where it is impossible. gradient: of the sum with respect to the
    logits of the rows. impossible: the number of groups that the predictions rule out.
    """

    def __repr__(self) -> str:
        return short_repr(self)

    log_likelihood: Array
    gradient: Array
    impossible: int


def weak_fit(logits: Array, known: WeakLabels, needs_gradient: bool = True) -> WeakFit:
    """The log-likelihood of every weak label, and the gradient of their sum.

    With q_g the posterior of a row given the weak label of its group g, and p its prediction, the gradient with respect
    to its logits is Σ_g (q_g - p) (Fisher's identity).

    >>> from glws.kinds import Proportions
    >>> known = WeakLabels((Groups.of([[0, 1]]),), (Proportions.of([1]),))
    >>> fit = weak_fit(np.log([[0.5, 0.5], [0.8, 0.2]]), known)
    >>> fit.log_likelihood.round(4), fit.gradient.round(4).tolist()
    (array([-0.6931]), [[-0.3, 0.3], [0.0, 0.0]])
    """
    rows = torch.as_tensor(logits, dtype=torch.float64).requires_grad_(needs_gradient)
    log_probs = rows.log_softmax(1)
    found, impossible, gradient = [np.zeros(0)], 0, torch.zeros_like(rows)
    for groups, weak in zip(known.groups, known.weak, strict=True):
        for chosen in torch.split(torch.arange(len(groups)), GROUPS_AT_ONCE):
            values = log_likelihoods(log_probs, groups, weak, chosen)
            is_possible = values.detach() > -torch.inf
            impossible += int((~is_possible).sum())
            kept = torch.where(is_possible, values, 0.0)
            if needs_gradient and kept.requires_grad:
                gradient += torch.autograd.grad(kept.sum(), rows, retain_graph=True)[0]
            found.append(kept.detach().double().numpy())
    return WeakFit(np.concatenate(found), gradient.numpy(), impossible)


def log_likelihoods(log_probs: Tensor, groups: Groups, weak: AbstractSupervision, chosen: Tensor) -> Tensor:
    """log p(w | x) of some groups, from log-probabilities [rows, classes]."""
    members, lengths = groups.padded(chosen)
    return infer(log_probs[members], weak[chosen], lengths).log_likelihood


def posterior_of_rows(log_probs: Array, known: WeakLabels) -> Array:
    """Soft labels: the posterior of each row given its weak labels; the prediction for rows without one.

    A row of several groups gets the damped product of their posteriors, p(k) Π_g (q_g(k) / p(k))^(1/d).

    >>> from glws.kinds import PartialLabels
    >>> known = WeakLabels((Groups.of([[1]]),), (PartialLabels.of([[True, False]]),))
    >>> posterior_of_rows(np.log([[0.5, 0.5], [0.8, 0.2]]), known).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    predicted = torch.as_tensor(log_probs)
    messages, times = torch.zeros_like(predicted), torch.zeros(len(predicted), 1).double()
    for groups, weak in zip(known.groups, known.weak, strict=True):
        for chosen in torch.split(torch.arange(len(groups)), GROUPS_AT_ONCE):
            members, lengths = groups.padded(chosen)
            answer = infer(predicted[members], weak[chosen], lengths)
            real = padding_mask(members, lengths) & ~answer.impossible[:, None]
            rows = members[real]
            message = torch.where(
                predicted[rows] > -torch.inf, answer.marginals[real].double().log() - predicted[rows], 0.0
            )
            messages.index_add_(0, rows, message)
            times.index_add_(0, rows, torch.ones(len(rows), 1).double())
    total = predicted + messages / times.clamp_min(1)
    contradictory = (total == -torch.inf).all(1, keepdim=True)
    return np.asarray(torch.where(contradictory, predicted, total).softmax(1).numpy())
