"""Reading what people give: lists, arrays or tensors, checked once, with errors that name the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glws.errors import DataError

Numbers = Tensor | npt.NDArray[Any] | Sequence[Any]
"""A tensor, an array, or lists of numbers."""


UNKNOWN = -1
"""In place of a class, or of whether one occurs, where nothing is known. `None` and NaN mean the same."""


def whole_numbers(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as int64. `hint` says what to write instead of values that are refused, here and below."""
    read = _read(values, what, ndim, hint)
    if not read.is_floating_point():
        return read.long()
    broken = _any_in_group((read != read.round()) | read.isinf())
    refuse(broken, lambda group: f"{what} must be whole numbers, found {shown(read[group])}{_after(hint)}")
    return read.long()


def whole_counts(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as whole numbers >= 0; true and false are none."""
    given = _read(values, what, ndim, hint)
    read = whole_numbers(given, what, ndim, hint)
    if given.dtype == torch.bool and len(given):
        raise DataError(f"{what} must be numbers, found true and false; whether a class occurs is MultiInstance.of")
    wrong = _any_in_group(read < 0)
    refuse(wrong, lambda group: f"{what} must be >= 0, found {shown(read[group])}; leave out groups of unknown counts")
    return read


def reals(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as float64, none of them NaN."""
    read = _read(values, what, ndim, hint).double()
    broken = _any_in_group(read.isnan())
    refuse(broken, lambda group: f"{what} must be numbers, found {shown(read[group])}; leave out groups without one")
    return read


def shares(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as float64 within 0..1."""
    read = reals(values, what, ndim, hint)
    outside = _any_in_group((read < 0) | (read > 1))
    refuse(outside, lambda group: f"{what} must be within 0 and 1, found {shown(read[group])}{_after(hint)}")
    return read


def flags(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values, True and False or 1 and 0, as bool."""
    read = _read(values, what, ndim, hint)
    outside = _any_in_group((read != 0) & (read != 1))
    refuse(outside, lambda group: f"{what} must be true or false, found {shown(read[group])}{_after(hint)}")
    return read.bool()


def classes(values: Numbers, what: str, num_classes: int, ndim: int = 1, least: int = 0, hint: str = "") -> Tensor:
    """The values as class numbers, from `least` to num_classes - 1."""
    most = number_of_classes(num_classes) - 1
    read = whole_numbers(values, what, ndim, hint)
    outside = _any_in_group((read < least) | (read > most))
    refuse(outside, lambda group: f"{what} must be within {least}..{most}, found {shown(read[group])}{_after(hint)}")
    return read


def classes_or_unknown(values: Numbers, what: str, num_classes: int, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as class numbers, `UNKNOWN` where one is -1, None or NaN.

    >>> classes_or_unknown([2, None, -1], "labels", 3)
    tensor([ 2, -1, -1])
    """
    read = _read(values, what, ndim, hint)
    return classes(torch.where(read.isnan(), UNKNOWN, read), what, num_classes, ndim, UNKNOWN, hint)


def marks_or_unknown(values: Numbers, what: str, ndim: int = 1, hint: str = "") -> Tensor:
    """The values as 1 (present), 0 (absent) or `UNKNOWN`; 1 and -1 without any 0 or None is refused.

    To others -1 is the negative class, and a bag of unknown sign says nothing: a model of such data calls all positive.

    >>> marks_or_unknown([1, -1], "y")
    Traceback (most recent call last):
    ...
    glws.errors.DataError: y: found 1 and -1 but no 0, and -1 means unknown; write 0 for negatives, None for unknown
    """
    found = classes_or_unknown(values, what, 2, ndim, hint)
    occurs = [bool((found == number).any()) for number in (UNKNOWN, 0, 1)]
    if occurs == [True, False, True] and not bool(_read(values, what, ndim, hint).isnan().any()):
        raise DataError(
            f"{what}: found 1 and -1 but no 0, and -1 means unknown; write 0 for negatives, None for unknown"
        )
    return found


def number_of_classes(given: int) -> int:
    """A whole number from 1 on."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise DataError(f"num_classes must be a whole number from 1 on, found {given!r}")
    return int(given)


def pairs_of_probabilities(values: Numbers) -> Tensor:
    """Class probabilities [groups, 2, classes] that sum to 1."""
    read = shares(values, "probabilities", 3)
    if read.shape[1] != 2:
        raise DataError(f"probabilities must be [groups, 2, classes], found shape {list(read.shape)}")
    off = _any_in_group((read.sum(2) - 1).abs() > 1e-4)  # room for a softmax in half precision
    refuse(off, lambda group: f"probabilities must sum to 1, found {shown(read[group].sum(1))}")
    return read


def rates(values: float | Numbers, what: str, count: int) -> Tensor:
    """`count` probabilities as float64; one number stands for all of them."""
    read = torch.as_tensor(values, dtype=torch.float64)
    if read.shape not in ((), (count,)):
        raise DataError(f"{what} must be one number or {count}, found shape {list(read.shape)}")
    if not bool(((read >= 0) & (read <= 1)).all()):
        raise DataError(f"{what} must be within 0 and 1, found {shown(read)}")
    return read.expand(count).clone()


def class_mask(chosen: int | Sequence[int], num_classes: int) -> Tensor:
    """Which classes are meant, [num_classes], from one class or several."""
    mask = torch.zeros(number_of_classes(num_classes), dtype=torch.bool)
    for number in np.atleast_1d(np.asarray(chosen)).tolist():
        if not isinstance(number, int):
            raise DataError(f"classes are chosen by their numbers, found {number!r}")
        if not 0 <= number < num_classes:
            raise DataError(f"class {number} is not one of 0..{num_classes - 1}")
        mask[number] = True
    return mask


def label_counts(labels: Tensor, lengths: Numbers | None, num_classes: int) -> Tensor:
    """How often each class occurs in each group of padded labels [groups, instances]: [groups, classes]."""
    sizes = group_sizes(labels, lengths)
    real = torch.arange(labels.shape[1], device=labels.device) < sizes[:, None]
    occurs = torch.nn.functional.one_hot(labels.clamp(0, num_classes - 1), num_classes)
    return (occurs * real[:, :, None]).sum(1)


def true_labels(labels: Numbers, lengths: Numbers | None, num_classes: int) -> Tensor:
    """Padded true labels [groups, instances]; padding may hold anything."""
    read = whole_numbers(labels, "labels", 2)
    real = torch.arange(read.shape[1], device=read.device) < group_sizes(read, lengths)[:, None]
    return classes(torch.where(real, read, 0), "labels", num_classes, 2)


def group_sizes(labels: Tensor, lengths: Numbers | None) -> Tensor:
    """The number of instances of each group: as given, or the full width."""
    if lengths is None:
        return torch.full((len(labels),), labels.shape[1], device=labels.device)
    sizes = whole_numbers(lengths, "lengths").to(labels.device)
    if len(sizes) != len(labels):
        raise DataError(f"there are {len(labels)} groups of labels but {len(sizes)} lengths")
    refuse((sizes < 0) | (sizes > labels.shape[1]), lambda group: f"length {int(sizes[group])} does not fit its labels")
    return sizes


def refuse(wrong: Tensor, message: Callable[[int], str]) -> None:
    """Raises `DataError` for the first group that is wrong."""
    if bool(wrong.any()):
        group = int(wrong.nonzero()[0])
        raise DataError(f"group {group}: {message(group)}")


def same_length(what: str, *values: Tensor) -> None:
    """Raises `DataError` unless all have as many groups."""
    found = [len(value) for value in values]
    if len(set(found)) > 1:
        raise DataError(f"{what} must have one entry for each group, found {' and '.join(map(str, found))} entries")


def shown(values: Tensor) -> str:
    """Numbers as they stand in a message: 2, or (1, 0, 0.25)."""
    if values.ndim == 0:
        return f"{values.item():g}"
    return f"({', '.join(shown(value) for value in values)})"


def _read(values: Numbers, what: str, ndim: int, hint: str = "") -> Tensor:
    """A tensor of so many axes, NaN where a value is missing."""
    try:
        read = values if isinstance(values, Tensor) else torch.as_tensor(_numeric(np.asarray(values)))  # float64
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} cannot be read as an array of numbers: {error}{_after(hint)}") from error
    if read.numel() == 0 and read.ndim < ndim:
        read = read.reshape(0, *[1] * (ndim - 1))
    if read.ndim != ndim:
        axes = "1 axis" if ndim == 1 else f"{ndim} axes"
        raise DataError(f"{what} must have {axes}, found shape {list(read.shape)}{_after(hint)}")
    return read


def _numeric(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects as float64, NaN in place of None and of the missing value of pandas."""
    if values.dtype.kind != "O":
        return values
    return np.where(missing_values(values), np.nan, values).astype(np.float64)


def missing_values(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values are None, NaN, or the missing value of pandas.

    >>> missing_values(np.array([-1, None, "a"], object))
    array([False,  True, False])
    """
    if values.dtype.kind != "O":
        return np.asarray(values != values)
    return np.array([_is_missing(value) for value in values.flat], bool).reshape(values.shape)


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # the missing value of pandas is neither equal to itself nor different
        return not isinstance(value, np.ndarray | Tensor)


def _after(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _any_in_group(wrong: Tensor) -> Tensor:
    return wrong.flatten(1).any(1) if wrong.ndim > 1 else wrong
