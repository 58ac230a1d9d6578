"""Inference from aggregates: the cells of tables of which only margins are known."""

from glws.aggregates._ecological import EcologicalEstimate as EcologicalEstimate
from glws.aggregates._ecological import ecological as ecological
from glws.aggregates._margins import Margins as Margins
from glws.aggregates._margins import read_margins as read_margins
