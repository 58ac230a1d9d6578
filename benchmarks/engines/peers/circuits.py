"""PySDD and KLay: the constraint as a circuit, compiled once, evaluated in torch layer by layer with its gradient.

Building the circuit is not timed. KLay's optional torch.compile is off: it recompiles every layer for every shape.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.engines.contest import Answer, Call
from benchmarks.engines.tasks.inputs import CountInputs


def counts(inputs: CountInputs) -> Call:
    """Exactly m of L variables are true."""
    module = _module(*exactly(inputs.log_one.shape[1], inputs.count))

    def call() -> Answer:
        log_one = inputs.log_one.detach().requires_grad_()
        log_likelihood = module(log_one, inputs.log_zero)[:, 0]
        (marginals,) = torch.autograd.grad(log_likelihood.sum(), log_one)
        return Answer(log_likelihood.detach(), marginals)

    return call


def pairs(log_probs: Tensor) -> Call:
    """A variable for each class of each of the two instances; a product for each class, one sum."""
    import klay  # type: ignore[import-not-found,import-untyped,unused-ignore]

    groups, _, classes = log_probs.shape
    circuit = klay.Circuit()
    literals = [circuit.literal_node(variable + 1) for variable in range(2 * classes)]
    both = [circuit.and_node([literals[k], literals[classes + k]]) for k in range(classes)]
    circuit.set_root(circuit.or_node(both))
    module = circuit.to_torch_module("log", compile=False)
    unused = torch.zeros(groups, 2 * classes)  # log-weights of negative literals, of which there are none

    def call() -> Answer:
        leaf = log_probs.detach().requires_grad_()
        log_likelihood = module(leaf.reshape(groups, -1), unused)[:, 0]
        (marginals,) = torch.autograd.grad(log_likelihood.sum(), leaf)
        return Answer(log_likelihood.detach(), marginals)

    return call


def exactly(variables: int, count: int) -> tuple[Any, Any]:
    """The decision diagram of "exactly so many", from the last variable to the first, and its manager."""
    manager = _manager(variables)
    after = {0: manager.true()}
    for variable in range(variables, 0, -1):
        positive, negative = manager.literal(variable), manager.literal(-variable)
        lowest, highest = max(0, count - variable + 1), min(count, variables - variable + 1)
        now = {}
        for needed in range(lowest, highest + 1):
            if_true = positive & after[needed - 1] if needed - 1 in after else manager.false()
            if_false = negative & after[needed] if needed in after else manager.false()
            now[needed] = if_true | if_false
        after = now
    return after[count], manager


def _manager(variables: int) -> Any:
    from pysdd.sdd import SddManager, Vtree  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return SddManager.from_vtree(Vtree(var_count=variables, vtree_type="right"))


def _module(diagram: Any, manager: Any) -> Any:
    """The diagram as a torch module; its manager must live until then."""
    import klay

    circuit = klay.Circuit()
    circuit.set_root(circuit.add_sdd(diagram))
    return circuit.to_torch_module("log", compile=False)
