"""Methods: GLWS itself and the baselines, each a loss and the little it remembers, on one loop."""

from glws.methods._recipe import Recipe as Recipe
from glws.methods.abstract import AbstractMethod as AbstractMethod
from glws.methods.em import GLWS as GLWS
from glws.methods.step import Step as Step
from glws.methods.supervised import Supervised as Supervised
