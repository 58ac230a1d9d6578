"""Sizes at which one algorithm becomes faster than another; no other module has such numbers.

Measured by `python -m benchmarks.counts --thresholds` on one thread; they affect speed, never the result.
"""

from __future__ import annotations

# Compiled: up to this many instances the tilted recursion beats the characteristic function.
COMPILED_SHORT_EXACT = 80
COMPILED_SHORT_WEIGHTED = 256
# Plain torch: up to this many instances the log-space recursion beats the characteristic function.
TORCH_SHORT = 25
# Variance of the tilted count from which power sums replace the loop over frequencies. The compiled series holds
# `series.MAX_TERMS` terms, enough from 49 on, the plain one `characteristic.MAX_TERMS`, enough from 30 on.
COMPILED_SMOOTH_VARIANCE = 100.0
# Compiled: from this many instances on, power sums also where the series is short because all small sides are small.
COMPILED_SMOOTH_LENGTH = 400
TORCH_SMOOTH_VARIANCE = 36.0
