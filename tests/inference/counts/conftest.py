"""Oracles for counts, independent of the library: labelings one by one, extended precision, and many digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

Oracle = Callable[..., tuple[float, np.ndarray]]


def _by_labelings(zero: np.ndarray, one: np.ndarray, log_weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ over all 2^n labelings, as written."""
    total, counted = 0.0, np.zeros(len(zero))
    for labels in itertools.product((0, 1), repeat=len(zero)):
        weight = math.exp(log_weights[sum(labels)] + sum(np.where(labels, one, zero)))
        total += weight
        counted += weight * np.array(labels)
    return (math.log(total), counted / total) if total else (-math.inf, counted)


def _tilt(z: np.ndarray, low: int, high: int) -> np.longdouble:
    """θ that brings the mean into low .. high, by bisection."""
    left, right = np.longdouble(-1e5), np.longdouble(1e5)
    target = min(max(float((1 / (1 + np.exp(-z))).sum()), low + 1e-3), high - 1e-3 if high > low else low + 1e-3)
    for _ in range(120):
        middle = (left + right) / 2
        with np.errstate(over="ignore"):
            mean = (1 / (1 + np.exp(-(z + middle)))).sum()
        left, right = (middle, right) if mean < target else (left, middle)
    return left


def _extended(zero: np.ndarray, one: np.ndarray, log_weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The recursion over instances in 80-bit floats, tilted to the support of ω: positive terms only, range 1e±4932."""
    zero, one, log_weights = (np.asarray(values, dtype=np.longdouble) for values in (zero, one, log_weights))
    n, support = len(zero), np.flatnonzero(log_weights > -np.inf)
    is_window = bool(np.all(log_weights[support[0] : support[-1] + 1] == 0))
    theta = _tilt(one - zero, int(support[0]), int(support[-1])) if is_window else np.longdouble(0)
    x = one - zero + theta
    with np.errstate(over="ignore", under="ignore"):
        p1, p0 = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
        tilted = log_weights - theta * np.arange(n + 1)
        top = tilted[support].max()
        backward = np.append(np.exp(tilted - top), 0)
        width = int(support[-1]) + 1
        forward = np.zeros((n + 1, width), dtype=np.longdouble)
        forward[0, 0] = 1
        for j in range(n):
            forward[j + 1] = forward[j] * p0[j]
            forward[j + 1, 1:] += forward[j, :-1] * p1[j]
        mass = (forward[n] * backward[:width]).sum()
        posterior = np.zeros(n)
        for j in reversed(range(n)):
            posterior[j] = float(p1[j] * (forward[j] * backward[1 : width + 1]).sum() / mass)
            backward[:width] = p0[j] * backward[:width] + p1[j] * backward[1 : width + 1]
    assert mass > 1e-4000, "the oracle itself ran out of range"
    scale = (np.maximum(zero, one + theta) + np.log1p(np.exp(-np.abs(x)))).sum()
    return float(scale + top + np.log(mass)), posterior


def _many_digits(zero: np.ndarray, one: np.ndarray, log_weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The recursion in 60 decimal digits with unlimited exponents; nothing clever."""
    with mpmath.workdps(60):
        n = len(zero)
        p0, p1 = ([mpmath.exp(mpmath.mpf(float(v))) for v in values] for values in (zero, one))
        forward = [[mpmath.mpf(1)]]
        for j in range(n):
            row = [*forward[-1], mpmath.mpf(0)]
            forward.append([row[k] * p0[j] + (row[k - 1] * p1[j] if k else 0) for k in range(j + 2)])
        backward = [mpmath.exp(mpmath.mpf(float(w))) if w > -math.inf else mpmath.mpf(0) for w in log_weights]
        mass = mpmath.fdot(forward[n], backward)
        posterior = np.zeros(n)
        for j in reversed(range(n)):
            posterior[j] = float(p1[j] * mpmath.fdot(forward[j], backward[1 : j + 2]) / mass)
            backward = [p0[j] * backward[k] + p1[j] * backward[k + 1] for k in range(j + 1)]
        return float(mpmath.log(mass)), posterior


@pytest.fixture
def by_labelings() -> Oracle:
    return _by_labelings


@pytest.fixture
def extended() -> Oracle:
    return _extended


@pytest.fixture
def many_digits() -> Oracle:
    return _many_digits
