"""Class priors of weak labels that are to be estimated, replaced by their estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray

from glws.data import Groups, WeakDataset
from glws.errors import DataError
from glws.kinds import AbstractSupervision, PositiveUnlabeled
from glws.selection._class_prior import FEWEST, estimate_class_prior

MOST_ROWS = 20_000
"""An estimate is made from at most so many rows, drawn at random."""

Features = Callable[[NDArray[np.int64]], NDArray[Any]]
"""The features of some instances, by their numbers: [rows, columns]."""


def resolve_priors(data: WeakDataset, seed: int = 0) -> WeakDataset:
    """The data with every prior that is to be estimated replaced by its estimate.

    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.cat([torch.randn(300, 2, generator=generator) + 4, torch.randn(700, 2, generator=generator)])
    >>> weak = PositiveUnlabeled.of([True] * 60 + [False] * 940)
    >>> round(resolve_priors(WeakDataset(x, Groups.singles(1000), weak)).weak[0].prior, 1)
    0.3
    """

    if not any(_is_open(kind) for kind in data.weak):
        return data

    def features(numbers: NDArray[np.int64]) -> NDArray[Any]:
        return data.instances.take(torch.from_numpy(numbers)).flatten(1).double().numpy()

    weak = with_estimated_priors(data.groups, data.weak, features, seed)
    return WeakDataset(data.instances, data.groups, weak, data.evidence, check=False)


def with_estimated_priors(
    groups: Sequence[Groups], weak: Sequence[AbstractSupervision], features: Features, seed: int
) -> tuple[AbstractSupervision, ...]:
    """The kinds, with an estimate in place of each prior that is to be estimated."""
    return tuple(
        _estimated(kind, members, features, seed) if _is_open(kind) else kind
        for members, kind in zip(groups, weak, strict=True)
    )


def _is_open(kind: AbstractSupervision) -> TypeGuard[PositiveUnlabeled]:
    return isinstance(kind, PositiveUnlabeled) and kind.needs_prior


def _estimated(weak: PositiveUnlabeled, groups: Groups, features: Features, seed: int) -> PositiveUnlabeled:
    labeled, rows = weak.labeled.cpu().numpy(), groups.indices.cpu().numpy()
    if labeled.sum() < FEWEST:
        found = f"{labeled.sum()} labeled positives are too few to estimate the prior from"
        raise DataError(f"{found}; expected at least {FEWEST}, or say the prior")
    chosen = np.random.default_rng(seed).permutation(len(rows))[:MOST_ROWS]
    estimate = estimate_class_prior(features(rows[chosen]), labeled[chosen], ~labeled[chosen], seed)
    low, high = (weak.with_prior(weak.population_prior(end)).prior for end in (estimate.low, estimate.high))
    assert low is not None
    assert high is not None
    return replace(weak.with_prior(weak.population_prior(estimate.share)), limits=(low, high))
