"""The inputs of the tasks: random, the same for every contestant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from glws.automata import Automaton

GROUPS, STATES, CLASSES, PAIRS = 64, 8, 10, 4096


@dataclass(frozen=True, eq=False)
class CountInputs:
    """Groups with exactly `count` positive instances."""

    log_zero: Float[Tensor, "groups instances"]
    log_one: Float[Tensor, "groups instances"]
    count: int

    @property
    def lengths(self) -> Int[Tensor, "groups"]:
        """Equal lengths."""
        return torch.full((self.log_zero.shape[0],), self.log_zero.shape[1])

    @property
    def log_probs(self) -> Float[Tensor, "groups instances classes"]:
        """The predictions as two classes."""
        return torch.stack([self.log_zero, self.log_one], 2)


def count_inputs(groups: int, instances: int, count: int) -> CountInputs:
    """Logits from a standard normal law, float64."""
    generator = torch.Generator().manual_seed(instances)
    logits = torch.randn(groups, instances, generator=generator, dtype=torch.float64)
    return CountInputs(logsigmoid(-logits), logsigmoid(logits), count)


@dataclass(frozen=True, eq=False)
class TrellisInputs:
    """Groups accepted by a deterministic automaton: state 0 is the start, `targets[state, class]` the next."""

    log_probs: Float[Tensor, "groups instances classes"]
    targets: npt.NDArray[np.int64]
    final: npt.NDArray[np.bool_]
    automaton: Automaton

    @property
    def moves(self) -> npt.NDArray[np.float32]:
        """Transition indicators: [classes, from, to]."""
        states, classes = self.targets.shape
        table = np.zeros((classes, states, states), dtype=np.float32)
        source, symbol = np.divmod(np.arange(states * classes), classes)
        table[symbol, source, self.targets.ravel()] = 1.0
        return table


def trellis_inputs(instances: int) -> TrellisInputs:
    """A random automaton of 8 states and 10 classes, every second state final; softmax of normal logits, float32."""
    generator = np.random.default_rng(instances)
    targets = generator.integers(STATES, size=(STATES, CLASSES))
    final = np.arange(STATES) % 2 == 1
    logits = torch.from_numpy(generator.standard_normal((GROUPS, instances, CLASSES), dtype=np.float32))
    return TrellisInputs(logits.log_softmax(2), targets, final, _automaton(targets, final))


def _automaton(targets: npt.NDArray[np.int64], final: npt.NDArray[np.bool_]) -> Automaton:
    states, classes = targets.shape
    arcs = [(s, k, int(targets[s, k])) for s in range(states) for k in range(classes)]
    return Automaton(states, classes, arcs, final=np.flatnonzero(final).tolist())


def pair_inputs(classes: int) -> Float[Tensor, "groups instances classes"]:
    """4,096 pairs; softmax of normal logits, float32."""
    generator = torch.Generator().manual_seed(classes)
    return torch.randn(PAIRS, 2, classes, generator=generator).log_softmax(2)
