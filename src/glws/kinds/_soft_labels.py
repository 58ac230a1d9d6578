"""`SoftLabels`: scores of another model or annotator, one for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, Answer, resized
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, reals, refuse, shares
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractTableKind
from glws.kinds._projections import MESSAGE, AbstractProjection
from glws.kinds._wording import Names, called

Reading = Literal["evidence", "target"]
"""Whether scores are evidence about a label, or its posterior; see `SoftLabels`."""
READINGS = ("evidence", "target")
POSITIVE = "must be finite and >= 0; of logits pass softmax(-1), of log-probabilities exp()"


@dataclass(frozen=True, eq=False)
class SoftLabels(AbstractTableKind):
    """A score c(k) >= 0 for each class of each instance. Groups of one instance. Two readings:

    `reading="evidence"`, the paper's and the default: p(w | y = k) = c(k), so q(k) ∝ p(k) c(k). The scores are
    evidence beside the prediction. Repeated, as EM does, the prediction adds log c at every step and ends at the most
    likely class: right where the scores are another's opinion, overconfident where they are calibrated probabilities.

    `reading="target"`: the scores are the calibrated probabilities themselves; q(k) = c(k) / Σ c whatever is
    predicted, and the log-likelihood is Σ_k q(k) log p(k), so that training is plain soft-label cross-entropy. This is
    a projection, not a weight: no automaton.

    `prior` is the class prior under which the scores were made. A score is a posterior; what it says about the
    instance, without what its maker knew beforehand, is c(k) / prior(k), and that is the weight. Left out: all equal.

    Scores need not sum to 1; an instance whose scores are all 0 is refused.

    >>> weak = SoftLabels.of([[0.2, 0.3, 0.5]])
    >>> weak.infer(torch.tensor([[[0.6, 0.3, 0.1]]]).log()).marginals
    tensor([[[0.4615, 0.3462, 0.1923]]])
    """

    name: ClassVar[str] = "soft_labels"
    noun: ClassVar[str] = "soft label"
    columns: ClassVar[Columns] = ({"scores": "number of each class"},)
    options: ClassVar[tuple[str, ...]] = ("prior", "reading")

    size: ClassVar[int] = 1
    scores: Float[Tensor, "groups classes"]
    prior: Float[Tensor, "classes"] = field(metadata=SHARED)
    reading: Reading = field(default="evidence", metadata=SHARED)

    @classmethod
    def of(cls, scores: Numbers, prior: Numbers | None = None, reading: Reading = "evidence") -> SoftLabels:
        """From scores [groups, classes]."""
        values = reals(scores, "scores", 2, "a row for each instance, the score of each class")
        refuse((values < 0).any(1) | values.isinf().any(1), lambda group: f"scores {POSITIVE}")
        refuse((values == 0).all(1), lambda group: "all scores are 0")
        return cls(values, _prior(prior, values.shape[1]), checked_reading(reading, READINGS))

    @classmethod
    def from_columns(cls, request: KindRequest) -> SoftLabels:
        """The scores."""
        return cls.of(request.weak["scores"], **request.options)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.scores.shape[1]

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """Weights, or targets."""
        if self.reading == "target":
            return SoftTargets(self.scores / self.scores.sum(1, keepdim=True))
        return super().form(lengths)

    def log_table(self) -> Float[Tensor, "groups classes"]:
        """log c(k) - log prior(k)."""
        return (self.scores / self.prior).log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """c(y) / prior(y)."""
        if self.reading == "target":
            raise DataError(f'SoftLabels with reading="target" {MESSAGE}')
        return float(self.scores[group, labels[0]]) / float(self.prior[labels[0]])

    def describe(self, group: int, names: Names = None) -> str:
        """The likeliest class."""
        return f"one label with scores, highest for class {called(int(self.scores[group].argmax()), names)}"


@dataclass(frozen=True, eq=False)
class SoftTargets(AbstractProjection):
    """Groups of one instance whose posterior is known: q(k) = target(k), log_likelihood = Σ_k q(k) log p(k).

    The predictions are projected onto the one distribution that is allowed; up to the entropy of the target the
    log-likelihood is minus the relative entropy. -inf where the target needs a class that the prediction excludes.
    """

    is_plain = True
    targets: Float[Tensor, "groups classes"]

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The targets, in the groups of one instance."""
        phi = resized(potentials.double(), 1)[:, 0]
        log_z = torch.where(self.targets > 0, self.targets * phi, 0.0).sum(1)
        log_z = torch.where(lengths == 1, log_z, -torch.inf)
        marginals = torch.where((log_z > -torch.inf)[:, None], self.targets, 0.0)[:, None]
        return log_z.to(potentials.dtype), resized(marginals, potentials.shape[1]).to(potentials.dtype)


def shifted_prior(scores: Numbers, old: Numbers, new: Numbers) -> Float[Tensor, "groups classes"]:
    """Calibrated probabilities under another class prior: c(k) new(k) / old(k), scaled to sum to 1.

    Confidences of a model trained at one class prior, used on data with another, are biased until they are shifted.

    >>> shifted_prior([[0.1, 0.9], [0.5, 0.5]], old=[0.6, 0.4], new=[0.4, 0.6])[:, 1]
    tensor([0.9529, 0.6923], dtype=torch.float64)
    """
    values = shares(scores, "scores", 2)
    moved = values * _prior(new, values.shape[1]) / _prior(old, values.shape[1])
    return moved / moved.sum(1, keepdim=True)


def checked_reading(reading: Reading, known: Sequence[str]) -> Reading:
    """The reading, if it is one of those known."""
    if reading not in known:
        raise DataError(f"reading must be one of {', '.join(known)}, found {reading!r}")
    return reading


def _prior(prior: Numbers | None, num_classes: int) -> Float[Tensor, "classes"]:
    if prior is None:
        return torch.ones(num_classes, dtype=torch.float64)
    read = torch.as_tensor(prior, dtype=torch.float64)
    if read.shape != (num_classes,) or not bool((read > 0).all()):
        raise DataError(f"a prior is {num_classes} numbers above 0, found {read.tolist()}")
    return read
