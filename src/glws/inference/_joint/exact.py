"""Exact count vectors: linear space, then the tilt, then log space."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.inference._joint.arithmetic import LINEAR, LOGS
from glws.inference._joint.groups import Answer, Groups, shares
from glws.inference._joint.kernels import COUNTS
from glws.inference._joint.layers import layer_posterior, num_states
from glws.inference._joint.limits import SMALLEST
from glws.inference._joint.tilting import tilted


def exact_posterior(groups: Groups) -> Answer:
    """log Z and q_j(k) of groups whose counts sum to their lengths; -inf and 0 if impossible.

    All terms of the recursion are positive, so it loses no digits unless something underflows. The result shows that,
    and the group is solved again under the tilt. There the mass is at least that of the most likely outcome of a
    multinomial law (van der Waerden's bound for permanents), never small; so log space, which is slow, is needed only
    for a tilt that hard zeros push to infinity, and to confirm that a group is impossible.
    """
    log_likelihood, marginals = _in_linear_space(groups)
    for again in (_tilted, _in_logs):
        left = (log_likelihood == -torch.inf).nonzero()[:, 0]
        if len(left) == 0:
            break
        log_likelihood[left], marginals[left] = again(groups.select(left))
    return log_likelihood, marginals


def _in_linear_space(groups: Groups) -> Answer:
    """log Z and q; -inf also stands for "too small to be trusted"."""
    log_sums, weights = shares(groups.potentials, groups.is_real)
    kernel = COUNTS.ready() if weights.device.type == "cpu" else None
    if kernel is None:
        mass, marginals = layer_posterior(weights, groups.counts, LINEAR)
    else:
        mass, marginals = compiled(kernel, weights, groups.counts)
    is_safe = mass > SMALLEST
    log_likelihood = torch.where(is_safe, log_sums.sum(1) + torch.where(is_safe, mass, 1.0).log(), -torch.inf)
    return log_likelihood, marginals


def compiled(
    kernel: Any, weights: Float[Tensor, "groups instances columns"], counts: Int[Tensor, "groups columns"]
) -> Answer:
    """The masses of groups and the posteriors, by the compiled kernel."""
    weights, counts = weights.contiguous(), counts.contiguous()
    mass, marginals = weights.new_empty(len(counts)), torch.zeros_like(weights)
    largest = int(num_states(counts).max())
    kernel(weights.numpy(), counts.numpy(), largest, SMALLEST, mass.numpy(), marginals.numpy())
    return mass, marginals


def _tilted(groups: Groups) -> Answer:
    """Solve under the tilt: Z is unchanged if e^θ_k multiplies every potential of class k, and e^-θ·n the result."""
    theta = tilted(groups).theta
    log_likelihood, marginals = _in_linear_space(groups._replace(potentials=groups.potentials + theta[:, None]))
    return log_likelihood - (theta * groups.counts).sum(1), marginals


def _in_logs(groups: Groups) -> Answer:
    return layer_posterior(groups.potentials, groups.counts, LOGS)
