"""What runs through a trellis: which states and arcs are on an accepted path, and how probable each is.

This is for pictures and small cases: every column is kept. Inference proper is `glws.infer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from glws.automata._explore import NEVER

if TYPE_CHECKING:
    from glws.automata._automaton import Automaton

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Paths(NamedTuple):
    """Which parts of the trellis of this length can be reached, and which lead to acceptance."""

    reached: BoolArray
    """[length + 1, states]: some labeling of the instances so far leads from the start to here."""
    leads: BoolArray
    """[length + 1, states]: some labeling of the instances left leads from here to a final state."""

    @property
    def live(self) -> BoolArray:
        """[length + 1, states]: some accepted labeling passes here."""
        return self.reached & self.leads

    def live_arcs(self, automaton: Automaton) -> BoolArray:
        """[length, arcs]: some accepted labeling takes this arc at this instance."""
        live: BoolArray = self.reached[:-1, automaton.sources] & self.leads[1:, automaton.targets]
        return live


class Flow(NamedTuple):
    """The posterior of the paths, given the predictions and that the constraint holds."""

    log_likelihood: float
    """log p(w | x)"""
    arcs: FloatArray
    """[length, arcs]: p(instance j takes this arc | x, w); sums to one over the arcs, to zero if p(w | x) = 0"""
    states: FloatArray
    """[length + 1, states]: p(state after j instances | x, w)"""

    def marginals(self, automaton: Automaton) -> FloatArray:
        """[length, classes]: p(y_j = k | x, w)."""
        sums = np.zeros((len(self.arcs), automaton.num_symbols))
        for arc, symbol in enumerate(automaton.symbols.tolist()):
            sums[:, symbol] += self.arcs[:, arc]
        return sums


def paths(automaton: Automaton, length: int) -> Paths:
    """Reachability in a trellis of this length."""
    reached = np.zeros((length + 1, automaton.num_states), dtype=np.bool_)
    leads = reached.copy()
    reached[0], leads[length] = automaton.log_start > NEVER, automaton.log_final > NEVER
    for step in range(length):
        reached[step + 1, automaton.targets[reached[step, automaton.sources]]] = True
    for step in range(length, 0, -1):
        leads[step - 1, automaton.sources[leads[step, automaton.targets]]] = True
    return Paths(reached, leads)


def flow(automaton: Automaton, probs: npt.ArrayLike) -> Flow:
    """The posterior of every arc and state for predictions [length, classes], by forward-backward in log space.

    The automaton must have one path for each labeling, or mean the sum over its paths.
    """
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.asarray(probs, dtype=np.float64))
    length, shape = len(log_probs), (len(log_probs) + 1, automaton.num_states)
    scores = log_probs[:, automaton.symbols] + automaton.log_weights
    forward, backward = np.full(shape, NEVER), np.full(shape, NEVER)
    forward[0], backward[length] = automaton.log_start, automaton.log_final
    for step in range(length):
        np.logaddexp.at(forward[step + 1], automaton.targets, forward[step, automaton.sources] + scores[step])
    for step in range(length, 0, -1):
        before = backward[step, automaton.targets] + scores[step - 1]
        np.logaddexp.at(backward[step - 1], automaton.sources, before)
    total = float(np.logaddexp.reduce(forward[length] + automaton.log_final))
    through = forward[:-1, automaton.sources] + scores + backward[1:, automaton.targets]
    if total == NEVER:
        return Flow(total, np.zeros_like(through), np.zeros(shape))
    return Flow(total, np.exp(through - total), np.exp(forward + backward - total))
