"""The schema of a table from its cells: one pass over all rows, unless a person has given the type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glws._class_names import shown
from glws.data.tables._cells import TRUTH, Cells, RowBatch, numbers_of
from glws.data.tables._coding import TRUE_OR_FALSE, checked_vectors
from glws.data.tables._dates import described_range, seconds_of
from glws.data.tables._schema import Column, Schema, listed_words
from glws.data.tables._text_features import TEXT_WIDTH
from glws.errors import DataError

MOST_WORDS = 200_000
"""Distinct words of a column that are counted."""
OWN_CODES, SHARED_CODES = 190, 64
"""The most words of a category with a code of their own, and the codes that the others share: less than 255 in all."""
RARE = 5
"""Words of a category in fewer rows than this share a code; in tables under 500 rows, in under 1 % of them."""
LEAST_TEXT = 30
"""A column with more distinct values than this and `TEXT_LENGTH` words in the mean one is text."""
TEXT_LENGTH = 3.0
LEAST_IDS = 20
"""So many rows must have a value of their own for a column to be taken for ids."""
LEADING_ZERO = r"^0\d"

Batches = Callable[[Sequence[str]], Iterator[RowBatch]]


def infer_schema(batches: Batches, names: Sequence[str], wanted: Mapping[str, Any]) -> Schema:
    """The schema of the columns with these names; `wanted` types, by names or patterns, are taken as given.

    A column is a number if all its cells are; a boolean, a date or a category by its words; text if its cells are
    several words long; ids if all are different words.
    """
    types = {name: _wanted(name, wanted) for name in names}
    by_words = {name for name, kind in types.items() if kind not in (None, "number", "ignore")}
    while True:
        seen = {name: Seen(name, name in by_words) for name in names if types[name] != "ignore"}
        for row_batch in batches(list(seen)):
            for name, each in seen.items():
                each.add(row_batch, types[name])
        late = {name for name, each in seen.items() if each.has_words and not each.by_words and each.rows}
        if not late:
            break
        by_words |= late  # a column that turned out to have words: count them from the first row on
    return Schema(tuple(_column(name, types[name], seen.get(name)) for name in names))


def _wanted(name: str, wanted: Mapping[str, Any]) -> Any:
    """The type that a person has given to a column: by its name, or by the first pattern that matches it."""
    if name in wanted:
        return wanted[name]
    return next((kind for pattern, kind in wanted.items() if fnmatchcase(name, pattern)), None)


@dataclass
class Seen:
    """What the cells of a column came to."""

    name: str
    by_words: bool
    rows: int = 0
    missing: int = 0
    numbers: int = 0
    width: int = 1
    has_words: bool = False
    is_boolean: bool = True
    is_date: bool = False
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0
    words: Counter[str] = field(default_factory=Counter)
    first_word: tuple[RowBatch, str] | None = None

    def add(self, row_batch: RowBatch, wanted: Any) -> None:
        """More rows."""
        cells = row_batch.cells[self.name]
        self.rows += len(row_batch.rows)
        if cells.values.ndim == 2:
            self.width, self.numbers, self.is_boolean = cells.values.shape[1], self.rows, False
            return
        lists = np.array([isinstance(value, list) for value in cells.values[: 1 if cells.is_numeric else None]], bool)
        if lists.any():
            values = cells.values
            row_batch.refuse(lists, lambda row: f"column {self.name} must be a number, found {shown(values[row])}")
        if not self.by_words and not self.has_words:
            found = cells.numbers()
            if found is not None and not (wanted is None and _has_leading_zeros(cells)):
                self._add_numbers(found, cells)
                return
            self.has_words = True
            if wanted == "number":
                _refuse_words(row_batch, self.name, cells)
            self.by_words = self.rows == len(row_batch.rows)  # the first row batch: no cell went uncounted
        if self.by_words:
            self._add_words(cells, row_batch)

    def _add_numbers(self, found: NDArray[Any], cells: Cells) -> None:
        there = found[np.isfinite(found)]
        self.missing += int(np.isnan(found).sum())
        self.numbers += len(there)
        self.is_boolean &= cells.is_numeric and cells.values.dtype.kind == "b"
        if len(there):
            self.total += float(there.sum(dtype=np.float64))
            self.low, self.high = min(self.low, float(there.min())), max(self.high, float(there.max()))

    def _add_words(self, cells: Cells, row_batch: RowBatch) -> None:
        self.has_words = True
        codes, words = cells.words()
        self.missing += int((codes < 0).sum())
        counts = np.bincount(codes[codes >= 0], minlength=len(words))
        room = len(self.words) < MOST_WORDS
        for word, count in zip(words, counts.tolist(), strict=True):
            if room or word in self.words:
                self.words[word] += count
        self.is_boolean &= all(word.lower() in TRUTH for word in words)

    @property
    def present(self) -> int:
        """How many cells are not empty."""
        return self.rows - self.missing


def _has_leading_zeros(cells: Cells) -> bool:
    """Whether a number is written like 01234, as codes are."""
    from pyarrow import compute

    return not cells.is_numeric and bool(compute.any(compute.match_substring_regex(cells.text(), LEADING_ZERO)).as_py())


def _refuse_words(row_batch: RowBatch, name: str, cells: Cells) -> None:
    texts = cells.text().to_pylist()
    wrong = np.array([text is not None and not _is_number(text) for text in texts], bool)
    row_batch.refuse(wrong, lambda row: f"column {name} must be a number, found {shown(texts[row])}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- from counts to a type


def _column(name: str, wanted: Any, seen: Seen | None) -> Column:
    if seen is None:
        return Column(name, "ignore")
    if callable(wanted):
        width = checked_vectors(wanted([next(iter(seen.words), "")]), 1, name).shape[1]
        return Column(name, "number", width, encoder=wanted, summary=f"texts, encoded as vectors of {width}")
    word = str(wanted).split(" ")[0] if wanted is not None else _type(seen)
    return MAKERS[word](seen, str(wanted or ""))


def _type(seen: Seen) -> str:
    if not seen.present:
        return "ignore"
    if not seen.has_words:
        return "boolean" if seen.is_boolean else "number"
    words = list(seen.words)
    if seen.is_boolean:
        return "boolean"
    _check_mostly_words(seen)
    if seconds_of(words) is not None:
        return "date"
    length = sum(len(each.split()) for each in words) / len(words)
    if len(words) > LEAST_TEXT and length >= TEXT_LENGTH:
        return "text"
    is_unique = len(words) == seen.present >= LEAST_IDS and length < 2
    return "id" if is_unique else "category"


def _check_mostly_words(seen: Seen) -> None:
    """Refuses a column of numbers in which a few cells are something else: a mistake, or not what it seems."""
    import pyarrow

    wrong = [word for word in seen.words if numbers_of(pyarrow.array([word])) is None]
    if not wrong or 2 * sum(seen.words[word] for word in wrong) >= seen.present:
        return
    raise MixedColumn(seen.name, wrong)


class MixedColumn(DataError):
    """Most cells of a column are numbers, some are not."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        super().__init__(f"column {name} holds numbers, but also {shown(words[0])}")
        self.name, self.words = name, frozenset(words)


def _number(seen: Seen, wanted: str) -> Column:
    fill = seen.total / max(seen.numbers, 1)
    summary = f"vectors of {seen.width}" if seen.width > 1 else f"{seen.low:.6g} to {seen.high:.6g}"
    return Column(seen.name, "number", seen.width, seen.missing > 0, fill, summary=_with_missing(summary, seen))


def _boolean(seen: Seen, wanted: str) -> Column:
    unknown = [word for word in seen.words if word.lower() not in TRUTH]
    if unknown:
        raise DataError(f"column {seen.name} must be {TRUE_OR_FALSE}, found {shown(unknown[0])}")
    return Column(seen.name, "boolean", has_missing=seen.missing > 0, fill=0.0, summary=_with_missing("", seen))


def _category(seen: Seen, wanted: str) -> Column:
    least = min(RARE, seen.rows // 100)
    frequent = [word for word, count in seen.words.most_common() if count >= least]
    if len(seen.words) - len(frequent) < 2:  # one rare word needs no company
        frequent = [word for word, _ in seen.words.most_common()]
    kept = tuple(frequent[:OWN_CODES])
    buckets = 0 if len(kept) == len(seen.words) else 1 if len(kept) == len(frequent) else SHARED_CODES
    number = listed_words(kept or seen.words, len(seen.words))
    return Column(seen.name, "category", 1, seen.missing > 0, 0.0, kept, buckets, summary=_with_missing(number, seen))


def _date(seen: Seen, wanted: str) -> Column:
    date_format = wanted.partition(" ")[2]
    words = list(seen.words)
    seconds = seconds_of(words, date_format)
    if seconds is None:
        how = f"as {date_format}" if date_format else "in ISO 8601; give the format, as in: date %d.%m.%Y"
        wrong = next(word for word in words if seconds_of([word], date_format) is None)
        raise DataError(f"column {seen.name} is no date {how}, found {shown(wrong)}")
    times = np.array([seen.words[word] for word in words])
    fill = float(np.average(seconds, weights=times)) if len(words) else 0.0
    summary = described_range(seconds) if len(words) else ""
    has_time = bool((seconds % 86_400 != 0).any())
    return Column(seen.name, "date", 1, seen.missing > 0, fill, (), 0, date_format, has_time,
                  _with_missing(summary, seen))  # fmt: skip


def _text(seen: Seen, wanted: str) -> Column:
    summary = f"{len(seen.words):,} texts, hashed to {TEXT_WIDTH:,} columns"
    return Column(seen.name, "text", TEXT_WIDTH, summary=_with_missing(summary, seen))


def _id(seen: Seen, wanted: str) -> Column:
    return Column(seen.name, "id", summary="no feature; stands beside predictions and labels")


def _ignored(seen: Seen, wanted: str) -> Column:
    return Column(seen.name, "ignore", summary="empty" if not seen.present else "")


MAKERS: dict[str, Callable[[Seen, str], Column]] = {
    "number": _number, "category": _category, "boolean": _boolean, "date": _date, "text": _text, "id": _id,
    "ignore": _ignored,
}  # fmt: skip


def _with_missing(summary: str, seen: Seen) -> str:
    gaps = f"{seen.missing / seen.rows:.1%} missing".replace("0.0%", "under 0.1%") if seen.missing else ""
    return ", ".join(filter(None, [summary, gaps]))


def place_of(batches: Iterable[RowBatch], error: MixedColumn) -> DataError:
    """The same mistake with the line or row of the first such cell."""
    for row_batch in batches:
        texts = row_batch.cells[error.name].text().to_pylist()
        wrong = np.array([text in error.words for text in texts], bool)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            where = f"{row_batch.file}, {row_batch.unit} {row_batch.rows[row]}"
            return DataError(
                f"{where}: column {error.name} must be a number, found {shown(texts[row])}; "
                f"if it is meant, write columns: {{{error.name}: category}}"
            )
    return error
