"""4,096 pairs that have the same label: log-likelihood and all posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.engines.contest import BY_HAND, OURS, Answer, Call, Contestant, Task
from benchmarks.engines.peers import circuits, recursions
from benchmarks.engines.tasks.inputs import pair_inputs
from glws.automata import all_equal
from glws.inference import TableWeights, infer


def compiled(log_probs: Tensor) -> Call:
    """The compiled kernel."""
    lengths, table = torch.full((len(log_probs),), 2), TableWeights(_same(log_probs))

    return lambda: Answer(*table.solve(log_probs, lengths))


def plain(log_probs: Tensor) -> Call:
    """The same in plain torch."""
    lengths, table = torch.full((len(log_probs),), 2), TableWeights(_same(log_probs))
    return lambda: Answer(*table.in_log_space(log_probs, lengths))


def _same(log_probs: Tensor) -> Tensor:
    groups, _, classes = log_probs.shape
    return torch.eye(classes).log().expand(groups, -1, -1)


def by_infer(log_probs: Tensor) -> Call:
    """`glws.infer`."""
    automaton = all_equal(log_probs.shape[2])

    def call() -> Answer:
        posterior = infer(log_probs, automaton)
        return Answer(posterior.log_likelihood, posterior.marginals)

    return call


PAIRS = Task(
    "pairs",
    "Pairs: 4,096 pairs with the same label, float32",
    "classes",
    (2, 10),
    (2, 10),
    pair_inputs,
    lambda log_probs: plain(log_probs.double())(),
    [
        Contestant("glws, compiled", compiled, OURS),
        Contestant("glws, plain torch", plain, OURS),
        Contestant("glws.infer", by_infer, OURS),
        Contestant("KLay circuit", circuits.pairs, needs=("klay",)),
        Contestant("formula by hand and autograd, torch", recursions.pairs, BY_HAND),
    ],
)
