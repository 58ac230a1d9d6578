"""The schema of a table: the type of each feature column, and how its cells become numbers for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from glws._messages import counted, hint
from glws._reprs import short_repr
from glws.errors import DataError

TYPES = ("number", "category", "boolean", "date", "text", "id", "ignore")
"""What a column may be. An `id` is no feature: it stands beside predictions and labels."""
FORMAT = 1
DAY = 86_400.0
YEAR = 365.2425 * DAY
PERIODS = {"year": YEAR, "week": 7 * DAY, "day": DAY}
MONDAY = 4 * DAY
"""Seconds from the first day of 1970, a Thursday, to the first Monday."""
SHOWN_COLUMNS, SHOWN_WORDS = 40, 3

Array = NDArray[np.floating[Any]]
Encoder = Callable[[list[str]], Any]
"""Texts to vectors, `[rows, width]`, such as the `encode` of a sentence encoder."""


@dataclass(frozen=True)
class Column:
    """The type of a column, and what its cells are encoded by.

    A number has `width` values (more than one in a column of vectors). A category is one of `words`, most frequent
    first; its other words share `buckets` codes by their hash, and are taken for empty cells if there are none.
    `fill` stands in for an empty cell, which `has_missing` marks in a column of its own. A date is read by
    `date_format` (ISO 8601 if it is empty). `summary` describes the values, for people. `encoder` makes vectors of
    texts; it is not stored.
    """

    name: str
    type: str
    width: int = 1
    has_missing: bool = False
    fill: float = 0.0
    words: tuple[str, ...] = ()
    buckets: int = 0
    date_format: str = ""
    has_time: bool = False
    summary: str = ""
    encoder: Encoder | None = field(default=None, compare=False)

    @property
    def num_coded(self) -> int:
        """Numbers of a cell in the coded matrix; those of hashed text are not in it."""
        return {"text": 0, "id": 0, "ignore": 0}.get(self.type, self.width)

    @property
    def is_category(self) -> bool:
        """Whether its numbers in the coded matrix are codes."""
        return self.type in ("category", "boolean")

    # ------------------------------------------------------------ encoding

    @property
    def encoded_names(self) -> list[str]:
        """The names of its columns in the encoded matrix."""
        if self.type == "text":
            return [f"{self.name}#{place}" for place in range(self.width)]
        names = [self.name] if self.width == 1 else [f"{self.name}[{place}]" for place in range(self.width)]
        if self.type == "category":
            others = [f"{self.name}: other"] if self.buckets == 1 else []
            names = [f"{self.name}={word}" for word in self.words] + others
            names += [f"{self.name}: other {place}" for place in range(self.buckets)] if self.buckets > 1 else []
        if self.type == "date":
            names += [f"{self.name}: {wave} of the {period}" for period in self._periods for wave in ("sine", "cosine")]
        return names + ([f"{self.name} is missing"] if self.has_missing else [])

    @property
    def is_scaled(self) -> list[bool]:
        """Which of its encoded columns are standardized: numbers and days, no indicators and no waves."""
        number = self.width if self.type == "number" else 1 if self.type == "date" else 0
        return [place < number for place in range(len(self.encoded_names))]

    @property
    def _periods(self) -> list[str]:
        return [period for period in PERIODS if period != "day" or self.has_time]

    def encoded(self, coded: Array) -> Array:
        """The encoded columns of its part of the coded matrix `[rows, num_coded]`, in float64."""
        missing: NDArray[np.bool_] = np.logical_or.reduce(np.isnan(coded), axis=1)
        if self.type == "category":
            codes = np.where(missing, -1, coded[:, 0])
            found = (codes[:, None] == np.arange(len(self.words) + self.buckets)).astype(np.float64)
        else:
            found = np.where(np.isnan(coded), self.fill, coded).astype(np.float64)
        if self.type == "date":
            found = self._date_columns(found[:, 0], missing)
        return np.column_stack([found, missing]) if self.has_missing else found

    def _date_columns(self, seconds: Array, missing: NDArray[np.bool_]) -> Array:
        """Days since 1970, and where the date is in its year, its week, and its day if it has a time."""
        columns = [seconds / DAY]
        for period in self._periods:
            turns = 2 * np.pi * (seconds - (MONDAY if period == "week" else 0)) / PERIODS[period]
            columns += [np.where(missing, 0, np.sin(turns)), np.where(missing, 0, np.cos(turns))]
        return np.column_stack(columns)

    def code_of(self, words: Sequence[str]) -> Array:
        """The code of each word; NaN for those without one."""
        known = {word: place for place, word in enumerate(self.words)}
        return np.array([known.get(word, self._shared(word)) for word in words], np.float64)

    def _shared(self, word: str) -> float:
        if not self.buckets:
            return np.nan
        return len(self.words) + crc32(word.encode("utf-8", "surrogatepass")) % self.buckets

    # ------------------------------------------------------------ for people

    def describe(self) -> str:
        """The values in a few words."""
        return ", ".join(filter(None, [self.summary, self._shared_words()]))

    def _shared_words(self) -> str:
        if self.type != "category" or not self.buckets:
            return ""
        return "rare ones share a column" if self.buckets == 1 else f"rare ones are hashed to {self.buckets} columns"


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows of a table as numbers: codes of categories, seconds of dates, NaN for empty cells; and hashed texts.

    `matrix` is `[rows, columns]`; `texts` a sparse matrix `[rows, width]` of all text columns, or None.
    """

    __repr__ = short_repr

    matrix: Array
    texts: Any = None

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coded columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.matrix[rows], None if self.texts is None else self.texts[rows])


@dataclass(frozen=True)
class Schema:
    """The columns of a table that features are made of.

    Cells become a *coded* matrix first (numbers, codes of categories, NaN for empty cells), which trees can learn
    from; `encoded` makes the columns of a network or a linear model of it: an indicator for each category and for
    missing values, days and waves of dates.

    >>> schema = Schema((Column("age", "number", has_missing=True, fill=40.0),
    ...                  Column("work", "category", words=("private", "state"), buckets=1)))
    >>> coded = Coded(np.array([[30.0, 1], [np.nan, 2]]))
    >>> schema.encoded_names
    ['age', 'age is missing', 'work=private', 'work=state', 'work: other']
    >>> schema.encoded(coded).tolist()
    [[30.0, 0.0, 0.0, 1.0, 0.0], [40.0, 1.0, 0.0, 0.0, 1.0]]
    """

    columns: tuple[Column, ...]

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that features are made of: no ids, and none that are ignored."""
        return tuple(column for column in self.columns if column.type not in ("id", "ignore"))

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of the id columns."""
        return tuple(column.name for column in self.columns if column.type == "id")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, as the table has them."""
        return tuple(column.name for column in self.features)

    @property
    def coded_names(self) -> tuple[str, ...]:
        """The names of the columns of the coded matrix."""
        return tuple(
            column.name if column.width == 1 else f"{column.name}[{place}]"
            for column in self.features
            for place in range(column.num_coded)
        )

    @property
    def is_category(self) -> NDArray[np.bool_]:
        """Which columns of the coded matrix hold codes of categories."""
        return np.array([column.is_category for column in self.features for _ in range(column.num_coded)], bool)

    @property
    def encoded_names(self) -> list[str]:
        """The names of the columns of the encoded matrix."""
        return [name for column in self._in_order() for name in column.encoded_names]

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.encoded_names)

    def _in_order(self) -> list[Column]:
        """The features, hashed texts last."""
        return sorted(self.features, key=lambda column: column.type == "text")

    @property
    def is_scaled(self) -> NDArray[np.bool_]:
        """Which encoded columns are standardized."""
        return np.array([scaled for column in self._in_order() for scaled in column.is_scaled], bool)

    def encoded(self, coded: Coded) -> Array:
        """The encoded matrix `[rows, width]` in float64, sparse texts spelled out."""
        parts = [self.encoded_dense(coded.matrix)]
        parts += [] if coded.texts is None else [coded.texts.toarray()]
        return np.column_stack(parts)

    def encoded_dense(self, matrix: Array) -> Array:
        """The encoded columns of all but the texts."""
        parts: list[Array] = [np.empty((len(matrix), 0))]
        place = 0
        for column in self.features:
            if column.num_coded:
                parts.append(column.encoded(matrix[:, place : place + column.num_coded]))
                place += column.num_coded
        return np.column_stack(parts)

    # ------------------------------------------------------------ stored and shown

    def as_dict(self) -> dict[str, Any]:
        """Plain values; `Schema.read` makes the same schema of them."""
        return {"format": FORMAT, "columns": [_stored(column) for column in self.columns]}

    @classmethod
    def read(cls, content: Any) -> Schema:
        """From what `as_dict` gave; anything else is a `DataError`.

        >>> schema = Schema((Column("work", "category", words=("private",), buckets=1),))
        >>> Schema.read(schema.as_dict()) == schema
        True
        """
        columns = content.get("columns") if isinstance(content, Mapping) else None
        if not isinstance(columns, list) or content.get("format") != FORMAT:
            raise DataError(f"not a schema of format {FORMAT}")
        return cls(tuple(_read_column(column) for column in columns))

    def lines(self) -> list[str]:
        """A table of the columns for people, one line each."""
        shown = self.columns[:SHOWN_COLUMNS]
        wide = max((len(column.name) for column in shown), default=0)
        rows = [f"  {column.name:<{min(wide, 30)}}  {column.type:<8}  {column.describe()}".rstrip() for column in shown]
        hidden = len(self.columns) - len(shown)
        return [self.headline(), *rows, *([f"  and {counted(hidden, 'more column')}"] if hidden else [])]

    def headline(self) -> str:
        """How many columns there are of each type, and how many numbers the model gets."""
        number = {name: sum(column.type == name for column in self.columns) for name in TYPES}
        parts = [counted(number[name], name).replace("categorys", "categories") for name in TYPES if number[name]]
        return f"columns: {', '.join(parts)}; {counted(self.width, 'input')} of the model"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _stored(column: Column) -> dict[str, Any]:
    """The fields that are not at their default."""
    values = {name: value for name, value in asdict(replace(column, encoder=None)).items() if name != "encoder"}
    usual = asdict(Column("", ""))
    return {name: value for name, value in values.items() if name in ("name", "type") or value != usual[name]}


READ_AS: dict[str, type] = {
    "name": str, "type": str, "width": int, "has_missing": bool, "fill": float, "words": list, "buckets": int,
    "date_format": str, "has_time": bool, "summary": str,
}  # fmt: skip


def _read_column(content: Any) -> Column:
    if not isinstance(content, Mapping) or not {"name", "type"} <= set(content) <= set(READ_AS):
        raise DataError("a column of the schema has other fields than this glws knows")
    for name, value in content.items():
        if not isinstance(value, READ_AS[name]) and not (name == "words" and isinstance(value, tuple)):
            raise DataError(f"a column of the schema has {name} = {str(value)[:60]!r}")
    if content["type"] not in TYPES:
        raise DataError(f"a column of the schema has the type {content['type']!r}")
    words = tuple(str(word) for word in content.get("words", ()))
    return Column(**{**content, "words": words})


def checked_types(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The types that a description gives to columns: their names, `date FORMAT`, or an encoder of texts."""
    for name, value in wanted.items():
        word = str(value).split(" ")[0]
        if callable(value) or (isinstance(value, str) and word in TYPES and (word == value or word == "date")):
            continue
        raise DataError(f"columns: {name} cannot be {str(value)[:60]!r}; {hint(value, TYPES, '{}', 'known are')}")
    return dict(wanted)


def listed_words(words: Iterable[str], number: int) -> str:
    """The first of so many words.

    >>> listed_words(["private", "state", "local", "none"], 9)
    '9 values (private, state, local, ...)'
    """
    shown = [word if len(word) <= 20 else f"{word[:19]}…" for word, _ in zip(words, range(SHOWN_WORDS), strict=False)]
    return f"{counted(number, 'value')} ({', '.join(shown)}{', ...' if number > len(shown) else ''})"


assert set(READ_AS) == {item.name for item in fields(Column)} - {"encoder"}
