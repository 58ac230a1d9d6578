"""Shared parts of methods that rewrite a risk: a margin, its losses, corrections of negative partial risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glws.data import BatchPart, WeakDataset
from glws.errors import DataError
from glws.methods._abstract import AbstractMethod

Surrogate = Literal["logistic", "sigmoid", "double_hinge", "squared"]
Correction = Literal["none", "relu", "abs"]

SMALLEST_GAP = 0.01
"""The least distance of a prior from 1/2 in a risk that is divided by 2π - 1."""


def margin(logits: Float[Tensor, "*rows 2"]) -> Float[Tensor, "*rows"]:
    """One score from two logits, positive for class 1: z = f1 - f0, so that p(1) = σ(z).

    The logistic loss of z is the cross-entropy of the two logits, and the network predicts class 1 if z > 0.
    """
    return logits[..., 1] - logits[..., 0]


def surrogate(scores: Float[Tensor, "*rows"], name: Surrogate = "logistic") -> Float[Tensor, "*rows"]:
    """ℓ(z): the loss of a score if the label is positive; ℓ(-z) is that of a negative one.

    logistic softplus(-z), sigmoid σ(-z), double hinge max(-z, 0, (1 - z) / 2), squared (z - 1)² / 4.

    >>> surrogate(torch.tensor([-2.0, 0.0, 0.5, 2.0]), "double_hinge")
    tensor([2.0000, 0.5000, 0.2500, 0.0000])
    """
    return SURROGATES[name](scores)


SURROGATES: dict[str, Callable[[Tensor], Tensor]] = {
    "logistic": lambda scores: functional.softplus(-scores),
    "sigmoid": lambda scores: torch.sigmoid(-scores),
    "double_hinge": lambda scores: torch.maximum(-scores, ((1 - scores) / 2).clamp_min(0)),
    "squared": lambda scores: (scores - 1) ** 2 / 4,
}


def corrected(risk: Float[Tensor, ""], correction: Correction) -> Float[Tensor, ""]:
    """Correct a partial risk that is negative: unchanged, max(0, risk), or |risk|.

    It is applied to the mean of a batch, never to single instances.
    """
    if correction == "relu":
        return risk.clamp_min(0)
    return risk.abs() if correction == "abs" else risk


def corrected_sum(risks: Iterable[Float[Tensor, ""]], correction: Correction) -> Float[Tensor, ""]:
    """The sum of partial risks, each `corrected` separately.

    >>> corrected_sum((torch.tensor(0.5), torch.tensor(-0.2)), "abs")
    tensor(0.7000)
    """
    return torch.stack([corrected(risk, correction) for risk in risks]).sum()


def mean(values: Float[Tensor, "*rows"]) -> Float[Tensor, ""]:
    """The mean, 0 if empty: a batch may lack instances of a set."""
    return values.sum() / max(values.numel(), 1)


def pair_scores(logits: Float[Tensor, "rows 2"], part: BatchPart) -> Float[Tensor, "pairs 2"]:
    """The score z = f1 - f0 of the first and the second instance of each pair; there may be no pairs."""
    return margin(part.gather(logits)).reshape(len(part.rows), 2)


def check_prior(prior: float) -> None:
    """Raise `DataError` unless the prior is strictly between 0 and 1."""
    if not 0 < prior < 1:
        raise DataError(f"the prior, the share of the positive class, must lie between 0 and 1, found {prior}")


def check_uneven_prior(prior: float) -> None:
    """Raise `DataError` unless the prior is strictly between 0 and 1, and not near 1/2."""
    check_prior(prior)
    if abs(prior - 0.5) < SMALLEST_GAP:
        why = "the risk is divided by 2π - 1"
        raise DataError(f"the prior must differ from 1/2 by {SMALLEST_GAP} or more ({why}), found {prior}")


def check_decay(name: str, value: float) -> None:
    """Raise `DataError` unless the value can be the decay of a moving average."""
    if not 0 <= value < 1:
        raise DataError(f"{name} must be at least 0 and less than 1, found {value:g}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `DataError` unless the option is one of these choices."""
    if value not in choices:
        raise DataError(f"{name} must be one of {', '.join(choices)}, found {value!r}")


class AbstractBinaryMethod(AbstractMethod):
    """A method for two classes."""

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless the kinds fit and have two classes."""
        super().check(data)
        check_two_classes(self, data)


def check_two_classes(method: AbstractMethod, data: WeakDataset) -> None:
    """Raise `DataError` unless the weak labels are about two classes."""
    for weak in data.weak:
        if weak.num_classes != 2:
            raise DataError(f"{type(method).__name__} is for two classes, the weak labels are over {weak.num_classes}")
