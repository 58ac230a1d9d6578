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


def whole_numbers(values: Numbers, what: str, ndim: int = 1) -> Tensor:
    """The values as int64."""
    read = _read(values, what, ndim)
    if not read.is_floating_point():
        return read.long()
    broken = _any_in_group((read != read.round()) | read.isinf())
    refuse(broken, lambda group: f"{what} must be whole numbers, found {shown(read[group])}")
    return read.long()


def reals(values: Numbers, what: str, ndim: int = 1) -> Tensor:
    """The values as float64, none of them NaN."""
    read = _read(values, what, ndim).double()
    refuse(_any_in_group(read.isnan()), lambda group: f"{what} must be numbers, found {shown(read[group])}")
    return read


def shares(values: Numbers, what: str, ndim: int = 1) -> Tensor:
    """The values as float64 within 0..1."""
    read = reals(values, what, ndim)
    outside = _any_in_group((read < 0) | (read > 1))
    refuse(outside, lambda group: f"{what} must be within 0 and 1, found {shown(read[group])}")
    return read


def flags(values: Numbers, what: str, ndim: int = 1) -> Tensor:
    """The values, True and False or 1 and 0, as bool."""
    read = _read(values, what, ndim)
    outside = _any_in_group((read != 0) & (read != 1))
    refuse(outside, lambda group: f"{what} must be true or false, found {shown(read[group])}")
    return read.bool()


def classes(values: Numbers, what: str, num_classes: int, ndim: int = 1, least: int = 0) -> Tensor:
    """The values as class numbers, from `least` (-1 where a class may be missing) to num_classes - 1."""
    read = whole_numbers(values, what, ndim)
    outside = _any_in_group((read < least) | (read >= num_classes))
    refuse(outside, lambda group: f"{what} must be within {least}..{num_classes - 1}, found {shown(read[group])}")
    return read


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
    numbers = [chosen] if isinstance(chosen, int) else list(chosen)
    for number in numbers:
        if not 0 <= number < num_classes:
            raise DataError(f"class {number} is not one of 0..{num_classes - 1}")
    mask = torch.zeros(num_classes, dtype=torch.bool)
    mask[numbers] = True
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


def _read(values: Numbers, what: str, ndim: int) -> Tensor:
    try:
        read = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))  # lists in float64
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} cannot be read as an array of numbers: {error}") from error
    if read.numel() == 0 and read.ndim < ndim:
        read = read.reshape(0, *[1] * (ndim - 1))
    if read.ndim != ndim:
        raise DataError(f"{what} must have {ndim} {'axis' if ndim == 1 else 'axes'}, found shape {list(read.shape)}")
    return read


def _any_in_group(wrong: Tensor) -> Tensor:
    return wrong.flatten(1).any(1) if wrong.ndim > 1 else wrong
