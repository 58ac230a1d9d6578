"""The reference: the sum over all labelings. Slow and simple; tests compare every engine with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from glws.automata import Automaton, log_weight
from glws.errors import DataError

MAX_LABELINGS = 2_000_000
"""The most labelings of one group that enumeration accepts."""


def enumerate_posterior(
    potentials: Float[Tensor, "groups instances classes"], lengths: Sequence[int], automata: Sequence[Automaton]
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of each group, by the definition.

    Z = Σ_y A(y) Π_j exp φ_j(y_j) over all K^L labelings y, and q_j(k) the share of those with y_j = k.
    """
    log_likelihood = torch.full((len(lengths),), -torch.inf, dtype=torch.float64)
    marginals = torch.zeros(potentials.shape, dtype=torch.float64)
    for group, (length, automaton) in enumerate(zip(lengths, automata, strict=True)):
        phi = potentials[group, :length].double().cpu()
        labelings = _labelings(*phi.shape)
        log_weights = torch.tensor([log_weight(automaton, y) for y in labelings.tolist()], dtype=torch.float64)
        chosen = one_hot(labelings, phi.shape[1]).bool()
        scores = log_weights + torch.where(chosen, phi, 0.0).sum((1, 2))
        if scores.max() > -torch.inf:
            log_likelihood[group] = scores.logsumexp(0)
            marginals[group, :length] = (chosen * scores.softmax(0)[:, None, None]).sum(0)
    return log_likelihood.to(potentials), marginals.to(potentials)


def _labelings(length: int, classes: int) -> Int[Tensor, "labelings instances"]:
    if classes**length > MAX_LABELINGS:
        raise DataError(f"enumeration would list {classes}^{length} labelings; use another engine")
    return torch.tensor(list(product(range(classes), repeat=length)), dtype=torch.int64).view(classes**length, length)
