"""Automata whose arcs have weights to be learned: log-likelihood with gradients, and expected counts of arcs.

The derivative of log Z by the log-weight of an arc is the expected number of times that it is taken. That is all that
an EM step or a gradient step needs: hidden Markov models, linear-chain random fields and CTC are automata whose arcs
share parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference._automata_form import Automata, by_trellis
from glws.inference._padding import padding_mask
from glws.inference._problem import check_log_probs

MOST_NUMBERS = 1 << 24
"""Instances times arcs of the groups that are answered together."""


def arc_likelihood(
    log_probs: Float[Tensor, "groups instances classes"],
    automaton: Automaton,
    log_weights: Float[Tensor, "*groups arcs"],
    lengths: Tensor | Sequence[int] | None = None,
) -> Float[Tensor, "groups"]:
    """log Z of an automaton whose arcs have these log-weights; differentiable in both tensors.

        Z = Σ_{paths} Π_j p_j(symbol of arc j) exp(log_weight of arc j)

    Weights are in the order of `automaton.sources`, `.symbols` and `.targets`, the same for all groups or a row for
    each; they replace the automaton's own. The sum is over paths, so that a labeling with several counts several
    times. Arcs that share a parameter share an entry of a table: `log_weights=table[number_of_each_arc]`. The gradient
    by `log_weights` is the expected number of times that each arc is taken; that by `log_probs` is the posterior.
    Start and final weights are those of the automaton. Computed in float64.

    >>> coin = Automaton(1, 2, [(0, 0, 0), (0, 1, 0)], final=[0])
    >>> weights = torch.tensor([0.5, 0.25]).log().requires_grad_()
    >>> log_z = arc_likelihood(torch.zeros(1, 3, 2), coin, weights)
    >>> log_z.exp(), torch.autograd.grad(log_z.sum(), weights)[0]
    (tensor([0.4219], grad_fn=<ExpBackward0>), tensor([2., 1.]))
    """
    check_log_probs(log_probs)
    groups, instances, classes = log_probs.shape
    arcs = len(automaton.sources)
    if automaton.num_symbols != classes:
        raise DataError(f"the automaton is over {automaton.num_symbols} classes, log_probs over {classes}")
    if log_weights.shape not in ((arcs,), (groups, arcs)):
        raise DataError(f"log_weights must be [{arcs}] or [{groups}, {arcs}], found {list(log_weights.shape)}")
    sizes = torch.full((groups,), instances) if lengths is None else torch.as_tensor(lengths)
    sizes = sizes.to(log_probs.device)
    real = padding_mask(log_probs, sizes)
    answer: Tensor = _ArcLikelihood.apply(  # type: ignore[no-untyped-call]
        torch.where(real[:, :, None], log_probs, 0.0), log_weights.expand(groups, arcs), sizes, automaton
    )
    return answer


class _ArcLikelihood(torch.autograd.Function):
    """log Z, with the posteriors of labels and arcs as its gradients."""

    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, log_weights: Tensor, lengths: Tensor, automaton: Automaton) -> Tensor:
        """The trellis of labelings by arcs, whose posteriors are those of arcs; some groups at a time."""
        symbols = torch.tensor(automaton.symbols, device=log_probs.device)
        log_z, marginals, counts = (torch.zeros_like(part).double() for part in (lengths, log_probs, log_weights))
        size = max(1, MOST_NUMBERS // max(log_probs.shape[1] * len(symbols), 1))
        for groups in torch.split(torch.arange(len(lengths), device=log_probs.device), size):
            arcs = log_probs.detach()[groups].double()[:, :, symbols] + log_weights.detach()[groups].double()[:, None]
            form = Automata.of(automaton.by_arcs, len(groups))
            log_z[groups], shares = by_trellis(form, arcs, lengths[groups])
            marginals[groups] = marginals[groups].index_add(2, symbols, shares)
            counts[groups] = shares.sum(1)
        ctx.save_for_backward(marginals.to(log_probs.dtype), counts.to(log_weights.dtype))
        return log_z.to(log_probs.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Posteriors times the gradient; those of impossible groups are 0."""
        marginals, counts = ctx.saved_tensors
        return gradient[:, None, None] * marginals, gradient[:, None] * counts, None, None
