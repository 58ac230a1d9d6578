"""`read_table`: from a description to checked arrays, in one pass over the file, or a part of it in two."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import ClassNames, shown
from glws._messages import hint
from glws.data.sources._images import ImageFiles
from glws.data.tables._array_files import HdfFile, NpzFile
from glws.data.tables._arrow_file import ArrowFile
from glws.data.tables._block_reading import BlockReader, with_sources
from glws.data.tables._cells import Cells, RowBatch, rows_with_any
from glws.data.tables._coding import coded_rows, coded_table, stacked
from glws.data.tables._csv_file import CsvFile
from glws.data.tables._description import Description, check_known, read_description
from glws.data.tables._excel_file import excel_file
from glws.data.tables._frames import FrameFile, arrow_table
from glws.data.tables._grouping import members_of, rearrange_rows, sorting_order
from glws.data.tables._hashing import (
    BlockHasher,
    ColumnHasher,
    DataHash,
    TableHash,
    block_end,
    description_hash,
)
from glws.data.tables._ids import IdColumn
from glws.data.tables._inference import MixedColumn, infer_schema, place_of
from glws.data.tables._parquet_file import ParquetFile
from glws.data.tables._schema import Coded, Schema
from glws.data.tables._shard import Shard, shard_bounds
from glws.data.tables._slides import read_slides
from glws.data.tables._table import Table
from glws.data.tables._table_file import AbstractTableFile, Stack
from glws.errors import DataError

FORMATS = {".csv": "text", ".tsv": "text", ".txt": "text", ".parquet": "parquet", ".pq": "parquet",
           ".arrow": "arrow", ".feather": "arrow", ".npz": "npz", ".h5": "hdf", ".hdf5": "hdf",
           ".xlsx": "excel"}  # fmt: skip
LARGEST = np.finfo(np.float32).max


def read_table(
    source: str | os.PathLike[str] | Mapping[str, Any],
    part: tuple[int, int] | None = None,
    allow_code: bool = False,
    schema: Schema | None = None,
) -> Table:
    """Reads the data that a description describes: a YAML file, or a mapping with the same keys.

        data: bags.csv                      # CSV, parquet, Arrow, npz, HDF5 or Excel
        features: "f*"                      # columns, patterns, or {image: path_column, size: 64}
        columns: {zip: category}            # types of feature columns, where they are not what they seem
        id: patient                         # columns that stand beside predictions and labels
        classes: [benign, malignant]
        group: bag_id                       # left out: each row is a group
        kind: proportions
        weak: {count: n_malignant}          # columns, the same in all rows of a group
        label: truth                        # true classes, for evaluation only

    Several kinds on the same instances are a list `blocks`, each with kind, group and weak. A row whose group or weak
    label is empty is an error, or with `missing: skip` not part of that block. A pattern never picks a column that is
    used as a group, a weak label or a label. Everything is checked on the way; an error names the file, the line or
    row, the column and what was found there.

    `part` is (rank, size) of a process among several that read the same file: it gets the groups, weak labels and true
    labels of all, and the features of its own rows only. That needs a parquet file in which the rows of each group of
    the first block stand together; from others everything is read, and the table's `note` says so.

    Feature columns are numbers, categories, booleans, dates or short texts, and may have empty cells. If they are not
    all numbers, the table has a `schema`, inferred from all rows; `schema` is that of an earlier table, to read new
    rows in the same way.

    Slides are a folder of files, each with `features` [patches, width], and a table with a row for each:

        slides: features/                   # .h5 (CLAM, TRIDENT), .pt, .npy
        data: labels.csv                    # without it, all slides of the folder without labels
        classes: [normal, tumor]
        weak: {present: diagnosis}          # group: the column with their names, slide or slide_id by default

    With `allow_code` a kind may be a class of your own, as `package.module:Class` (docs/extending.md).
    """
    about = read_description(source)
    if about.slides is not None:
        if not about.blocks:
            return read_slides(about, None)
        with open_table(about) as file:
            return read_slides(about, file, allow_code)
    with open_table(about) as file:
        return read_from(file, about, part, allow_code, schema)


def table(frame: Any, *, features: Any = "*", allow_code: bool = False, **description: Any) -> Table:
    """The data that a table in memory holds: a DataFrame of pandas, polars or pyarrow, or a mapping of arrays.

    The further arguments are the keys of a description, as in the YAML of `read_table`. By default all columns are
    features that nothing else is said of. In `columns`, the type of a text column may also be a function of your own
    from texts to vectors, such as the `encode` of a sentence encoder.

    >>> frame = {"age": [31, None, 54, 27], "work": ["state", "private", "private", "state"],
    ...          "ward": ["a", "a", "b", "b"], "ill": [1, 1, 0, 0]}
    >>> data = table(frame, classes=["well", "ill"], group="ward", kind="proportions", weak={"count": "ill"})
    >>> data
    Table(DataFrame: 4 rows, 2 classes, 2 groups of proportions)
    >>> data.feature_names, len(data.dataset().instances)
    (('age', 'work'), 4)
    """
    about = read_description({**description, "features": features, "data": "DataFrame"})
    return read_from(FrameFile(arrow_table(frame)), about, None, allow_code)


def frame_features(
    frame: Any, columns: Mapping[str, Any] | None = None, schema: Schema | None = None
) -> tuple[Schema, Coded]:
    """The schema of all columns of a table in memory, and its rows; by the schema of an earlier table, if given.

    >>> schema, coded = frame_features({"age": [31, None], "work": ["state", "private"]})
    >>> schema.coded_names, coded.matrix.tolist()
    (('age', 'work'), [[31.0, 0.0], [nan, 1.0]])
    """
    file = FrameFile(arrow_table(frame))
    if schema is None:
        about = read_description({"data": "DataFrame", "features": "*", "classes": 1, "columns": dict(columns or {})})
        schema = inferred_schema(about, file)
    return schema, coded_table(schema, file.row_batches(schema_columns(schema, file)))


def read_from(
    file: AbstractTableFile,
    about: Description,
    part: tuple[int, int] | None = None,
    allow_code: bool = False,
    schema: Schema | None = None,
) -> Table:
    """Reads an open file as a description says, with the schema of an earlier reading if it is given."""
    note = None
    about = replace(about, blocks=tuple(with_sources(block, file, allow_code) for block in about.blocks))
    if part is not None and about.image is None:
        reading = Reading(about, file, allow_code, schema)
        note = reading.reason_to_read_all(part[1])
        if note is None:
            return reading.part(*part)
    return replace(_whole(about, file, allow_code, schema), note=note or "")


def _whole(about: Description, file: AbstractTableFile, allow_code: bool, schema: Schema | None) -> Table:
    """All rows. Columns that are all numbers need no schema; where one is not, it is inferred from all rows first."""
    if schema is None and about.columns:
        schema = inferred_schema(about, file)
    try:
        return Reading(about, file, allow_code, schema).table()
    except NotNumbers:
        return Reading(about, file, allow_code, inferred_schema(about, file)).table()


def inferred_schema(about: Description, file: AbstractTableFile) -> Schema:
    """The schema of the feature columns of a description."""
    names = feature_columns(about, file)
    for pattern in about.columns:
        if not any(fnmatchcase(name, pattern) for name in names):
            check_known([pattern], names, "feature column")
    try:
        return infer_schema(file.row_batches, names, about.columns)
    except MixedColumn as error:
        raise place_of(file.row_batches([error.name]), error) from None
    except DataError as error:
        raise DataError(prefixed(str(file.path), str(error))) from None


def prefixed(path: str, message: str) -> str:
    """The message with the file it is about, once."""
    return message if message.startswith(path) else f"{path}: {message}"


def open_table(about: Description) -> AbstractTableFile:
    """The file of a description, by the end of its name."""
    path, group = about.data, next((block.group for block in about.blocks if block.group), None)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    kind = FORMATS.get(path.suffix.lower())
    if kind == "text":
        return CsvFile(path, about.separator, about.decimal)
    if kind == "arrow":
        return ArrowFile(path)
    if kind == "excel":
        return excel_file(path)
    if kind == "parquet":
        return ParquetFile(path)
    if kind == "npz":
        return NpzFile(path, group)
    if kind == "hdf":
        return HdfFile(path, group)
    raise DataError(f"{path}: known are files that end in {', '.join(FORMATS)}")


class Reading:
    """One pass over a file. Of a part of a file nothing is hashed, and kinds without a group in it are left out."""

    def __init__(
        self,
        about: Description,
        file: AbstractTableFile,
        allow_code: bool = False,
        schema: Schema | None = None,
        is_part: bool = False,
        whole_ids: Mapping[str, bool] | None = None,
    ) -> None:
        self.about, self.file, self.classes, self.is_part = about, file, ClassNames(about.classes), is_part
        self.blocks = [BlockReader(block, self.classes, file, allow_code) for block in about.blocks]
        self.schema = schema
        self.names = feature_columns(about, file) if schema is None else schema_columns(schema, file)
        if schema is not None:
            _check_used(about, file)
        self.ids = {name: IdColumn((whole_ids or {}).get(name)) for name in id_columns(about, schema, file)}
        self.texts: list[Any] = []
        self.features = Stack(file.path, file.num_rows)
        self.labels = Stack(file.path, file.num_rows, np.int64)
        self.rows = Stack(file.path, file.num_rows, np.int64)
        self.places: Stack | None = None
        self.known_hash, self.block_hash = ColumnHasher(), BlockHasher(file.num_rows)
        self.images: list[str] = []
        self.feature_names: tuple[str, ...] = ()
        self.unit = "row"

    def table(self) -> Table:
        """All of it, in one pass."""
        for row_batch in self.file.row_batches(list(dict.fromkeys([*self.names, *self._known(), *self.ids]))):
            self._add_instances(row_batch)
            self._add_known(row_batch)
        return self._table(self._order())

    def data_hash(self) -> DataHash:
        """The hash of all rows, of which only one batch is in memory at a time."""
        rows = 0
        for row_batch in self.file.row_batches(list(dict.fromkeys([*self.names, *self._known()]))):
            self.block_hash.add(self._matrix(row_batch))
            self._hash_known(row_batch)
            self.texts.clear()
            rows += len(row_batch.rows)
        return self._hash(rows).whole()

    def reason_to_read_all(self, size: int) -> str | None:
        """Why `part` is not available for so many processes; None if it is: then all but the features has been read."""
        path = self.file.path
        if not isinstance(self.file, ParquetFile) or not self._known():
            return f"{path}: every process reads all of it; only of a parquet file with groups each can read its part"
        if self.schema is not None or self.about.columns or not self.file.holds_numbers(self.names):
            return f"{path}: every process reads all of it, because its feature columns are not all numbers"
        for row_batch in self.file.row_batches(list(dict.fromkeys([*self._known(), *self.ids]))):
            self._add_known(row_batch)
        if self._order() is not None:
            return f"{path}: every process reads all of it, because the rows of a group do not stand together"
        if self._bounds(size) is None:
            return f"{path}: every process reads all of it, because there are fewer groups than processes"
        return None

    def part(self, rank: int, size: int) -> Table:
        """With the features of one part, in a second pass over its rows."""
        bounds, file = self._bounds(size), self.file
        assert bounds is not None
        assert isinstance(file, ParquetFile)
        first, last = bounds[rank], bounds[rank + 1]
        self.features = Stack(file.path, last - first)
        self.block_hash = BlockHasher(bounds[-1], first)
        for row_batch in file.part(self.names, first, last):
            self._add_instances(row_batch)
        for row_batch in file.part(self.names, last, block_end(last, bounds[-1])):
            self.block_hash.add(self._matrix(row_batch))
        example = self._matrix(next(file.part(self.names, 0, 1)))
        return replace(self._table(None), shard=Shard(bounds, rank, example))

    def _bounds(self, size: int) -> tuple[int, ...] | None:
        if not self.blocks or self.blocks[0].about.group is None:
            return shard_bounds(None, len(self.rows.result()), size)
        numbers = self.blocks[0].numbers()
        return shard_bounds(members_of(numbers, int(numbers.max(initial=-1)) + 1)[0], len(numbers), size)

    def _table(self, order: NDArray[np.int64] | None) -> Table:
        if not len(self.rows.result()):
            raise DataError(f"{self.file.path}: there are no rows")
        features = self._features(order)
        rows, labels = self._arranged(self.rows, order), self._arranged(self.labels, order)
        blocks = tuple(
            block.result(order, rows, self.unit) for block in self.blocks if not (self.is_part and block.is_empty)
        )
        texts = stacked(self.texts)
        return Table(
            path=str(self.file.path),
            unit=self.unit,
            features=features,
            feature_names=self.feature_names if self.schema is None else self.schema.feature_names,
            classes=self.about.classes,
            blocks=blocks,
            row_numbers=rows,
            hashed=self._hash(len(rows)),
            own_places=None if self.places is None else self._arranged(self.places, order),
            labels=labels if self.about.label else None,
            ids={name: column.result(order) for name, column in self.ids.items()},
            schema=self.schema,
            texts=texts if texts is None or order is None else texts[order],
        )

    def _hash(self, num_rows: int) -> TableHash:
        description = description_hash(self.about, self.feature_names)
        return TableHash(num_rows, description, self.known_hash.digest(), self.block_hash.digests())

    def _known(self) -> list[str]:
        """The columns that say something of instances and groups, or where the images are."""
        names = [*([self.about.image] if self.about.image else []), *([self.about.label] if self.about.label else [])]
        names += [name for block in self.about.blocks for name in block.columns]
        return list(dict.fromkeys(names))

    def _add_known(self, row_batch: RowBatch) -> None:
        if self.about.label:
            self.labels.add(row_batch.class_numbers(self.about.label, self.classes))
        self.rows.add(row_batch.rows)
        if row_batch.places is not None:
            self.places = self.places or Stack(self.file.path, self.file.num_rows, np.int64)
            self.places.add(row_batch.places)
        for name, column in self.ids.items():
            column.add(row_batch.cells[name])
        for block in self.blocks:
            block.add(row_batch)
        if not self.is_part:
            self._hash_known(row_batch)

    def _hash_known(self, row_batch: RowBatch) -> None:
        for name in self._known():
            self.known_hash.add(name, row_batch.cells[name].values)
            self.known_hash.add(f"{name} missing", row_batch.cells[name].missing)

    def _add_instances(self, row_batch: RowBatch) -> None:
        self.unit = row_batch.unit
        if self.about.image:
            paths = _image_paths(row_batch, self.about.image, self.file.path.parent)
            self.known_hash.add("sizes of images", np.array([os.path.getsize(path) for path in paths], np.int64))
            self.images += paths
        else:
            rows = self._matrix(row_batch)
            self.features.add(rows)
            if not self.is_part:
                self.block_hash.add(rows)

    def _matrix(self, row_batch: RowBatch) -> NDArray[np.floating[Any]]:
        if self.schema is not None:
            return self._coded(self.schema, row_batch)
        columns = [finite_numbers(row_batch, name) for name in self.names]
        names = [self._wide_names(name, column) for name, column in zip(self.names, columns, strict=True)]
        found = tuple(name for group in names for name in group)
        if self.feature_names and found != self.feature_names:
            raise DataError(f"{self.file.path}, {self.unit} {row_batch.rows[0]}: feature vectors change their length")
        self.feature_names = found
        return np.column_stack(columns)

    def _coded(self, schema: Schema, row_batch: RowBatch) -> NDArray[np.floating[Any]]:
        """The coded matrix; texts are kept, and the cells that it does not show are hashed."""
        coded = coded_rows(schema, row_batch)
        self.texts += [] if coded.texts is None else [coded.texts]
        for column in () if self.is_part else schema.features:
            if column.type != "number" or column.encoder is not None:
                self.known_hash.add_texts(column.name, row_batch.cells[column.name].text())
        return coded.matrix

    def _wide_names(self, name: str, column: NDArray[np.floating[Any]]) -> list[str]:
        return [name] if column.ndim == 1 else [f"{name}[{place}]" for place in range(column.shape[1])]

    def _order(self) -> NDArray[np.int64] | None:
        grouped = [block for block in self.blocks if block.about.group]
        return sorting_order(self.blocks[0].numbers()) if grouped and grouped[0] is self.blocks[0] else None

    def _features(self, order: NDArray[np.int64] | None) -> NDArray[np.floating[Any]] | ImageFiles:
        if self.about.image:
            images = ImageFiles(tuple(self.images), self.about.image_size)
            return images if order is None else images.subset(order)
        return self._arranged(self.features, order)

    def _arranged(self, stack: Stack, order: NDArray[np.int64] | None) -> NDArray[Any]:
        array = stack.result()
        return array if order is None or not len(array) else rearrange_rows(array, order)


def feature_columns(about: Description, file: AbstractTableFile) -> tuple[str, ...]:
    """The feature columns, patterns replaced by what they match, in the order of the file; all columns are checked."""
    try:
        used = _used_columns(about, file)
        return tuple(dict.fromkeys(name for wanted in about.features for name in _matching(wanted, file, used, about)))
    except DataError as error:
        raise DataError(f"{file.path}: {error}") from None


def _used_columns(about: Description, file: AbstractTableFile) -> set[Any]:
    """The columns that are used otherwise than as features; all of them must be in the file."""
    used = {name for block in about.blocks for name in block.columns} | {about.label, about.image, *about.ids} - {None}
    check_known([name for name in sorted(filter(None, used))], file.columns, "column")
    return used


def _check_used(about: Description, file: AbstractTableFile) -> None:
    try:
        _used_columns(about, file)
    except DataError as error:
        raise DataError(f"{file.path}: {error}") from None


def _matching(wanted: str, file: AbstractTableFile, used: set[Any], about: Description) -> list[str]:
    if wanted in file.columns:
        if wanted == about.label:
            raise DataError(f"{wanted} is the true label: it cannot be a feature too")
        return [wanted]
    if not any(sign in wanted for sign in "*?["):
        check_known([wanted], file.columns, "column")
    found = [name for name in file.columns if fnmatchcase(name, wanted) and name not in used]
    if not found:
        raise DataError(f"no column matches {wanted!r}; there are {', '.join(file.columns[:20])}")
    return found


def finite_numbers(row_batch: RowBatch, name: str) -> NDArray[np.floating[Any]]:
    """A feature column: in float32 if its type fits into that, in float64 otherwise, so that no value is rounded.

    Infinities and values beyond the range of float32 are refused. An empty cell or a text raises `NotNumbers`: the
    column needs a schema.
    """
    cells = row_batch.cells[name]
    if cells.values.ndim == 1 and (cells.missing.any() or not _holds_numbers(cells)):
        raise NotNumbers(f"column {name} is not all numbers")
    is_narrow = cells.is_numeric and np.can_cast(cells.values.dtype, np.float32)
    numbers = cells.values.astype(np.float32) if is_narrow else row_batch.numbers(name)
    row_batch.refuse(
        rows_with_any(~(np.abs(numbers) <= LARGEST)),
        lambda row: f"column {name} must be a finite number, found {shown(cells.values[row])}",
    )
    return numbers


class NotNumbers(DataError):
    """A feature column has cells that are empty or no numbers."""


def _holds_numbers(cells: Cells) -> bool:
    """Whether all cells are numbers, finite or not; `nan` is an empty cell."""
    if cells.is_numeric:
        return True
    try:
        return not np.isnan(cells.floats()).any()
    except (ValueError, TypeError):
        return False


def schema_columns(schema: Schema, file: AbstractTableFile) -> tuple[str, ...]:
    """The columns that the features of a schema are made of; all columns must be in the file."""
    names = tuple(column.name for column in schema.features)
    for name in names:
        if name not in file.columns:
            raise DataError(f"{file.path}: {missing_column(name, file.columns)}")
    return names


def missing_column(name: str, columns: Sequence[str]) -> str:
    """What to say of a column that a model was trained with and that is not there."""
    near = hint(name, columns, otherwise="there are")
    return f"there is no column {name!r}, which the model was trained with; {near}"


def id_columns(about: Description, schema: Schema | None, file: AbstractTableFile) -> list[str]:
    """The columns that stand beside predictions and labels; those that were inferred may be missing from new rows."""
    inferred = () if schema is None else schema.ids
    return list(dict.fromkeys([*about.ids, *(name for name in inferred if name in file.columns)]))


def _image_paths(row_batch: RowBatch, column: str, folder: Path) -> list[str]:
    row_batch.refuse_missing(column)
    paths = [os.path.join(folder, name) for name in row_batch.texts(column)]
    missing = np.array([not os.path.isfile(path) for path in paths])
    row_batch.refuse(missing, lambda row: f"column {column}: there is no image {paths[row]}")
    return paths
