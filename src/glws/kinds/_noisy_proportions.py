"""`NoisyProportions`: a count with random noise on it, as a privacy mechanism adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import Counts, Posterior, Weighted, geometric_noise, laplace_noise, only_counted
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, class_mask, label_counts, reals, true_labels, whole_numbers
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._narrowing import Narrowed, by_counted, counts_of_classes
from glws.kinds._noise import LearnsNoise, changed, share
from glws.kinds._wording import Names, of_classes

Kernel = Literal["geometric", "laplace"]
KERNELS = ("geometric", "laplace")


@dataclass(frozen=True, eq=False)
class NoisyProportions(LearnsNoise):
    """An observed number of labels among the counted classes, with noise. With m the true number and d = |w - m|:

        kernel="geometric"   p(w | y) = (1 - α) / (1 + α) · α^d,  α = exp(-1 / scale), for whole w
        kernel="laplace"     p(w | y) = exp(-d / scale) / (2 scale), for any w

    Both are what differential privacy with ε = 1 / scale adds to a count; w may lie outside 0 and the group's size.
    `m_step` learns the scale from the expected d. A count known to within so many, without a distribution, is
    `Proportions.around`.

    >>> weak = NoisyProportions.of([2], scale=0.5, kernel="laplace")
    >>> [round(math.exp(weak.log_weight(0, labels)), 3) for labels in ([1, 1, 0], [1, 0, 0])]
    [1.0, 0.135]
    """

    name: ClassVar[str] = "noisy_proportions"
    noun: ClassVar[str] = "bag"
    columns: ClassVar[Columns] = ({"count": "number"},)
    options: ClassVar[tuple[str, ...]] = ("counted", "scale", "kernel")

    observed: Float[Tensor, "groups"]
    scale: Float[Tensor, "1"] = field(metadata=SHARED)
    counted: Bool[Tensor, "classes"] = field(metadata=SHARED)
    kernel: Kernel = field(default="geometric", metadata=SHARED)

    @classmethod
    def of(
        cls,
        observed: Numbers,
        scale: float,
        kernel: Kernel = "geometric",
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
    ) -> NoisyProportions:
        """From the observed counts."""
        if kernel not in KERNELS:
            raise DataError(f"kernel must be one of {', '.join(KERNELS)}, found {kernel!r}")
        if not 0 < scale < math.inf:
            raise DataError(f"scale must be above 0, found {scale}")
        hint = 'observed counts, not shares; kernel="laplace" takes fractions'
        whole = kernel == "geometric"
        values = whole_numbers(observed, "observed", hint=hint).double() if whole else reals(observed, "observed")
        return cls(values, torch.tensor([scale], dtype=torch.float64), class_mask(counted, num_classes), kernel)

    @classmethod
    def from_labels(
        cls,
        labels: Numbers,
        lengths: Numbers | None = None,
        scale: float = 1.0,
        kernel: Kernel = "geometric",
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        generator: torch.Generator | None = None,
    ) -> NoisyProportions:
        """What the mechanism would release of groups with these true labels, [groups, instances] with padding."""
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes)
        counts = (occurs * class_mask(counted, num_classes)).sum(1)
        waits = torch.empty(2, len(counts), dtype=torch.float64).exponential_(generator=generator) * scale
        parts = waits.floor() if kernel == "geometric" else waits  # a rounded exponential is a geometric number
        return cls.of(counts + parts[0] - parts[1], scale, kernel, counted, num_classes)

    @classmethod
    def from_columns(cls, request: KindRequest) -> NoisyProportions:
        """The observed counts, with the scale of the noise among the options."""
        if "scale" not in request.options:
            raise DataError("noisy_proportions needs options: {scale: 1.0}")
        return cls.of(request.weak["count"], **request.counted())

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.counted)

    def form(self, lengths: Int[Tensor, "groups"]) -> Counts:
        """By the count engine."""
        weights = self._weights(lengths.to(self.observed.device))
        return Counts(self.counted.expand(len(self), -1), weights, only_counted(self.counted.cpu().numpy()))

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        count = sum(bool(self.counted[label]) for label in labels)
        distance, scale = abs(float(self.observed[group]) - count), float(self.scale)
        if self.kernel == "laplace":
            return -distance / scale - math.log(2 * scale)
        ratio = math.exp(-1 / scale)
        return math.log((1 - ratio) / (1 + ratio)) - distance / scale

    def describe(self, group: int, names: Names = None) -> str:
        """The observed count."""
        return f"about {float(self.observed[group]):g} {of_classes(self.counted, names)}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """Any count is possible: any noise can happen."""
        return by_counted(allowed, lengths, self.counted, torch.zeros_like(lengths), lengths)

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The observed count."""
        return counts_of_classes(self.counted, self.observed, self.observed, lengths)

    def counts_here(self, posterior: Posterior) -> Float[Tensor, "2"]:
        """The sum of the expected distances between observed and true counts, and the number of groups."""
        log_weights = self._weights(posterior.lengths).log_weights
        odds = log_weights + self._log_counts(posterior.potentials, posterior.lengths, log_weights.shape[1])
        possible = odds.amax(1) > -torch.inf
        numbers = torch.arange(odds.shape[1], device=odds.device)
        distance = (self.observed[:, None] - numbers).abs()
        expected = (torch.softmax(odds[possible], 1) * distance[possible]).sum()
        return torch.stack([expected, possible.double().sum()])

    def relearned(self, counts: Float[Tensor, "2"]) -> NoisyProportions:
        """With the scale that gives the mean distance μ: μ itself, or for whole numbers -1 / log α with
        α = (sqrt(1 + μ²) - 1) / μ. A mean of 0 leaves the scale as it is."""
        mean = share(counts[:1], counts[1:], torch.zeros_like(self.scale))
        learned = mean if self.kernel == "laplace" else -1 / ((torch.sqrt(1 + mean**2) - 1) / mean).log()
        return changed(self, scale=torch.where(mean > 0, learned, self.scale))

    @classmethod
    def noise_starts(cls, num_classes: int) -> dict[str, float]:
        """A scale that is rather too large for small counts."""
        return {"scale": 3.0}

    def noise(self, names: Names = None) -> dict[str, float]:
        """The scale."""
        return {"scale": float(self.scale)}

    def noise_counts(self) -> Float[Tensor, "2"]:
        """The expected distance, and one group."""
        ratio = torch.exp(-1 / self.scale)
        mean = self.scale if self.kernel == "laplace" else 2 * ratio / (1 - ratio**2)
        return torch.cat([mean, torch.ones_like(mean)])

    def _weights(self, lengths: Int[Tensor, "groups"]) -> Weighted:
        if self.kernel == "laplace":
            return laplace_noise(self.observed, float(self.scale), lengths)
        return geometric_noise(self.observed.long(), float(self.scale), lengths)

    def _log_counts(self, potentials: Tensor, lengths: Tensor, columns: int) -> Float[Tensor, "groups counts"]:
        """log Σ over the labelings with k counted, k = 0..: one instance after the other, all groups at once."""
        counted = torch.where(self.counted, potentials.double(), -torch.inf).logsumexp(2)
        rest = torch.where(self.counted, -torch.inf, potentials.double()).logsumexp(2)
        row = torch.full((len(lengths), columns), -torch.inf, dtype=torch.float64, device=lengths.device)
        row[:, 0] = 0.0
        for place in range(columns - 1):
            one_more = torch.nn.functional.pad(row[:, :-1], (1, 0), value=-torch.inf) + counted[:, place, None]
            longer = torch.logaddexp(row + rest[:, place, None], one_more)
            row = torch.where((place < lengths)[:, None], longer, row)
        return row
