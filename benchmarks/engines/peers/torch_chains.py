"""torch-struct: a linear chain with dense edges between states, posteriors from autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.engines.contest import Answer, Call
from benchmarks.engines.peers.recursions import log_edges
from benchmarks.engines.tasks.inputs import GROUPS, CountInputs, TrellisInputs

NEVER = -1e5
"""The zero of torch-struct."""


def counts(inputs: CountInputs) -> Call:
    """States are the counts 0..m; an edge adds 0 or 1."""
    import torch_struct  # type: ignore[import-not-found,import-untyped,unused-ignore]

    chain, states = torch_struct.LinearChain(torch_struct.LogSemiring), inputs.count + 1
    stay, up = torch.eye(states).bool(), torch.ones(states, states).tril(-1).triu(-1).bool()
    ends = _ends(states, torch.arange(states) == inputs.count).double()

    def call() -> Answer:
        log_one = inputs.log_one.detach().requires_grad_()
        zero, one = inputs.log_zero[:, :, None, None], log_one[:, :, None, None]
        edges = torch.where(stay, zero, torch.where(up, one, NEVER))
        return _answer(chain, edges, ends, log_one)

    return call


def count_gigabytes(instances: int) -> float:
    """Memory of its first matrix product: half the instances, states cubed, three copies."""
    return 3 * 8e-9 * GROUPS * (instances / 2) * (instances / 4 + 1) ** 3


def trellis(inputs: TrellisInputs) -> Call:
    """States are those of the automaton."""
    import torch_struct

    chain, moves = torch_struct.LinearChain(torch_struct.LogSemiring), torch.from_numpy(inputs.moves)
    ends = _ends(len(inputs.final), torch.from_numpy(inputs.final))

    def call() -> Answer:
        log_probs = inputs.log_probs.detach().requires_grad_()
        return _answer(chain, log_edges(log_probs, moves, NEVER).transpose(2, 3), ends, log_probs)

    return call


def _ends(states: int, final: Tensor) -> Tensor:
    """Weights of start and final states, added to the first and last edge: [2, to, from]."""
    start = torch.where(torch.arange(states) == 0, 0.0, NEVER).expand(states, -1)
    return torch.stack([start, torch.where(final, 0.0, NEVER)[:, None].expand(-1, states)])


def _answer(chain: object, edges: Tensor, ends: Tensor, leaf: Tensor) -> Answer:
    between = torch.zeros_like(ends[:1]).expand(edges.shape[1] - 2, -1, -1)
    log_likelihood = chain.sum(edges + torch.cat([ends[:1], between, ends[1:]]))  # type: ignore[attr-defined]
    (marginals,) = torch.autograd.grad(log_likelihood.sum(), leaf)
    return Answer(log_likelihood.detach(), marginals)
