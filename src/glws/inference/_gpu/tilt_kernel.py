"""Kernel: the tilt of an expected count, one program per group, the whole search in one launch."""

from __future__ import annotations

from glws._triton import Number, Pointer, jit, tl


@jit
def shares(row: "Pointer", theta: "Number", number: "Number", L: "Number", J: tl.constexpr) -> "Number":
    """The mean of σ(odds + θ) and of σ (1 - σ), without NaN entries."""
    found, slope = tl.zeros([J], tl.float64), tl.zeros([J], tl.float64)
    for begin in range(0, L, J):
        j = begin + tl.arange(0, J)
        odds = tl.load(row + j, mask=j < L, other=float("nan"))
        part = tl.where(odds == odds, 1.0 / (1.0 + tl.exp(-(odds + theta))), 0.0)
        found += part
        slope += part * (1.0 - part)
    return tl.sum(found, 0) / number, tl.sum(slope, 0) / number


@jit
def expected_tilts(
    odds: "Pointer", sides: "Pointer", tilts: "Pointer", L: "Number", steps: "Number", J: tl.constexpr
) -> None:
    """θ of each group: Newton's steps for the logit of the mean, the middle of the bracket if they leave it.

    Fixed instances have odds NaN; the sides of each group are the number of free ones, the logit of the target share,
    and the bracket of θ.
    """
    group = tl.program_id(0).to(tl.int64)
    number = tl.maximum(tl.load(sides + 4 * group), 1.0)
    goal = tl.load(sides + 4 * group + 1)
    low, high = tl.load(sides + 4 * group + 2), tl.load(sides + 4 * group + 3)
    wanted = 1.0 / (1.0 + tl.exp(-goal))
    theta, left = low / 2 + high / 2, steps
    while left > 0:
        share, slope = shares(odds + group * L, theta, number, L, J)
        is_there = tl.abs(share - wanted) < 1e-15 + 1e-14 * slope
        low, high = tl.where(share <= wanted, theta, low), tl.where(share >= wanted, theta, high)
        inner = tl.minimum(tl.maximum(share, 1e-300), 1.0 - 1e-16)
        ahead = theta + (goal - tl.log(inner / (1.0 - inner))) * inner * (1.0 - inner) / tl.maximum(slope, 1e-300)
        is_inside = (share > 0.0) & (share < 1.0) & (slope > 0.0) & (ahead > low) & (ahead < high)
        theta = tl.where(is_there, theta, tl.where(is_inside, ahead, low / 2 + high / 2))
        left = tl.where(is_there, 0, left - 1)
    tl.store(tilts + group, theta)
