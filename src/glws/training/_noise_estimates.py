"""How well learned noise is known: an interval for each parameter, and whether the weak labels tell it at all.

Parameters are functions of the expected counts, so that each logarithm of a count is a direction to move in. The
information about these is the sum of the squared scores of the groups, which are the derivatives of log p(w | x) with
the posterior integrated out (not those of complete data: a label that may or may not be wrong tells less), and the
prior counts. The sharpness of the predictions is one more direction, with a prior of its own: whoever does not know
how far to trust the network does not know the noise either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from glws.data import WeakDataset
from glws.inference import Posterior, padding_mask
from glws.kinds import LearnsNoise
from glws.training._posteriors import posteriors_of

STEP = 1e-3
"""Of the finite differences, in logarithms."""
WIDTH = 1.96
"""Standard errors to both sides: intervals of 95 %."""
SHARPNESS = 0.3
"""The prior standard deviation of the logarithm of the factor that the network's logits may be off by."""
WEAK = 0.5
"""Noise is weakly identified if its standard error is above this share of the prior's alone."""
MOST_CELLS = 400
"""Of more counts no intervals are computed."""

Predicted = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class NoiseEstimate:
    """A parameter of learned noise: its value with an interval of 95 %, where it started, and what training groups say.

    `by_training` is the value that EM finds on groups that the network was trained on, which is too low if the network
    has memorized them; NaN where it was not computed. `is_weak` says that the weak labels hardly tell the value.
    """

    kind: str
    name: str
    value: float
    low: float
    high: float
    start: float
    by_training: float = math.nan
    is_weak: bool = False

    def as_dict(self) -> dict[str, str | float | bool | None]:
        """Plain values, None for what was not computed."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    def describe(self) -> str:
        """In words.

        >>> NoiseEstimate("PairComparison", "flip", 0.1, 0.05, 0.2, 0.3).describe()
        'PairComparison: flip 0.1 (95 % interval 0.05 to 0.2)'
        """
        weak = "; weakly identified" if self.is_weak else ""
        return f"{self.kind}: {self.name} {self.value:.3g} (95 % interval {self.low:.3g} to {self.high:.3g}){weak}"


class Interval(NamedTuple):
    """The ends of an interval, and the standard error as a share of that of the prior alone."""

    low: float
    high: float
    share_of_prior: float


def intervals(
    data: WeakDataset, weak: LearnsNoise, counts: Tensor, prior: Tensor, predicted: Predicted
) -> dict[str, Interval]:
    """An interval for each parameter of the noise of the one kind in the data, `weak`, learned from these counts."""
    cells = (counts.flatten() > 0).nonzero()[:, 0]
    names = list(weak.noise())
    if not 0 < len(cells) <= MOST_CELLS:
        return {name: Interval(math.nan, math.nan, math.nan) for name in names}

    def moved(direction: Tensor) -> LearnsNoise:
        flat = counts.flatten().double().clone()
        flat[cells] = flat[cells] * direction.exp()
        return weak.relearned(flat.view_as(counts))

    score, slope = _score(data, moved, predicted, len(cells)), _slope(moved, len(cells))
    own = torch.diag(torch.cat([prior.flatten()[cells].double(), torch.tensor([SHARPNESS**-2]).double()]))
    known, before = (torch.linalg.pinv(matrix)[:-1, :-1] for matrix in (score.T @ score + own, own))
    return {name: _interval(name, row, known, before, moved) for name, row in zip(names, slope, strict=True)}


def _interval(
    name: str, slope: Tensor, known: Tensor, before: Tensor, moved: Callable[[Tensor], LearnsNoise]
) -> Interval:
    error, alone = (float((slope @ matrix @ slope).clamp_min(0).sqrt()) for matrix in (known, before))
    direction = known @ slope * (WIDTH / max(error, 1e-300))
    ends = sorted(moved(sign * direction).noise()[name] for sign in (-1, 1))
    return Interval(ends[0], ends[1], error / max(alone, 1e-300))


def _score(
    data: WeakDataset, moved: Callable[[Tensor], LearnsNoise], predicted: Predicted, cells: int
) -> Float[Tensor, "groups cells_and_one"]:
    """The derivative of log p(w | x) of each possible group by each logarithm of a count, and by the sharpness."""
    here = torch.zeros(cells, dtype=torch.float64)
    columns = []
    for step in STEP * torch.eye(cells, dtype=torch.float64):
        columns.append([_likelihoods(data, moved(sign * step), predicted) for sign in (1, -1)])
    sharper = [tempered(predicted, math.exp(sign * STEP)) for sign in (1, -1)]
    columns.append([_likelihoods(data, moved(here), each) for each in sharper])
    found = torch.stack([(up - down) / (2 * STEP) for up, down in columns], 1)
    return found[found.isfinite().all(1)]


def _slope(moved: Callable[[Tensor], LearnsNoise], cells: int) -> Float[Tensor, "names cells"]:
    """The derivative of each parameter by each logarithm of a count."""
    columns = []
    for step in STEP * torch.eye(cells, dtype=torch.float64):
        up, down = (torch.tensor(list(moved(sign * step).noise().values())).double() for sign in (1, -1))
        columns.append((up - down) / (2 * STEP))
    return torch.stack(columns, 1)


def _likelihoods(data: WeakDataset, weak: LearnsNoise, predicted: Predicted) -> Float[Tensor, "groups"]:
    answers = posteriors_of(data.with_weak([weak]), predicted)
    return torch.cat([answer.log_likelihood.double() for *_, answer in answers])


def tempered(predicted: Predicted, factor: float) -> Predicted:
    """Predictions whose logits are multiplied by a factor: above 1 they are surer."""
    return lambda numbers: (factor * predicted(numbers)).log_softmax(-1)


def score_of_sharpness(posterior: Posterior) -> Float[Tensor, "groups"]:
    """The derivative of log p(w | x) of each group by the logarithm of a factor of the logits: Σ (q - p) log p.

    0 in impossible groups.
    """
    log_probs = posterior.potentials.double()
    moved = (posterior.marginals.double() - log_probs.exp()) * log_probs
    real = padding_mask(log_probs, posterior.lengths) & ~posterior.impossible[:, None]
    return torch.where(real, moved.nan_to_num(0.0).sum(2), 0.0).sum(1)
