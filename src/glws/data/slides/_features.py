"""`SlideFeatures`: the patches of all slides as instances, read from their files when they are needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from glws._reprs import short_repr
from glws.data._scaling import Scaling
from glws.data.slides._slide_file import Floats, SlideFile, open_slide
from glws.errors import DataError

MOST_OPEN = 64
"""Files that are kept open."""
ROWS_AT_ONCE = 4096
"""Rows that are read and standardized together."""
SAMPLED_ROWS = 1024
"""Rows of each slide that mean and spread are computed from."""


@dataclass(frozen=True, eq=False)
class SlideFeatures:
    """Instances are patches, slide after slide: slide s has the numbers from `bounds[s]` up to `bounds[s + 1]`.

    Nothing stays in memory. With a `scaling` features are standardized on the way, in float32.
    """

    __repr__ = short_repr

    paths: tuple[Path, ...]
    bounds: NDArray[np.int64]
    width: int
    scaling: Scaling | None = None
    step_instances: int = 1 << 16
    """About so many instances make a training step, if the configuration does not say (`TrainingConfig`)."""
    _open: OrderedDict[int, SlideFile] = field(default_factory=OrderedDict, repr=False)

    @classmethod
    def of(cls, paths: tuple[Path, ...]) -> SlideFeatures:
        """From files, of which only the headers are read."""
        shapes = []
        for path in paths:
            file = open_slide(path)
            shapes.append(file.shape)
            file.close()
        for path, (_, width) in zip(paths, shapes, strict=True):
            if width != shapes[0][1]:
                raise DataError(f"{path}: it has {width} features where {paths[0].name} has {shapes[0][1]}")
        return cls(paths, np.cumsum([0, *(number for number, _ in shapes)]), shapes[0][1])

    @property
    def shape(self) -> tuple[int, int]:
        """All patches, and the length of their feature vectors."""
        return int(self.bounds[-1]), self.width

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def scaled(self, scaling: Scaling | None) -> SlideFeatures:
        """The same, standardized."""
        if scaling is not None and len(scaling["mean"]) != self.width:
            raise DataError(f"the network was trained on {len(scaling['mean'])} features, found {self.width}")
        return replace(self, scaling=scaling, _open=OrderedDict())

    def take(self, numbers: Int[Tensor, "chosen"]) -> Float[Tensor, "chosen width"]:
        """The chosen patches; runs of neighbors are read together."""
        wanted = numbers.cpu().numpy()
        result = np.empty((len(wanted), self.width), np.float32)
        for first, last, slide, row in self._runs(wanted):
            for start in range(first, last, ROWS_AT_ONCE):
                stop = min(start + ROWS_AT_ONCE, last)
                rows = self._file(slide).rows(row + start - first, row + stop - first)
                result[start:stop] = self._standardized(rows)
        return torch.from_numpy(result)

    def _runs(self, wanted: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
        """Places [first, last) of consecutive numbers of one slide, the slide, and its row of the first."""
        slides = np.searchsorted(self.bounds, wanted, side="right") - 1
        breaks = np.flatnonzero((np.diff(wanted) != 1) | (np.diff(slides) != 0)) + 1
        edges = [0, *breaks.tolist(), len(wanted)] if len(wanted) else []
        for first, last in pairwise(edges):
            slide = int(slides[first])
            yield first, last, slide, int(wanted[first] - self.bounds[slide])

    def _standardized(self, rows: Floats) -> Floats:
        if self.scaling is None:
            return rows
        mean, spread = (self.scaling[name].numpy().astype(np.float32) for name in ("mean", "spread"))
        return np.asarray((rows - mean) / spread)

    def _file(self, slide: int) -> SlideFile:
        if slide not in self._open:
            while len(self._open) >= MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[slide] = open_slide(self.paths[slide])
        self._open.move_to_end(slide)
        return self._open[slide]

    def sampled_scaling(self) -> dict[str, Tensor]:
        """Mean and spread of each feature over `SAMPLED_ROWS` rows of each slide, evenly taken, in float64."""
        total, squares, count = np.zeros(self.width), np.zeros(self.width), 0
        shift = self._sample(0)[0].astype(np.float64)
        for slide in range(len(self.paths)):
            rows = self._sample(slide) - shift
            total, squares, count = total + rows.sum(0), squares + np.square(rows).sum(0), count + len(rows)
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
        return {"mean": torch.from_numpy(mean + shift), "spread": torch.from_numpy(np.where(spread > 0, spread, 1.0))}

    def _sample(self, slide: int) -> Floats:
        """Eight blocks of rows, evenly placed."""
        rows, block = int(np.diff(self.bounds)[slide]), SAMPLED_ROWS // 8
        if rows <= SAMPLED_ROWS:
            return self._file(slide).rows(0, rows)
        starts = np.linspace(0, rows - block, 8).astype(int).tolist()
        return np.concatenate([self._file(slide).rows(start, start + block) for start in starts])

    def coords(self, slide: int) -> NDArray[np.float64] | None:
        """Where the patches of a slide are, None where its file does not say."""
        return self._file(slide).coords()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}
