"""`load`: a data set by its name."""

from __future__ import annotations

import os

from glws._messages import hint
from glws.data.sources._bundled import BUNDLED, load_bundled
from glws.data.sources._files import data_folder
from glws.data.sources._image_folder import load_imagenet100
from glws.data.sources._official import OFFICIAL_SETS
from glws.data.sources._official_formats import load_official
from glws.data.sources._source import Source
from glws.errors import DataError

SOURCES = (*BUNDLED, *OFFICIAL_SETS, "imagenet100")
"""Every name that `load` knows."""


def load(name: str, folder: str | os.PathLike[str] | None = None, verify: bool = True) -> Source:
    """A data set by name: training and test part with true labels, class names, and what is unlabeled.

    The small sets of scikit-learn are always there. The others are read from their official files in `folder`
    (`$GLWS_DATA`, or `~/.cache/glws/data`), where `download` puts them; nothing is downloaded here. A file that is
    missing, cut off, damaged or not the official one is a `DataError` that names it. `verify=False` leaves out the
    checksums (some seconds for STL-10), not the sizes and labels. STL-10's images are mapped, ImageNet's
    read one by one.

    >>> iris = load("iris")
    >>> iris.train.inputs.shape, iris.classes
    ((120, 4), ('setosa', 'versicolor', 'virginica'))
    """
    check_name(name)
    if name in BUNDLED:
        return load_bundled(name)
    if name in OFFICIAL_SETS:
        return load_official(OFFICIAL_SETS[name], data_folder(folder), verify)
    return load_imagenet100(data_folder(folder))


def check_name(name: str) -> None:
    """Raises `DataError` for a name that is none of ours, with the nearest ones."""
    if name not in SOURCES:
        raise DataError(f"no data set is called {name!r}; {hint(name, SOURCES, '{}', 'there are')}")
