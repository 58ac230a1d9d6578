"""Exactly m of L instances are positive: log-likelihood and all posteriors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.engines.contest import BY_HAND, OURS, PARTIAL, YARDSTICK, Answer, Call, Contestant, Task, nothing
from benchmarks.engines.peers import circuits, connectionist, distributions, jax_chains, recursions, torch_chains
from benchmarks.engines.tasks.inputs import GROUPS, CountInputs, count_inputs
from glws.inference import Counts, Exactly, count_posterior, infer

DYNAMAX = ("jax", "dynamax")


def by_method(method: str) -> Callable[[CountInputs], Call]:
    """`count_posterior` with one of its methods."""

    def build(inputs: CountInputs) -> Call:
        lengths = inputs.lengths
        weights = Exactly(torch.full_like(lengths, inputs.count))
        return lambda: Answer(*count_posterior(inputs.log_zero, inputs.log_one, lengths, weights, method))

    return build


def by_infer(inputs: CountInputs) -> Call:
    """`glws.infer` with log-probabilities of two classes and the count of the second."""
    log_probs, groups = inputs.log_probs, inputs.log_probs.shape[0]
    weak = Counts(torch.tensor([False, True]).expand(groups, -1), Exactly(torch.full((groups,), inputs.count)), only=1)

    def call() -> Answer:
        posterior = infer(log_probs, weak)
        return Answer(posterior.log_likelihood, posterior.marginals[:, :, 1])

    return call


def sigmoids(passes: int) -> Callable[[CountInputs], Call]:
    """Passes of torch.sigmoid over the tensor, as a reference for the machine."""

    def build(inputs: CountInputs) -> Call:
        out = torch.empty_like(inputs.log_one)

        def call() -> Answer:
            for _ in range(passes):
                torch.sigmoid(inputs.log_one, out=out)
            return Answer(out)

        return call

    return build


OWN = [
    Contestant("glws, compiled", by_method("compiled"), OURS),
    Contestant("glws, plain torch", by_method("characteristic"), OURS),
    Contestant("glws.infer", by_infer, OURS),
]
PEERS = [
    Contestant(
        "log-space recursion, torch", recursions.counts, BY_HAND, growth=2.0, gigabytes=recursions.count_gigabytes
    ),
    Contestant("dynamax, gradient of its filter", jax_chains.counts_by_gradient, growth=3.0, needs=DYNAMAX),
    Contestant("dynamax, the same in float32", jax_chains.counts_in_float32, growth=3.0, needs=DYNAMAX),
    Contestant("dynamax, smoother", jax_chains.counts_by_smoother, growth=3.0, needs=DYNAMAX),
    Contestant("PySDD + KLay circuit", circuits.counts, growth=2.2, build_growth=3.0, needs=("pysdd", "klay")),
    Contestant(
        "torch-struct", torch_chains.counts, growth=4.0, needs=("torch_struct",), gigabytes=torch_chains.count_gigabytes
    ),
    Contestant("fast-poibin", distributions.fast_poibin, PARTIAL, growth=2.0, needs=("fast_poibin",)),
    Contestant("scipy poisson_binom", distributions.scipy_poisson_binomial, PARTIAL, growth=2.0),
    Contestant("ctc_loss, as many states", connectionist.counts, YARDSTICK, growth=2.0),
]

COUNTS = Task(
    "counts",
    f"Counts: {GROUPS} bags, exactly L/4 positives, float64",
    "L",
    (10, 50, 200, 1000, 5000),
    (10, 50),
    lambda size: count_inputs(GROUPS, size, size // 4),
    lambda inputs: by_method("characteristic")(inputs)(),
    [*OWN, *PEERS],
    {10: 1.0, 50: 8.0, 200: 250.0, 1000: 3000.0},
)
BATCH = Task(
    "batch",
    "The usual training batch: 4 bags x 100 classes, exactly 3 of 10 instances, float64",
    "problems",
    (400,),
    (400,),
    lambda size: count_inputs(size, 10, 3),
    lambda inputs: by_method("characteristic")(inputs)(),
    [replace(contestant, gigabytes=nothing) for contestant in (*OWN, *PEERS)],
)
LONG = Task(
    "long",
    "One long bag: exactly L/4 positives, float64, next to passes of torch.sigmoid over the same tensor",
    "L",
    (10_000, 100_000, 1_000_000),
    (10_000,),
    lambda size: count_inputs(1, size, size // 4),
    lambda inputs: by_method("characteristic")(inputs)(),
    [
        *OWN,
        Contestant("1 pass of torch.sigmoid", sigmoids(1), YARDSTICK),
        Contestant("40 passes of torch.sigmoid", sigmoids(40), YARDSTICK),
    ],
)
