"""`FinishedRun`: the network of a finished run, for predictions, labels given weak labels, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from glws._aliases import Report, silent
from glws._reprs import short_repr
from glws.data import Schema, Table, read_description, read_table
from glws.data.tables import plain_description
from glws.errors import CheckpointError, DataError, RunError
from glws.experiment._bags import BagReading
from glws.experiment._config import DataConfig, ExperimentConfig, config_of
from glws.experiment._content import CONTENT, INPUT, stored_content
from glws.experiment._data import ExperimentData, experiment_data, with_noise
from glws.experiment._experiment import DESCRIPTION, SCALING, has_scaling, stored_schema
from glws.experiment._group_answer import GroupAnswer, group_answer
from glws.experiment._labeler import Labeler, views_of
from glws.experiment._provenance import OnRead, warning
from glws.experiment._tables import Approximations, AskedRows, Columns, as_columns, prediction_table
from glws.methods import State, build_method
from glws.report import RunContent
from glws.training import CHECKPOINTS, LearnedNoise, RunFolder, latest, learned_counts, trained_weights

Source = Path | Mapping[str, Any] | None
"""A description of data; None for those that a run was trained on."""


class FinishedRun(NamedTuple):
    """A finished run to use: its configuration, its classes, and what its features are."""

    def __repr__(self) -> str:
        return short_repr(self)

    run: RunFolder
    config: ExperimentConfig
    classes: tuple[str, ...]
    scaling: dict[str, Tensor] | None
    schema: Schema | None = None
    allow_code: bool = False

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
        return cls(run, config_of(run.config, allow_code), names, scaling, schema, allow_code)

    def predict(self, table: Path | None = None, allow_code: bool = False, report: Report = silent) -> Columns:
        """For each instance its class and the probability of every class (`prediction_table`).

        `table` describes the instances; it needs no weak labels, and those the run was trained on need not be there any
        more. Without one the run's own data are taken.
        """
        return as_columns(self.predict_table(self.labeler(None, report, allow_code), table, report))

    def label(self, table: Path | None = None, allow_code: bool = False, report: Report = silent) -> Columns:
        """For each instance of each group its posterior given its weak label (`label_table`).

        `table` describes other data with weak labels; without one the run's own are taken.
        """
        found = self.label_table(self.labeler(None, report, allow_code), table, report)
        Approximations().add(found).report(report)
        return as_columns(found)

    def predict_table(self, labeler: Labeler, table: Source, report: Report) -> Any:
        """The predictions for all instances at once, as a table of pyarrow."""
        found = self.table(table, labeler, report)
        if found is not None:
            return labeler.predict_table(found)
        data = self.data(None, labeler.allow_code, report)
        asked = AskedRows.of_data(data)
        return prediction_table(labeler.predictor(data.input_shape), asked, self.classes, labeler.bags)

    def label_table(self, labeler: Labeler, table: Source, report: Report) -> Any:
        """The labels of all groups at once, as a table of pyarrow."""
        if isinstance(table, Path) and not read_description(table).blocks:
            raise DataError(f"{table}: it describes no weak labels; glws predict does without them")
        found = self.table(table, labeler, report)
        if found is not None:
            return labeler.label_table(found)
        data = with_noise(self.data(None, labeler.allow_code, report), LearnedNoise(labeler.noise))
        return labeler.answer(AskedRows.of_data(data), labeler.bags or BagReading.of(data.whole))

    def table(self, table: Source, labeler: Labeler, report: Report) -> Table | None:
        """The table that is described, or that the run was trained on; None for a run on a published data set."""
        described = table or self.config.data.table
        if described is None:
            return None
        found = read_table(described, allow_code=labeler.allow_code, schema=self.schema)
        self.on_read(report)(str(described), found.data_hash())
        return found

    def labeler(
        self,
        description: str | Path | Mapping[str, Any] | None = None,
        report: Report = silent,
        allow_code: bool | None = None,
    ) -> Labeler:
        """All it takes to answer, in one object."""
        run, allowed = self.run, self.allow_code if allow_code is None else allow_code
        method = build_method(self.config.method.name, self.config.method.options, allowed)
        weights = _weights(run, report)
        modules = trained_weights(run, silent, of_modules=True) if method.predicts_groups else {}
        return Labeler(
            source=str(run.path),
            config=self.config,
            classes=self.classes,
            features=self._features,
            schema=self.schema,
            bags=BagReading.stored(run),
            description=self._description(description),
            weights=weights,
            modules=modules,
            state=trained_state(run),
            scaling=self.scaling,
            noise=learned_counts(run).counts,
            allow_code=allowed,
        )

    @property
    def _features(self) -> tuple[str, ...]:
        stored = self.run.read_json(INPUT) if (self.run.path / f"{INPUT}.json").exists() else {}
        known: Any = stored.get("features") if isinstance(stored, dict) else None
        return tuple(known or ())

    def _description(self, given: str | Path | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """What is given, else what the run has stored; of an earlier version, the file that it was trained on."""
        if given is not None:
            return plain_description(given)
        if (self.run.path / f"{DESCRIPTION}.json").exists():
            stored = self.run.read_json(DESCRIPTION)
            return stored if isinstance(stored, dict) else None
        table = self.config.data.table
        return plain_description(table) if table is not None and Path(table).is_file() else None

    def explain(
        self,
        group: str,
        table: Path | None = None,
        allow_code: bool = False,
        report: Report = silent,
    ) -> GroupAnswer:
        """Everything about one group of its own data or of another table: predictions, posterior, what decided."""
        data, labeler = self.data(table, allow_code, report), self.labeler(None, report, allow_code)
        labeler.check_names(data.classes, data.feature_names)
        data = with_noise(data, LearnedNoise(labeler.noise))
        bags = labeler.bags or BagReading.of(data.whole)
        return group_answer(data, labeler.predictor(data.input_shape), group, bags)

    def report(self) -> RunContent:
        """What its page shows."""
        self.run.rows()  # they are sound
        return stored_content(self.run)

    def data(self, table: Path | None, allow_code: bool, report: Report) -> ExperimentData:
        """All groups of its own data, or of another table as if it had been trained on."""
        seed, on_read, schema = self.config.training.seed, self.on_read(report), self.schema
        return experiment_data(self.data_config(table), seed, self.scaling, on_read=on_read, allow_code=allow_code,
                               schema=schema)  # fmt: skip

    def data_config(self, table: Path | None) -> DataConfig:
        """How to read all groups of its own data, or of another table as if it had been trained on."""
        asked = replace(self.config.data, held_out=0.0, test=None)
        if table is None:
            return asked
        return replace(
            asked, table=str(table), source=None, views=views_of(self.config), standardize=self.scaling is not None
        )

    def is_own(self, table: str | Path) -> bool:
        """Whether the run was trained on the table of this description."""
        own = self.config.data.table
        return own is not None and Path(own).resolve() == Path(table).resolve()

    def on_read(self, report: Report) -> OnRead:
        """Reports it when a table that the run was trained on has changed since."""
        return warning(self.run, self.config.data, "the answers are about the data as it is now", report)


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
