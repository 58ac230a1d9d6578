"""The report of a run, or of several: one self-contained HTML page from plain data."""

from __future__ import annotations

from glws.report.content import Example as Example
from glws.report.content import Instance as Instance
from glws.report.content import KnownPart as KnownPart
from glws.report.content import RunContent as RunContent
from glws.report.content import Surprise as Surprise
from glws.report.page import page as page
