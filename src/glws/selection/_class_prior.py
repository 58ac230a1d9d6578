"""The share of positives in unlabeled rows, estimated from positives and unlabeled rows alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glws.errors import DataError
from glws.selection._best_bin import best_bin_estimate

Array = NDArray[np.float64]
FOLDS, RESAMPLES, FEWEST = 5, 100, 10
COVERED = (2.5, 97.5)
"""The percentiles of the resampled estimates that end the interval."""


class PriorEstimate(NamedTuple):
    """The estimated share of positives, and the ends of its 95 % bootstrap interval."""

    share: float
    low: float
    high: float


def estimate_class_prior(features: Any, positive: Any, unlabeled: Any, seed: int = 0) -> PriorEstimate:
    """The share of positives among unlabeled rows, without a single negative.

    `features` [rows, columns] are numbers (NaN: missing), `positive` and `unlabeled` row numbers or masks. Logistic
    regression and boosted trees learn positives against unlabeled rows, each row is scored by the model that predicts
    the held-out rows better and was not trained on it, and `best_bin_estimate` gives the share. This assumes that the
    positives are a random sample of all positives, and that some region holds nearly no negatives: otherwise
    the estimate is too high. The interval repeats the last step on bootstrap samples of the scores.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(2, 1, (300, 2)), rng.normal(2, 1, (300, 2)), rng.normal(-2, 1, (700, 2))])
    >>> estimate = estimate_class_prior(x, np.arange(300), np.arange(300, 1300))
    >>> estimate.low < 0.3 < estimate.high + 0.02
    True
    """
    table = np.asarray(features, np.float64)
    rows = [_numbers(chosen) for chosen in (positive, unlabeled)]
    for name, found in zip(("positives", "unlabeled rows"), rows, strict=True):
        if len(found) < FEWEST:
            raise DataError(f"estimating a class prior needs at least {FEWEST} {name}, found {len(found)}")
    scores = _cross_fitted(table[np.concatenate(rows)], np.repeat([1, 0], [len(found) for found in rows]), seed)
    above, below = torch.from_numpy(scores[: len(rows[0])]), torch.from_numpy(scores[len(rows[0]) :])
    generator = torch.Generator().manual_seed(seed)
    again = [
        best_bin_estimate(_resampled(above, generator), _resampled(below, generator)).share for _ in range(RESAMPLES)
    ]
    share = best_bin_estimate(above, below).share
    low, high = np.percentile(again, COVERED)
    return PriorEstimate(share, float(min(low, share)), float(max(high, share)))


def _numbers(chosen: Any) -> NDArray[np.int64]:
    found = np.asarray(chosen)
    return np.asarray(np.flatnonzero(found) if found.dtype == bool else found, np.int64)


def _resampled(scores: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return scores[torch.randint(len(scores), (len(scores),), generator=generator)]


def _cross_fitted(features: Array, is_positive: NDArray[np.int64], seed: int) -> Array:
    """Scores of each row by models not trained on it, of the kind of model that has the lower held-out log loss."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = [
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)),
        HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed),
    ]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found = [cross_val_predict(one, features, is_positive, cv=folds, method="predict_proba")[:, 1] for one in models]
    return np.asarray(min(found, key=lambda scores: log_loss(is_positive, scores)), np.float64)
