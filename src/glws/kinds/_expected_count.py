"""The projection onto an expected count: move all predictions together until their mean is the class prior."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._launching import on_device_of, power_of_two
from glws.inference import Answer, padding_mask
from glws.inference import _gpu as gpu
from glws.kinds._projections import AbstractProjection

STEPS = 60
"""Most steps of the search for θ. Newton's need about six; more are for predictions that only halving can order."""


@dataclass(frozen=True, eq=False)
class ExpectedCount(AbstractProjection):
    """The number of labels among the counted classes is `share` times the size of the group *in expectation*.

    The predictions closest to those given in relative entropy, among all with that expectation, are tilted ones:

        q_j(k) ∝ φ_j(k) exp(θ [k is counted]),   one θ for each group such that Σ_j q_j(counted) = share · n

    For two classes q_j = σ(z_j + θ). log_likelihood = Σ_j log Σ_k φ_j(k) exp(θ [k is counted]) - θ · share · n: minus
    that relative entropy if the predictions are normalized, and for a whole number share · n the Chernoff bound on the
    log-probability of this count. Its gradient is q, as everywhere. It is -inf where certain predictions leave no room.
    """

    counted: Bool[Tensor, "groups classes"]
    share: Float[Tensor, "groups"]

    def is_capturable(self, device: torch.device) -> bool:
        """Where a kernel searches."""
        return gpu.can_answer(device)

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The tilt and what it gives."""
        phi = potentials.double()
        real = padding_mask(phi, lengths)
        some, rest = (
            torch.where(side[:, None], phi, -torch.inf).logsumexp(2) for side in (self.counted, ~self.counted)
        )
        may, may_not = some > -torch.inf, rest > -torch.inf
        free, wanted = real & may & may_not, self.share * lengths - (real & ~may_not).sum(1)
        tilt = _tilt(torch.where(free, some - rest, 0.0), free, wanted)
        tilted = _tilted(phi, self.counted, tilt)
        log_sums = torch.where(real, tilted.logsumexp(2), 0.0).sum(1)
        possible = _has_room(wanted, free) & (may | may_not | ~real).all(1)
        shift = torch.where(tilt.isinf(), 0.0, tilt * self.share * lengths)
        log_z = torch.where(possible, log_sums - shift, -torch.inf)
        marginals = torch.where(real[:, :, None] & possible[:, None, None], tilted.softmax(2), 0.0)
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)


def _has_room(wanted: Float[Tensor, "groups"], free: Bool[Tensor, "groups instances"]) -> Bool[Tensor, "groups"]:
    return (wanted > -1e-9) & (wanted < free.sum(1).double() + 1e-9)


def _tilt(
    odds: Float[Tensor, "groups instances"], free: Bool[Tensor, "groups instances"], wanted: Float[Tensor, "groups"]
) -> Float[Tensor, "groups"]:
    """θ with Σ_j σ(odds_j + θ) = wanted over the free instances; ∓inf where none or all of them are wanted."""
    number = free.sum(1).double()
    goal = torch.logit((wanted / number.clamp_min(1)).clamp(0, 1), eps=1e-12)
    low = goal - torch.where(free, odds, -torch.inf).amax(1).clamp_min(-1e300)
    high = goal - torch.where(free, odds, torch.inf).amin(1).clamp_max(1e300)
    theta = _search(odds.device)(odds, free, number, goal, low, high)
    theta = torch.where(wanted < 1e-9, -torch.inf, torch.where(wanted > number - 1e-9, torch.inf, theta))
    return torch.where(number == 0, 0.0, theta)


Search = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _search(device: torch.device) -> Search:
    """The fastest there is for tensors of this device."""
    if gpu.can_answer(device):
        return _fused_search
    return _compiled_search if device.type == "cpu" and is_compiled() else _plain_search


def _plain_search(
    odds: Tensor, free: Tensor, number: Tensor, goal: Tensor, low: Tensor, high: Tensor
) -> Float[Tensor, "groups"]:
    theta = low / 2 + high / 2
    for _ in range(STEPS):
        part = torch.where(free, torch.sigmoid(odds + theta[:, None]), 0.0)
        found, slope = part.sum(1) / number.clamp_min(1), (part * (1 - part)).sum(1) / number.clamp_min(1)
        if bool(((found - goal.sigmoid()).abs() < 1e-15 + 1e-14 * slope).all()):
            break
        low = torch.where(found <= goal.sigmoid(), theta, low)
        high = torch.where(found >= goal.sigmoid(), theta, high)
        theta = _next(theta, found, goal, slope, low, high)
    return theta


def _table(
    odds: Tensor, free: Tensor, number: Tensor, goal: Tensor, low: Tensor, high: Tensor
) -> tuple[Float[Tensor, "groups instances"], Float[Tensor, "groups 4"]]:
    """The same for a kernel: NaN for instances that are not free, and four numbers for each group."""
    return torch.where(free, odds, torch.nan).contiguous(), torch.stack([number.double(), goal, low, high], 1)


def _compiled_search(*search: Tensor) -> Float[Tensor, "groups"]:
    """The same, compiled for the CPU."""
    from glws.kinds._compiled_tilt import tilt_batch

    odds, sides = _table(*search)
    theta = torch.empty(len(odds), dtype=torch.float64)
    tilt_batch(odds.numpy(), sides.numpy(), STEPS, theta.numpy())
    return theta


def _fused_search(*search: Tensor) -> Float[Tensor, "groups"]:
    """The same in one launch of a kernel; the host looks at nothing."""
    from glws.inference._gpu.tilt_kernel import expected_tilts  # Triton is imported here, at first use

    odds, sides = _table(*search)
    theta, block = odds.new_empty(len(odds)), min(power_of_two(max(odds.shape[1], 16)), 1024)
    with on_device_of(odds):
        expected_tilts[(len(odds),)](odds, sides, theta, odds.shape[1], STEPS, J=block, num_warps=4)
    return theta


def is_compiled() -> bool:
    """Whether there is something to compile with."""
    return importlib.util.find_spec("numba") is not None


def _next(theta: Tensor, found: Tensor, goal: Tensor, slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Newton's step for the logit of the mean, nearly straight in θ; the middle where it leaves the bracket."""
    step = (goal - torch.logit(found)) * found * (1 - found) / slope
    ahead = theta + step
    inside = (ahead > low) & (ahead < high)
    return torch.where(inside, ahead, low / 2 + high / 2)


def _tilted(phi: Tensor, counted: Bool[Tensor, "groups classes"], tilt: Float[Tensor, "groups"]) -> Tensor:
    """φ + θ on the counted classes. An infinite θ leaves only one side, and instances without a choice as they are."""
    mask, theta = counted[:, None], tilt[:, None, None]
    moved = torch.where(mask & theta.isfinite(), phi + torch.where(theta.isfinite(), theta, 0.0), phi)
    only = torch.where(theta > 0, torch.where(mask, phi, -torch.inf), torch.where(mask, -torch.inf, phi))
    fixed = only.amax(2, keepdim=True) == -torch.inf
    return torch.where(theta.isinf() & ~fixed, only, moved)
