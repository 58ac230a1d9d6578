"""The report of a run, or of several: one self-contained HTML page from plain data."""

from __future__ import annotations

from glws.report._bag_drawing import bag_svg as bag_svg
from glws.report._bag_drawing import drawn_map as drawn_map
from glws.report._content import BagMap as BagMap
from glws.report._content import Example as Example
from glws.report._content import Instance as Instance
from glws.report._content import KnownPart as KnownPart
from glws.report._content import RunContent as RunContent
from glws.report._content import Section as Section
from glws.report._content import Surprise as Surprise
from glws.report._page import page as page
