"""Plain torch: intervals and any weights of counts, by windows of the characteristic function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Complex128, Float, Int
from torch import Tensor

from glws.inference._counts.characteristic import Waves, make_waves, posteriors, psi, reach, window_mass
from glws.inference._counts.tilting import (
    Undecided,
    log_normalizer,
    mean_and_variance,
    pivot_of,
    slack,
    small_sides,
    tilt,
)

# The part left out of a sum over windows is below e^-37 of it.
_NEGLIGIBLE_NATS = 37.0
# Where P_θ(S = k) is at least this share of its peak, rounding errors of 1e-16 are at most 1e-13 of it.
_TRUSTED_SHARE = 1e-3


class Tilted(NamedTuple):
    """Problems under a tilt."""

    small: Float[Tensor, "problems instances"]
    variance: Float[Tensor, "problems"]
    center: Int[Tensor, "problems"]
    decay: Float[Tensor, "problems"]  # θ: the tilted weight of count k is ω(k) e^{-θ(k - center)}
    normalizer: Float[Tensor, "problems"]


def tilted_to(problems: Undecided, center: Int[Tensor, "problems"], is_tilted: Bool[Tensor, "problems"]) -> Tilted:
    """Tilt so that the mean of S is at the center; θ = 0 unless `is_tilted`."""
    pivot = torch.where(is_tilted, pivot_of(problems, center), 0.0)
    gap = torch.where(problems.is_soft, problems.gap - pivot[:, None], 0.0)
    chosen = torch.zeros_like(pivot)
    if bool(is_tilted.any()):
        chosen[is_tilted] = tilt(gap[is_tilted], problems.is_soft[is_tilted], center[is_tilted].double())
    small = small_sides(gap, problems.is_soft, chosen)
    normalizer = log_normalizer(problems, small, chosen, pivot, center)
    return Tilted(small, mean_and_variance(small)[1], center, chosen - pivot, normalizer)


def interval_posterior(
    problems: Undecided, low: Int[Tensor, "problems"], high: Int[Tensor, "problems"]
) -> tuple[Float[Tensor, "problems"], Float[Tensor, "problems instances"]]:
    """Log-likelihood of low <= S <= high among the undecided instances, and posteriors; needs low <= high.

    No tilt if the mean is inside the window, else a tilt to its nearer end; the tilted weights decay from there.
    """
    mean, variance = mean_and_variance(small_sides(problems.gap, problems.is_soft, torch.zeros_like(problems.settled)))
    center = torch.minimum(torch.maximum(mean.round().long(), low), high)
    state = tilted_to(problems, center, (mean - center).abs() > slack(variance).clamp(min=0.5))
    half_width = torch.minimum(torch.maximum(high - center, center - low), reach(state.variance) + 1)
    waves = make_waves(state.variance, problems.num_soft, half_width)
    first, last = torch.maximum(low - center, -half_width), torch.minimum(high - center, half_width)
    terms = psi(state.small, state.variance, center, waves) * _geometric_transform(waves, first, last, state.decay)
    mass, shares = window_mass(terms, waves)
    marginals = posteriors(state.small, state.variance, shares, waves)
    return state.normalizer + mass.clamp(min=0.0).log(), marginals


def _geometric_transform(
    waves: Waves, first: Int[Tensor, "problems"], last: Int[Tensor, "problems"], decay: Float[Tensor, "problems"]
) -> Complex128[Tensor, "problems waves"]:
    """Σ_{d=first}^{last} e^{-(decay + it) d} in closed form; the decay is 0 or starts from the end at d = 0."""
    side = torch.where(decay < 0, -1, 1)
    start = torch.where(decay < 0, -last, first)
    rate, size = decay.abs()[:, None], (last - first + 1)[:, None]
    cut, ending = (-rate * size).exp(), waves.turns(size[:, 0])
    above = torch.complex(1.0 - cut * ending.cos(), cut * ending.sin())
    # 1 - e^{-rate} cos t = (1 - e^{-rate}) + e^{-rate} (1 - cos t)
    below = torch.complex(-torch.expm1(-rate) + (-rate).exp() * waves.versine, (-rate).exp() * waves.sine)
    is_flat = rate * size < 1e-12
    ratio = torch.where(is_flat, 1.0, torch.expm1(-rate * size) / torch.expm1(-torch.where(is_flat, 1.0, rate)))
    total = torch.where(waves.sine == 0.0, torch.where(is_flat, size, ratio), above / below)
    turned = total * torch.polar(torch.ones_like(ending), -waves.turns(start))
    return torch.where(side[:, None] < 0, turned.conj(), turned)


def weighted_posterior(
    problems: Undecided, log_weights: Float[Tensor, "problems counts"]
) -> tuple[Float[Tensor, "problems"], Float[Tensor, "problems instances"]]:
    """Log-likelihood of any weights ω(k) of the count of undecided instances, and their posteriors.

    ω is cut into windows of counts, each solved in O(n) under its own tilt, best window first. Chernoff's bound P(S =
    k) <= exp(K(θ) - θ k), K(θ) = log E e^{θS}, of every θ so far bounds the contribution of the counts that are not yet
    in a window, so the search stops when it is negligible.
    """
    average = torch.zeros_like(problems.zero)

    def answer(view: _View, is_open: Tensor, total: Tensor) -> Float[Tensor, "open"]:
        mass, shares = window_mass(view.transform * (view.weights[:, None] * view.turns.conj()).sum(2), view.waves)
        part = view.state.normalizer + view.top + mass.clamp(min=0.0).log()
        marginals = posteriors(view.state.small, view.state.variance, shares, view.waves)
        new = (part - total).sigmoid().nan_to_num(0.0)[:, None]  # share of this window in the likelihood
        average[is_open] += torch.where(new > 0, new * (marginals - average[is_open]), 0.0)
        return part

    return _over_windows(problems, log_weights, answer), average


def log_law(problems: Undecided, log_weights: Float[Tensor, "problems counts"]) -> Float[Tensor, "problems counts"]:
    """log of ω(k) P(S = k) for every count, by the same windows; -inf for negligible counts."""
    law = torch.full_like(log_weights, -math.inf)

    def answer(view: _View, is_open: Tensor, total: Tensor) -> Float[Tensor, "open"]:
        terms = view.weights * view.law.clamp(min=0.0) / view.waves.points[:, None]
        log_terms = torch.where(view.is_taken, terms.log() + (view.state.normalizer + view.top)[:, None], -math.inf)
        law[is_open] = law[is_open].scatter_reduce(1, view.places, log_terms, "amax")
        return log_terms.logsumexp(1)

    _over_windows(problems, log_weights, answer)
    return law


def _over_windows(
    problems: Undecided,
    log_weights: Float[Tensor, "problems counts"],
    answer: Callable[[_View, Tensor, Tensor], Float[Tensor, "open"]],
) -> Float[Tensor, "problems"]:
    """Log-likelihood of all windows; `answer` computes that of one, for the problems that are still open."""
    total = torch.full_like(problems.settled, -math.inf)
    open_weights, bound = log_weights.clone(), _scout(problems, log_weights.shape[1])
    for _ in range(log_weights.shape[1]):  # every window closes at least its center
        best, center = (open_weights + bound).max(1)
        is_open = best + math.log(log_weights.shape[1]) > total - _NEGLIGIBLE_NATS
        if not bool(is_open.any()):
            break
        rows = problems.rows(is_open)
        state = tilted_to(rows, center[is_open], torch.ones_like(center[is_open], dtype=torch.bool))
        bound[is_open] = torch.minimum(bound[is_open], _chernoff(state, log_weights.shape[1]))
        view = _view(rows, state, open_weights[is_open])
        part = answer(view, is_open, total[is_open])
        open_weights[is_open] = _close(open_weights[is_open], view.places, view.is_taken)
        total[is_open] = torch.logaddexp(total[is_open], part)
    return total


def _chernoff(state: Tilted, counts: int) -> Float[Tensor, "problems counts"]:
    """Upper bound on the log-weight of every count from one tilt: K(θ) - θ k."""
    distance = torch.arange(counts, device=state.center.device) - state.center[:, None]
    return state.normalizer[:, None] - state.decay[:, None] * distance


def _scout(problems: Undecided, counts: int) -> Float[Tensor, "problems counts"]:
    """First bounds: no tilt, and tilts to 3, 9 and 27 σ on both sides."""
    nothing = torch.zeros_like(problems.settled)
    origin = torch.zeros_like(problems.num_soft)
    _, variance = mean_and_variance(small_sides(problems.gap, problems.is_soft, nothing))
    bounds = []
    for sigmas in (0.0, 3.0, -3.0, 9.0, -9.0, 27.0, -27.0):
        theta = sigmas / variance.clamp(min=1.0).sqrt()
        small = small_sides(problems.gap, problems.is_soft, theta)
        normalizer = log_normalizer(problems, small, theta, nothing, origin)
        bounds.append(_chernoff(Tilted(small, variance, origin, theta, normalizer), counts))
    return torch.stack(bounds).amin(0)


class _View(NamedTuple):
    """The counts near the center of problems under a tilt."""

    state: Tilted
    waves: Waves
    transform: Complex128[Tensor, "problems waves"]
    turns: Complex128[Tensor, "problems waves window"]
    places: Int[Tensor, "problems window"]  # the counts, clamped to those that exist
    law: Float[Tensor, "problems window"]  # N P_θ(S = k)
    weights: Float[Tensor, "problems window"]  # ω(k) e^{-θ(k - center)} / e^top of included counts, else 0
    top: Float[Tensor, "problems"]
    is_taken: Bool[Tensor, "problems window"]


def _view(problems: Undecided, state: Tilted, open_weights: Float[Tensor, "problems counts"]) -> _View:
    """The window around the center, and which of its open weights it can resolve."""
    half_width = reach(state.variance) + 1
    waves = make_waves(state.variance, problems.num_soft, half_width)
    steps = torch.arange(-int(half_width.max()), int(half_width.max()) + 1, device=state.center.device)
    counts = state.center[:, None] + steps
    is_inside = (steps.abs() <= half_width[:, None]) & (counts >= 0) & (counts <= problems.num_soft[:, None])
    places = counts.clamp(0, open_weights.shape[1] - 1)
    turns = torch.polar(*_unit(waves.turns(steps.expand(len(places), -1))))
    transform = psi(state.small, state.variance, state.center, waves)
    law = (2.0 * transform[:, 1:, None] * turns[:, 1:].conj()).real.sum(1) + transform[:, :1].real
    weights, top, is_taken = _take(open_weights.gather(1, places), law, is_inside, steps * state.decay[:, None])
    return _View(state, waves, transform, turns, places, law, weights, top, is_taken)


def _unit(angles: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    return torch.ones_like(angles), angles


def _take(
    log_weights: Float[Tensor, "problems window"],
    law: Float[Tensor, "problems window"],
    is_inside: Bool[Tensor, "problems window"],
    exponent: Float[Tensor, "problems window"],
) -> tuple[Float[Tensor, "problems window"], Float[Tensor, "problems"], Bool[Tensor, "problems window"]]:
    """Tilted weights scaled by their largest, log of that scale, and which counts are included.

    P_θ(S = k) is accurate to 1e-16 of its peak, not of itself. So counts near the peak are included; others only if the
    tilted weight is no larger than there.
    """
    tilted = torch.where(is_inside, log_weights - exponent, -math.inf)
    peak = torch.where(is_inside, law, 0.0).amax(1, keepdim=True)
    is_trusted = (law >= _TRUSTED_SHARE * peak) | (exponent.new_tensor(range(law.shape[1])) == law.shape[1] // 2)
    top = torch.where(is_trusted, tilted, -math.inf).amax(1, keepdim=True)
    is_taken = is_inside & (tilted <= top)
    return torch.where(is_taken, (tilted - top).exp(), 0.0), top[:, 0], is_taken


def _close(
    open_weights: Float[Tensor, "problems counts"],
    places: Int[Tensor, "problems window"],
    is_taken: Bool[Tensor, "problems window"],
) -> Float[Tensor, "problems counts"]:
    """Set the included weights to -inf."""
    num_included = torch.zeros_like(open_weights).scatter_add(1, places, is_taken.double())
    return torch.where(num_included > 0, -math.inf, open_weights)
