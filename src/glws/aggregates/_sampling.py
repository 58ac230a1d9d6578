"""The sampler of `glws.ecological`, compiled: tables with given margins, and the parameters that explain them.

Model, for area i in region k(i), row r and column c (column 0 is the reference):

    log-odds of column c:   mean[r, c] + shift[i, c] + effect[k(i), r, c]
    shift[i] ~ N(region[k(i)], spread²),   region[k] ~ N(0, 1),   effect[k, r] ~ N(0, effect_spread²)
    people of row r in area i ~ Dirichlet-multinomial(n_ir, size[r] · softmax(log-odds))

The shares of single areas are integrated out, so that tables move far in one step: along each 2 x 2 switch, which keeps
the margins, by slice sampling. Parameters move by random walks whose steps adapt during burn-in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

UP, DOWN = 1.03, 0.985
"""Steps grow by this when accepted, and shrink by this when not: about one in three is accepted."""
HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2
SIZE_CENTER, SIZE_SPREAD = 2.5, 1.0
MEAN_SPREAD, REGION_SPREAD, EFFECT_START = 3.0, 1.0, 0.3


@njit(cache=True, nogil=True)
def log_gamma(x: float) -> float:
    """log Γ(x) for x > 0, by Stirling's series from 10 on: to 1e-10, several times as fast as the library's."""
    product = 1.0
    while x < 10.0:
        product *= x
        x += 1.0
    square = 1 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
    return (x - 0.5) * math.log(x) - x + HALF_LOG_TWO_PI + series - math.log(product)


@njit(cache=True, nogil=True)
def concentrations(
    mean: Any, shift: Any, effect: Any, log_size: Any, out: Any
) -> None:  # [rows, c - 1], [c - 1], [rows, c - 1], [rows], [rows, c]
    """The parameters of the Dirichlet distribution of each row of an area."""
    rows, columns = out.shape
    for r in range(rows):
        highest = 0.0
        for c in range(1, columns):
            out[r, c] = mean[r, c - 1] + shift[c - 1] + effect[r, c - 1]
            highest = max(highest, out[r, c])
        total = math.exp(-highest)
        for c in range(1, columns):
            total += math.exp(out[r, c] - highest)
        factor = log_size[r] - highest - math.log(total)
        out[r, 0] = max(math.exp(factor), 1e-8)
        for c in range(1, columns):
            out[r, c] = max(math.exp(factor + out[r, c]), 1e-8)


@njit(cache=True, nogil=True)
def row_density(people: Any, alpha: Any) -> float:
    """log p(people of a row), less what does not depend on alpha."""
    size, number, total = 0.0, 0.0, 0.0
    for c in range(len(alpha)):
        size += alpha[c]
        number += people[c]
        if people[c] > 0:
            total += log_gamma(alpha[c] + people[c]) - log_gamma(alpha[c])
    return total + log_gamma(size) - log_gamma(size + number)


@njit(cache=True, nogil=True)
def area_density(table: Any, alpha: Any) -> float:
    """The same of all rows of an area."""
    total = 0.0
    for r in range(len(table)):
        total += row_density(table[r], alpha[r])
    return total


@njit(cache=True, nogil=True)
def cell(people: int, alpha: float) -> float:
    return log_gamma(alpha + people) - log_gamma(people + 1.0)


@njit(cache=True, nogil=True)
def switched(table: Any, alpha: Any, first: int, second: int, left: int, right: int, moved: int) -> float:
    """The log-density of a table after so many people were switched, up to a constant."""
    return (
        cell(table[first, left] + moved, alpha[first, left])
        + cell(table[second, right] + moved, alpha[second, right])
        + cell(table[first, right] - moved, alpha[first, right])
        + cell(table[second, left] - moved, alpha[second, left])
    )


@njit(cache=True, nogil=True)
def switch(table: Any, alpha: Any, first: int, second: int, left: int, right: int) -> None:
    """A slice sampling step along one switch of two rows and two columns."""
    low = -min(table[first, left], table[second, right])
    high = min(table[first, right], table[second, left])
    if low == high:
        return
    level = switched(table, alpha, first, second, left, right, 0) + math.log(np.random.random())
    while True:
        moved = np.random.randint(low, high + 1)
        if moved == 0 or switched(table, alpha, first, second, left, right, moved) >= level:
            table[first, left] += moved
            table[second, right] += moved
            table[first, right] -= moved
            table[second, left] -= moved
            return
        if moved < 0:
            low = moved + 1
        else:
            high = moved - 1


@njit(cache=True, nogil=True)
def move_tables(tables: Any, alphas: Any) -> None:
    """One step along every switch of every area."""
    areas, rows, columns = tables.shape
    for i in range(areas):
        for first in range(rows):
            for second in range(first + 1, rows):
                for left in range(columns):
                    for right in range(left + 1, columns):
                        switch(tables[i], alphas[i], first, second, left, right)


@njit(cache=True, nogil=True)
def move_shifts(tables: Any, alphas: Any, state: Any, steps: Any, adapts: bool) -> None:
    """A random walk step of the shift of each area."""
    mean, log_size, shift, spread, region, effect, _, of_area = state
    areas, rows, columns = tables.shape
    trial, proposed = np.zeros((rows, columns)), np.zeros(columns - 1)
    for i in range(areas):
        k = of_area[i]
        gain = -area_density(tables[i], alphas[i])
        for c in range(columns - 1):
            proposed[c] = shift[i, c] + steps[i] * np.random.randn()
            old, new = (shift[i, c] - region[k, c]) / spread[c], (proposed[c] - region[k, c]) / spread[c]
            gain += (old * old - new * new) / 2
        concentrations(mean, proposed, effect[k], log_size, trial)
        gain += area_density(tables[i], trial)
        is_accepted = math.log(np.random.random()) < gain
        if is_accepted:
            shift[i] = proposed
            alphas[i] = trial
        if adapts:
            steps[i] *= UP if is_accepted else DOWN


@njit(cache=True, nogil=True)
def move_effects(tables: Any, alphas: Any, state: Any, steps: Any, adapts: bool) -> None:
    """A random walk step of each row's effect of each region."""
    mean, log_size, shift, _, region, effect, effect_spread, of_area = state
    areas, rows, columns = tables.shape
    trial = np.zeros((areas, rows, columns))
    for k in range(len(region)):
        for r in range(rows):
            proposed, gain = effect[k].copy(), 0.0
            for c in range(columns - 1):
                proposed[r, c] += steps[k, r] * np.random.randn()
                old, new = effect[k, r, c] / effect_spread[c], proposed[r, c] / effect_spread[c]
                gain += (old * old - new * new) / 2
            for i in range(areas):
                if of_area[i] == k:
                    concentrations(mean, shift[i], proposed, log_size, trial[i])
                    gain += row_density(tables[i, r], trial[i, r]) - row_density(tables[i, r], alphas[i, r])
            is_accepted = math.log(np.random.random()) < gain
            if is_accepted:
                effect[k] = proposed
                for i in range(areas):
                    if of_area[i] == k:
                        alphas[i] = trial[i]
            if adapts:
                steps[k, r] *= UP if is_accepted else DOWN


@njit(cache=True, nogil=True)
def move_rows(tables: Any, alphas: Any, state: Any, steps: Any, adapts: bool) -> None:
    """A random walk step of each row's mean, then of its size."""
    mean, log_size, shift, _, _, effect, _, of_area = state
    areas, rows, columns = tables.shape
    trial = np.zeros((areas, rows, columns))
    for r in range(rows):
        for which in range(2):
            new_mean, new_size, gain = mean.copy(), log_size.copy(), 0.0
            if which == 0:
                for c in range(columns - 1):
                    new_mean[r, c] += steps[r, 0] * np.random.randn()
                    gain += (mean[r, c] ** 2 - new_mean[r, c] ** 2) / (2 * MEAN_SPREAD**2)
            else:
                new_size[r] += steps[r, 1] * np.random.randn()
                gain += ((log_size[r] - SIZE_CENTER) ** 2 - (new_size[r] - SIZE_CENTER) ** 2) / (2 * SIZE_SPREAD**2)
            for i in range(areas):
                concentrations(new_mean, shift[i], effect[of_area[i]], new_size, trial[i])
                gain += row_density(tables[i, r], trial[i, r]) - row_density(tables[i, r], alphas[i, r])
            is_accepted = math.log(np.random.random()) < gain
            if is_accepted:
                mean[r], log_size[r] = new_mean[r], new_size[r]
                for i in range(areas):
                    alphas[i] = trial[i]
            if adapts:
                steps[r, which] *= UP if is_accepted else DOWN


@njit(cache=True, nogil=True)
def move_spreads(state: Any) -> None:
    """Draws of the regions' means and of the spreads, given shifts and effects."""
    _, _, shift, spread, region, effect, effect_spread, of_area = state
    regions, rows, columns = effect.shape
    for c in range(columns):
        precision, total = np.full(regions, 1 / REGION_SPREAD**2), np.zeros(regions)
        for i in range(len(shift)):
            precision[of_area[i]] += 1 / spread[c] ** 2
            total[of_area[i]] += shift[i, c] / spread[c] ** 2
        squares = 0.1
        for k in range(regions):
            if regions > 1:
                region[k, c] = total[k] / precision[k] + np.random.randn() / math.sqrt(precision[k])
        for i in range(len(shift)):
            squares += (shift[i, c] - region[of_area[i], c]) ** 2
        spread[c] = math.sqrt(squares / (2 * np.random.gamma((len(shift) + 1) / 2, 1.0)))
        squares = EFFECT_START**2
        for k in range(regions):
            for r in range(rows):
                squares += effect[k, r, c] ** 2
        effect_spread[c] = math.sqrt(squares / (2 * np.random.gamma((regions * rows + 1) / 2, 1.0)))


@njit(cache=True, nogil=True)
def run_chain(tables: Any, of_area: Any, regions: int, burn: int, keep: int, thin: int, seed: int) -> Any:
    """Draws of the tables, [keep, areas, rows, columns], from one chain."""
    np.random.seed(seed)
    areas, rows, columns = tables.shape
    mean, log_size = np.zeros((rows, columns - 1)), np.full(rows, SIZE_CENTER)
    shift, spread = np.zeros((areas, columns - 1)), np.full(columns - 1, 0.3)
    region, effect = np.zeros((regions, columns - 1)), np.zeros((regions, rows, columns - 1))
    state = (mean, log_size, shift, spread, region, effect, np.full(columns - 1, EFFECT_START), of_area)
    alphas = np.zeros((areas, rows, columns))
    for i in range(areas):
        concentrations(mean, shift[i], effect[of_area[i]], log_size, alphas[i])
    shift_steps, effect_steps = np.full(areas, 0.3), np.full((regions, rows), 0.2)
    row_steps = np.full((rows, 2), 0.1)
    draws = np.zeros((keep, areas, rows, columns), np.int32)
    for sweep in range(burn + keep * thin):
        adapts = sweep < burn
        move_tables(tables, alphas)
        move_shifts(tables, alphas, state, shift_steps, adapts)
        if regions > 1:
            move_effects(tables, alphas, state, effect_steps, adapts)
        for _ in range(2):
            move_rows(tables, alphas, state, row_steps, adapts)
        move_spreads(state)
        if not adapts and (sweep - burn) % thin == thin - 1:
            draws[(sweep - burn) // thin] = tables
    return draws
