"""Data: published sets, own tables, groups of instances with what is known about them."""

from glws.data._scaling import scaled as scaled
from glws.data._scaling import scaling_of as scaling_of
from glws.data.dataset import Batch as Batch
from glws.data.dataset import WeakDataset as WeakDataset
from glws.data.groups import Groups as Groups
from glws.data.sources import SOURCES as SOURCES
from glws.data.sources import ClassSplit as ClassSplit
from glws.data.sources import ImageFiles as ImageFiles
from glws.data.sources import Source as Source
from glws.data.sources import Split as Split
from glws.data.sources import class_split as class_split
from glws.data.sources import data_folder as data_folder
from glws.data.sources import download as download
from glws.data.sources import load as load
from glws.data.tables import DataHash as DataHash
from glws.data.tables import Description as Description
from glws.data.tables import Table as Table
from glws.data.tables import WeakBlock as WeakBlock
from glws.data.tables import read_description as read_description
from glws.data.tables import read_table as read_table
