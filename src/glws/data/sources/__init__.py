"""Published data sets, read from their official files, and small ones from scikit-learn."""

from glws.data.sources._bundled import BUNDLED as BUNDLED
from glws.data.sources._catalog import SOURCES as SOURCES
from glws.data.sources._catalog import load as load
from glws.data.sources._class_splits import CLASS_SPLITS as CLASS_SPLITS
from glws.data.sources._class_splits import ClassSplit as ClassSplit
from glws.data.sources._class_splits import class_split as class_split
from glws.data.sources._downloads import download as download
from glws.data.sources._files import data_folder as data_folder
from glws.data.sources._images import ImageFiles as ImageFiles
from glws.data.sources._source import Source as Source
from glws.data.sources._source import Split as Split
