"""The trellis on the CPU, compiled: linear space, rescaled at each step, groups in vector lanes.

Importing this package does not import numba; the first answer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton


@cache
def is_available() -> bool:
    """Whether the compiler is installed."""
    return find_spec("numba") is not None


def compiled_posterior(
    potentials: Float[Tensor, "groups instances classes"],
    lengths: Int[Tensor, "groups"],
    automata: Sequence[Automaton],
    index: Int[Tensor, "groups"],
) -> tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]:
    """log Z and q_j(k) of groups whose automaton is `automata[index[group]]`; -inf and zeros where Z = 0.

    The same answer as `trellis_posterior(potentials, lengths, build(automata, index))`, for tensors of float32 or
    float64 on the CPU, computed in that type. Groups outside its range are solved again in float64, and groups outside
    the range of float64 in log space. Padding may hold anything.

    >>> from glws.automata import exactly
    >>> half = torch.full((1, 3, 2), 0.5).log()
    >>> log_likelihood, marginals = compiled_posterior(half, torch.tensor([3]), [exactly(1)], torch.tensor([0]))
    >>> log_likelihood.exp(), marginals[0, 0]
    (tensor([0.3750]), tensor([0.6667, 0.3333]))
    """
    from glws.inference._compiled_trellis.solution import posterior  # imports numba

    if potentials.shape[0] == 0:
        return potentials.new_zeros(0), torch.zeros_like(potentials)
    return posterior(potentials, lengths, automata, index)


__all__ = ["compiled_posterior", "is_available"]
