"""The paper's tables as data: every cell with its published numbers, how it was trained, and how its data are drawn."""

from glws.paper.catalogue import DATASETS as DATASETS
from glws.paper.catalogue import METHODS as METHODS
from glws.paper.catalogue import SETTINGS as SETTINGS
from glws.paper.catalogue import TABLES as TABLES
from glws.paper.catalogue import Dataset as Dataset
from glws.paper.catalogue import Setting as Setting
from glws.paper.catalogue import Table as Table
from glws.paper.catalogue import settings as settings
from glws.paper.notes import Note as Note
from glws.paper.published import Cell as Cell
from glws.paper.published import Published as Published
from glws.paper.published import cell as cell
from glws.paper.published import cells as cells
from glws.paper.recipes import HyperParameters as HyperParameters
from glws.paper.recipes import differences as differences
from glws.paper.recipes import hyper_parameters as hyper_parameters
from glws.paper.results import Record as Record
from glws.paper.results import read_results as read_results
from glws.paper.show import markdown as markdown
