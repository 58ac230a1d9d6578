"""Plain torch: window sums of the law of a count from its characteristic function; any device.

Axes: problems, instances, waves (frequencies). With u = 1 - e^{it} and signed small sides (see `tilting`), an instance
contributes 1 - a u to the characteristic function when r = a, and e^{it} (1 - a conj(u)) when r = 1 - a. We keep

    ψ(t) = e^{-it center} φ(t),        Ω(t) = Σ_d ω(center + d) e^{-itd},        t_l = 2πl/N,  N odd.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Complex128, Float, Int
from torch import Tensor

from glws.inference._counts.thresholds import TORCH_SMOOTH_VARIANCE

# Truncated parts are below e^-36 = 2e-16 (aliases), e^-40 (frequencies) and e^-41 (terms of the series).
_ALIAS_NATS = 36.0
_FREQUENCY_NATS = 40.0
_TERM_NATS = 41.0
# Terms of the series at most: enough for a variance of 30.
MAX_TERMS = 44
# Elements of a temporary tensor [problems, some waves, instances].
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Waves:
    """The frequencies of every problem; a mask leaves out those that a problem does not need."""

    points: Int[Tensor, "problems"]  # N
    is_used: Bool[Tensor, "problems waves"]
    sine: Float[Tensor, "problems waves"]
    versine: Float[Tensor, "problems waves"]  # 1 - cos t

    def turns(self, shift: Int[Tensor, "problems *shifts"]) -> Float[Tensor, "problems waves *shifts"]:
        """t_l * shift, reduced exactly."""
        index = torch.arange(self.sine.shape[1], device=shift.device)
        extra = (1,) * (shift.ndim - 1)
        points = self.points.view(-1, 1, *extra)
        return 2.0 * math.pi * ((index.view(1, -1, *extra) * shift[:, None]) % points).double() / points

    def rows(self, chosen: Bool[Tensor, "problems"]) -> Waves:
        """The chosen problems."""
        return Waves(self.points[chosen], self.is_used[chosen], self.sine[chosen], self.versine[chosen])


def reach(variance: Float[Tensor, "problems"]) -> Int[Tensor, "problems"]:
    """R with P(|S - mean| >= R) below the alias level, by Bennett: V h(R/V) = 36, h(x) = (1+x) log(1+x) - x."""
    v = variance.clamp(min=1e-30)
    x = (12.0 + (144.0 + 72.0 * v).sqrt()) / v  # Bernstein's solution lies above; Newton descends from there
    for _ in range(4):
        x = x - ((1.0 + x) * torch.log1p(x) - x - _ALIAS_NATS / v) / torch.log1p(x)
    return (v * x).long() + 1


def make_waves(
    variance: Float[Tensor, "problems"], num_soft: Int[Tensor, "problems"], half_width: Int[Tensor, "problems"]
) -> Waves:
    """An odd N without aliases in the window, and the frequencies with |φ| above e^-40."""
    wanted = reach(variance) + half_width + 3 + (0.25 * variance.sqrt()).long()
    points = torch.minimum(wanted, num_soft + 1) | 1
    depth = (_FREQUENCY_NATS / variance.clamp(min=1.0)).clamp(max=2.0)
    count = torch.minimum((points + 1) // 2, (torch.acos(1.0 - depth) * points / (2.0 * math.pi)).long() + 1)
    index = torch.arange(int(count.max()), device=variance.device)
    half = math.pi * index.double() / points[:, None]
    return Waves(points, index < count[:, None], half.mul(2.0).sin(), 2.0 * half.sin().square())


def psi(
    small: Float[Tensor, "problems instances"],
    variance: Float[Tensor, "problems"],
    center: Int[Tensor, "problems"],
    waves: Waves,
) -> Complex128[Tensor, "problems waves"]:
    """ψ at all frequencies: from power sums if the variance is large, else instance by instance."""
    shift = (small < 0).sum(1) - center
    is_smooth = variance > TORCH_SMOOTH_VARIANCE
    result = torch.zeros(waves.sine.shape, dtype=torch.complex128, device=small.device)
    if bool(is_smooth.any()):
        rows = waves.rows(is_smooth)
        result[is_smooth] = _psi_by_power_sums(small[is_smooth], num_terms(variance[is_smooth]), shift[is_smooth], rows)
    if not bool(is_smooth.all()):
        result[~is_smooth] = _psi_by_product(small[~is_smooth], shift[~is_smooth], waves.rows(~is_smooth))
    return torch.where(waves.is_used, result, 0.0)


def _psi_by_product(
    small: Float[Tensor, "problems instances"], shift: Int[Tensor, "problems"], waves: Waves
) -> Complex128[Tensor, "problems waves"]:
    """Π_j (1 - a u), conjugated where the small side is negative, as exp of a sum of logs; then e^{it shift}."""
    side = small.abs()[:, None]
    log_size, phase = [], [waves.turns(shift)]
    for sine, versine in _chunks([waves.sine, waves.versine], small.numel()):
        log_size.append(0.5 * torch.log1p(-2.0 * side * (1.0 - side) * versine).sum(2))
        phase.append(torch.atan2(small[:, None] * sine, 1.0 - side * versine).sum(2))
    return torch.polar(torch.cat(log_size, 1).exp(), phase[0] + torch.cat(phase[1:], 1))


def _chunks(columns: list[Float[Tensor, "problems waves"]], elements: int) -> Iterator[list[Tensor]]:
    """The columns [problems, some waves, 1], as many frequencies at a time as fit beside `elements` instances."""
    size = max(1, _CHUNK // max(1, elements))
    for start in range(0, columns[0].shape[1], size):
        yield [column[:, start : start + size, None] for column in columns]


def num_terms(variance: Float[Tensor, "problems"]) -> int:
    """Number of terms of the power series that suffice for all these variances V.

    The remainder after K terms is at most 2V |u|^{K+1} 2^-K / (K+1) against |φ| <= exp(-V |u|²/2), largest at
    |u|² = (K+1)/V.
    """
    smallest = float(variance.min())
    for terms in range(3, MAX_TERMS):
        order = terms + 1
        log_rest = 0.5 * order * (math.log(order / smallest) - 1.0) - terms * math.log(2.0)
        if log_rest + math.log(2.0 * smallest / order) < -_TERM_NATS:
            return terms
    return MAX_TERMS


def _psi_by_power_sums(
    small: Float[Tensor, "problems instances"], terms: int, shift: Int[Tensor, "problems"], waves: Waves
) -> Complex128[Tensor, "problems waves"]:
    """log ψ = -Σ_k (A_k u^k + B_k conj(u)^k) / k + i t shift, A and B the power sums Σ a^k of the two signs.

    The first imaginary terms nearly cancel, so they are combined:
    t shift + sin t (A_1 - B_1) = (t - sin t) shift + sin t (mean - center).
    """
    side, sign = small.abs(), small.sign()
    power = sign.abs()
    u = torch.complex(waves.versine, -waves.sine)
    u_power = torch.ones_like(u)
    log_size, phase = torch.zeros_like(waves.sine), _sine_defect(waves) * shift[:, None]
    for k in range(1, terms + 1):
        power, u_power = power.mul_(side), u_power * u
        signed = torch.linalg.vecdot(power, sign) + (shift if k == 1 else 0)
        log_size = log_size - power.sum(1)[:, None] * u_power.real / k
        phase = phase - signed[:, None] * u_power.imag / k
    return torch.polar(log_size.exp(), phase)


def _sine_defect(waves: Waves) -> Float[Tensor, "problems waves"]:
    """t - sin t without cancellation."""
    t = 2.0 * math.pi * torch.arange(waves.sine.shape[1], device=waves.sine.device).double() / waves.points[:, None]
    s = t.square()
    series = t * s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * (1 - s / 110))))
    return torch.where(t > 0.25, t - waves.sine, series)


def window_mass(
    terms: Complex128[Tensor, "problems waves"], waves: Waves
) -> tuple[Float[Tensor, "problems"], Complex128[Tensor, "problems waves"]]:
    """Z_θ = Σ_k ω(k) P_θ(S = k) from ψΩ, and the terms of that sum divided by it."""
    doubled = torch.cat([terms[:, :1], 2.0 * terms[:, 1:]], 1)
    mass = doubled.real.sum(1)
    return mass / waves.points, doubled / mass[:, None]


def posteriors(
    small: Float[Tensor, "problems instances"],
    variance: Float[Tensor, "problems"],
    terms: Complex128[Tensor, "problems waves"],
    waves: Waves,
) -> Float[Tensor, "problems instances"]:
    """All posteriors: q = a h where r = a, 1 - a h where r = 1 - a."""
    is_smooth = variance > TORCH_SMOOTH_VARIANCE
    heights = torch.zeros_like(small)
    if bool(is_smooth.any()):
        order = num_terms(variance[is_smooth])
        heights[is_smooth] = _heights_by_polynomial(small[is_smooth], order, terms[is_smooth], waves.rows(is_smooth))
    if not bool(is_smooth.all()):
        heights[~is_smooth] = _heights_by_sums(small[~is_smooth], terms[~is_smooth], waves.rows(~is_smooth))
    share = (small.abs() * heights).clamp(0.0, 1.0)
    return torch.where(small < 0, 1.0 - share, share)


def _heights_by_sums(
    small: Float[Tensor, "problems instances"], terms: Complex128[Tensor, "problems waves"], waves: Waves
) -> Float[Tensor, "problems instances"]:
    """h = Σ_l Re[T_l e^{it} / (1 - a u)], or Σ_l Re[T_l e^{-it} / (1 - a conj(u))] on the other side."""
    side, sign = small.abs()[:, None], small.sign()[:, None]
    turned = torch.complex(1.0 - waves.versine, waves.sine)  # e^{it}
    slope = turned * torch.complex(-waves.versine, -waves.sine)  # times -conj(u)
    columns = [terms.real * turned.real, -terms.imag * turned.imag, terms.real * slope.real, -terms.imag * slope.imag]
    heights = torch.zeros_like(small)
    for versine, even, odd, even_slope, odd_slope in _chunks([waves.versine, *columns], small.numel()):
        numerator = even + sign * odd + side * (even_slope + sign * odd_slope)
        heights += (numerator / (1.0 - 2.0 * side * (1.0 - side) * versine)).sum(1)
    return heights


def _heights_by_polynomial(
    small: Float[Tensor, "problems instances"], order: int, terms: Complex128[Tensor, "problems waves"], waves: Waves
) -> Float[Tensor, "problems instances"]:
    """The same heights as a polynomial in a: coefficients Re[Σ_l T_l e^{it} u^k], conjugates on the other side."""
    u = torch.complex(waves.versine, -waves.sine)
    power = torch.complex(1.0 - waves.versine, waves.sine)
    coefficients = []
    for _ in range(order + 1):
        even, odd = (terms.real * power.real).sum(1, keepdim=True), (terms.imag * power.imag).sum(1, keepdim=True)
        coefficients.append((even, odd))
        power = power * u
    side, sign = small.abs(), small.sign()
    heights = torch.zeros_like(small)
    for even, odd in reversed(coefficients):  # Horner's rule, in place
        heights.mul_(side).add_(even).addcmul_(sign, odd, value=-1.0)
    return heights
