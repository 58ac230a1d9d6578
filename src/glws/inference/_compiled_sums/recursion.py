"""E_λ[share(S)] and the posteriors by prefix and suffix sums over the sums that matter. All terms are positive."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from glws.inference._compiled_sums.tiles import LANES, Floats, Integers, place
from glws.inference._compiled_trellis.vectors import eight, load, store
from glws.inference._counts.compiled.numeric import kernel


@kernel
def reach(variance: float, span: float, log_share: float) -> float:
    """The distance from the mean beyond which S has a probability of at most e^-log_share on one side (Bernstein)."""
    part = log_share * span / 3.0
    return part + sqrt(part * part + 2.0 * log_share * variance)


@kernel
def log_share(s: float, low: float, high: float, scale: float, tilt: float, origin: float) -> float:
    """log ω(s) - λ (s - s_0)."""
    distance = max(low - s, s - high, 0.0)
    penalty = 0.0 if distance == 0 else distance / scale if scale > 0 else np.inf
    return -penalty - tilt * (s - origin)


@kernel
def windows(
    r: Floats, count: int, values: Integers, goal: tuple[int, int], cut: float, first: Integers, last: Integers
) -> None:
    """The sums of the first j instances that matter: first[j] .. last[j]."""
    span = float(values[-1])
    least, most = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    mean, variance = np.zeros(count + 1), np.zeros(count + 1)
    for j in range(count):
        low, high, one, two = -1, 0, 0.0, 0.0
        for v in range(len(values)):
            if r[place(j, v, len(values))] > 0:
                low, high = values[v] if low < 0 else low, values[v]
            one += r[place(j, v, len(values))] * values[v]
            two += r[place(j, v, len(values))] * values[v] * values[v]
        least[j + 1], most[j + 1] = least[j] + max(low, 0), most[j] + high
        mean[j + 1], variance[j + 1] = mean[j] + one, variance[j] + max(two - one * one, 0.0)
    for j in range(count + 1):
        begin = max(least[j], goal[0] - (most[count] - most[j]))
        end = min(most[j], goal[1] - (least[count] - least[j]))
        if cut > 0:
            near = reach(variance[j], span, cut)
            rest = reach(max(variance[count] - variance[j], 0.0), span, cut)
            begin = max(begin, int(mean[j] - near), int(goal[0] - (mean[count] - mean[j]) - rest))
            end = min(end, int(mean[j] + near) + 1, int(goal[1] - (mean[count] - mean[j]) + rest) + 1)
        first[j], last[j] = begin, end
    for j in range(count):  # neighbors do not differ by more than a value, and ends do not go back
        last[j + 1] = min(max(last[j + 1], last[j]), last[j] + values[-1])
    for j in range(count - 1, -1, -1):
        first[j] = max(min(first[j], first[j + 1]), first[j + 1] - values[-1])


@kernel
def by_recursion(
    r: Floats, count: int, values: Integers, goal: tuple[int, int], cut: float, low: float, high: float, scale: float,
    tilt: float, origin: float,
) -> float:  # fmt: skip
    """E_λ[share(S)], and the posteriors in place of r.

    The rows of α, and two of β, have margins of zeros as wide as the largest value, and end in whole vectors.
    """
    first, last = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    windows(r, count, values, goal, cut, first, last)
    for j in range(count + 1):
        if last[j] < first[j]:
            return 0.0
    margin, widest, zero = values[-1], 0, eight(0.0)
    at = np.zeros(count + 2, np.int64)
    for j in range(count + 1):
        width = last[j] - first[j] + 1
        at[j + 1] = at[j] + (width + LANES - 1) // LANES * LANES + 2 * margin
        widest = max(widest, at[j + 1] - at[j])
    alphas, betas = np.zeros(at[count + 1] + LANES), np.zeros((2, widest + LANES))
    alphas[margin] = 1.0
    for j in range(count):
        width = last[j + 1] - first[j + 1] + 1
        source, target = at[j] + margin + first[j + 1] - first[j], at[j + 1] + margin
        for u in range(0, width, LANES):
            total = zero
            for v in range(len(values)):
                total = total + load(alphas, source + u - values[v], zero) * r[place(j, v, len(values))]
            store(alphas, target + u, total)
        for u in range(target + width, at[j + 2]):
            alphas[u] = 0.0
    total = 0.0
    for u in range(last[count] - first[count] + 1):
        share = exp(log_share(first[count] + u, low, high, scale, tilt, origin))
        betas[count & 1, margin + u] = share
        total += share * alphas[at[count] + margin + u]
    if not total > 0:
        return 0.0
    sums = np.empty(len(values) * LANES)
    for j in range(count - 1, -1, -1):
        step_back(r, j, values, alphas[at[j] + margin :], betas[(j + 1) & 1], betas[j & 1], first, last, sums)
        for v in range(len(values)):
            share = r[place(j, v, len(values))] / total * sums[v * LANES : (v + 1) * LANES].sum()
            r[place(j, v, len(values))] = min(share, 1.0)
    found: float = total
    return found


@kernel
def step_back(
    r: Floats, j: int, values: Integers, alpha: Floats, after: Floats, beta: Floats, first: Integers, last: Integers,
    sums: Floats,
) -> None:  # fmt: skip
    """β of step j, and for each value, in lanes, Σ_u α_j(u) β_{j+1}(u + v)."""
    zero, margin, width = eight(0.0), values[-1], last[j] - first[j] + 1
    shift = margin + first[j] - first[j + 1]
    for i in range(len(sums)):
        sums[i] = 0.0
    for u in range(0, width, LANES):
        total, here = zero, load(alpha, u, zero)
        for v in range(len(values)):
            onward = load(after, shift + u + values[v], zero)
            total = total + onward * r[place(j, v, len(values))]
            store(sums, v * LANES, load(sums, v * LANES, zero) + here * onward)
        store(beta, margin + u, total)
    beta[:margin] = 0.0
    beta[margin + width :] = 0.0


@kernel
def ends(p: Floats, count: int, values: Integers) -> tuple[int, int]:
    """The smallest and the largest possible sum; an instance without a possible value gives an empty range."""
    least, most = 0, 0
    for j in range(count):
        low, high = -1, 0
        for v in range(len(values)):
            if p[place(j, v, len(values))] > 0:
                low, high = values[v] if low < 0 else low, values[v]
        if low < 0:
            return 1, 0
        least, most = least + low, most + high
    return least, most
