"""`load`: a data set by its name, of this package, of an installed one, or of the user's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from glws._plugins import find
from glws.data.sources._bundled import BUNDLED, load_bundled
from glws.data.sources._files import data_folder
from glws.data.sources._image_folder import load_imagenet100
from glws.data.sources._official import OFFICIAL_SETS
from glws.data.sources._official_formats import load_official
from glws.data.sources._source import Source
from glws.errors import DataError

Load = Callable[[Path], Source]
"""What a plug-in is: from the folder of the data to the source."""
SOURCES = (*BUNDLED, *OFFICIAL_SETS, "imagenet100")
"""The data sets of this package."""


def load(
    name: str, folder: str | os.PathLike[str] | None = None, verify: bool = True, allow_code: bool = False
) -> Source:
    """A data set by name: training and test part with true labels, class names, and what is unlabeled.

    The small sets of scikit-learn are always there. The others are read from their official files in `folder`
    (`$GLWS_DATA`, or `~/.cache/glws/data`), where `download` puts them; nothing is downloaded here. A file that is
    missing, truncated, damaged or not the official one is a `DataError` that names it. `verify=False` leaves out the
    checksums (some seconds for STL-10), not the sizes and labels. STL-10's images are mapped, ImageNet's
    read one by one.

    A data set of an installed package, or with `allow_code` one of the user's own as `package.module:function`, is a
    function of the folder that gives a `Source`.

    >>> iris = load("iris")
    >>> iris.train.inputs.shape, iris.classes
    ((120, 4), ('setosa', 'versicolor', 'virginica'))
    """
    official: dict[str, Load] = {
        each: partial(load_official, wanted, verify=verify) for each, wanted in OFFICIAL_SETS.items()
    }
    bundled: dict[str, Load] = {each: partial(_bundled, each) for each in BUNDLED}
    builtin = {**bundled, **official, "imagenet100": load_imagenet100}
    found: object = find("glws.sources", name, builtin, allow_code)(data_folder(folder))
    if not isinstance(found, Source):
        raise DataError(f"the data set {name!r} gave a {type(found).__name__}, not a glws.data.Source")
    return found


def _bundled(name: str, _folder: Path) -> Source:
    return load_bundled(name)


def check_name(name: str) -> None:
    """Raises `DataError` for a name that is none of this package, with the nearest one."""
    find("glws.sources", name, dict.fromkeys(SOURCES))
