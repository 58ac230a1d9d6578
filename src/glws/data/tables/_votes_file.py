"""`read_votes`: votes from a long table (item, annotator, label) or a matrix (a column for each source)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws._messages import hint, one_line
from glws._optional import needed
from glws._reprs import short_repr
from glws.data.tables._frames import arrow_table
from glws.errors import DataError
from glws.kinds import Votes

ITEMS = ("item", "task", "question", "instance", "example", "id", "item_id", "task_id", "row")
ANNOTATORS = ("annotator", "worker", "labeler", "source", "rater", "user", "performer", "annotator_id", "worker_id")
LABELS = ("label", "answer", "vote", "response", "annotation")
NOT = ("not ", "!")
ABSTAINED = ("", "-1", "-1.0", "nan", "None", "null", "abstain")
BATCH_ROWS = 1 << 20


class VoteTable(NamedTuple):
    """Votes with the names of their items and classes; names of sources are `votes.source_names`."""

    def __repr__(self) -> str:
        return short_repr(self)

    votes: Votes
    items: NDArray[Any]
    classes: tuple[str, ...]


class VoteColumns(NamedTuple):
    """The columns of a table of votes: of a long one `item`, `annotator` and `label`; of a matrix perhaps `item`."""

    item: str | None = None
    annotator: str | None = None
    label: str | None = None


def read_votes(
    source: str | os.PathLike[str] | Any,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    items: Sequence[Any] | None = None,
) -> VoteTable:
    """The votes of a CSV or parquet file, or of a DataFrame (pandas, polars, pyarrow, a mapping of columns).

    A long table has a row for each vote, with the columns `item`, `annotator` and `label`; usual names are found. Any
    other table is a matrix: a row for each item, and a column for each source, but for a column `item`. An empty cell
    or -1 is an abstention. A label may be a class, a set such as "cat|dog", or "not cat". `classes` are the names of
    the classes, by default all that occur, sorted. `items` are the names of all items in the order that is wanted,
    such as the rows of X; by default those that occur.

    >>> found = read_votes({"task": [1, 1, 2], "worker": ["a", "b", "b"], "label": ["cat", "dog", "not cat"]})
    >>> found.classes, found.items.tolist(), found.votes.source_names
    (('cat', 'dog'), [1, 2], ('a', 'b'))
    """
    table = _opened(source)
    columns = _chosen(table.names, VoteColumns(item, annotator, label), table.where)
    if columns.label is None:
        return _of_matrix(table, columns.item, classes, items)
    return _of_long(table, columns, classes, items)


def column_names(path: Path) -> tuple[str, ...]:
    """The columns of a file of votes."""
    return _opened(path).names


class _Opened(NamedTuple):
    """A table: where it is from, its columns, and its batches, each a list of columns of Arrow."""

    where: str
    names: tuple[str, ...]
    batches: Any


def _opened(source: Any) -> _Opened:
    if not isinstance(source, str | os.PathLike):
        table = arrow_table(source)
        return _Opened("DataFrame", tuple(table.column_names), lambda names: table.select(names).to_batches(BATCH_ROWS))
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path)
    if path.suffix.lower() in (".csv", ".tsv", ".txt"):
        return _csv(path)
    raise DataError(f"{path}: votes are read from files that end in .csv, .tsv or .parquet")


def _parquet(path: Path) -> _Opened:
    arrow, parquet = (needed(name, "pyarrow", "reading parquet") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        file = parquet.ParquetFile(path, pre_buffer=False)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as parquet ({one_line(error)})") from error
    names = tuple(file.schema_arrow.names)
    return _Opened(
        str(path), names, lambda chosen: file.iter_batches(BATCH_ROWS, columns=list(chosen), use_threads=False)
    )


def _csv(path: Path) -> _Opened:
    """All cells as texts."""
    arrow, csv = (needed(name, "pyarrow", "reading CSV") for name in ("pyarrow", "pyarrow.csv"))
    parse = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        with csv.open_csv(path, parse_options=parse) as head:
            names = tuple(head.schema.names)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as CSV ({one_line(error)})") from error

    def batches(chosen: Sequence[str]) -> Iterator[Any]:
        options = csv.ConvertOptions(
            include_columns=list(chosen), column_types={name: arrow.string() for name in names}
        )
        try:
            yield from csv.open_csv(path, parse_options=parse, convert_options=options)
        except arrow.ArrowException as error:
            raise DataError(f"{path}: cannot be read as CSV ({one_line(error)})") from error

    return _Opened(str(path), names, batches)


def _chosen(names: Sequence[str], given: VoteColumns, where: str) -> VoteColumns:
    """The columns as given, or by their usual names."""
    for name in filter(None, given):
        if name not in names:
            raise DataError(f"{where}: there is no column {name!r}; {hint(name, names, '{}', 'there are')}")
    found = VoteColumns(
        given.item or _usual(names, ITEMS),
        given.annotator or _usual(names, ANNOTATORS),
        given.label or _usual(names, LABELS),
    )
    is_long = None not in found
    if not is_long and (given.annotator or given.label):
        missing = [word for word, name in found._asdict().items() if name is None]
        raise DataError(
            f"{where}: a long table needs the column of the {missing[0]}; there are {', '.join(names[:20])}"
        )
    return found if is_long else VoteColumns(item=found.item)


def _usual(names: Sequence[str], known: Sequence[str]) -> str | None:
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


# ---------------------------------------------------------------- long tables


def _of_long(
    table: _Opened, columns: VoteColumns, classes: Sequence[str] | None, items: Sequence[Any] | None
) -> VoteTable:
    item, annotator, label = (_Codes() for _ in range(3))
    for batch in table.batches([columns.item, columns.annotator, columns.label]):
        for codes, column in zip((item, annotator, label), batch.columns, strict=True):
            codes.add(column)
    item_codes, item_names = item.result()
    source_codes, source_names = annotator.result()
    words, word_names = label.result()
    known, meanings = _meanings([str(name) for name in word_names], classes, table.where)
    kept = (item_codes >= 0) & (source_codes >= 0) & (words >= 0)
    kept &= np.append(meanings.any(1), False)[words]  # a word that is an abstention
    if not kept.all():
        item_codes, source_codes, words = item_codes[kept], source_codes[kept], words[kept]
    if items is not None:
        item_codes, source_codes, words, item_names = _in_order(item_codes, source_codes, words, item_names, items)
    names = [str(name) for name in source_names]
    votes = Votes.of_long(item_codes, source_codes, _labels(words, meanings), len(item_names), len(known), names)
    return VoteTable(votes, item_names, known)


def _in_order(
    codes: NDArray[Any], sources: NDArray[Any], words: NDArray[Any], names: NDArray[Any], wanted: Sequence[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The votes on the wanted items only, numbered by their places."""
    places = {str(name): place for place, name in enumerate(wanted)}
    if len(places) < len(wanted):
        raise DataError("items must be different names, each once")
    moved = np.array([places.get(str(name), -1) for name in names], np.int64)[codes]
    kept = moved >= 0
    return moved[kept], sources[kept], words[kept], np.asarray(wanted)


class _Codes:
    """Numbers for the different values of a column, batch by batch; -1 where it is empty."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self.pieces: list[NDArray[np.int32]] = []
        self.numbers: list[NDArray[Any]] = []

    def add(self, column: Any) -> None:
        """The next batch. Whole numbers are kept as they are, and numbered at the end."""
        arrow = needed("pyarrow", "pyarrow", "reading votes")
        if arrow.types.is_integer(column.type) and not column.null_count and not self.pieces:
            values = column.to_numpy(zero_copy_only=False)
            is_small = len(values) == 0 or (values.min() >= -(2**31) and values.max() < 2**31)
            self.numbers.append(values.astype(np.int32 if is_small else np.int64))
            return
        for values in self.numbers:
            self._add_words(arrow.array(values))
        self.numbers = []
        self._add_words(column)

    def _add_words(self, column: Any) -> None:
        arrow = needed("pyarrow", "pyarrow", "reading votes")
        encoded = column if arrow.types.is_dictionary(column.type) else column.dictionary_encode()
        words = [_plain(value) for value in encoded.dictionary.to_pylist()]
        codes = [-1 if word is None else self.known.setdefault(word, len(self.known)) for word in words]
        places = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        self.pieces.append(np.array([*codes, -1], np.int32)[places])

    def result(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The number of each row, and the names."""
        if not self.numbers:
            names = np.array(list(self.known), object)
            return np.concatenate(self.pieces) if self.pieces else np.empty(0, np.int32), names
        values = self.numbers[0] if len(self.numbers) == 1 else np.concatenate(self.numbers)
        self.numbers = []
        return _numbered(values)


def _numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Whole numbers as places among the different ones, in place where these lie close together."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, -1)
    if most - least >= 4 * len(values) + 1024:
        names, codes = np.unique(values, return_inverse=True)
        return codes, names
    occurs = np.zeros(most - least + 1, bool)
    for first in range(0, len(values), BATCH_ROWS):
        occurs[values[first : first + BATCH_ROWS] - least] = True
    places = np.cumsum(occurs, dtype=np.int32) - 1
    for first in range(0, len(values), BATCH_ROWS):
        values[first : first + BATCH_ROWS] = places[values[first : first + BATCH_ROWS] - least]
    return values, np.flatnonzero(occurs) + least


def _plain(value: Any) -> Any:
    """A cell as a name: whole numbers without a point; None for an empty one."""
    if value is None or value != value or value == "":
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---------------------------------------------------------------- words


def _meanings(
    words: Sequence[str], classes: Sequence[str] | None, where: str
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The classes, and of each word the classes that it allows [words, classes]; no class where it is an abstention."""
    stated = [word.strip() for word in words]
    named = {part for word in stated if word not in ABSTAINED for part in _parts(word)[0]}
    known = tuple(str(name) for name in classes) if classes is not None else tuple(sorted(named, key=_by_number))
    numbers = {name: number for number, name in enumerate(known)}
    unknown = sorted(named - set(known))
    if unknown:
        raise DataError(f"{where}: no class is called {unknown[0]!r}; {hint(unknown[0], known, '{}', 'there are')}")
    if len(known) < 1:
        raise DataError(f"{where}: there is no vote")
    meanings = np.zeros((len(words), len(known)))
    for row, word in enumerate(stated):
        if word not in ABSTAINED:
            parts, is_against = _parts(word)
            meanings[row, [numbers[part] for part in parts]] = 1.0
            meanings[row] = 1.0 - meanings[row] if is_against else meanings[row]
    return known, meanings


def _parts(word: str) -> tuple[list[str], bool]:
    """The classes that a word names, and whether it is against them."""
    start = next((start for start in NOT if word.startswith(start)), "")
    return [part.strip() for part in word.removeprefix(start).split("|")], bool(start)


def _by_number(name: str) -> tuple[int, float, str]:
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)


# ---------------------------------------------------------------- matrices


def _of_matrix(
    table: _Opened, item: str | None, classes: Sequence[str] | None, items: Sequence[Any] | None
) -> VoteTable:
    if items is not None:
        raise DataError(f"{table.where}: the rows of a matrix are the items; leave out items")
    sources = [name for name in table.names if name != item]
    if not sources:
        raise DataError(f"{table.where}: there is no column of votes; there are {', '.join(table.names)}")
    columns, names = [_Codes() for _ in table.names], list(table.names)
    for batch in table.batches(names):
        for numbered, column in zip(columns, batch.columns, strict=True):
            numbered.add(column)
    found = dict(zip(names, (column.result() for column in columns), strict=True))
    every = sorted({str(word) for name in sources for word in found[name][1]})
    known, meanings = _meanings(every, classes, table.where)
    number, places = len(found[sources[0]][0]), {word: place for place, word in enumerate(every)}
    rows, who, said = [], [], []
    for source, name in enumerate(sources):
        codes, own = found.pop(name)
        lookup = np.array([*(places[str(word)] for word in own), -1], np.int32)[codes]
        kept = np.flatnonzero(np.append(meanings.any(1), False)[lookup])
        rows.append(kept.astype(np.int32))
        who.append(np.full(len(kept), source, np.int32))
        said.append(lookup[kept])
    votes = Votes.of_long(
        np.concatenate(rows), np.concatenate(who), _labels(np.concatenate(said), meanings), number, len(known), sources
    )
    if item is None:
        return VoteTable(votes, np.arange(number), known)
    codes, own = found[item]
    return VoteTable(votes, own[codes], known)


def _labels(words: NDArray[Any], meanings: NDArray[np.float64]) -> NDArray[Any]:
    """The class of each vote, or the classes that it allows."""
    is_plain = bool((meanings.sum(1) <= 1).all())
    return np.asarray(meanings.argmax(1).astype(np.int32)[words] if is_plain else meanings[words])
