"""The power series has as many terms as it needs, and not many more."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from glws.inference._counts.compiled import fourier, series
from glws.inference._counts.thresholds import COMPILED_SMOOTH_LENGTH

pytestmark = pytest.mark.slow  # compiles


def characteristic(small: np.ndarray, points: int, waves: int) -> np.ndarray:
    """Π_j (1 - a_j u) at the frequencies 2πl/N, as written, in extended precision; all sides are positive."""
    angle = 2 * np.arccos(np.longdouble(-1)) * np.arange(waves) / points
    u = (1 - np.cos(angle)) - 1j * np.sin(angle)
    return np.prod(1 - small[:, None].astype(np.longdouble) * u, axis=0)


def by_series(small: np.ndarray, variance: float, points: int, terms: int) -> np.ndarray:
    waves, sums = fourier.make_waves(points, variance), np.empty((2, terms + 1))
    fourier.power_sums(small, sums)
    fourier.psi_by_power_sums(sums, 0, points, waves)
    return waves[2] + 1j * waves[3]


@pytest.mark.parametrize("total", [0.5, 1.0, 4.0, 12.0, 30.0, 45.0])
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_the_terms_it_asks_for_are_enough_and_half_of_them_are_not(total: float, spread: float) -> None:
    small = np.linspace(1.0, spread, 1000)
    small *= total / small.sum()
    variance = float((small * (1.0 - small)).sum())
    terms, points = series.series_terms(small, variance), fourier.num_points(variance, small.size, 0)
    assert 3 <= terms <= series.MAX_TERMS
    found = by_series(small, variance, points, terms)
    oracle = characteristic(small, points, len(found))
    assert np.abs(found - oracle).max() <= 1e-14
    assert np.abs(by_series(small, variance, points, terms // 2) - oracle).max() > 1e-12


def test_large_sides_and_short_groups_have_no_series() -> None:
    small = np.full(COMPILED_SMOOTH_LENGTH, 0.01)
    assert series.series_terms(small, 4.0) > 0
    assert series.series_terms(small[1:], 4.0) == 0
    small[7] = -0.49
    assert series.series_terms(small, 4.2) == 0


def test_no_variance_needs_the_fewest_terms() -> None:
    assert series.series_terms(np.zeros(COMPILED_SMOOTH_LENGTH), 0.0) == 3
