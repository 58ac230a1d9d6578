"""The content of a source: inputs and true labels, in a training and a test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glws._reprs import short_repr
from glws.data.sources._images import ImageFiles
from glws.errors import DataError

Inputs = NDArray[np.uint8] | NDArray[np.float32] | ImageFiles
"""Images `[number, channels, height, width]` as bytes, tables `[number, columns]` as floats, or files of images."""


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a source: inputs, and the true class of each as a number."""

    __repr__ = short_repr

    inputs: Inputs
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Fully labeled data as published.

    Images are NCHW, which is torch's order and that of the CIFAR and STL-10 files, so that a mapped file needs no copy.
    `unlabeled` are inputs without a class (STL-10's third part). `unverified` names the files without a known checksum;
    their sizes and labels were checked all the same.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    unlabeled: Inputs | None = None
    columns: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def binary(self, positive: Sequence[int]) -> Source:
        """The same inputs with two classes: 1 for the classes named, 0 for the others.

        >>> import numpy as np
        >>> split = Split(np.zeros((3, 2), np.float32), np.array([0, 2, 1]))
        >>> Source("toy", ("a", "b", "c"), split, split).binary([1, 2]).train.labels.tolist()
        [0, 1, 1]
        """
        outside = [number for number in positive if not 0 <= number < self.num_classes]
        if outside or not positive:
            raise DataError(f"{self.name}: positive classes must be among 0..{self.num_classes - 1}, found {positive}")
        train, test = (_binary_split(split, positive) for split in (self.train, self.test))
        return replace(self, classes=("negative", "positive"), train=train, test=test)

    def __repr__(self) -> str:
        extra = "" if self.unlabeled is None else f" + {len(self.unlabeled)} unlabeled"
        return f"Source({self.name}: {len(self.train)} + {len(self.test)}{extra}, {self.num_classes} classes)"


def _binary_split(split: Split, positive: Sequence[int]) -> Split:
    return Split(split.inputs, np.isin(split.labels, list(positive)).astype(np.int64))
