"""Learning methods: GLWS and the published baselines, each a loss with its state, on one training loop."""

from glws.methods._abstract import AbstractMethod as AbstractMethod
from glws.methods._abstract import Epoch as Epoch
from glws.methods._abstract import Setup as Setup
from glws.methods._catalog import METHODS as METHODS
from glws.methods._catalog import build_method as build_method
from glws.methods._catalog import find_method as find_method
from glws.methods._catalog import fixed_options as fixed_options
from glws.methods._catalog import method_class as method_class
from glws.methods._em import GLWS as GLWS
from glws.methods._em import default_method as default_method
from glws.methods._recipe import Recipe as Recipe
from glws.methods._recording import Recordable as Recordable
from glws.methods._recording import Recording as Recording
from glws.methods._step import Network as Network
from glws.methods._step import Outputs as Outputs
from glws.methods._step import Progress as Progress
from glws.methods._step import State as State
from glws.methods._step import Step as Step
from glws.methods._step import step_of as step_of
from glws.methods._supervised import Supervised as Supervised
