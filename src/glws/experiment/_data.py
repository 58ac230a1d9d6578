"""The data of an experiment: what is trained on, what is held out, what is tested on, and the views of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glws._reprs import short_repr
from glws._seeds import derived_generator
from glws.data import (
    DataHash,
    Groups,
    Schema,
    ShardInstances,
    Table,
    WeakDataset,
    augment,
    instance_shape,
    load,
    not_held_out,
    read_table,
    split,
)
from glws.data.augment import AUGMENTATIONS, Views
from glws.data.weaken import simulated
from glws.errors import ConfigError, DataError
from glws.experiment._config import DataConfig
from glws.experiment._provenance import OnRead
from glws.kinds import PositiveUnlabeled
from glws.selection import resolve_priors
from glws.training import Labeled, LearnedNoise, World


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """The data of an experiment: weak labels, test set, names, views.

    `train` is what is learned from, `held_out` groups and `test` labeled instances to evaluate on. `whole` holds all
    groups, those that are held out too. `labels` are the true labels of its instances where they are known (-1
    otherwise), for reports only. `group_names` and `row_numbers` name groups and instances as the user's file does.
    `scaling` is what was subtracted and divided by, None where nothing was. `schema` says what the columns of a table
    are, if they are not all numbers, and `ids` has its id columns. `hashes` are those of the tables that were
    read, "table" and "test". `notes` are lines for the user.
    """

    __repr__ = short_repr

    train: WeakDataset
    whole: WeakDataset
    classes: tuple[str, ...]
    views: Views
    input_shape: tuple[int, ...]
    held_out: WeakDataset | None = None
    test: Labeled | None = None
    labels: Tensor | None = None
    feature_names: tuple[str, ...] = ()
    group_names: tuple[Any, ...] = ()
    row_numbers: Any = None
    scaling: Mapping[str, Tensor] | None = None
    schema: Schema | None = None
    ids: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, DataHash] = field(default_factory=dict)
    folded: tuple[int, int, int] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        train: WeakDataset,
        held_out: WeakDataset | None = None,
        test: Labeled | None = None,
        views: Views | None = None,
        classes: Sequence[str] = (),
    ) -> ExperimentData:
        """Data that are in memory; without `views` nothing is augmented, without `classes` they are called 0, 1, ..."""
        train = resolve_priors(train)
        names = tuple(classes) or tuple(map(str, range(train.weak[0].num_classes)))
        return cls(
            train, train, names, views or augment.views("tables"), instance_shape(train.instances), held_out, test
        )

    @property
    def rows(self) -> Any:
        """The place of each instance in the user's file, the first row being 0; in order where there is no file.

        A table knows lines of a text file, with its header, and sorts its rows by group.
        """
        if self.row_numbers is None:
            return np.arange(len(self.whole.instances))
        return np.argsort(np.argsort(np.asarray(self.row_numbers), kind="stable"), kind="stable")

    @property
    def bounds(self) -> tuple[int, ...] | None:
        """Where the parts of the processes begin, if each has read its own only."""
        instances = self.whole.instances
        return instances.bounds if isinstance(instances, ShardInstances) else None


def experiment_data(
    config: DataConfig,
    seed: int,
    scaling: Mapping[str, Tensor] | None = None,
    world: World | None = None,
    on_read: OnRead | None = None,
    allow_code: bool = False,
    schema: Schema | None = None,
) -> ExperimentData:
    """Reads, weakens and splits as the configuration says; `scaling` and `schema` are those of an earlier run, if any.

    `on_read` is given the hash of every table as soon as it has been read. With a `world` of several processes each of
    them reads its part of a table only, where that is available. With `allow_code` source, setting and kinds may be
    the user's own.
    """
    if (config.table is None) == (config.source is None):
        found = "both" if config.table else "neither"
        raise ConfigError(f"`data` must name a table or a source. Got {found}.")
    if config.table is None:
        return _split(_from_source(config, seed, allow_code), config, seed)
    hashes: dict[str, DataHash] = {}

    def keep(role: str, path: str, found: DataHash) -> None:
        hashes[role] = found
        if on_read is not None:
            on_read(path, found)

    made = _from_table(config, scaling, world or World(), keep, allow_code, schema)
    return _split(replace(made, hashes=hashes), config, seed)


def _from_source(config: DataConfig, seed: int, allow_code: bool) -> ExperimentData:
    assert config.source is not None
    source = load(config.source, config.folder, allow_code=allow_code)
    generator = derived_generator("cpu", seed, "weaken")
    answer = simulated(source, config.setting, generator, config.positive, config.options, allow_code)
    asked, data = answer.source, answer.weakened.dataset(answer.inputs)
    is_whole = len(data.instances) == len(asked.train)
    return ExperimentData(
        train=data,
        whole=data,
        classes=asked.classes,
        views=_views(config.views, config.source),
        input_shape=instance_shape(data.instances),
        test=Labeled.of(asked.test.inputs, asked.test.labels),
        labels=torch.as_tensor(asked.train.labels) if is_whole else None,
        folded=(1, 8, 8) if config.source == "digits" else None,
    )


Keep = Callable[[str, str, DataHash], None]


def _from_table(
    config: DataConfig,
    scaling: Mapping[str, Tensor] | None,
    world: World,
    keep: Keep,
    allow_code: bool,
    schema: Schema | None,
) -> ExperimentData:
    assert config.table is not None
    part = (world.rank, world.size) if world.size > 1 else None
    table = read_table(Path(config.table), part, allow_code, schema)
    summed = (world if table.shard is not None else World()).summed
    keep("table", config.table, table.data_hash(summed))
    if not table.blocks:
        raise DataError(f"{config.table}: it describes no weak labels to learn from")
    if config.standardize and scaling is None:
        scaling = table.scaling(summed)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = resolve_priors(table.dataset(scaling=scaling))
    test = None if config.test is None else _test_table(config.test, table, scaling, keep, allow_code)
    return ExperimentData(
        train=data,
        whole=data,
        classes=table.classes,
        views=_views(config.views, "tables"),
        input_shape=instance_shape(data.instances),
        test=test,
        labels=None if table.labels is None else torch.as_tensor(table.labels),
        feature_names=table.feature_names,
        group_names=tuple(block.group_names for block in table.blocks),
        row_numbers=table.row_numbers,
        scaling=scaling,
        schema=table.schema,
        ids=table.ids,
        notes=(
            *filter(None, [table.note]),
            *estimated_priors(table, data),
            *(str(warning.message) for warning in found),
        ),
    )


def estimated_priors(table: Table, data: WeakDataset) -> list[str]:
    """A line for each class prior that was estimated."""
    return [
        f"{block.kind}: the class prior is {weak.prior:.3g}, estimated from the features"
        for block, weak in zip(table.blocks, data.weak, strict=True)
        if isinstance(weak, PositiveUnlabeled) and weak.prior is not None and block.options.get("prior") != weak.prior
    ]


def _test_table(path: str, table: Table, scaling: Mapping[str, Tensor] | None, keep: Keep, allow_code: bool) -> Labeled:
    found = read_table(Path(path), allow_code=allow_code, schema=table.schema)
    keep("test", path, found.data_hash())
    if found.classes != table.classes:
        raise DataError(f"{path}: expected the classes {', '.join(table.classes)}, found {', '.join(found.classes)}")
    check_same_columns(found, table.schema, "the training table has")
    instances, bags = found.instances(scaling), None
    if len(found.blocks) == 1 and found.supervision().bag_rule() is not None:
        bags = found.dataset(scaling=scaling)
    if found.labels is None and bags is None:
        wanted = "a column of true labels (`label:`), or bags with their labels (`kind: multi_instance`)"
        raise DataError(f"{path}: a table to test on needs {wanted}")
    labels = np.full(len(found), -1) if found.labels is None else found.labels
    return Labeled(instances, torch.as_tensor(labels), bags)


def check_same_columns(found: Table, schema: Schema | None, who: str) -> None:
    """Raises `DataError` for a table that needs a schema where training needed none."""
    if schema is None and found.schema is not None:
        wrong = [column for column in found.schema.columns if column.type != "number" or column.has_missing]
        what = f"column {wrong[0].name} has {'empty cells' if wrong[0].type == 'number' else 'words'}"
        raise DataError(f"{found.path}: {what}, where {who} numbers only")


def _split(made: ExperimentData, config: DataConfig, seed: int) -> ExperimentData:
    if not config.held_out:
        return made
    kept, held_out = split(made.whole, config.held_out, derived_generator("cpu", seed, "split"))
    made = replace(made, notes=(*made.notes, *not_held_out(made.whole, held_out)))
    if not len(held_out):
        return made
    test = made.test
    if test is None and made.labels is not None:
        test = _labeled_part(made.whole, held_out, made.labels)
    return replace(made, train=kept, held_out=held_out, test=test)


def _labeled_part(data: WeakDataset, held_out: WeakDataset, labels: Tensor) -> Labeled | None:
    members = torch.unique(torch.cat([groups.indices for groups in held_out.groups]))
    members = members[labels[members] >= 0]
    if not len(members):
        return None
    shard = data.instances if isinstance(data.instances, ShardInstances) else None
    return Labeled.of(data.instances.take(members) if shard is None else shard.subset(members), labels[members])


def with_noise(data: ExperimentData, noise: LearnedNoise) -> ExperimentData:
    """The data with learned noise in place of its start."""
    held_out = None if data.held_out is None else noise.applied(data.held_out)
    return replace(data, train=noise.applied(data.train), whole=noise.applied(data.whole), held_out=held_out)


def own_part(data: ExperimentData) -> ExperimentData:
    """What a report can show of data that are spread over processes: the groups that are here."""
    instances = data.whole.instances
    if not isinstance(instances, ShardInstances):
        return data
    shown = data.held_out if data.held_out is not None else data.train
    here = [_groups_here(groups, instances) for groups in shown.groups]
    return replace(data, held_out=shown.subset(here))


def _groups_here(groups: Groups, instances: ShardInstances) -> Tensor:
    """The groups all of whose instances this process has."""
    owners = torch.repeat_interleave(torch.arange(len(groups)), groups.lengths)
    foreign = torch.bincount(owners[~instances.is_here(groups.indices)], minlength=len(groups))
    return (foreign == 0).nonzero()[:, 0]


def _views(wanted: str, usual: str) -> Views:
    if wanted != "auto":
        return augment.views(wanted)
    return augment.views(usual if usual in AUGMENTATIONS else "tables")
