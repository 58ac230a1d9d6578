"""What a person passes as `y` and `groups`, as classes, groups of rows and kinds of weak labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glws._rules import check_keys
from glws.data import Groups
from glws.errors import DataError
from glws.kinds import (
    FIRST_CLASS,
    UNKNOWN,
    AbstractSupervision,
    Labels,
    PartialLabels,
    PositiveUnlabeled,
    find_kind,
    is_class,
    is_wide,
    kind_from_columns,
    single_reading,
)
from glws.kinds._arrays import missing_values

Weak = AbstractSupervision | Sequence[AbstractSupervision]
BuildKind = Callable[[NDArray[Any]], AbstractSupervision]
KindClass = type[AbstractSupervision]

NO_CLASS = "but -1 is a row without a label: number the classes from 0"
ONE_CLASS = (
    "-1 is a row without a label: write 0 for negatives; "
    'positive-unlabeled data are kind="positive_unlabeled", kind_options={"prior": ..., "unlabeled": -1}'
)


@dataclass(frozen=True, eq=False)
class ParsedTargets:
    """The weak labels of the rows: names of the classes, and kind by kind the groups and their weak labels.

    `labels` are the class numbers of the rows, `UNKNOWN` for unlabeled rows, if plain labels were given.
    """

    classes: NDArray[Any]
    groups: tuple[Groups, ...]
    weak: tuple[AbstractSupervision, ...]
    labels: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TargetParser:
    """How `y` is to be understood: the kind it is of, options of that kind, and the names of the classes.

    `is_new`: something is to be learned from it, so that labels must be of more than one class.
    """

    kind: str | KindClass | BuildKind | None = None
    options: Mapping[str, Any] | None = None
    classes: Sequence[Any] | None = None
    is_new: bool = True

    def known(self, y: Any, groups: Any, num_rows: int) -> ParsedTargets:
        """What `y` and `groups` say of so many rows; what does not fit together is a `DataError`."""
        is_marked = self._named_kind is PositiveUnlabeled
        if self.classes is not None and not is_marked and missing_labels(np.asarray(self.classes)).any():
            raise DataError(f"classes are named {_listed(np.asarray(self.classes))}, {NO_CLASS}")
        if is_weak(y):
            found = self._of_weak(y, groups, num_rows)
        elif self.kind is not None:
            found = self._of_values(y, groups, num_rows)
        elif groups is not None:
            raise DataError("groups were given, but y are plain labels; say what y tells of a group by kind=")
        else:
            found = self._of_rows(y, num_rows)
        for members, weak in zip(found.groups, found.weak, strict=True):
            members.check(num_rows)
            weak.check(members.lengths, len(found.classes), [str(name) for name in found.classes])
        return found

    # ------------------------------------------------------------ a label or a set of candidates for each row

    def _of_rows(self, y: Any, num_rows: int) -> ParsedTargets:
        mask = _mask(y)
        if mask is not None:
            _check_length(len(mask), num_rows)
            classes = self._classes(mask.shape[1])
            return ParsedTargets(classes, (Groups.singles(num_rows),), (PartialLabels.of(mask),))
        values = _column(y)
        _check_length(len(values), num_rows)
        classes, numbers = self._labels(values)
        weak = Labels(torch.from_numpy(numbers), len(classes))
        return ParsedTargets(classes, (Groups.singles(num_rows),), (weak,), numbers)

    def _labels(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Classes, and the number of each value's; several classes occur where something is learned."""
        classes, numbers = class_numbers(values, self.classes)
        found = np.unique(numbers[numbers != UNKNOWN])
        if self.is_new and len(found) < 2:
            only = f"the class {classes[found[0]]}" if len(found) else "rows without a label"
            raise DataError(f"y has only {only}; expected at least two classes ({ONE_CLASS})")
        return classes, numbers

    # ------------------------------------------------------------ kinds as objects

    def _of_weak(self, y: Weak, groups: Any, num_rows: int) -> ParsedTargets:
        weak = (y,) if isinstance(y, AbstractSupervision) else tuple(y)
        given = [groups] if isinstance(y, AbstractSupervision) else _for_each_kind(groups, len(weak))
        members = tuple(groups_of(part, num_rows, len(kind)) for part, kind in zip(given, weak, strict=True))
        for part, kind in zip(members, weak, strict=True):
            if len(part) != len(kind):
                raise DataError(f"{type(kind).__name__}: there are {len(part)} groups but {len(kind)} weak labels")
        return ParsedTargets(self._classes(weak[0].num_classes), members, weak)

    # ------------------------------------------------------------ numbers or texts of a named kind

    def _of_values(self, y: Any, groups: Any, num_rows: int) -> ParsedTargets:
        is_marked = self._named_kind is PositiveUnlabeled
        values = positive_marks(y, self.classes) if is_marked else self._without_gaps(np.asarray(y))
        if groups is None and self._named_kind is not None and self._named_kind.size != 1:
            raise DataError(
                f'kind="{self._word}" tells something of groups; pass groups=, the name of its group for each row'
            )
        if self._named_kind is not None and self._named_kind.takes_single_rows:
            groups = with_single_rows(groups)
        members = groups_of(groups, num_rows, num_rows)
        values = per_group(values, members, num_rows, is_by_row=groups is None or _is_column(groups))
        if self._named_kind is None:
            make: Any = self.kind
            weak = make(values)
            return ParsedTargets(self._classes(weak.num_classes), (members,), (weak,))
        classes, weak = self._from_columns(self._named_kind, values, members)
        return ParsedTargets(classes, (members,), (weak,))

    @property
    def _named_kind(self) -> KindClass | None:
        """The class of weak labels that is meant by name, or is given itself; None for a function that makes them."""
        return kind_of(self.kind)

    @property
    def _word(self) -> str:
        return self.kind if isinstance(self.kind, str) else str(getattr(self.kind, "__name__", self.kind))

    def _without_gaps(self, values: NDArray[Any]) -> NDArray[Any]:
        """`UNKNOWN` in place of None and NaN where a kind knows it; a function is given the values as they are."""
        missing = missing_values(values)
        if self._named_kind is None or not missing.any():
            return values
        if not self._named_kind.may_be_unknown:
            row = np.flatnonzero(missing.reshape(len(values), -1).any(1))[0]
            raise DataError(f'y of row {row} is missing; kind="{self._word}" has no unknown, leave such rows out')
        return np.where(missing, UNKNOWN, values)

    def _from_columns(
        self, kind: KindClass, values: NDArray[Any], members: Groups
    ) -> tuple[NDArray[Any], AbstractSupervision]:
        wanted = self._word.partition(".")[2] if isinstance(self.kind, str) else ""
        value, reading = _value_of(kind, self._word, wanted, values.ndim)
        if reading == "class or none":
            classes, values = self._labels(values)
        elif kind is PositiveUnlabeled:
            classes = (
                np.array([(self.options or {}).get("unlabeled") or 0, 1]) if self.classes is None else self._classes(2)
            )
        elif is_class(reading):
            classes, values = class_numbers(values, self.classes)
        elif reading == "flag or class" and values.dtype.kind in "OUS" and not _is_numeric(values):
            classes, values = self._named_bags(values)
        elif is_class(single_reading(reading)):
            classes, numbers = class_numbers(values.reshape(-1), self.classes)
            values = numbers.reshape(values.shape)
        else:
            classes = self._classes(
                values.shape[1] if values.ndim == 2 else 2 if self.classes is None else len(self.classes)
            )
        options = dict(self.options or {})
        check_keys(options, list(kind.options), "kind_options")
        texts = tuple(str(one) for one in classes)
        return classes, kind_from_columns(kind, {value: values}, texts, members.lengths.numpy(), options)

    def _named_bags(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes, and what each group is by the name of a class."""
        if self.classes is None:
            found = ", ".join(str(one) for one in np.unique(values[~missing_labels(values)].astype(str))[:3])
            raise DataError(
                f"y has the names {found}; say which one a group has if any of its rows has it: "
                'classes=["normal", "tumor"], the second one'
            )
        classes, numbers = class_numbers(values, self.classes)
        return classes, np.where(numbers < 0, UNKNOWN, FIRST_CLASS + numbers)

    def _classes(self, number: int) -> NDArray[Any]:
        if self.classes is None:
            return np.arange(number)
        classes = np.asarray(self.classes)
        if len(classes) != number:
            raise DataError(f"{len(classes)} classes are named, but the weak labels are over {number}")
        return classes


def is_weak(y: Any) -> bool:
    """Whether it is a kind of weak labels, or several."""
    parts = y if isinstance(y, list | tuple) and len(y) else [y]
    return all(isinstance(part, AbstractSupervision) for part in parts)


def class_numbers(values: NDArray[Any], named: Sequence[Any] | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, sorted or in the order they are named in, and the number of each value's; -1 for what is missing.

    >>> class_numbers(np.array(["b", "a", None, "b"], dtype=object))
    (array(['a', 'b'], dtype=object), array([ 1,  0, -1,  1]))
    """
    from sklearn.utils.multiclass import check_classification_targets

    missing = missing_labels(values)
    there = _plain_numbers(values[~missing])
    if not len(there) and named is None:
        raise DataError("y has no label at all; -1, None and NaN are rows without one")
    if values.dtype.kind in "if" and (values == UNKNOWN).any() and there.min(initial=0) < 0:
        raise DataError(f"y has the labels -1 and {there.min():g}, {NO_CLASS}")
    try:
        found = np.unique(there)
    except TypeError:
        raise DataError("y has labels of different types; expected all of them texts, or all numbers") from None
    if len(there):
        check_classification_targets(there)
    classes = found if named is None else np.asarray(named)
    order = np.argsort(classes, kind="stable")
    unknown = ~np.isin(found, classes)
    if unknown.any():
        raise DataError(f"y has the label {found[unknown][0]!s}, which is not one of the classes {_listed(classes)}")
    numbers = np.full(len(values), -1, np.int64)
    numbers[~missing] = order[np.searchsorted(classes[order], there)]
    return classes, numbers


def _plain_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers that are objects, as they are beside None, as an array of numbers; anything else as it is."""
    is_number = [isinstance(value, int | float | np.number) for value in values]
    return np.array(values.tolist()) if values.dtype.kind == "O" and is_number and all(is_number) else values


def positive_marks(y: Any, classes: Sequence[Any] | None = None) -> NDArray[np.int64]:
    """Marks of rows of positive-unlabeled data: 1, 0, -1 where nothing is given, and -2 where -1 is.

    >>> positive_marks([1, None, -1, 0])
    array([ 1, -1, -2,  0])
    """
    values = np.asarray(y, dtype=object)
    names = (0, 1) if classes is None else tuple(classes)
    known = {-1: -2, 0: 0, 1: 1, names[0]: 0, names[-1]: 1}
    missing = missing_values(values)
    marks = [-1 if gap else known.get(value, -3) for value, gap in zip(values, missing, strict=True)]
    if -3 in marks:
        row = marks.index(-3)
        expected = f"{names[-1]!r}, and None or NaN for an unlabeled row"
        raise DataError(f'y of row {row} is {values[row]!r}; kind="positive_unlabeled" expects {expected}')
    return np.array(marks, np.int64)


def missing_labels(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are -1, None or NaN."""
    if values.dtype.kind == "O":
        return np.asarray(missing_values(values) | np.array([_is_minus_one(value) for value in values], bool))
    if values.dtype.kind in "US":
        return np.asarray(values == ("-1" if values.dtype.kind == "U" else b"-1"))  # what numpy makes of ["a", -1]
    return np.asarray((values == -1) | (values != values)) & (values.dtype.kind != "b")


def _is_numeric(values: NDArray[Any]) -> bool:
    """Whether all values are numbers or missing, in an array of objects."""
    known = values[~missing_labels(values)]
    return values.dtype.kind == "O" and all(isinstance(value, int | float | np.number | np.bool_) for value in known)


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(value == UNKNOWN)


def groups_of(groups: Any, num_rows: int, num_weak: int) -> Groups:
    """Groups of rows: from a name for each row, from lists of row numbers, or every row by itself."""
    if groups is None:
        if num_weak != num_rows:
            raise DataError(
                f"there are {num_rows} rows and {num_weak} weak labels; pass groups=, which rows each is about"
            )
        return Groups.singles(num_rows)
    if not _is_column(groups):
        return Groups.of(groups)
    names = np.asarray(groups)
    if len(names) != num_rows:
        raise DataError(f"there are {num_rows} rows but the groups of {len(names)}")
    return Groups.from_ids(names)


def with_single_rows(groups: Any) -> Any:
    """Names of groups for each row, with a name of its own for each row that has none; lists of rows as they are.

    >>> with_single_rows([7, 7, None])
    array(['0', '0', 'row 2'], dtype=object)
    """
    if not _is_column(groups):
        return groups
    names = np.asarray(groups, dtype=object)
    missing = missing_values(names)
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(names[~missing].tolist()))}
    every = enumerate(zip(names.tolist(), missing.tolist(), strict=True))
    return np.array([f"row {row}" if gap else numbers[name] for row, (name, gap) in every], dtype=object)


def per_group(values: NDArray[Any], groups: Groups, num_rows: int, is_by_row: bool) -> NDArray[Any]:
    """One value for each group, from one for each group, or from one for each row that its group agrees on."""
    if not is_by_row or (len(values) == len(groups) != num_rows):
        if len(values) != len(groups):
            raise DataError(f"there are {len(groups)} groups but y has {len(values)} entries")
        return values
    _check_length(len(values), num_rows)
    first = groups.indices[groups.offsets[:-1]].numpy()
    owner = np.empty(num_rows, np.int64)
    owner[groups.indices.numpy()] = np.repeat(np.arange(len(groups)), groups.lengths.numpy())
    same = np.asarray(values == values[first][owner])
    wrong = np.flatnonzero(~(same.all(1) if same.ndim > 1 else same))
    if len(wrong):
        row, other = wrong[0], first[owner[wrong[0]]]
        raise DataError(
            f"rows {other} and {row} are of one group, but y is {values[other]} and {values[row]}; "
            "expected the weak label of the group in each of its rows"
        )
    return np.asarray(values[first])


def kind_of(kind: str | KindClass | BuildKind | None) -> KindClass | None:
    """The class of weak labels that is named, such as by "proportions" or "proportions.share", or is given itself."""
    if isinstance(kind, str):
        if ":" in kind:
            raise DataError(f"kind={kind!r} is the path of a class; import it and pass the class itself")
        return find_kind(kind.partition(".")[0])
    return kind if isinstance(kind, type) and issubclass(kind, AbstractSupervision) else None


def holds_classes(kind: str | KindClass | BuildKind | None) -> bool:
    """Whether a y of this kind has the class of each row, right or wrong, as it has without any `kind`."""
    named = kind_of(kind)
    if named is None:
        return kind is None
    return named.size == 1 and any(is_class(reading) for reading in named.columns[0].values())


def _value_of(kind: KindClass, word: str, wanted: str, ndim: int) -> tuple[str, str]:
    """Which value of a kind an array of one or two axes holds, and how it is read."""
    columns = [next(iter(each.items())) for each in kind.columns if len(each) == 1]
    if wanted:
        check_keys({wanted: None}, [value for value, _ in columns], f"kind.{kind.name}")
        return next(each for each in columns if each[0] == wanted)
    for value, reading in columns:
        if (ndim == 2) == is_wide(reading):
            return value, reading
    raise DataError(f'kind="{word}" is not told by a y of {ndim} axes')


def _mask(y: Any) -> NDArray[np.bool_] | None:
    """A mask of candidates, None if `y` is a column."""
    if getattr(y, "ndim", None) != 2 and not (isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) == 1):
        return None
    values = np.asarray(y)
    if values.ndim != 2 or values.shape[1] < 2:
        return None
    if values.dtype.kind != "b" and not np.isin(values, (0, 1)).all():
        raise DataError(
            f"y of shape {list(values.shape)} is read as candidates; expected true or false, found other values "
            '(class probabilities are kind="soft_labels")'
        )
    return values.astype(bool)


def _column(y: Any) -> NDArray[Any]:
    from sklearn.utils import column_or_1d
    from sklearn.utils.validation import assert_all_finite

    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and any(isinstance(value, str) for value in y):
        y = np.array(y, dtype=object)  # a plain array would turn what is missing into text
    values = np.asarray(column_or_1d(y, warn=True))
    if values.dtype.kind == "f":
        assert_all_finite(values[~np.isnan(values)], input_name="y")
    return values


def _is_column(groups: Any) -> bool:
    """Whether it has one name for each row, rather than one list for each group."""
    if isinstance(groups, Groups):
        return False
    if hasattr(groups, "ndim"):
        return bool(groups.ndim == 1) and not (len(groups) and isinstance(np.asarray(groups)[0], list | np.ndarray))
    return not (len(groups) and isinstance(groups[0], list | tuple | range | np.ndarray))


def _for_each_kind(groups: Any, number: int) -> list[Any]:
    given = [None] * number if groups is None else list(groups)
    if len(given) != number:
        raise DataError(f"there are {number} kinds of weak labels but {len(given)} lists of groups")
    return given


def _check_length(found: int, num_rows: int) -> None:
    if found != num_rows:
        raise DataError(f"X has {num_rows} rows but y has {found}")


def _listed(classes: NDArray[Any]) -> str:
    return ", ".join(str(one) for one in classes)
