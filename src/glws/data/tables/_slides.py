"""A folder of slides and a table of their labels as a `Table` whose features stay in the files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames
from glws.data.slides import SlideFeatures, find_slide, slide_column, slide_paths
from glws.data.tables._block_reading import BlockReader
from glws.data.tables._description import Description, check_known
from glws.data.tables._hashing import ColumnHasher, TableHash, description_hash
from glws.data.tables._table import Table, WeakBlock
from glws.data.tables._table_file import AbstractTableFile, Stack
from glws.errors import DataError

PATCH = "patch"


def read_slides(about: Description, file: AbstractTableFile | None, allow_code: bool = False) -> Table:
    """The patches of all slides that the table names, or without a table of all slides in the folder.

    Each slide is a group. Only headers are read here; features are read when they are asked for.
    """
    assert about.slides is not None
    paths, known, block = slide_paths(about.slides), ColumnHasher(), None
    if file is None:
        names: NDArray[Any] = np.array(list(paths), object)
    else:
        block = _labels(about, file, known, allow_code)
        names = block.group_names
    files = tuple(find_slide(str(name), paths, about.slides, str(about.data)) for name in names.tolist())
    if len(set(files)) < len(files):
        same = next(path for path in files if files.count(path) > 1)
        raise DataError(f"{about.data}: two slides of the table are the one file {same.name}")
    known.add("sizes of slides", np.array([path.stat().st_size for path in files], np.int64))
    features = SlideFeatures.of(files)
    numbers = np.arange(len(features))
    blocks = () if block is None else (replace(block, offsets=features.bounds, members=numbers),)
    hashed = TableHash(len(features), description_hash(about, ()), known.digest(), np.zeros((0, 32), np.uint8))
    return Table(
        path=str(about.data if file is not None else about.slides),
        unit=PATCH,
        features=features,
        feature_names=(),
        classes=about.classes,
        blocks=blocks,
        row_numbers=numbers,
        hashed=hashed,
        ids=_ids(features, names),
    )


def _ids(features: SlideFeatures, names: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What stands beside the predictions for patches: slide, number in it, and where it is (NaN: the file lacks it)."""
    lengths = np.diff(features.bounds)
    found = {"slide": np.repeat(np.array([str(name) for name in names.tolist()]), lengths)}
    found[PATCH] = np.arange(len(features)) - np.repeat(features.bounds[:-1], lengths)
    coords = [features.coords(slide) for slide in range(len(lengths))]
    if any(place is not None for place in coords):
        pairs = zip(coords, lengths.tolist(), strict=True)
        known = [np.full((length, 2), np.nan) if place is None else place for place, length in pairs]
        found |= dict(zip(("x", "y"), np.concatenate(known).T, strict=True))
    return found


def _labels(about: Description, file: AbstractTableFile, known: ColumnHasher, allow_code: bool) -> WeakBlock:
    """The weak labels of the slides, from one row of the table for each, or several that agree."""
    if len(about.blocks) != 1:
        raise DataError(f"{file.path}: slides have one kind of weak labels, found {len(about.blocks)}")
    column = about.blocks[0].group or slide_column(file.columns, str(file.path))
    block = replace(about.blocks[0], group=column)
    try:
        check_known(block.columns, file.columns, "column")
    except DataError as error:
        raise DataError(f"{file.path}: {error}") from None
    reader, rows, unit = BlockReader(block, ClassNames(about.classes), file, allow_code), Stack(file.path, None), "row"
    for row_batch in file.row_batches(list(dict.fromkeys(block.columns))):
        unit = row_batch.unit
        rows.add(row_batch.rows)
        reader.add(row_batch)
        for name in dict.fromkeys(block.columns):
            known.add(name, row_batch.cells[name].values)
    if not len(rows.result()):
        raise DataError(f"{file.path}: there are no rows")
    return reader.result(None, rows.result(), unit)
