"""Closed-form answers: none of some classes, at least one of them.

All work in float64 on [groups, instances, classes] potentials and return log Z and q.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]


def absent(
    potentials: Float[Tensor, "groups instances classes"],
    mask: Bool[Tensor, "groups instances"],
    counted: Bool[Tensor, "groups classes"],
) -> Answer:
    """None of the counted classes: instances are independent, restricted to the others."""
    log_z, log_shares = _independent(torch.where(counted[:, None], -torch.inf, potentials), mask)
    return log_z, _finish(log_z, log_shares)


def present(
    potentials: Float[Tensor, "groups instances classes"],
    mask: Bool[Tensor, "groups instances"],
    counted: Bool[Tensor, "groups classes"],
) -> Answer:
    """At least one of the counted classes. With n_j the share of the other classes in instance j:

    Z = Π_j Σ_k φ_j(k) · (1 - Π_j n_j), and q_j(k) is p_j(k) / (1 - Π_j n_j) for a counted class, and
    p_j(k) (1 - Π_{i≠j} n_i) / (1 - Π_j n_j) for another.
    """
    log_total, log_shares = _independent(potentials, mask)
    log_one, log_none = presence(potentials, mask, counted)
    log_some = _log_any(log_none.sum(1), torch.logsumexp(log_one, 1))
    log_others = _log_any(_sum_of_others(log_none), _log_sum_of_others(log_one))
    log_z = torch.where(log_some > -torch.inf, log_total + log_some, log_some)
    scale = torch.where(log_some > -torch.inf, log_some, 0.0)[:, None, None]
    factor = torch.where(counted[:, None], 0.0, log_others[:, :, None]) - scale
    return log_z, _finish(log_z, log_shares + factor)


MODERATE = 30.0
"""Products of three exponentials of logs up to this one stay far from the limits of float64."""


def _independent(potentials: Tensor, mask: Tensor) -> Answer:
    """Log of the product over instances of Σ_k φ_j(k), and the log-shares of the classes in each."""
    log_sums = torch.logsumexp(potentials, 2)
    log_shares = potentials - torch.where(log_sums == -torch.inf, 0.0, log_sums)[:, :, None]
    return bounded_sum(torch.where(mask, log_sums, 0.0)), torch.where(mask[:, :, None], log_shares, -torch.inf)


def bounded_sum(values: Float[Tensor, "groups instances"]) -> Float[Tensor, "groups"]:
    """Σ_j values_j without inf - inf at the float limits; -inf only if a value is -inf."""
    total = values.sum(1)
    length = max(values.shape[1], 1)
    finite = torch.where(values == -torch.inf, 0.0, values)
    total = torch.where(total.isfinite(), total, (finite / length).sum(1) * length).clamp(-1e308, 1e308)
    return torch.where((values == -torch.inf).any(1), -torch.inf, total)


def _finish(log_z: Tensor, log_marginals: Tensor) -> Float[Tensor, "groups instances classes"]:
    """Posteriors; zero in impossible groups."""
    return torch.where((log_z > -torch.inf)[:, None, None], log_marginals.exp(), 0.0)


def presence(
    potentials: Tensor, mask: Tensor, counted: Tensor
) -> tuple[Float[Tensor, "groups instances"], Float[Tensor, "groups instances"]]:
    """Log-shares of the counted classes and of the others in each instance, accurate near 1."""
    some = torch.logsumexp(torch.where(counted[:, None], potentials, -torch.inf), 2)
    rest = torch.logsumexp(torch.where(counted[:, None], -torch.inf, potentials), 2)
    odds = torch.where(some == rest, 0.0, some - rest)  # both -inf: an impossible instance, zero in any case
    zero = torch.zeros_like(odds)
    log_one = torch.where(mask & (some > -torch.inf), -torch.logaddexp(zero, -odds), -torch.inf)
    return log_one, torch.where(mask, -torch.logaddexp(zero, odds), 0.0)


def _log_any(log_none: Tensor, log_expected: Tensor) -> Tensor:
    """log(1 - exp(log_none)); if that underflows, the sum of the probabilities is as accurate."""
    return torch.where(log_none < -1e-200, _log1mexp(log_none), log_expected)


def _sum_of_others(values: Float[Tensor, "groups instances"]) -> Float[Tensor, "groups instances"]:
    """Σ_{i≠j} values_i of numbers <= 0, where -inf may occur.

    The difference loses digits only where values_j is huge; there exp(values_j), which multiplies the result, is 0.
    """
    infinite = values == -torch.inf
    finite = torch.where(infinite, 0.0, values)
    total = (finite.sum(1, keepdim=True) - finite).clamp_max(0.0)
    others = infinite.sum(1, keepdim=True) - infinite.long()
    return torch.where(others > 0, -torch.inf, total)


def _log_sum_of_others(values: Float[Tensor, "groups instances"]) -> Float[Tensor, "groups instances"]:
    """log Σ_{i≠j} exp(values_i): nothing cancels next to the largest, which is left out explicitly."""
    top, where = values.max(1, keepdim=True)
    safe = torch.where(top == -torch.inf, 0.0, top)
    mass = torch.exp(values - safe)
    largest = torch.zeros_like(values, dtype=torch.bool).scatter_(1, where, True)
    without_largest = torch.logsumexp(torch.where(largest, -torch.inf, values), 1, keepdim=True)
    return torch.where(largest, without_largest, (mass.sum(1, keepdim=True) - mass).log() + safe)


def _log1mexp(values: Tensor) -> Tensor:
    """log(1 - exp(values)) for values <= 0, accurate at both ends."""
    small = values > -0.6931471805599453
    near = torch.log(-torch.expm1(torch.where(small, values, -1.0)))
    far = torch.log1p(-torch.exp(torch.where(small, -1.0, values)))
    return torch.where(small, near, far)
