"""`FinishedRun`: the network of a finished run, for predictions, labels given weak labels, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from glws._aliases import Report, silent
from glws._reprs import short_repr
from glws.data import Schema, augment, instance_shape, read_table
from glws.data.augment import AUGMENTATIONS
from glws.data.tables import read_description
from glws.errors import CheckpointError, DataError, RunError
from glws.experiment._bags import BagReading
from glws.experiment._config import DataConfig, ExperimentConfig, config_of
from glws.experiment._content import CONTENT, INPUT, stored_content
from glws.experiment._data import ExperimentData, check_same_columns, experiment_data, with_noise
from glws.experiment._experiment import SCALING, has_scaling, stored_schema
from glws.experiment._group_answer import GroupAnswer, group_answer
from glws.experiment._model import MIXTURE, experiment_model
from glws.experiment._provenance import OnRead, warning
from glws.experiment._tables import Columns, label_columns, prediction_columns
from glws.methods import State, build_method
from glws.report import RunContent
from glws.training import (
    CHECKPOINTS,
    Mixture,
    Predictor,
    RunFolder,
    chosen_device,
    latest,
    learned_counts,
    ready,
    trained_weights,
)


class FinishedRun(NamedTuple):
    """A finished run to use: its configuration, its classes, and what its features are."""

    def __repr__(self) -> str:
        return short_repr(self)

    run: RunFolder
    config: ExperimentConfig
    classes: tuple[str, ...]
    scaling: dict[str, Tensor] | None
    schema: Schema | None = None

    @classmethod
    def open(cls, folder: Path, allow_code: bool = False) -> FinishedRun:
        """From its folder."""
        run = RunFolder.open(folder)
        if not run.is_finished:
            raise RunError(f"{folder} is not finished; resume it: glws train --resume {folder}")
        run.result()  # which is there, and sound
        content = run.read_json(CONTENT)
        classes = content.get("classes") if isinstance(content, dict) else None
        if not isinstance(classes, list):
            raise RunError(f"{folder}: expected the classes in {CONTENT}.json, found {type(classes).__name__}")
        scaling = run.read_tensors(SCALING) if has_scaling(run) else None
        names, schema = tuple(str(name) for name in classes), stored_schema(run)
        return cls(run, config_of(run.config, allow_code), names, scaling, schema)

    def predict(self, table: Path | None = None, allow_code: bool = False, report: Report = silent) -> Columns:
        """For each instance its class and the probability of every class (`prediction_columns`).

        `table` describes the instances; it needs no weak labels, and those the run was trained on need not be there any
        more. Without one the run's own data are taken.
        """
        bags = BagReading.stored(self.run)
        if table is None:
            data = self.data(None, allow_code, report)
            bags = bags or BagReading.of(data.whole)
            instances, groups, rows = data.whole.instances, list(data.whole.groups), data.rows
            ids = data.ids
        else:
            found = read_table(table, allow_code=allow_code, schema=self.schema)
            self.on_read(report)(str(table), found.data_hash())
            check_same_columns(found, self.schema, f"{self.run.path} was trained on")
            self.check(found.classes, found.feature_names)
            ids = found.ids
            instances, rows = found.instances(self.scaling), np.argsort(np.argsort(found.row_numbers))
            groups = found.groups()
        predictor = self.predictor(instance_shape(instances), allow_code, report)
        return prediction_columns(predictor, instances, groups, rows, self.classes, ids, bags)

    def label(self, table: Path | None = None, allow_code: bool = False, report: Report = silent) -> Columns:
        """For each instance of each group its posterior given its weak label (`label_columns`).

        `table` describes other data with weak labels; without one the run's own are taken.
        """
        if table is not None and not read_description(table).blocks:
            raise DataError(f"{table}: it describes no weak labels; glws predict does without them")
        data = self.data(table, allow_code, report)
        self.check(data.classes, data.feature_names)
        data = with_noise(data, learned_counts(self.run))
        bags = BagReading.stored(self.run) or BagReading.of(data.whole)
        return label_columns(self.predictor(data.input_shape, allow_code, report), data, report, bags)

    def explain(
        self,
        group: str,
        table: Path | None = None,
        allow_code: bool = False,
        report: Report = silent,
    ) -> GroupAnswer:
        """Everything about one group of its own data or of another table: predictions, posterior, what decided."""
        data = self.data(table, allow_code, report)
        self.check(data.classes, data.feature_names)
        data = with_noise(data, learned_counts(self.run))
        bags = BagReading.stored(self.run) or BagReading.of(data.whole)
        return group_answer(data, self.predictor(data.input_shape, allow_code, report), group, bags)

    def report(self) -> RunContent:
        """What its page shows."""
        self.run.rows()  # they are sound
        return stored_content(self.run)

    def data(self, table: Path | None, allow_code: bool, report: Report) -> ExperimentData:
        """All groups of its own data, or of another table as if it had been trained on."""
        seed, on_read, schema = self.config.training.seed, self.on_read(report), self.schema
        return experiment_data(self.data_config(table), seed, self.scaling, on_read=on_read, allow_code=allow_code,
                               schema=schema)  # fmt: skip

    @property
    def views(self) -> str:
        """The name of the views that the network knows."""
        wanted, source = self.config.data.views, self.config.data.source
        return wanted if wanted != "auto" else source if source in AUGMENTATIONS else "tables"

    def data_config(self, table: Path | None) -> DataConfig:
        """How to read all groups of its own data, or of another table as if it had been trained on."""
        asked = replace(self.config.data, held_out=0.0, test=None)
        if table is None:
            return asked
        return replace(asked, table=str(table), source=None, views=self.views, standardize=self.scaling is not None)

    def on_read(self, report: Report) -> OnRead:
        """Reports it when a table that the run was trained on has changed since."""
        return warning(self.run, self.config.data, "the answers are about the data as it is now", report)

    def check(self, classes: tuple[str, ...], features: Sequence[str] = ()) -> None:
        """Raises `RunError` for data of other classes or features."""
        if classes != self.classes:
            wanted, found = ", ".join(self.classes), ", ".join(classes)
            raise RunError(f"{self.run.path} was trained for the classes {wanted}, the data has {found}")
        stored = self.run.read_json(INPUT) if (self.run.path / f"{INPUT}.json").exists() else {}
        known: Any = stored.get("features") if isinstance(stored, dict) else None
        for wanted, found in zip(known or (), features, strict=False):
            if wanted != found:
                raise RunError(f"{self.run.path} was trained with the feature {wanted} where the data has {found}")

    def predictor(self, shape: Sequence[int], allow_code: bool, report: Report) -> Predictor:
        """The network for instances of this shape, as the method reads it."""
        training = self.config.training
        model = self._model(shape, allow_code, report)
        method = build_method(self.config.method.name, self.config.method.options, allow_code)
        state = trained_state(self.run)
        device = chosen_device("cpu" if training.device == "cpu" else "auto")  # perhaps not where it was trained
        modules = nn.ModuleDict()
        if method.predicts_groups:
            modules = method.restored_modules(trained_weights(self.run, lambda line: None, of_modules=True))
        model, modules = ready(model, training, device).eval(), ready(modules, training, device).eval()
        return Predictor(model, training, device, augment.views(self.views), method, state, modules)

    def _model(self, shape: Sequence[int], allow_code: bool, report: Report) -> nn.Module:
        weights = _weights(self.run, report)
        try:
            if self.config.model.name == MIXTURE:
                return Mixture.of_tensors(weights)
            seed = self.config.training.seed
            model = experiment_model(self.config.model, shape, len(self.classes), seed, allow_code)
            model.load_state_dict(weights)
            return model
        except (RuntimeError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            where = f"{self.run.path}: its network is not one for instances of shape {list(shape)}"
            raise RunError(f"{where}: {reason}") from error


def _weights(run: RunFolder, report: Report) -> dict[str, Tensor]:
    """Those of the newest sound snapshot. Where there is none, the first reason why is the error."""
    notes: list[str] = []
    try:
        weights = trained_weights(run, notes.append)
    except CheckpointError as error:
        raise CheckpointError(notes[0].removesuffix("; this checkpoint is not used") if notes else error) from error
    for line in notes:
        report(line)
    return weights


def trained_state(run: RunFolder) -> State:
    """What the method of a run remembered at its end, from the newest sound snapshot."""
    found = latest(run.path / CHECKPOINTS, lambda line: None, run.owner)
    if found is None:
        raise CheckpointError(f"{run.path}: there is no checkpoint to read a network from")
    tensors = found.checkpoint.tensors
    return {key.removeprefix("state/"): value for key, value in tensors.items() if key.startswith("state/")}
