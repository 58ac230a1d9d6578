"""`NoisyProportions`: a count with random noise on it, as a privacy mechanism adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import Counts, Posterior, Weighted, only_counted
from glws.kinds._abstract import SHARED
from glws.kinds._arrays import Numbers, class_mask, label_counts, reals, true_labels, whole_numbers
from glws.kinds._columns import Columns, KindRequest
from glws.kinds._count_noise import CountNoise, Kernel, checked_noise, noise_scale
from glws.kinds._narrowing import Narrowed, by_counted, counts_of_classes
from glws.kinds._noise import LearnsNoise, changed, share
from glws.kinds._wording import Names, of_classes


@dataclass(frozen=True, eq=False)
class NoisyProportions(LearnsNoise):
    """An observed number of labels among the counted classes, with noise. With m the true number and d = |w - m|:

        kernel="geometric"   p(w | y) = (1 - α) / (1 + α) · α^d,  α = exp(-1 / scale), for whole w
        kernel="laplace"     p(w | y) = exp(-d / scale) / (2 scale), for any w
        kernel="gaussian"    p(w | y) = exp(-d² / (2 scale²)) / (scale √(2π)), for any w

    The first two are what differential privacy with ε = sensitivity / scale adds to a count; w may lie outside 0 and
    the group's size. A clipped w has the probability of everything beyond the end, a rounded one of all that it stands
    for. In tables the kernel is `mechanism`. `m_step` learns the scale from the expected d or d². A count known to
    within so many, without a distribution, is `Proportions.around`.

    >>> weak = NoisyProportions.of([2], scale=0.5, kernel="laplace")
    >>> [round(weak.log_weight(0, labels), 3) for labels in ([1, 1, 0], [1, 0, 0])]
    [-0.0, -2.0]
    """

    name: ClassVar[str] = "noisy_proportions"
    noun: ClassVar[str] = "bag"
    columns: ClassVar[Columns] = ({"count": "number"},)
    options: ClassVar[tuple[str, ...]] = (
        *("counted", "scale", "mechanism", "kernel", "epsilon", "sensitivity", "delta", "rounded", "clip"),
    )

    observed: Float[Tensor, "groups"]
    scale: Float[Tensor, "1"] = field(metadata=SHARED)
    counted: Bool[Tensor, "classes"] = field(metadata=SHARED)
    kernel: Kernel = field(default="geometric", metadata=SHARED)
    rounded: bool = field(default=False, metadata=SHARED)
    clip: tuple[float, float] | None = field(default=None, metadata=SHARED)

    @classmethod
    def of(
        cls,
        observed: Numbers,
        scale: float | None = None,
        kernel: Kernel = "geometric",
        counted: int | Sequence[int] = 1,
        num_classes: int = 2,
        *,
        epsilon: float | None = None,
        sensitivity: float = 1.0,
        delta: float | None = None,
        rounded: bool = False,
        clip: Sequence[float | None] | None = None,
    ) -> NoisyProportions:
        """From the observed counts and the scale of the noise, or the ε of a privacy system (and δ, for "gaussian").

        `sensitivity` is how much one instance can change the count. `rounded` and `clip` are what was done after the
        noise was added: counts rounded to whole numbers, and clipped to a range such as [0, None].
        """
        noise = checked_noise(kernel, rounded, clip)
        number = torch.tensor([noise_scale(kernel, scale, epsilon, sensitivity, delta)], dtype=torch.float64)
        hint = 'observed counts, not shares; kernel="laplace" and "gaussian" take fractions'
        whole = kernel == "geometric"
        values = whole_numbers(observed, "observed", hint=hint).double() if whole else reals(observed, "observed")
        noise.check(values)
        return cls(values, number, class_mask(counted, num_classes), noise.kernel, noise.rounded, noise.clip)

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
        rounded: bool = False,
        clip: Sequence[float | None] | None = None,
    ) -> NoisyProportions:
        """What the mechanism would release of groups with these true labels, [groups, instances] with padding."""
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes)
        counts = (occurs * class_mask(counted, num_classes)).sum(1)
        noise = checked_noise(kernel, rounded, clip)
        seen = noise.draw(counts, scale, generator)
        return cls.of(seen, scale, kernel, counted, num_classes, rounded=rounded, clip=clip)

    @classmethod
    def from_columns(cls, request: KindRequest) -> NoisyProportions:
        """The observed counts, with the mechanism and its ε or scale among the options."""
        options = request.counted()
        mechanism = options.pop("mechanism", None)
        return cls.of(request.weak["count"], **options, **({} if mechanism is None else {"kernel": mechanism}))

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return len(self.counted)

    @property
    def noise_model(self) -> CountNoise:
        """How a true count becomes an observed one."""
        return CountNoise(self.kernel, self.rounded, self.clip)

    def form(self, lengths: Int[Tensor, "groups"]) -> Counts:
        """By the count engine."""
        weights = self._weights(lengths.to(self.observed.device))
        return Counts(self.counted.expand(len(self), -1), weights, only_counted(self.counted.cpu().numpy()))

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """As written above."""
        count = sum(bool(self.counted[label]) for label in labels)
        observed, found = self.observed[group], torch.tensor(float(count), dtype=torch.float64)
        return float(self.noise_model.log_likelihood(observed, found, self.scale[0]))

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
        if self.clip is not None:
            raise DataError("the scale of the noise cannot be learned from clipped counts; say epsilon or scale")
        log_weights = self._weights(posterior.lengths).log_weights
        odds = log_weights + self._log_counts(posterior.potentials, posterior.lengths, log_weights.shape[1])
        possible = odds.amax(1) > -torch.inf
        numbers = torch.arange(odds.shape[1], device=odds.device)
        distance = (self.observed[:, None] - numbers).abs() ** (2 if self.kernel == "gaussian" else 1)
        expected = (torch.softmax(odds[possible], 1) * distance[possible]).sum()
        return torch.stack([expected, possible.double().sum()])

    def relearned(self, counts: Float[Tensor, "2"]) -> NoisyProportions:
        """With the scale that gives the mean distance μ: μ itself, or for whole numbers -1 / log α with
        α = (sqrt(1 + μ²) - 1) / μ, or the root of the mean square. A mean of 0 leaves the scale as it is."""
        mean = share(counts[:1], counts[1:], torch.zeros_like(self.scale))
        learned = {"laplace": mean, "gaussian": mean.sqrt()}.get(self.kernel)
        if learned is None:
            learned = -1 / ((torch.sqrt(1 + mean**2) - 1) / mean).log()
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
        mean = {"laplace": self.scale, "gaussian": self.scale**2}.get(self.kernel, 2 * ratio / (1 - ratio**2))
        return torch.cat([mean, torch.ones_like(mean)])

    def _weights(self, lengths: Int[Tensor, "groups"]) -> Weighted:
        numbers = torch.arange(max(lengths.tolist(), default=0) + 1, device=lengths.device)
        seen = self.noise_model.log_likelihood(
            self.observed.to(lengths.device)[:, None], numbers, self.scale.to(lengths.device)
        )
        return Weighted(torch.where(numbers <= lengths[:, None], seen, -torch.inf))

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
