"""Forms that are not a weight p(w | y) on labelings but a projection of the predictions onto known averages."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference import AbstractForm
from glws.inference._draws import draws, entropies

MESSAGE = "is a projection of the predictions, not a weight on labelings: it has no automaton"


class AbstractProjection(AbstractForm):
    """Moves the predictions as little as possible (in relative entropy) to agree with known averages.

    Its `log_likelihood` is a function of the predictions whose gradient is its marginals, as everywhere, so that it
    trains like any other form. But the marginals are not those of a reweighted distribution over labelings, so there
    is no automaton to draw or to compare with. By definition they are all there is: labels of different instances are
    independent, and mode, samples and entropy are those of each instance by itself.
    """

    def mode(self, potentials: Tensor, lengths: Tensor) -> Int[Tensor, "groups instances"]:
        """The most likely label of each instance."""
        return self.solve(potentials, lengths)[1].argmax(2)

    def sample(
        self, potentials: Tensor, lengths: Tensor, num_samples: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "n groups instances"]:
        """A label of each instance."""
        return draws(self.solve(potentials, lengths)[1], num_samples, generator)

    def entropy(self, potentials: Tensor, lengths: Tensor) -> Float[Tensor, "groups"]:
        """The sum over instances."""
        return entropies(self.solve(potentials, lengths)[1]).sum(1)

    def automaton(self, group: int, length: int) -> Automaton:
        """Raises: there is none."""
        raise DataError(f"{type(self).__name__} {MESSAGE}")
