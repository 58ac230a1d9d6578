"""Likelihoods of noisy counts: Laplace, Gaussian and geometric noise, then rounding, then clipping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError

Kernel = Literal["geometric", "laplace", "gaussian"]
KERNELS = get_args(Kernel)


@dataclass(frozen=True)
class CountNoise:
    """How a true count m becomes an observed one: noise, rounded if `rounded`, clipped to `clip` if given.

        p(w | m) = the density of the noise at w - m, or the probability of all that becomes w

    A value at an end of `clip` has the probability of everything beyond it.

    >>> noise = CountNoise("laplace", clip=(0.0, 9.0))
    >>> log_weight = noise.log_likelihood(torch.tensor([0.0]), torch.tensor([0.0, 1.0]), torch.tensor(2.0))
    >>> [round(float(value.exp()), 4) for value in log_weight]  # half of the noise is below; e^(-1/2) / 2
    [0.5, 0.3033]
    """

    kernel: Kernel
    rounded: bool = False
    clip: tuple[float, float] | None = None

    def log_likelihood(self, observed: Tensor, counts: Tensor, scale: Tensor) -> Float[Tensor, "..."]:
        """log p(observed | count), for tensors that broadcast."""
        values, scale = observed.double() - counts.double(), scale.double()
        inside = self._log_inside(values.abs(), scale)
        if self.clip is None:
            return inside
        half = 0.5 if self.rounded and self.kernel != "geometric" else 0.0
        below, above = self._log_tail(values + half, scale), self._log_tail(half - values, scale)
        found = torch.where(observed <= self.clip[0], below, inside)
        return torch.where(observed >= self.clip[1], above, found)

    def _log_inside(self, distance: Tensor, scale: Tensor) -> Tensor:
        if self.kernel == "geometric":
            return torch.tanh(0.5 / scale).log() - distance / scale
        if self.rounded:
            wide, narrow = self._log_tail(0.5 - distance, scale), self._log_tail(-0.5 - distance, scale)
            return wide + torch.log(-torch.expm1(narrow - wide))
        if self.kernel == "laplace":
            return -distance / scale - torch.log(2 * scale)
        return -((distance / scale) ** 2) / 2 - torch.log(scale) - math.log(2 * math.pi) / 2

    def _log_tail(self, at: Tensor, scale: Tensor) -> Tensor:
        """log P(noise <= at)."""
        if self.kernel == "gaussian":
            tail: Tensor = torch.special.log_ndtr(at / scale)
            return tail
        half = torch.log1p(torch.exp(-1 / scale)) if self.kernel == "geometric" else torch.tensor(math.log(2.0)).to(at)
        shift = 1.0 if self.kernel == "geometric" else 0.0  # above: 1 - P(noise >= at + 1) for whole numbers
        lower = at.clamp_max(0) / scale - half
        upper = torch.log1p(-torch.exp(-(at.clamp_min(0) + shift) / scale - half))
        return torch.where(at < 0, lower, upper)

    def draw(self, counts: Tensor, scale: float, generator: torch.Generator | None = None) -> Float[Tensor, "groups"]:
        """What would be observed of these counts."""
        if self.kernel == "gaussian":
            noise = torch.randn(counts.shape, generator=generator, dtype=torch.float64) * scale
        else:
            waits = torch.empty(2, len(counts), dtype=torch.float64).exponential_(generator=generator) * scale
            parts = waits.floor() if self.kernel == "geometric" else waits  # a rounded exponential is geometric
            noise = parts[0] - parts[1]
        values = counts.double() + noise
        values = values.round() if self.rounded else values
        return values if self.clip is None else values.clamp(*self.clip)

    def check(self, observed: Tensor) -> None:
        """Raises `DataError` for observed values that the mechanism cannot have released."""
        if self.clip is not None:
            low, high = self.clip
            wrong = ((observed < low) | (observed > high)).nonzero()[:, 0].tolist()
            if wrong:
                found = f"found {float(observed[wrong[0]]):g}"
                raise DataError(f"group {wrong[0]}: clipped counts must be within {low:g} and {high:g}, {found}")
        if self.rounded and bool((observed != observed.round()).any()):
            group = int((observed != observed.round()).nonzero()[0])
            raise DataError(f"group {group}: rounded counts must be whole numbers, found {float(observed[group]):g}")


def noise_scale(kernel: Kernel, scale: Any, epsilon: Any, sensitivity: Any, delta: Any) -> float:
    """The scale of the noise: as given, or sensitivity / ε; for Gaussian noise sensitivity √(2 log(1.25 / δ)) / ε.

    >>> noise_scale("laplace", None, 0.5, 1, None), round(noise_scale("gaussian", None, 1.0, 1, 1e-5), 2)
    (2.0, 4.84)
    """
    if (scale is None) == (epsilon is None):
        found = "neither" if scale is None else "both"
        raise DataError(f"noisy counts need options: {{epsilon: 1}} or {{scale: 1.0}}, one of them; found {found}")
    for name, value in (("scale", scale), ("epsilon", epsilon), ("sensitivity", sensitivity)):
        _check_positive(name, value)
    if scale is not None:
        return float(scale)
    if kernel != "gaussian":
        return float(sensitivity) / float(epsilon)
    if delta is None or isinstance(delta, bool) or not 0 < float(delta) < 1:
        raise DataError("gaussian noise of a privacy system needs delta too, as in {epsilon: 1, delta: 1e-5}, or scale")
    return float(sensitivity) * math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)


def checked_noise(kernel: Any, rounded: bool, clip: Any) -> CountNoise:
    """The noise, if the kernel is known and the range has two ends in order."""
    if kernel not in KERNELS:
        raise DataError(f"kernel must be one of {', '.join(KERNELS)}, found {kernel!r}")
    if clip is None:
        return CountNoise(kernel, bool(rounded))
    ends = list(clip) if isinstance(clip, list | tuple) else []
    if len(ends) != 2:
        raise DataError(f"clip must be the two ends of a range, such as [0, 100] or [0, null], found {clip!r}")
    low = -math.inf if ends[0] is None else float(ends[0])
    high = math.inf if ends[1] is None else float(ends[1])
    if not low < high:
        raise DataError(f"clip must be a range from low to high, found {clip!r}")
    return CountNoise(kernel, bool(rounded), (low, high))


def _check_positive(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value < math.inf):
        raise DataError(f"{name} must be above 0, found {value}")
