"""`NoisyLabels`: a class that somebody observed, right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, classes, rates, shares, whole_numbers
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._noise import MOST, LearnsNoise, bounded_matrix, changed, share
from glws.kinds._wording import Names, called

LEARNED_FROM = 0.7
"""Where a learned rate starts, as a part of the rate at which labels say nothing."""


@dataclass(frozen=True, eq=False)
class NoisyLabels(AbstractTableKind, LearnsNoise):
    """An observed class for each instance, wrong with known or learned probabilities. Groups of one instance.

        p(w | y) = T[y, w],   T[y, w] the probability that class y is observed as w; each row sums to 1

    `m_step` learns T from an initial matrix: T[y, w] becomes the share of w among the instances that are y according to
    the posterior. A guess with a heavy diagonal keeps the names of the classes. With `is_symmetric` one rate of wrong
    labels is learned, all of them as likely as any. `learning()` asks training to learn the noise.

    >>> weak = NoisyLabels.symmetric([0, 1], num_classes=3, rate=0.2)
    >>> weak.transition[0]
    tensor([0.8000, 0.1000, 0.1000], dtype=torch.float64)
    """

    name: ClassVar[str] = "noisy_labels"
    noun: ClassVar[str] = "noisy label"
    columns: ClassVar[Columns] = ({"label": "class"},)
    options: ClassVar[tuple[str, ...]] = ("rate", "transition")

    size: ClassVar[int] = 1
    observed: Int[Tensor, "groups"]
    transition: Float[Tensor, "classes classes"] = field(metadata=SHARED)
    is_symmetric: bool = field(default=False, metadata=SHARED)

    @classmethod
    def of(cls, observed: Numbers, transition: Numbers) -> NoisyLabels:
        """From observed classes and the matrix T, a row for each true class."""
        matrix = _checked(transition)
        return cls(
            classes(observed, "observed", len(matrix), hint="leave out instances without an observed class"), matrix
        )

    @classmethod
    def symmetric(cls, observed: Numbers, num_classes: int, rate: float) -> NoisyLabels:
        """Wrong with probability `rate`, and then any other class as likely as any."""
        wrong = float(rates(rate, "rate", 1))
        return replace(cls.of(observed, symmetric_matrix(wrong, num_classes)), is_symmetric=True)

    @classmethod
    def of_sets(cls, sizes: Numbers, priors: Numbers) -> NoisyLabels:
        """Unlabeled sets, as many as there are classes, of known class shares; one instance after the other.

        Which set an instance is from is a class seen through noise. With n_u instances in set u, of which priors[u, y]
        are of class y, and the predictions those of all sets together:

            T[y, u] = n_u priors[u, y] / Σ_v n_v priors[v, y]

        Of two classes, a number for each set may stand for the share of class 1. That is all such sets say of single
        instances, whatever groups they are put into. Classes that occur in no set have no row, and are refused.

        >>> weak = NoisyLabels.of_sets([3, 1], [[0.5, 0.5], [0.1, 0.9]])
        >>> weak.observed.tolist(), weak.transition[1].tolist()
        ([0, 0, 0, 1], [0.625, 0.375])
        """
        numbers, is_binary = whole_numbers(sizes, "sizes"), np.ndim(priors) == 1 and len(priors) == 2
        rows = shares(priors, "priors", 1 if is_binary else 2)
        rows = torch.stack([1 - rows, rows], 1) if is_binary else rows
        if len(numbers) != len(rows) or rows.shape[0] != rows.shape[1]:
            raise DataError(f"{len(numbers)} sets need as many rows and columns of priors, found {list(rows.shape)}")
        joint = (numbers[:, None] * rows).T
        matrix = joint / joint.sum(1, keepdim=True)
        if bool(matrix.isnan().any()):
            raise DataError(f"class {int(matrix.isnan().any(1).nonzero()[0])} occurs in no set")
        return cls.of(torch.arange(len(numbers)).repeat_interleave(numbers), matrix)

    @classmethod
    def from_labels(cls, labels: Numbers, transition: Numbers, generator: torch.Generator | None = None) -> NoisyLabels:
        """Each true label is replaced by a draw from its row."""
        matrix = _checked(transition)
        rows = matrix[classes(labels, "labels", len(matrix))]
        return cls(torch.multinomial(rows, 1, generator=generator)[:, 0], matrix)

    @classmethod
    def from_columns(cls, request: KindRequest) -> NoisyLabels:
        """The observed classes, with a rate of wrong ones or the matrix T among the options.

        `rate: learn` learns one rate, `transition: learn` the whole matrix.
        """
        observed, options = request.weak["label"], request.options
        if "rate" in options:
            return cls.symmetric(observed, request.num_classes, float(options["rate"]))
        if "transition" not in options:
            raise DataError(
                "noisy_labels needs options: {rate: 0.1}, or a matrix {transition: [[...], ...]}; "
                "{rate: learn} or {transition: learn} learns it"
            )
        return cls.of(observed, options["transition"])

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.transition)

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """The columns of the observed classes."""
        return self.transition.T[self.observed].log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """T[y, w]."""
        return float(self.transition[labels[0], self.observed[group]])

    def describe(self, group: int, names: Names = None) -> str:
        """The observed class."""
        return f"one label observed as {called(int(self.observed[group]), names)}"

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "*counts"]:
        """How many instances of each class were observed as each class; of symmetric noise how many wrong and right."""
        counts = posterior.marginals[:, 0].double().T @ one_hot(self.observed, self.num_classes).double()
        if not self.is_symmetric:
            return counts
        right = counts.diagonal().sum()
        return torch.stack([counts.sum() - right, right])

    def relearned(self, counts: Float[Tensor, "*counts"]) -> NoisyLabels:
        """With the rows of the counts, scaled to sum to 1; a class that never occurs keeps its row.

        Of symmetric noise with the share of wrong labels.
        """
        if not self.is_symmetric:
            return changed(self, transition=share(counts, counts.sum(1, keepdim=True), self.transition))
        wrong = float(share(counts[0], counts.sum(), 1 - self.transition[0, 0]))
        return changed(self, transition=symmetric_matrix(wrong, self.num_classes).to(self.transition))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, Any]:
        """A rate that is rather too high; the true class stays the most likely one."""
        rate = LEARNED_FROM * (num_classes - 1) / max(num_classes, 1)
        return {"rate": rate, "transition": symmetric_matrix(rate, num_classes)}

    def bounded(self) -> NoisyLabels:
        """Each observed class speaks most for itself."""
        if not self.is_symmetric:
            return changed(self, transition=bounded_matrix(self.transition))
        most = MOST * (self.num_classes - 1) / max(self.num_classes, 1)
        wrong = min(1 - float(self.transition[0, 0]), most)
        return changed(self, transition=symmetric_matrix(wrong, self.num_classes).to(self.transition))

    def noise(self, names: Names = None) -> dict[str, float]:
        """The rate of symmetric noise, or each entry of T outside of its diagonal."""
        if self.is_symmetric:
            return {"rate": 1 - float(self.transition[0, 0])}
        return {
            f"{called(truth, names)} as {called(seen, names)}": float(self.transition[truth, seen])
            for truth in range(self.num_classes)
            for seen in range(self.num_classes)
            if truth != seen
        }

    def noise_summary(self) -> dict[str, float]:
        """The rate of wrong labels, of classes that are all as frequent."""
        return {"rate": 1 - float(self.transition.diagonal().mean())}

    def noise_counts(self) -> Float[Tensor, "*counts"]:
        """T itself; of symmetric noise one label, wrong at the present rate."""
        right = self.transition[0, 0]
        return torch.stack([1 - right, right]) if self.is_symmetric else self.transition


def symmetric_matrix(rate: float, num_classes: int) -> Float[Tensor, "classes classes"]:
    """The matrix T where every wrong class is as likely as any.

    >>> symmetric_matrix(0.2, 3)[0]
    tensor([0.8000, 0.1000, 0.1000], dtype=torch.float64)
    """
    matrix = torch.full((num_classes, num_classes), rate / max(num_classes - 1, 1), dtype=torch.float64)
    return matrix.fill_diagonal_(1 - rate if num_classes > 1 else 1.0)


def _checked(transition: Numbers) -> Tensor:
    matrix = shares(transition, "transition", 2)
    if matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"transition must be a square matrix, found shape {list(matrix.shape)}")
    off = (matrix.sum(1) - 1).abs() > 1e-6  # room for float32 input
    if bool(off.any()):
        row = int(off.nonzero()[0])
        is_turned = bool(((matrix.sum(0) - 1).abs() <= 1e-6).all())
        hint = "; its columns do: rows are true classes, pass the transpose" if is_turned else ""
        raise DataError(f"transition: the row of class {row} must sum to 1, found {float(matrix[row].sum()):g}{hint}")
    return matrix
