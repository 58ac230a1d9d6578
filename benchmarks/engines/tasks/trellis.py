"""Labelings that a random automaton accepts: log-likelihood and all posteriors."""

from __future__ import annotations

import torch

from benchmarks.engines.contest import BY_HAND, OURS, YARDSTICK, Answer, Call, Contestant, Task
from benchmarks.engines.peers import connectionist, jax_chains, recursions, torch_chains
from benchmarks.engines.tasks.inputs import CLASSES, GROUPS, STATES, TrellisInputs, trellis_inputs
from glws.inference import infer, trellis_posterior
from glws.inference._trellis import build


def compiled(inputs: TrellisInputs) -> Call:
    """The compiled kernel."""
    from glws.inference._compiled_trellis import compiled_posterior

    lengths, index, automata = _lengths(inputs), torch.zeros(GROUPS, dtype=torch.int64), (inputs.automaton,)
    return lambda: Answer(*compiled_posterior(inputs.log_probs, lengths, automata, index))


def plain(inputs: TrellisInputs) -> Call:
    """The same in plain torch, in log space."""
    lengths, index = _lengths(inputs), torch.zeros(GROUPS, dtype=torch.int64)
    return lambda: Answer(*trellis_posterior(inputs.log_probs, lengths, build((inputs.automaton,), index)))


def by_infer(inputs: TrellisInputs) -> Call:
    """`glws.infer`."""

    def call() -> Answer:
        posterior = infer(inputs.log_probs, inputs.automaton)
        return Answer(posterior.log_likelihood, posterior.marginals)

    return call


def reference(inputs: TrellisInputs) -> Answer:
    """Log space in float64."""
    index = torch.zeros(GROUPS, dtype=torch.int64)
    return Answer(*trellis_posterior(inputs.log_probs.double(), _lengths(inputs), build((inputs.automaton,), index)))


def _lengths(inputs: TrellisInputs) -> torch.Tensor:
    return torch.full((GROUPS,), inputs.log_probs.shape[1])


TRELLIS = Task(
    "trellis",
    f"Trellis: {GROUPS} groups, a random automaton of {STATES} states and {CLASSES} classes, float32",
    "L",
    (50, 200, 1000),
    (20, 50),
    trellis_inputs,
    reference,
    [
        Contestant("glws, compiled", compiled, OURS),
        Contestant("glws, plain torch", plain, OURS),
        Contestant("glws.infer", by_infer, OURS),
        Contestant("dynamax, gradient of its filter", jax_chains.trellis, needs=("jax", "dynamax")),
        Contestant("torch-struct", torch_chains.trellis, needs=("torch_struct",)),
        Contestant("log-space recursion, torch", recursions.trellis, BY_HAND),
        Contestant("the same, group after group", recursions.trellis_in_a_loop, BY_HAND),
        Contestant("ctc_loss, as many states", connectionist.trellis, YARDSTICK),
    ],
    {50: 2.5, 1000: 15.0},
)
