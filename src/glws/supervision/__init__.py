"""The kinds of weak labels: one small array-backed class each."""

from glws.supervision.abstract import SHARED as SHARED
from glws.supervision.abstract import AbstractSupervision as AbstractSupervision
from glws.supervision.constraints import Constraints as Constraints
