"""Votes as plain arrays, sorted by item: from matrices, long tables, scores, and two sets of sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws.errors import DataError
from glws.kinds._arrays import Numbers, classes_or_unknown, reals, refuse

Integers = NDArray[np.integer]
Floats = NDArray[np.float64]
COUNTED_AT_ONCE = 1 << 24


class PackedVotes(NamedTuple):
    """Votes as arrays: item i has the statements said[offsets[i]:offsets[i + 1]].

    `speakers` [statements] and `meanings` [statements, classes] are the source and the word of each statement; if
    `is_plain`, statement a K + k is "source a says class k". `weights` [sources] temper sources that repeat others.
    """

    offsets: Integers
    said: Integers
    speakers: Integers
    meanings: Floats
    num_sources: int
    is_plain: bool
    weights: Floats

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return len(self.offsets) - 1

    @property
    def items(self) -> Integers:
        """The item of each vote."""
        return np.repeat(np.arange(self.num_items), np.diff(self.offsets))

    def kept(self, mask: NDArray[np.bool_]) -> PackedVotes:
        """Only the votes of a mask, for the same items."""
        sizes = np.bincount(self.items[mask], minlength=self.num_items)
        return self._replace(offsets=np.concatenate([[0], np.cumsum(sizes)]), said=self.said[mask])

    def sampled(self, items: Integers) -> PackedVotes:
        """Only some of the items."""
        sizes = np.diff(self.offsets)[items]
        first = np.repeat(self.offsets[items] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return self._replace(offsets=offsets, said=self.said[first + np.arange(offsets[-1])])


def counted(values: Integers, number: int) -> Integers:
    """How often each of so many numbers occurs; `np.bincount`, which would copy them all as 64 bits, piece by piece."""
    pieces = range(0, len(values), COUNTED_AT_ONCE)
    found = np.zeros(number, np.int64)
    for first in pieces:
        found += np.bincount(values[first : first + COUNTED_AT_ONCE], minlength=number)
    return found


def of_matrix(votes: Numbers, num_classes: int) -> PackedVotes:
    """From class numbers [instances, sources]; -1 is an abstention."""
    matrix = _matrix(votes, num_classes)
    items, sources = np.nonzero(matrix >= 0)
    said = sources * num_classes + matrix[items, sources]
    return _of_classes(_offsets(items, len(matrix)), said, matrix.shape[1], num_classes)


def of_scores(scores: Numbers) -> PackedVotes:
    """From scores or sets [instances, sources, classes]; NaN or all 0 is an abstention."""
    given = scores if isinstance(scores, Tensor) else torch.as_tensor(np.asarray(scores, np.float64))
    if given.ndim != 3:
        raise DataError(f"scores must be [instances, sources, classes], found shape {list(given.shape)}")
    read = reals(given.nan_to_num(0.0), "scores", 3)
    refuse(((read < 0) | read.isinf()).flatten(1).any(1), lambda group: "scores must be finite and >= 0")
    items, sources = (each.numpy() for each in (read > 0).any(2).nonzero(as_tuple=True))
    return _of_statements(_offsets(items, len(read)), sources, read.numpy()[items, sources], read.shape[1])


def of_long(
    items: NDArray[Any], sources: NDArray[Any], labels: NDArray[Any], num_items: int, num_sources: int, classes: int
) -> PackedVotes:
    """From one entry for each vote, in any order; `labels` are class numbers, or sets or scores [votes, classes]."""
    from glws.kinds._vote_kernels import sort_by_item

    _check_long(items, sources, labels, num_items, num_sources, classes)
    offsets = _offsets(items, num_items)
    if labels.ndim == 2:
        order = np.argsort(items, kind="stable")
        return _of_statements(offsets, sources[order], labels[order], num_sources)
    kept = _narrow(num_sources * classes)
    said = (sources.astype(kept) * classes + labels).astype(kept)
    if len(items) and (items[1:] < items[:-1]).any():
        moved = np.empty_like(said)
        sort_by_item(items, said, offsets[:-1].copy(), moved)
        said = moved
    return _of_classes(offsets, said, num_sources, classes)


def of_both(one: PackedVotes, other: PackedVotes) -> PackedVotes:
    """The votes of two sets of sources on the same items."""
    items = np.concatenate([one.items, other.items])
    said = np.concatenate([one.said, other.said.astype(np.int64) + len(one.speakers)])
    speakers = np.concatenate([one.speakers, other.speakers + one.num_sources])
    meanings = np.concatenate([one.meanings, other.meanings])
    order = np.argsort(items, kind="stable")
    sources = one.num_sources + other.num_sources
    return packed(_offsets(items, one.num_items), said[order], speakers, meanings, sources)


def only_classes(votes: PackedVotes, number: Floats | Integers) -> list[int | None]:
    """The class of each source that says one thing only, from how often each statement occurs; None for others."""
    by_class = np.zeros((votes.num_sources, votes.meanings.shape[1]))
    np.add.at(by_class, (votes.speakers, votes.meanings.argmax(1)), number)
    is_one = (by_class > 0).sum(1) == 1
    return [int(row.argmax()) if one else None for row, one in zip(by_class, is_one, strict=True)]


def packed(
    offsets: Integers, said: Integers, speakers: Integers, meanings: Floats, sources: int, weights: Floats | None = None
) -> PackedVotes:
    """Votes as arrays; all sources count fully unless weights are given."""
    whole = np.ones(sources) if weights is None else weights
    return PackedVotes(offsets, said, speakers, meanings, sources, _is_plain(meanings, sources), whole)


def _of_classes(offsets: Integers, said: Integers, sources: int, classes: int) -> PackedVotes:
    """Of votes for one class each, sorted by item."""
    speakers, meanings = np.repeat(np.arange(sources), classes), np.tile(np.eye(classes), (sources, 1))
    return packed(offsets, said.astype(_narrow(sources * classes), copy=False), speakers, meanings, sources)


def _of_statements(offsets: Integers, sources: Integers, meanings: Floats, num_sources: int) -> PackedVotes:
    """Of sets and scores, sorted by item: every different pair of source and word is a statement."""
    rows = np.column_stack([sources, meanings.astype(np.float64)])
    distinct, said = np.unique(rows, axis=0, return_inverse=True)
    return packed(offsets, said.reshape(-1), distinct[:, 0].astype(np.int64), distinct[:, 1:], num_sources)


def _matrix(votes: Numbers, num_classes: int) -> NDArray[Any]:
    """A matrix of class numbers and -1; whole numbers are taken as they are, without a copy."""
    given = votes.cpu().numpy() if isinstance(votes, Tensor) else np.asarray(votes)
    if given.ndim == 2 and given.dtype.kind == "i" and given.size and given.min() >= -1 and given.max() < num_classes:
        return given
    return classes_or_unknown(votes, "votes", num_classes, 2, "rows are instances, columns sources").numpy()


def _offsets(items: NDArray[Any], num_items: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counted(items, num_items))]).astype(np.int64)


def _narrow(most: int) -> type[np.signedinteger[Any]]:
    """The smallest type that holds numbers below this."""
    return np.int16 if most <= 2**15 else np.int32 if most <= 2**31 else np.int64


def _is_plain(meanings: NDArray[np.float64], sources: int) -> bool:
    """Whether statement a K + k is that source a votes for class k."""
    classes = meanings.shape[1]
    if len(meanings) != sources * classes:
        return False
    return bool((meanings.reshape(sources, classes, classes) == np.eye(classes)).all())


def _check_long(
    items: NDArray[Any], sources: NDArray[Any], labels: NDArray[Any], num_items: int, num_sources: int, classes: int
) -> None:
    sizes = [len(items), len(sources), len(labels)]
    if len(set(sizes)) > 1:
        raise DataError(f"items, sources and labels must have one entry for each vote, found {sizes}")
    known = {"items": (items, num_items), "sources": (sources, num_sources)}
    if labels.ndim == 1:
        known["labels"] = (labels, classes)
    elif labels.shape[1] != classes:
        raise DataError(f"labels must be [votes, {classes}], found shape {list(labels.shape)}")
    for name, (values, number) in known.items():
        if len(values) and (values.dtype.kind not in "iu" or int(values.min()) < 0 or int(values.max()) >= number):
            raise DataError(f"{name} must be whole numbers from 0 to {number - 1}")
