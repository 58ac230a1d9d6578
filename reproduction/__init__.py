"""The paper's tables as data: every cell with published numbers, training, and simulation."""

from reproduction.catalog import DATASETS as DATASETS
from reproduction.catalog import METHODS as METHODS
from reproduction.catalog import SETTINGS as SETTINGS
from reproduction.catalog import TABLES as TABLES
from reproduction.catalog import Dataset as Dataset
from reproduction.catalog import Setting as Setting
from reproduction.catalog import Table as Table
from reproduction.catalog import settings as settings
from reproduction.notes import Note as Note
from reproduction.published import Cell as Cell
from reproduction.published import Published as Published
from reproduction.published import cell as cell
from reproduction.published import cells as cells
from reproduction.recipes import HyperParameters as HyperParameters
from reproduction.recipes import differences as differences
from reproduction.recipes import hyper_parameters as hyper_parameters
from reproduction.results import Record as Record
from reproduction.results import read_results as read_results
from reproduction.show import markdown as markdown
