"""4,096 pairs that have the same label: log-likelihood and all posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

from glws.automata import all_equal
from glws.bench.contest import BY_HAND, OURS, Answer, Call, Contestant, Task
from glws.bench.peers import circuits, recursions
from glws.bench.tasks.inputs import pair_inputs
from glws.inference import TableWeights, infer


def closed(log_probs: Tensor) -> Call:
    """The closed form by itself."""
    groups, _, classes = log_probs.shape
    same = torch.eye(classes).log().expand(groups, -1, -1)
    form, lengths = TableWeights(same), torch.full((groups,), 2)
    return lambda: Answer(*form.solve(log_probs, lengths))


def by_infer(log_probs: Tensor) -> Call:
    """The front door."""
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
    lambda log_probs: closed(log_probs.double())(),
    [
        Contestant("glws, closed form", closed, OURS),
        Contestant("glws.infer", by_infer, OURS),
        Contestant("KLay circuit", circuits.pairs, needs=("klay",)),
        Contestant("formula by hand and autograd, torch", recursions.pairs, BY_HAND),
    ],
)
