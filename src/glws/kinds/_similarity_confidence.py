"""`SimilarityConfidence`: how sure somebody is that two instances are of the same class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import AbstractForm, Agreement, Answer, resized
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, pairs_of_probabilities, rates, shares
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._fixed_size import AbstractFixedSize
from glws.kinds._narrowing import Narrowed, by_agreement
from glws.kinds._projections import MESSAGE, AbstractProjection
from glws.kinds._wording import Names

SimilarityReading = Literal["evidence", "target", "code"]
"""How the confidence that two labels agree is read; see `SimilarityConfidence`."""
READINGS = ("evidence", "target", "code")


@dataclass(frozen=True, eq=False)
class SimilarityConfidence(AbstractFixedSize):
    """A confidence c that the two instances of a group have the same label, for any number of classes.

    `reading="evidence"`, the paper's and the default: p(w | y) = c for equal labels, 1 - c for different ones. The
    confidence is evidence beside the prediction; training moves P(same) beyond c, to 0 or 1.

    `reading="target"`: P(same) shall *be* c. Log-likelihood c log P(same) + (1 - c) log P(different), the cross-entropy
    with c as its target, and q = c q_same + (1 - c) q_different, its matching posterior. A projection: no automaton.

    `reading="code"`: what the released code computes: the first instance as by evidence, the second left at its own
    prediction, so that it learns nothing from the posterior. Only its marginals mean something.

    `prior` is the share of equal pairs under which the confidences were made (π² + (1-π)² for two classes with prior
    π); a confidence is a posterior, and what it says beyond that share is c / prior against (1 - c) / (1 - prior).
    The default 1/2 leaves c as it is (up to a factor). It matters for evidence only.

    The classes are known up to a permutation only. c is clipped to within `clip` of 0 and 1.

    >>> weak = SimilarityConfidence.of([0.3])
    >>> weak.infer(torch.tensor([[[0.31, 0.69], [0.62, 0.38]]]).log()).marginals[0, :, 1]
    tensor([0.7296, 0.3109])
    """

    name: ClassVar[str] = "similarity_confidence"
    noun: ClassVar[str] = "pair"
    columns: ClassVar[Columns] = ({"confidence": "share"},)
    options: ClassVar[tuple[str, ...]] = ("reading", "prior", "clip")

    size: ClassVar[int] = 2
    confidence: Float[Tensor, "groups"]
    prior: Float[Tensor, "1"] = field(metadata=SHARED)
    num_classes: int = field(default=2, metadata=SHARED)
    reading: SimilarityReading = field(default="evidence", metadata=SHARED)

    @classmethod
    def of(
        cls,
        confidence: Numbers,
        num_classes: int = 2,
        reading: SimilarityReading = "evidence",
        prior: float = 0.5,
        clip: float = 1e-4,
    ) -> SimilarityConfidence:
        """From confidences within 0 and 1."""
        if reading not in READINGS:
            raise DataError(f"reading must be one of {', '.join(READINGS)}, found {reading!r}")
        if not 0 < prior < 1:
            raise DataError(f"prior must be between 0 and 1, found {prior}")
        values = shares(confidence, "confidence", hint="the probability of one class").clamp(clip, 1 - clip)
        return cls(values, rates(prior, "prior", 1), num_classes, reading)

    @classmethod
    def from_probabilities(
        cls, probabilities: Numbers, reading: SimilarityReading = "evidence", prior: float = 0.5
    ) -> SimilarityConfidence:
        """What a model with these class probabilities, [groups, 2, classes], would say: c = Σ_k p_1(k) p_2(k)."""
        both = pairs_of_probabilities(probabilities)
        return cls.of(both.prod(1).sum(1).clamp(0, 1), both.shape[2], reading, prior)

    @classmethod
    def from_columns(cls, request: KindRequest) -> SimilarityConfidence:
        """The confidences."""
        return cls.of(request.weak["confidence"], request.num_classes, **request.options)

    def form(self, lengths: Int[Tensor, "groups"]) -> AbstractForm:
        """By agreement; or the projections."""
        if self.reading == "target":
            return AgreementTarget(self.confidence, self.num_classes)
        agreement = ReleasedAgreement if self.reading == "code" else Agreement
        return agreement(*self._log_weights(), self.num_classes)

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By whether the confidence leaves room for equal and for different labels."""
        same, different = self._log_weights()
        return by_agreement(allowed, lengths, same > -torch.inf, different > -torch.inf)

    def _log_weights(self) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups"]]:
        same = (self.confidence * 0.5 / self.prior).log()
        return same, ((1 - self.confidence) * 0.5 / (1 - self.prior)).log()

    def weight(self, group: int, labels: Sequence[int]) -> float:
        """c or 1 - c, relative to the prior."""
        if self.reading != "evidence":
            raise DataError(f'SimilarityConfidence with reading="{self.reading}" {MESSAGE}')
        confidence, prior = float(self.confidence[group]), float(self.prior)
        same = labels[0] == labels[1]
        return confidence / (2 * prior) if same else (1 - confidence) / (2 * (1 - prior))

    def describe(self, group: int, names: Names = None) -> str:
        """The confidence."""
        return f"a pair of one class with confidence {float(self.confidence[group]):g}"


@dataclass(frozen=True, eq=False)
class AgreementTarget(AbstractProjection):
    """Pairs whose probability of equal labels is known to be `target`.

    log_likelihood = target log Z_same + (1 - target) log Z_different,  q = target q_same + (1 - target) q_different.
    """

    is_plain = True
    target: Float[Tensor, "groups"]
    num_classes: int

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The two posteriors, mixed."""
        yes, no = torch.zeros_like(self.target), torch.full_like(self.target, -torch.inf)
        log_same, same = Agreement(yes, no, self.num_classes).solve(potentials.double(), lengths)
        log_different, different = Agreement(no, yes, self.num_classes).solve(potentials.double(), lengths)
        share = torch.stack([self.target, 1 - self.target])
        log_z = torch.where(share > 0, share * torch.stack([log_same, log_different]), 0.0).sum(0)
        mixed = share[0, :, None, None] * same + share[1, :, None, None] * different
        marginals = torch.where((log_z > -torch.inf)[:, None, None], mixed, 0.0)
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)


@dataclass(frozen=True, eq=False)
class ReleasedAgreement(AbstractProjection):
    """Pairs by agreement, except that the posterior of the second instance is its own prediction."""

    log_same: Float[Tensor, "groups"]
    log_different: Float[Tensor, "groups"]
    num_classes: int

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The agreement, with the second row replaced."""
        log_z, marginals = Agreement(self.log_same, self.log_different, self.num_classes).solve(potentials, lengths)
        own = resized(potentials.double(), 2)[:, 1].softmax(1).to(marginals.dtype)
        pair = resized(marginals, 2)
        pair = torch.stack([pair[:, 0], torch.where((log_z > -torch.inf)[:, None], own, 0.0)], 1)
        return log_z, resized(pair, potentials.shape[1])
