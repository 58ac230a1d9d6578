"""An oracle that knows nothing of automata: all labelings, one predicate, and a sum. And both ways to compute."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from glws.inference._kernels import Kernel

Oracle = Callable[..., tuple[Tensor, Tensor]]


def _by_labelings(
    potentials: Tensor, lengths: list[int], holds: Callable[[int, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """log Z and q; holds(group, occurrences [labelings, classes]) says which labelings are right."""
    classes = potentials.shape[2]
    log_likelihood = torch.full((len(lengths),), -torch.inf, dtype=torch.float64)
    marginals = torch.zeros(potentials.shape, dtype=torch.float64)
    for group, length in enumerate(lengths):
        labelings = torch.tensor(list(product(range(classes), repeat=length)), dtype=torch.int64)
        chosen = one_hot(labelings.view(classes**length, length), classes).bool()
        right = chosen[holds(group, chosen.sum(1))]
        scores = torch.where(right, potentials[group, :length].double(), 0.0).sum((1, 2))
        if len(scores) and scores.max() > -torch.inf:
            log_likelihood[group] = scores.logsumexp(0)
            marginals[group, :length] = (right * scores.softmax(0)[:, None, None]).sum(0)
    return log_likelihood, marginals


@pytest.fixture
def by_labelings() -> Oracle:
    return _by_labelings


@pytest.fixture(params=["compiled", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with the compiled kernels, and again as if numba were not there."""
    if request.param == "plain":
        monkeypatch.setattr(Kernel, "ready", lambda kernel: None)
    return str(request.param)
