"""Train classifiers from any weak supervision."""

from glws import automata as automata
from glws import errors as errors
from glws._version import __version__ as __version__
from glws.automata import Automaton as Automaton
from glws.automata import constraint as constraint
from glws.inference import Posterior as Posterior
from glws.inference import infer as infer
from glws.objective import em_loss as em_loss
