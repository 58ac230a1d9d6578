"""Random automata and predictions: one hypothesis strategy that shrinks, one generator for bulk. Never symmetric."""

from __future__ import annotations

import os

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from glws.automata import Automaton

many = settings(max_examples=int(os.environ.get("GLWS_EXAMPLES", "200")))
"""For the relations that must hold of everything; `make quick` tries fewer examples."""


@st.composite
def automata(
    draw: st.DrawFn, max_states: int = 4, num_symbols: int | None = None, weighted: bool | None = None
) -> Automaton:
    """Any small automaton: a language (possibly an ambiguous NFA), or weights summed over paths."""
    symbols = draw(st.integers(1, 3)) if num_symbols is None else num_symbols
    states = draw(st.integers(1, max_states))
    has_weights = draw(st.booleans()) if weighted is None else weighted
    weight = st.sampled_from([-0.25, -1.5, 0.0, -3.0]) if has_weights else st.just(0.0)
    arc = st.tuples(st.integers(0, states - 1), st.integers(0, symbols - 1), st.integers(0, states - 1))
    arcs = draw(st.dictionaries(arc, weight, max_size=states * symbols * 2))
    start = draw(st.dictionaries(st.integers(0, states - 1), weight, min_size=1, max_size=states))
    final = draw(st.dictionaries(st.integers(0, states - 1), weight, max_size=states))
    return Automaton(
        states, symbols, [(*key, value) for key, value in arcs.items()], start, final, sum_paths=has_weights
    )


def random_automaton(
    rng: np.random.Generator, num_symbols: int, max_states: int = 5, weighted: bool = True
) -> Automaton:
    """The same in bulk, from a numpy generator."""
    states = int(rng.integers(1, max_states + 1))
    present = rng.random((states, num_symbols, states)) < rng.uniform(0.2, 0.8)
    weights = rng.normal(size=present.shape) * weighted
    arcs = [(*map(int, where), float(weights[tuple(where)])) for where in np.argwhere(present)]
    chosen = rng.random((2, states)) < 0.6
    values = rng.normal(size=(2, states)) * weighted
    start, final = ({int(s): float(values[row, s]) for s in np.flatnonzero(chosen[row])} for row in (0, 1))
    return Automaton(states, num_symbols, arcs, start or {0: 0.0}, final, sum_paths=weighted)


def random_log_probs(seed: int, groups: int, instances: int, classes: int, scale: float = 2.0) -> torch.Tensor:
    """Normalized log-probabilities [groups, instances, classes] in float64, all different."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(groups, instances, classes, generator=generator, dtype=torch.float64)
    return logits.log_softmax(-1)
