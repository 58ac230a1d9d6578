"""Choosing and judging by weak labels alone: what they can tell about the classes."""

from glws.selection._identify import Identifiability as Identifiability
from glws.selection._identify import Witness as Witness
from glws.selection._identify import identify as identify
from glws.selection._identify import names_are_identified as names_are_identified
