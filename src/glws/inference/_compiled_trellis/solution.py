"""Tensors in, tensors out of the compiled kernels; unreliable groups go to the next wider one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.inference._compiled_trellis.kernel import LIMITS, solve
from glws.inference._compiled_trellis.machines import packed
from glws.inference._trellis import build, trellis_posterior

Answer = tuple[Tensor, Tensor]


def posterior(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    """log Z and q; float32 falls back on float64, and that on log space."""
    log_likelihood, marginals = _by_kernel(potentials, lengths, automata, index)
    doubtful = log_likelihood.isnan()
    if bool(doubtful.any()):
        wider = posterior if potentials.dtype == torch.float32 else _in_log_space
        again = wider(potentials[doubtful].double(), lengths[doubtful], automata, index[doubtful])
        log_likelihood[doubtful] = again[0]
        marginals[doubtful] = again[1].to(marginals.dtype)
    return log_likelihood.to(potentials.dtype), marginals


def _by_kernel(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    """log Z and q in the type of the potentials; log Z in float64, NaN outside the range of that type."""
    groups, instances, classes = potentials.shape
    values = potentials.detach().contiguous().numpy().reshape(-1)
    sizes, numbers = (np.ascontiguousarray(tensor.numpy(), dtype=np.int64) for tensor in (lengths, index))
    log_likelihood = torch.empty(groups, dtype=torch.float64)
    machines = packed(automata, values.dtype)
    is_full = bool((sizes == instances).all()) and len(machines.classes) == classes * len(automata)
    marginals = (torch.empty if is_full else torch.zeros)(potentials.shape, dtype=potentials.dtype)
    solve(
        values,
        (instances, classes),
        sizes,
        numbers,
        np.lexsort((sizes, numbers)),
        machines,
        LIMITS[values.dtype],
        log_likelihood.numpy(),
        marginals.numpy().reshape(-1),
    )
    return log_likelihood, marginals


def _in_log_space(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    return trellis_posterior(potentials, lengths, build(automata, index))
