"""Queries for weights that depend only on whether a counted class occurs: each in O(instances).

A labeling with a counted class is described by the place T of its first one: instances before T have no counted class,
instances after T are unconstrained. Samples and the entropy follow T, so that no large numbers are subtracted.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference import _closed as closed
from glws.inference._draws import draws, entropies

Potentials = Float[Tensor, "groups instances classes"]
Mask = Bool[Tensor, "groups instances"]
Counted = Bool[Tensor, "groups classes"]
LogWeights = Float[Tensor, "groups 2"]


def mode(
    potentials: Potentials, real: Mask, counted: Counted, log_weights: LogWeights
) -> Int[Tensor, "groups instances"]:
    """The better of: the best labeling with a counted class (cheapest flip), and the best one without."""
    some, rest = (torch.where(side[:, None], potentials, -torch.inf).max(2) for side in (counted, ~counted))
    gain = torch.where(some.values > -torch.inf, some.values - rest.values, -torch.inf).masked_fill(~real, -torch.inf)
    top, cheapest = gain.max(1, keepdim=True)
    most = torch.where(top[:, 0] > 0, closed.bounded_sum(gain.clamp_min(0.0)), top[:, 0])
    is_flipped = torch.zeros_like(real).scatter_(1, cheapest, True)
    has_some = log_weights[:, 1] + most > log_weights[:, 0]
    return torch.where(has_some[:, None] & ((gain > 0) | is_flipped), some.indices, rest.indices)


def sample(
    potentials: Potentials,
    real: Mask,
    counted: Counted,
    log_weights: LogWeights,
    num_samples: int,
    generator: torch.Generator | None,
) -> Int[Tensor, "n groups instances"]:
    """Sample whether a counted class occurs, then the place of the first, then all labels."""
    mixture, first, (some, rest, any_class) = _chain(potentials, real, counted, log_weights)
    is_some = draws(mixture, num_samples, generator)[:, :, None] == 1
    place = draws(first, num_samples, generator)[:, :, None]
    step = torch.arange(potentials.shape[1], device=potentials.device)
    after = torch.where(step == place, draws(some, num_samples, generator), draws(any_class, num_samples, generator))
    return torch.where(is_some & (step >= place), after, draws(rest, num_samples, generator))


def entropy(potentials: Potentials, real: Mask, counted: Counted, log_weights: LogWeights) -> Float[Tensor, "groups"]:
    """H = H(any) + p(none) H(labels | none) + p(some) [H(T) + E over T of H(labels | T)]."""
    mixture, first, sides = _chain(potentials, real, counted, log_weights)
    some, rest, any_class = (torch.where(real, entropies(shares), 0.0) for shares in sides)
    before, after = rest.cumsum(1) - rest, any_class.sum(1, keepdim=True) - any_class.cumsum(1)
    given_some = entropies(first) + (first * (before + some + after)).sum(1)
    return entropies(mixture) + mixture[:, 0] * rest.sum(1) + mixture[:, 1] * given_some


def _chain(
    potentials: Potentials, real: Mask, counted: Counted, log_weights: LogWeights
) -> tuple[Float[Tensor, "groups 2"], Float[Tensor, "groups instances"], tuple[Potentials, Potentials, Potentials]]:
    """Shares of (none, some), of T given some, and of the classes: counted, others, all."""
    log_some, log_none = closed.presence(potentials, real, counted)
    ahead = torch.nn.functional.pad(log_none.cumsum(1), (1, 0))
    log_first = ahead[:, :-1] + log_some
    log_parts = torch.stack([ahead[:, -1], log_first.logsumexp(1)], 1) + log_weights
    sides = (torch.where(side[:, None], potentials, -torch.inf) for side in (counted, ~counted, counted | True))
    some, rest, any_class = (_shares(side) for side in sides)
    return _shares(log_parts), _shares(log_first), (some, rest, any_class)


def _shares(logs: Float[Tensor, "*places entries"]) -> Float[Tensor, "*places entries"]:
    """exp(logs), normalized over the last axis; 0 if all are -inf."""
    return logs.softmax(-1).nan_to_num(0.0)
