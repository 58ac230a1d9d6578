"""The section of a report about the class prior of positive-unlabeled data, and what depends on it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from glws.data import WeakDataset
from glws.kinds import PositiveUnlabeled
from glws.report import Section
from glws.training import Predict, log_probs_of

POINTS = 5
SPREAD = 0.2
"""Without an interval, priors up to this share above and below the given one are shown."""
ABOUT = (
    "Positives and unlabeled rows do not tell the class prior by themselves: it was {origin}. Predictions are in "
    "proportion to it. The table shows how many of the unlabeled rows would be called positive for other priors, the "
    "ranking of the rows being the same."
)


def prior_sections(data: WeakDataset, predict: Predict) -> Iterator[Section]:
    """For each kind of positive-unlabeled rows: the prior with its interval, and the predicted share for others.

    With p(x) the prediction under the prior π, that under π' is min(1, p(x) π' / π): p(labeled | x) is what rows tell.
    """
    for groups, weak in zip(data.groups, data.weak, strict=True):
        if not isinstance(weak, PositiveUnlabeled) or weak.prior is None:
            continue
        low, high = weak.limits
        has_interval = 0 < low < high < 1
        origin = f"estimated, {weak.prior:.3f} with a 95 % interval from {low:.3f} to {high:.3f}"
        about = ABOUT.format(origin=origin if has_interval else f"given, {weak.prior:.3f}")
        ends = (low, high) if has_interval else ((1 - SPREAD) * weak.prior, min((1 + SPREAD) * weak.prior, 1.0))
        rows = groups.indices[(~weak.labeled).nonzero()[:, 0].cpu()].sort().values
        positive = log_probs_of(data.instances, predict, None, rows).double().exp()[:, 1]
        values = {
            f"prior {prior:.3f}": f"{float((positive * prior / weak.prior > 0.5).double().mean()):.1%} called positive"
            for prior in torch.linspace(*ends, POINTS).tolist()
        }
        yield Section("Class prior", (about,), values)
