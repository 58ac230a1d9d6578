"""What a table gives: instances, groups and weak labels, as plain arrays."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws._reprs import short_repr
from glws.data._columns import lost_values
from glws.data._dataset import Instances, TensorInstances, WeakDataset
from glws.data._groups import Groups
from glws.data._scaling import Scaling, itself, scaled, scaling_of
from glws.data.slides import SlideFeatures
from glws.data.sources._images import ImageFiles
from glws.data.tables._encoded import EncodedInstances, schema_scaling
from glws.data.tables._hashing import DataHash, TableHash
from glws.data.tables._schema import Coded, Schema
from glws.data.tables._shard import Shard, ShardInstances
from glws.errors import DataError
from glws.kinds import AbstractSupervision, kind_from_columns


@dataclass(frozen=True, eq=False)
class WeakBlock:
    """The weak labels of one kind in a table.

    The instances of group g are `members[offsets[g]:offsets[g + 1]]`, rows of the table in the order of the file.
    `weak` has for each name an array with one entry for each group (of joined votes the `Votes`), and `reads` says how
    its column was read;
    `group_names` are the groups' names in the file (row numbers where each row is a group). `kind` is what the
    description says, `kind_class` the class of that name.
    """

    __repr__ = short_repr

    kind: str
    kind_class: type[AbstractSupervision]
    reads: Mapping[str, str]
    group_names: NDArray[Any]
    offsets: NDArray[np.int64]
    members: NDArray[np.int64]
    weak: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many instances each group has."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Instances with weak labels, read from a file.

    `features` is `[rows, columns]`, or images in files: in float32 where every column of the file fits into that, in
    float64 otherwise. Networks get them through `instances` or `dataset`, in float32. Rows stand in the order of the
    first block's groups, and within a group in the order of the file; `row_numbers` says where each came from: its line
    in a CSV file (the header is line 1), its row from 0 on in other files. `labels` are true classes for evaluation, -1
    where not known.

    If the columns are not all numbers, `schema` says what they are, `features` is the coded matrix of it (NaN for empty
    cells), and `texts` has the hashed texts; instances are then encoded. `ids` has the id columns.

    Where only a part was read, `features` has the rows that `shard` says, and everything else is of all rows; `note`
    says why, if everything was read although a part was asked for. Features of slides stay in their files
    (`SlideFeatures`), and their mean and spread are those of a sample of their rows.
    """

    path: str
    unit: str
    features: NDArray[np.floating[Any]] | ImageFiles | SlideFeatures
    feature_names: tuple[str, ...]
    classes: tuple[str, ...]
    blocks: tuple[WeakBlock, ...]
    row_numbers: NDArray[np.int64]
    hashed: TableHash
    labels: NDArray[np.int64] | None = None
    shard: Shard | None = None
    note: str = ""
    ids: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    schema: Schema | None = None
    texts: Any = None
    own_places: NDArray[np.int64] | None = None

    @property
    def places(self) -> NDArray[np.int64]:
        """The place of each row in the file, the first being 0; of a piece of a file the place in the piece.

        Rows stand in the order of groups here, and a text file numbers them by lines, its header included.
        """
        if self.own_places is not None:
            return self.own_places
        return np.argsort(np.argsort(self.row_numbers, kind="stable"), kind="stable")

    def __len__(self) -> int:
        return len(self.row_numbers)

    def __repr__(self) -> str:
        blocks = ", ".join(f"{len(block)} groups of {block.kind}" for block in self.blocks) or "no weak labels"
        return f"Table({self.path}: {len(self)} rows, {len(self.classes)} classes, {blocks})"

    def supervision(self, block: int = 0, check: bool = True) -> AbstractSupervision:
        """The weak labels of a block as their kind; an error names the group as the file does.

        `check=False` lets groups through that nothing satisfies, for those who look for them.
        """
        chosen = self.blocks[block]
        try:
            made = kind_from_columns(chosen.kind_class, chosen.weak, self.classes, chosen.lengths, chosen.options)
            made.check_readable(torch.from_numpy(chosen.lengths))
            if check:
                made.check(chosen.lengths.tolist(), len(self.classes), self.classes)
        except DataError as error:
            raise DataError(f"{self.path}: {self._renamed(str(error), chosen)}") from error
        return made

    def dataset(self, check: bool = True, scaling: Scaling | None = None) -> WeakDataset:
        """Everything together, to train on: the instances, and the groups and weak labels of all blocks.

        With `scaling`, such as `table.scaling()`, features are standardized in float64 before they are rounded to
        float32. A `UserWarning` names columns that lose distinct values all the same, or for lack of it.
        """
        if check and self.feature_names and self.schema is None:
            for line in lost_values(np.asarray(self.features), scaling, self.feature_names):
                warnings.warn(f"{self.path}: {line}", stacklevel=2)
        groups = self.groups()
        weak = [self.supervision(number, check) for number in range(len(self.blocks))]
        return WeakDataset(self.instances(scaling), groups, weak, check=False)  # `supervision` has checked them

    def groups(self) -> list[Groups]:
        """The groups of each block; of slides without labels the slides."""
        if isinstance(self.features, SlideFeatures) and not self.blocks:
            bounds = torch.from_numpy(self.features.bounds)
            return [Groups(bounds, torch.arange(int(bounds[-1])))]
        return [Groups(torch.from_numpy(block.offsets), torch.from_numpy(block.members)) for block in self.blocks]

    def instances(self, scaling: Scaling | None = None) -> Instances:
        """The features in float32, standardized by a scaling if there is one; images as they are."""
        if isinstance(self.features, ImageFiles):
            return self.features
        if isinstance(self.features, SlideFeatures):
            return self.features.scaled(scaling)
        if self.schema is not None:
            return EncodedInstances(self.schema, Coded(self.features, self.texts), scaling)
        values = scaled(self.features, scaling)
        if self.shard is None:
            return TensorInstances(values)
        return ShardInstances(values, self.shard.bounds, self.shard.rank, scaled(self.shard.example, scaling))

    def scaling(self, summed: Callable[[Tensor], Tensor] = itself) -> dict[str, Tensor] | None:
        """Mean and spread of each feature in float64; None for images.

        `summed` adds up over the processes that have read a part each.
        """
        if isinstance(self.features, ImageFiles):
            return None
        if isinstance(self.features, SlideFeatures):
            return self.features.sampled_scaling()
        if self.schema is not None:
            return schema_scaling(self.schema, Coded(self.features, self.texts))
        first = self.features[0] if self.shard is None else self.shard.example[0]
        return scaling_of(self.features, first, len(self), summed)

    def data_hash(self, summed: Callable[[Tensor], Tensor] = itself) -> DataHash:
        """The hash of the description and of all columns that were read.

        `summed` adds up over the processes that have read a part each; however many there are, the hash is the same.
        Of images it covers names and sizes.
        """
        return self.hashed.whole(summed)

    def _renamed(self, message: str, block: WeakBlock) -> str:
        found = re.match(r"group (\d+): ", message)
        if found is None:
            return message
        group = int(found[1])
        rows = self.row_numbers[block.members[block.offsets[group] : block.offsets[group + 1]]]
        name = block.group_names[group]
        return f"group {name!s} ({self.unit} {_listed(rows)}): {message[found.end() :]}"


def _listed(rows: NDArray[np.int64]) -> str:
    shown = ", ".join(str(row) for row in rows[:4])
    return f"{shown}, ..." if len(rows) > 4 else shown
