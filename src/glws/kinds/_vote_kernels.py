"""Passes over votes, compiled by numba; plain Python, slow but the same, where numba is not installed.

A statement is what a source says: its number stands for a pair (source, word). `log_emission[d, t, y]` is the log of
p(statement t | class y) for items of difficulty level d, and `log_prior[d, y]` is log p(level d, class y). Item i has
the statements said[offsets[i]:offsets[i + 1]]. Importing this module imports numba.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function compiled, with a cache on disk."""
    try:
        from numba import njit
    except ImportError:
        return function
    plain = inspect.unwrap(function)  # run-time type checkers wrap the function that the compiler needs
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(plain))


@compiled
def expectation(
    offsets: Integers, said: Integers, log_emission: Floats, log_prior: Floats, posterior: Floats, counts: Floats
) -> tuple[float, Floats]:
    """log p(votes) and the expected number of items [levels, classes].

    Writes p(class | votes) to `posterior` [items, classes], and adds to `counts` [levels, statements, classes] the
    expected number of items of each class about which each statement was made.
    """
    levels, classes = log_prior.shape
    mass = np.zeros((levels, classes))
    scores = np.empty((levels, classes))
    total = 0.0
    for item in range(len(offsets) - 1):
        first, last = offsets[item], offsets[item + 1]
        highest = -math.inf
        for d in range(levels):
            for y in range(classes):
                scores[d, y] = log_prior[d, y]
            for vote in range(first, last):
                t = said[vote]
                for y in range(classes):
                    scores[d, y] += log_emission[d, t, y]
            for y in range(classes):
                highest = max(highest, scores[d, y])
        whole = 0.0
        for d in range(levels):
            for y in range(classes):
                scores[d, y] = math.exp(scores[d, y] - highest)
                whole += scores[d, y]
        total += highest + math.log(whole)
        for y in range(classes):
            posterior[item, y] = 0.0
        for d in range(levels):
            for y in range(classes):
                scores[d, y] /= whole
                posterior[item, y] += scores[d, y]
                mass[d, y] += scores[d, y]
            for vote in range(first, last):
                t = said[vote]
                for y in range(classes):
                    counts[d, t, y] += scores[d, y]
    return total, mass


@compiled
def majority(offsets: Integers, said: Integers, meanings: Floats, posterior: Floats, counts: Floats) -> Floats:
    """The majority vote, smoothed by one vote for all classes alike: fills `posterior` and adds to `counts`.

    `meanings` [statements, classes] sum to the weight of the vote; `counts` are [statements, classes]. Returns the sum
    of `posterior`.
    """
    classes = meanings.shape[1]
    mass = np.zeros(classes)
    for item in range(len(offsets) - 1):
        first, last = offsets[item], offsets[item + 1]
        whole = 0.0
        for y in range(classes):
            posterior[item, y] = 1.0 / classes
        for vote in range(first, last):
            for y in range(classes):
                posterior[item, y] += meanings[said[vote], y]
        for y in range(classes):
            whole += posterior[item, y]
        for y in range(classes):
            posterior[item, y] /= whole
            mass[y] += posterior[item, y]
        for vote in range(first, last):
            for y in range(classes):
                counts[said[vote], y] += posterior[item, y]
    return mass


@compiled
def held_out_scores(
    offsets: Integers,
    said: Integers,
    held_out: NDArray[np.bool_],
    log_emission: Floats,
    log_vote: Floats,
    log_prior: Floats,
    scores: Floats,
) -> None:
    """log p(vote | all about its item except this source) for each held-out vote, in order.

    `log_vote` is log p(source votes, and says this); `log_emission` is the same relative to its abstention.
    """
    levels, classes = log_prior.shape
    whole = np.empty((levels, classes))
    number = 0
    for item in range(len(offsets) - 1):
        first, last = offsets[item], offsets[item + 1]
        for d in range(levels):
            for y in range(classes):
                whole[d, y] = log_prior[d, y]
                for vote in range(first, last):
                    whole[d, y] += log_emission[d, said[vote], y]
        for vote in range(first, last):
            if not held_out[vote]:
                continue
            t = said[vote]
            highest = -math.inf
            for d in range(levels):
                for y in range(classes):
                    highest = max(highest, whole[d, y] - log_vote[d, t, y])
            without, with_vote = 0.0, 0.0
            for d in range(levels):
                for y in range(classes):
                    weight = math.exp(whole[d, y] - log_vote[d, t, y] - highest)
                    without += weight
                    with_vote += weight * math.exp(log_vote[d, t, y])
            scores[number] = math.log(with_vote / without)
            number += 1


@compiled
def sort_by_item(items: Integers, values: Integers, places: Integers, sorted_values: Integers) -> None:
    """Moves each value to the next free place of its item; `places` are the first places, and change."""
    for vote in range(len(items)):
        item = items[vote]
        sorted_values[places[item]] = values[vote]
        places[item] += 1


@compiled
def tallies(offsets: Integers, said: Integers, meanings: Floats, posterior: Floats, found: Floats) -> None:
    """Adds to `found` [statements, 4], for each statement, over the items it was made about:

    their number; p(the statement holds); p (1 - p); and whether it holds for the most likely class. `meanings` are
    scaled to a maximum of 1.
    """
    classes = meanings.shape[1]
    for item in range(len(offsets) - 1):
        label = 0
        for y in range(classes):
            if posterior[item, y] > posterior[item, label]:
                label = y
        for vote in range(offsets[item], offsets[item + 1]):
            t = said[vote]
            right = 0.0
            for y in range(classes):
                right += posterior[item, y] * meanings[t, y]
            found[t, 0] += 1.0
            found[t, 1] += right
            found[t, 2] += max(right * (1.0 - right), 0.0)
            found[t, 3] += meanings[t, label]


LOGS_AT_ONCE = 512
"""Factors between 1 and 2 that are multiplied before one logarithm is taken."""


@compiled
def binary_expectation(
    offsets: Integers, said: Integers, log_odds: Floats, prior_log_odds: float, posterior: Floats, counts: Floats
) -> tuple[float, float]:
    """`expectation` for two classes and one level, from the log-odds of each statement: one number for each vote.

    Returns Σ log(1 + exp(log-odds of an item)) and Σ p(class 1); adds the counts of class 1 to `counts` [statements].
    """
    total, product, number, mass = 0.0, 1.0, 0, 0.0
    for item in range(len(offsets) - 1):
        first, last = offsets[item], offsets[item + 1]
        x = prior_log_odds
        for vote in range(first, last):
            x += log_odds[said[vote]]
        small = math.exp(-abs(x))
        large = 1.0 / (1.0 + small)
        total += max(x, 0.0)
        product *= 1.0 + small
        number += 1
        if number == LOGS_AT_ONCE:
            total += math.log(product)
            product, number = 1.0, 0
        one = large if x > 0.0 else small * large
        posterior[item, 1] = one
        posterior[item, 0] = small * large if x > 0.0 else large
        mass += one
        for vote in range(first, last):
            counts[said[vote]] += one
    return total + math.log(product), mass
