"""Mixtures of models, weighted by the likelihood of held-out weak labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glws.selection._likelihood import WeakLabels, posterior_of_rows

Array = NDArray[np.float64]
ROUNDS = 30
LEAST_WEIGHT = 0.03


def mixture_weights(log_probs: Sequence[Array], known: WeakLabels) -> Array:
    """The weights of a mixture of predictions, by EM on the likelihood of weak labels.

    With p = Σ_c w_c p_c and q the posterior of a row under p, a round of EM is

        w_c ← w_c · mean over rows of Σ_k q(k) p_c(k) / p(k)

    It starts from equal weights and ends after a fixed number of rounds, so that models that are hard to tell apart
    share the weight. Models of less than 3 % are dropped. Predictions must be for rows that the models were not trained
    on.

    >>> from glws.data import Groups
    >>> from glws.kinds import Labels
    >>> known = WeakLabels((Groups.singles(2),), (Labels.of([0, 1], 2),))
    >>> good, bad = np.log([[0.8, 0.2], [0.3, 0.7]]), np.log([[0.4, 0.6], [0.6, 0.4]])
    >>> mixture_weights([good, bad], known).round(2).tolist()
    [1.0, 0.0]
    """
    tables = np.exp(np.stack(log_probs))
    covered = np.unique(np.concatenate([groups.indices.numpy() for groups in known.groups]))
    weights = np.full(len(tables), 1 / len(tables))
    for _ in range(ROUNDS if len(tables) > 1 else 0):
        mixed = np.maximum(np.tensordot(weights, tables, 1), 1e-300)
        ratio = (posterior_of_rows(np.log(mixed), known) / mixed)[covered]
        weights = weights * np.einsum("nk,cnk->c", ratio, tables[:, covered]) / len(covered)
        weights /= weights.sum()
    kept = np.where(weights >= LEAST_WEIGHT, weights, 0.0)
    return np.asarray(kept / kept.sum())


def log_mixture(log_probs: Sequence[Array], weights: Sequence[float] | Array) -> Array:
    """log Σ_c w_c p_c."""
    parts = [values + np.log(weight) for values, weight in zip(log_probs, weights, strict=True) if weight > 0]
    return np.asarray(np.logaddexp.reduce(parts, 0))
