"""Compare the answers with a reference, before anything is timed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.engines.contest import Answer

TOLERANCE = 1e-4
"""Largest error of a posterior, and relative error of a log-likelihood, that still counts as right."""


class Errors(NamedTuple):
    """Errors of an answer; inf for NaN and infinite values, None for what was not computed."""

    likelihood: float
    posterior: float | None

    @property
    def is_right(self) -> bool:
        """Whether both are within the tolerance."""
        return max(self.likelihood, self.posterior or 0.0) <= TOLERANCE


def errors(answer: Answer, reference: Answer) -> Errors:
    """Largest relative error of a log-likelihood (below 1 in size: absolute) and largest error of a posterior."""
    expected = _array(reference.log_likelihood)
    difference = np.abs(_array(answer.log_likelihood) - expected) / np.maximum(np.abs(expected), 1.0)
    if answer.marginals is None:
        return Errors(_largest(difference), None)
    return Errors(_largest(difference), _largest(_array(answer.marginals) - _array(reference.marginals)))


def _array(values: Any) -> npt.NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _largest(values: npt.NDArray[np.float64]) -> float:
    return float(np.abs(values).max(initial=0.0)) if np.isfinite(values).all() else float("inf")
