"""`Mixture`: cross-fitted models with weights and calibrations, as one network that is stored and predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from glws.selection import Calibration, WeakLabels, weak_fit
from glws.training._stack import Stack
from glws.training._trees import Trees

Array = NDArray[np.float64]
FAR = 5.0
"""Standardized features are squashed smoothly into ±FAR."""
MOST_PERMUTED = 4
"""With up to so many classes their names are put right after training."""
TIE = 1e-6
Learner = Stack | nn.ModuleList
"""The models of all folds: members of a stack, or trees."""


def squashed(rows: Tensor) -> Tensor:
    """Standardized features z as networks take them: z / √(1 + (z / FAR)²).

    >>> squashed(torch.tensor([-1e6, 0.0, 1e6]))
    tensor([-5.,  0.,  5.])
    """
    return rows / (1 + (rows / FAR) ** 2).sqrt()


def answers(learner: Learner, rows: Float[Tensor, "rows features"]) -> Float[Tensor, "models rows classes"]:
    """Log-probabilities of every model, in float64."""
    if isinstance(learner, Stack):
        values = squashed(rows).to(learner.biases[0].dtype)
        found = [learner(piece).double().log_softmax(2) for piece in torch.split(values, 4096)]
        return torch.cat(found, 1)
    return torch.stack([trees(rows) for trees in learner])


def part_of(learner: Learner, numbers: Sequence[int]) -> Learner:
    """Some of the models."""
    if isinstance(learner, Stack):
        return learner.members(numbers)
    return nn.ModuleList(learner[number] for number in numbers)


class MixtureMember(nn.Module):
    """One candidate: a model of each fold, their common calibration, and the weight in the mixture."""

    scale: Tensor
    offset: Tensor

    def __init__(self, learner: Learner, calibration: Calibration, weight: float) -> None:
        super().__init__()
        self.learner = learner
        self.register_buffer("scale", torch.tensor([calibration.factor, np.log(weight)]).float())
        self.register_buffer("offset", torch.tensor(calibration.offset).float())

    def forward(self, rows: Tensor) -> Tensor:
        """The logarithm of the weight times the mean of the calibrated predictions of the folds."""
        found = (self.scale[0] * answers(self.learner, rows) + self.offset).log_softmax(2)
        return found.logsumexp(0) - float(np.log(len(found))) + self.scale[1]


class Mixture(nn.Module):
    """A calibrated mixture of models of table rows: from rows [n, d] to log-probabilities [n, classes].

    Rows are rounded to float32 first, as the models were trained on them.
    """

    factor: Tensor
    offset: Tensor

    def __init__(self, members: Sequence[MixtureMember], calibration: Calibration) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("factor", torch.tensor([calibration.factor]).float())
        self.register_buffer("offset", torch.tensor(calibration.offset).float())

    def forward(self, rows: Tensor) -> Tensor:
        """Log-probabilities."""
        values = rows.float()
        mixed = torch.stack([member(values) for member in self.members]).logsumexp(0)
        logits = self.factor * mixed + self.offset
        return logits.log_softmax(1).to(rows.dtype)

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor]) -> Mixture:
        """The mixture that has this `state_dict`, whose names and shapes tell what it consists of."""
        parts = [inside(tensors, f"members.{number}.") for number in range(_count(tensors, "members."))]
        neutral = Calibration(1.0, np.zeros(len(tensors["offset"])))
        members = [MixtureMember(learner_of_tensors(inside(part, "learner.")), neutral, 1.0) for part in parts]
        made = cls(members, neutral)
        made.load_state_dict(dict(tensors))
        return made


def learner_of_tensors(tensors: Mapping[str, Tensor]) -> Learner:
    """The stack, or the trees, that have this `state_dict`."""
    if "biases.0" not in tensors:
        return nn.ModuleList(Trees(**inside(tensors, f"{number}.")) for number in range(_count(tensors, "")))
    shapes = [tensors[f"weights.{layer}"].shape for layer in range(_count(tensors, "weights."))]
    hidden = [shape[2] for shape in shapes[:-1]]
    made = Stack(shapes[0][0], shapes[0][1], shapes[-1][2], hidden, 0.0, torch.Generator())
    made.load_state_dict(dict(tensors))
    return made


def inside(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _count(tensors: Mapping[str, Tensor], prefix: str) -> int:
    return len({name.split(".")[0] for name in inside(tensors, prefix)})


def class_order(log_probs: Array, known: WeakLabels, reference: Array | None) -> tuple[int, ...]:
    """The renaming of predicted classes under which the weak labels are most likely.

    Where they are equally likely, the one that agrees best with reference predictions: weak labels may leave names
    open, but all models of a mixture must use the same names.
    """
    num_classes = log_probs.shape[1]
    if num_classes > MOST_PERMUTED:
        return tuple(range(num_classes))
    orders = list(permutations(range(num_classes)))
    likely = [float(weak_fit(log_probs[:, order], known, False).log_likelihood.sum()) for order in orders]
    best = [order for order, value in zip(orders, likely, strict=True) if value >= max(likely) - TIE * len(log_probs)]
    if reference is None:
        return best[0]
    agree = np.exp(reference)
    return max(best, key=lambda order: float((agree * np.exp(log_probs[:, order])).sum()))
