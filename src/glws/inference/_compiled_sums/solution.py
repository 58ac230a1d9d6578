"""Sums of values on the CPU, compiled: a tilt, then the characteristic function, or a recursion over a window.

S = Σ_j v(y_j) has integer values; ω(s) is 1 for low <= s <= high and exp(-distance / scale) outside. With the tilt λ

    Z = Π_j z_j(λ) · e^{-λ s_0} · E_λ[ω(S) e^{-λ (S - s_0)}]
"""

from __future__ import annotations

import hashlib
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from glws.inference._compiled_sums.frequencies import by_frequencies
from glws.inference._compiled_sums.recursion import by_recursion, ends, log_share
from glws.inference._compiled_sums.tiles import (
    PAIR,
    Floats,
    Integers,
    chosen_tilt,
    into_tiles,
    out_of_tiles,
    reaches,
    tilted,
)
from glws.inference._compiled_trellis import vectors
from glws.inference._counts.compiled import numeric
from glws.inference._counts.compiled.numeric import entry_kernel, kernel

ALIASED, CUT = 46.0, 92.0
"""-log of the probability beyond the period, and beyond the window of the recursion."""
LEAST_EXPECTATION = 1e-24
"""Below this the window of the recursion may have cut too much; it is repeated with all values."""
SHORT = 48
"""Shorter groups go to the recursion at once."""


@kernel
def solve_group(p: Floats, length: int, values: Integers, low: float, high: float, scale: float) -> float:
    """log Z of a group, with the posteriors in place of p; NaN if a wider range of numbers is needed."""
    least, most = ends(p, length, values)
    hard = scale <= 0
    goal = (int(max(low, least)), int(min(high, most))) if hard else (least, most)
    if goal[0] > goal[1] or least > most:
        return -np.inf
    factors = np.empty(len(values))
    near = (max(low, float(least)), min(high, float(most))) if hard else (low, high)
    tilt, mean, variance = chosen_tilt(p, values, near[0], near[1], scale, factors)
    if not np.isfinite(mean):
        return np.nan
    origin = near[0] if tilt > 0 else near[1] if tilt < 0 else 0.0
    log_z = tilted(p, values, tilt, factors) - tilt * origin
    total = 0.0
    if length >= SHORT:
        below, above = reaches(p, values, mean, variance, ALIASED, factors)
        window = int(max(float(least), mean - below)), int(min(float(most), mean + above + 1.0))
        first, last = (max(window[0], goal[0]), min(window[1], goal[1]))
        shares = np.empty(max(last - first + 1, 0))
        for s in range(len(shares)):
            shares[s] = exp(log_share(first + s, low, high, scale, tilt, origin))
        total = by_frequencies(p, values, (window[1] - window[0] + 1) | 1, first, shares)
    if total == 0:
        kept = p.copy()
        total = by_recursion(p, length, values, goal, CUT, low, high, scale, tilt, origin)
        if total < LEAST_EXPECTATION:
            p[:] = kept
            total = by_recursion(p, length, values, goal, 0.0, low, high, scale, tilt, origin)
        if total < 1e-250:
            return np.nan
    return log_z + log(total)


def _sources_fingerprint() -> str:
    """A hash of all sources, captured by the entry kernel, so that its disk cache follows every edit."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(vectors.__file__), Path(numeric.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _entry_point(sources: str) -> Any:
    @entry_kernel
    def solve(
        potentials: Any, starts: Integers, lengths: Integers, values: Integers, low: Floats, high: Floats, scale: float,
        log_likelihood: Floats, marginals: Any,
    ) -> int:  # fmt: skip
        """log Z and q of groups of rows; returns how many are not reliable, with log Z = NaN."""
        sources  # noqa: B018
        doubtful, size, longest = 0, len(values), 0
        for group in range(len(lengths)):
            longest = max(longest, lengths[group])
        work = np.empty((longest + PAIR) * size)
        for group in range(len(starts)):
            start, length = starts[group], lengths[group]
            p = work[: (length + PAIR - 1) // PAIR * PAIR * size]
            tops, lost = into_tiles(potentials, start, length, p)
            value = solve_group(p, length, values, low[group], high[group], scale) if np.isfinite(tops) else tops
            if value > -np.inf:
                value = value + tops if not lost or value > -500.0 else np.nan
            if not value > -np.inf:
                p[:] = 0.0
                doubtful += value != value
            log_likelihood[group] = value
            out_of_tiles(p, start, length, marginals)
        return doubtful

    return solve


solve = _entry_point(_sources_fingerprint())
