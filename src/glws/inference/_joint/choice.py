"""The choice of the algorithm for count vectors, group by group."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from glws.errors import DataError
from glws.inference._joint.exact import exact_posterior
from glws.inference._joint.groups import Estimate, Groups
from glws.inference._joint.limits import (
    DOUBTFUL,
    LIVE_BUDGET,
    MOST_LIVE,
    MOST_STATES,
    NEGLIGIBLE,
    PRUNED,
    PRUNED_BUDGET,
    STATE_BUDGET,
)
from glws.inference._joint.live import live_posterior
from glws.inference._joint.saddle import corrected_posterior, tilted_posterior
from glws.inference._joint.tilting import tilted


def solved(groups: Groups, method: str) -> Estimate:
    """The estimates of all groups by this method; see `JointCounts`."""
    if method == "tilted":
        return tilted_posterior(groups, tilted(groups))
    if method == "corrected":
        return corrected_posterior(groups, tilted(groups))
    log_states = torch.log1p(groups.counts.double()).sum(1)
    is_small = log_states < math.log(STATE_BUDGET + 0.5)
    if bool(is_small.all()):
        return Estimate.exact(exact_posterior(groups))
    small, large = is_small.nonzero()[:, 0], (~is_small).nonzero()[:, 0]
    answer = Estimate.unanswered(groups)
    if len(small):
        answer.put(small, Estimate.exact(exact_posterior(groups.select(small))))
    answer.put(large, (_best if method == "auto" else _exact)(groups.select(large)))
    if method == "exact":
        _check_states(torch.where(answer.error > 0, log_states, 0.0))
    return answer


def _best(groups: Groups) -> Estimate:
    """Exact if few count vectors matter; else the corrected tilt or a pruned recursion."""
    point = tilted(groups)
    answer = live_posterior(groups, point, NEGLIGIBLE, LIVE_BUDGET)
    left = (answer.error > 0).nonzero()[:, 0]
    if len(left):
        answer.put(left, corrected_posterior(groups.select(left), point.select(left)))
    doubtful = (answer.error > DOUBTFUL).nonzero()[:, 0]
    if len(doubtful):
        pruned = live_posterior(groups.select(doubtful), point.select(doubtful), PRUNED, PRUNED_BUDGET)
        better = (pruned.error < answer.error[doubtful]).nonzero()[:, 0]
        answer.put(doubtful[better], pruned.select(better))
    return answer


def _exact(groups: Groups) -> Estimate:
    """Exact answers over the count vectors that matter, or over all; error inf means no answer."""
    answer = live_posterior(groups, tilted(groups), NEGLIGIBLE, MOST_LIVE)
    log_states = torch.log1p(groups.counts.double()).sum(1)
    left = ((answer.error > 0) & (log_states <= math.log(MOST_STATES))).nonzero()[:, 0]
    if len(left):
        answer.put(left, Estimate.exact(exact_posterior(groups.select(left))))
    return answer


def _check_states(log_states: Float[Tensor, "groups"]) -> None:
    too_many = (log_states > 0).nonzero()
    if len(too_many):
        group = int(too_many[0])
        number = math.exp(float(log_states[group]))
        raise DataError(
            f"group {group}: exact counts would need {number:.1e} count vectors, more than {MOST_STATES:.0e}; "
            'use method="corrected" or "auto"'
        )
