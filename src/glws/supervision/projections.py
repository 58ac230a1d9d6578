"""Forms that are not a weight p(w | y) on labelings but a projection of the predictions onto what is known."""

from __future__ import annotations

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference import AbstractForm

MESSAGE = "is a projection of the predictions, not a weight on labelings: it has no automaton, mode, samples or entropy"


class AbstractProjection(AbstractForm):
    """Moves the predictions as little as possible (in relative entropy) to agree with what is known on average.

    Its `log_likelihood` is a function of the predictions whose gradient is its marginals, as everywhere, so that it
    trains like any other form. But the marginals are not those of a reweighted distribution over labelings, so there
    is no automaton to draw, to sample from, or to compare with.
    """

    def automaton(self, group: int, length: int) -> Automaton:
        """Raises: there is none."""
        raise DataError(f"{type(self).__name__} {MESSAGE}")
