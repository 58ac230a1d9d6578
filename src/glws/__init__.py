"""Train classifiers from any weak supervision."""

from typing import TYPE_CHECKING, Any

from glws import automata as automata
from glws import errors as errors
from glws._objective import batch_loss as batch_loss
from glws._objective import em_loss as em_loss
from glws._version import __version__ as __version__
from glws.automata import Automaton as Automaton
from glws.automata import constraint as constraint
from glws.inference import Posterior as Posterior
from glws.inference import infer as infer
from glws.kinds import UNKNOWN as UNKNOWN

if TYPE_CHECKING:
    from glws.aggregates import ecological as ecological
    from glws.estimator import WeakClassifier as WeakClassifier
    from glws.experiment import Labeler as Labeler
    from glws.selection import identify as identify


def __getattr__(name: str) -> Any:
    """Import what needs scikit-learn or numba on first access."""
    if name == "ecological":
        from glws.aggregates import ecological

        return ecological
    if name == "identify":
        from glws.selection import identify

        return identify
    if name == "Labeler":
        from glws.experiment import Labeler

        return Labeler
    if name == "WeakClassifier":
        from glws.estimator import WeakClassifier

        return WeakClassifier
    raise AttributeError(f"module 'glws' has no attribute {name!r}")
