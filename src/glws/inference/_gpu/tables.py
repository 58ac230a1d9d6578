"""Automata as tables of arcs, padded so that every state has as many slots as the busiest one.

Letters: P classes and S states, padded to a power of two, S at least P; D slots of arriving arcs; R = P * (arcs of one
class that leave a state) rows of leaving arcs, row r holds class r % P. Unused slots weigh -inf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._launching import power_of_two
from glws.automata import Automaton

_CACHE_SIZE = 64
_cache: OrderedDict[tuple[object, ...], tuple[tuple[Automaton, ...], ArcTables]] = OrderedDict()


@dataclass(frozen=True, eq=False)
class ArcTables:
    """The automata of a batch on a device; log-weights are relative to the largest, stored in `log_scale`."""

    arriving_source: Int[Tensor, "machines slots states"]
    arriving_symbol: Int[Tensor, "machines slots states"]
    arriving_weight: Float[Tensor, "machines slots states"]
    leaving_target: Int[Tensor, "machines rows states"]
    leaving_weight: Float[Tensor, "machines rows states"]
    log_start: Float[Tensor, "machines states"]
    log_final: Float[Tensor, "machines states"]
    log_scale: Float[Tensor, "machines 2"]
    """Divided out once (start and final), and at every step (arcs)."""

    @property
    def states(self) -> int:
        """S."""
        return self.log_start.shape[1]

    @property
    def slots(self) -> int:
        """D."""
        return self.arriving_source.shape[1]

    @property
    def rows(self) -> int:
        """R."""
        return self.leaving_target.shape[1]


def arc_tables(automata: Sequence[Automaton], device: torch.device) -> ArcTables:
    """The tables of these automata, with a cache of recent ones."""
    key = (device, *(id(automaton) for automaton in automata))
    if key not in _cache:
        _cache[key] = (tuple(automata), _build(automata, device))  # a reference to the automata keeps their ids unique
        if len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    _cache.move_to_end(key)
    return _cache[key][1]


def _build(automata: Sequence[Automaton], device: torch.device) -> ArcTables:
    machines = [automaton.inference_form for automaton in automata]
    classes = power_of_two(machines[0].num_symbols)
    states = max(classes, power_of_two(max(machine.num_states for machine in machines)))
    slots = power_of_two(max(_most(machine.targets) for machine in machines))
    rows = classes * power_of_two(max(_most(machine.sources * classes + machine.symbols) for machine in machines))
    filled = [_of_machine(machine, states, classes, slots, rows) for machine in machines]
    stacked = [torch.from_numpy(np.stack(parts)).to(device) for parts in zip(*filled, strict=True)]
    return ArcTables(*stacked)


def _most(keys: npt.NDArray[np.int64]) -> int:
    """How often the most frequent key occurs."""
    return int(np.unique(keys, return_counts=True)[1].max(initial=1))


def _of_machine(
    machine: Automaton, states: int, classes: int, slots: int, rows: int
) -> tuple[npt.NDArray[np.generic], ...]:
    source, symbol, target = machine.sources, machine.symbols, machine.targets
    weight, arc_top = _relative(machine.log_weights)
    start, start_top = _relative(machine.log_start)
    final, final_top = _relative(machine.log_final)
    arriving = (slots, states), (_rank(target), target)
    leaving = (rows, states), (_rank(source * classes + symbol) * classes + symbol, source)
    empty = (states - machine.num_states,)
    return (
        _filled(*arriving, source, 0).astype(np.int32),
        _filled(*arriving, symbol, 0).astype(np.int32),
        _filled(*arriving, weight, -np.inf),
        _filled(*leaving, target, 0).astype(np.int32),
        _filled(*leaving, weight, -np.inf),
        np.append(start, np.full(empty, -np.inf)),
        np.append(final, np.full(empty, -np.inf)),
        np.array([start_top + final_top, arc_top]),
    )


def _relative(log_weights: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """Log-weights with the largest moved to 0, and the largest."""
    top = float(log_weights.max(initial=-np.inf))
    return (log_weights, 0.0) if top == -np.inf else (log_weights - top, top)


def _rank(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number of earlier entries with the same key."""
    order = np.argsort(keys, kind="stable")
    _, first, count = np.unique(keys[order], return_index=True, return_counts=True)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(first, count)
    return rank


def _filled(
    shape: tuple[int, int],
    places: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    values: npt.NDArray[np.generic],
    filler: float,
) -> npt.NDArray[np.float64]:
    table = np.full(shape, filler, np.float64)
    table[places] = values
    return table
