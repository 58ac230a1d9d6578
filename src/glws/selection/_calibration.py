"""Calibration by weak labels alone: a temperature and an offset for each class that make them most likely."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws._reprs import short_repr
from glws.selection._folds import Folds
from glws.selection._likelihood import WeakLabels, weak_fit

Array = NDArray[np.float64]
OFFSET_PENALTY, FACTOR_PENALTY = 1.0, 0.5
"""Ridge penalties, in nats: on squared offsets, and on the squared log of the factor."""
MOST_STEPS = 30
LEAST_PRIOR, CLOSE, MOST_ROUNDS = 1e-6, 1e-6, 200


class Calibration(NamedTuple):
    """Logits become factor · log p + offset; the factor is one over the temperature."""

    def __repr__(self) -> str:
        return short_repr(self)

    factor: float
    offset: Array

    def __call__(self, log_probs: Array) -> Array:
        """The calibrated log-probabilities."""
        logits = self.factor * log_probs + self.offset
        return np.asarray(logits - np.logaddexp.reduce(logits, 1, keepdims=True))

    def shifted(self, offset: Array) -> Calibration:
        """With this added to the offset."""
        return Calibration(self.factor, self.offset + offset)


def calibrated(log_probs: Array, known: WeakLabels, has_offset: bool = True) -> Calibration:
    """The calibration that maximizes the likelihood of weak labels, for predictions of rows not trained on.

    A weak ridge pulls the offsets towards 0 and the factor towards 1, so that a few groups do not decide alone. If the
    optimum is not better than no calibration, nothing is changed.

    >>> from glws.data import Groups
    >>> from glws.kinds import Labels
    >>> known = WeakLabels((Groups.singles(400),), (Labels.of([0, 0, 0, 1] * 100, 2),))
    >>> sure = np.log(np.tile([[0.99, 0.01]], (400, 1)))
    >>> np.exp(calibrated(sure, known)(sure))[0].round(2)
    array([0.75, 0.25])
    """
    from scipy.optimize import minimize

    num_classes = log_probs.shape[1]
    safe = np.maximum(log_probs, -50.0)

    def loss(point: Array) -> tuple[float, Array]:
        factor = np.exp(point[0])
        offset = point[1:] if has_offset else np.zeros(num_classes)
        fit = weak_fit(factor * safe + offset, known)
        penalty = FACTOR_PENALTY * point[0] ** 2 + OFFSET_PENALTY * float((offset**2).sum()) / 2
        slope = np.concatenate([[-(fit.gradient * safe).sum() * factor], -fit.gradient.sum(0)[: len(point) - 1]])
        slope[0] += 2 * FACTOR_PENALTY * point[0]
        slope[1:] += OFFSET_PENALTY * point[1:]
        return penalty - float(fit.log_likelihood.sum()), slope

    start = np.zeros(1 + num_classes if has_offset else 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    point = found.x if np.isfinite(found.fun) and found.fun < loss(start)[0] else start
    return Calibration(float(np.exp(point[0])), point[1:] if has_offset else np.zeros(num_classes))


def cross_calibrated(log_probs: Array, known: WeakLabels, folds: Folds, has_offset: bool = True) -> Array:
    """Log-probabilities in which each fold is calibrated on the weak labels of the other folds."""
    result = calibrated(log_probs, known, has_offset)(log_probs)
    for fold in range(folds.number):
        mine = folds.of_rows == fold
        result[mine] = calibrated(log_probs, folds.training(known, fold), has_offset)(log_probs[mine])
    return result


def with_mean(log_probs: Array, prior: Array) -> Array:
    """The offset with which the mean prediction is this class prior.

    >>> offset = with_mean(np.log([[0.5, 0.5], [0.2, 0.8]]), np.array([0.8, 0.2]))
    >>> np.exp(Calibration(1.0, offset)(np.log([[0.5, 0.5], [0.2, 0.8]]))).mean(0).round(3)
    array([0.8, 0.2])
    """
    offset = np.zeros(len(prior))
    wanted = np.log(np.maximum(prior, LEAST_PRIOR))
    for _ in range(MOST_ROUNDS):
        mean = np.exp(Calibration(1.0, offset)(log_probs)).mean(0)
        step = wanted - np.log(np.maximum(mean, 1e-300))
        offset += step
        if np.abs(step).max() < CLOSE:
            break
    return np.asarray(offset - offset.mean())
