"""`Experiment`: data, network, method and training; trained, evaluated, used for predictions and labels, reported."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from glws._aliases import Report, silent
from glws._files import write_text
from glws._reprs import short_repr
from glws.data import Schema, WeakDataset, check_learnable, training_sets
from glws.data.augment import Views
from glws.data.tables import plain_description
from glws.errors import RunError
from glws.experiment._bags import BagReading
from glws.experiment._config import ExperimentConfig, NamedConfig, config_of
from glws.experiment._content import run_content, store_content, store_input
from glws.experiment._data import ExperimentData, experiment_data, own_part, with_noise
from glws.experiment._model import MIXTURE, experiment_model, is_left_to_us, published_model
from glws.experiment._provenance import OnRead, as_facts, keep_hashes, refusing, stored_hashes, warning
from glws.experiment._tables import (
    Approximations,
    AskedRows,
    Columns,
    as_columns,
    label_table,
    prediction_table,
)
from glws.methods import AbstractMethod, build_method, default_method
from glws.report import RunContent, page
from glws.selection import names_are_identified
from glws.training import (
    Fitted,
    MixtureTraining,
    Observer,
    Predictor,
    RunFolder,
    Snapshots,
    TensorBoardMirror,
    Training,
    TrainingConfig,
    World,
    in_short,
    is_searchable,
)

SCALING = "scaling"
"""Where a run stores the mean and the spread of its features."""
SCHEMA = "schema"
"""Where a run stores the types and the encodings of its columns."""
DESCRIPTION = "description"
"""Where a run stores what the columns of its table are."""
REPORT = "report.html"
"""The page of a run, in its folder."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What `Experiment.finish` came to. `stopped_by` is the signal that ended it early; then there are no scores."""

    __repr__ = short_repr

    folder: Path
    scores: dict[str, Any]
    warnings: list[str]
    stopped_by: int | None = None

    @property
    def report(self) -> Path:
        """The page to open."""
        return self.folder / REPORT


class Experiment:
    """Data, a network, a method and training options, ready to start: everything is built, nothing is written.

    `data` is what to learn from, or `ExperimentData` with held-out groups, a test set and names beside it; `model` any
    module that gives logits `[batch, classes]`, trained in place. With "auto", models of table rows are chosen by
    held-out weak labels (`fitted.selection`). Without a `method` it is EM (`glws.methods.GLWS`).
    `Experiment.of` builds all of it from a configuration, `Experiment.resumed` from a run that was begun.

    `train` comes first; then `evaluate` gives all scores of the last epoch, `predict` and `label` tables with a row for
    each instance, `report` what the page of a run shows. `finish` does all of it in a run folder.

    >>> import torch
    >>> from glws.kinds import Proportions
    >>> from glws.models import build
    >>> from glws.training import TrainingConfig
    >>> x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> counts = (x[:, 0] > 0).view(10, 4).sum(1)
    >>> data = WeakDataset(x, torch.arange(40).view(10, 4), Proportions.of(counts))
    >>> config = TrainingConfig(epochs=60, batch_size=5, learning_rate=0.1)
    >>> experiment = Experiment(data, build("linear", [3], 2), config=config)
    >>> experiment.train().stopped_by is None
    True
    >>> labels = experiment.label()["label"]
    >>> bool(((labels == "1") == (x[:, 0] > 0).numpy()).mean() > 0.9)
    True
    """

    def __init__(
        self,
        data: WeakDataset | ExperimentData,
        model: nn.Module | Literal["auto"] = "auto",
        method: AbstractMethod | None = None,
        config: TrainingConfig | None = None,
        *,
        world: World | None = None,
        settings: ExperimentConfig | None = None,
    ) -> None:
        self.data = data if isinstance(data, ExperimentData) else ExperimentData.of(data)
        train = self.data.train
        check_learnable(train.groups, train.weak, self.data.classes, needs_all=settings is not None)
        method = method or default_method()
        world = replace(world or World(), bounds=self.data.bounds)
        self.training = _training(model, train, method, config or TrainingConfig(), self.data.views, world)
        self.config = replace(settings or ExperimentConfig(), training=self.training.config)
        self._is_described = settings is not None
        self._fitted: Fitted | None = None

    def __repr__(self) -> str:
        state = "not trained" if self._fitted is None else repr(self._fitted)
        return f"Experiment({self.data.train!r}, {type(self.training.method).__name__}, {state})"

    @classmethod
    def of(
        cls,
        config: ExperimentConfig,
        world: World | None = None,
        allow_code: bool = False,
        scaling: Mapping[str, Tensor] | None = None,
        on_read: OnRead | None = None,
        schema: Schema | None = None,
        is_begun: bool = False,
    ) -> Experiment:
        """Reads the data, builds the network and the method; whatever does not fit together is found here.

        `scaling` and `schema` are those of the run, if it has been begun (`is_begun`); `on_read` is given what was read
        (`experiment_data`). Of several processes each reads its part of a large table, unless the method asks for
        predictions of all instances between epochs.
        """
        seed = config.training.seed
        method = build_method(config.method.name, config.method.options, allow_code)
        own = None if _looks_at_all(method) else world
        data = experiment_data(config.data, seed, scaling, own, on_read, allow_code, schema)
        check_learnable(data.train.groups, data.train.weak, data.classes, needs_all=True)
        sets = training_sets(data.train, method.kinds)
        method.with_shares(sets.owner, sets.share).check(sets.data)
        recipe = config.method.published(allow_code)
        settings = replace(config, model=published_model(config.model, recipe, data.input_shape))
        if not is_begun and is_left_to_us(settings) and is_searchable(data.train, world):
            settings = replace(settings, model=NamedConfig(MIXTURE))
        if settings.model.name == MIXTURE:
            return cls(data, "auto", method, config.training, world=world, settings=settings)
        model = experiment_model(settings.model, data.input_shape, len(data.classes), seed, allow_code)
        return cls(data, model, method, config.training, world=world, settings=settings)

    @classmethod
    def resumed(
        cls,
        folder: Path,
        world: World | None = None,
        allow_code: bool = False,
        changed_data: bool = False,
        report: Report = silent,
    ) -> tuple[Experiment, RunFolder]:
        """A run that was begun, with its own configuration, ready to go on.

        Data that have changed since are a `RunError`. With `changed_data` they are reported, and from now on the run's
        own.
        """
        is_first = world is None or world.is_first
        run = RunFolder.resume(folder) if is_first else RunFolder.open(folder)
        try:
            if run.is_finished:
                raise RunError(f"{folder} is finished; its report is {folder / REPORT}")
            scaling = run.read_tensors(SCALING) if has_scaling(run) else None
            config, known = config_of(run.config, allow_code), stored_hashes(run)
            goes_on = warning(run, config.data, "training continues with the data as it is now", report)
            on_read = goes_on if changed_data else refusing(run, config.data)
            experiment = cls.of(config, world, allow_code, scaling, on_read, stored_schema(run), is_begun=True)
            if experiment.data.hashes and not known:
                report(f"{folder} was begun without a hash of its data, by an earlier glws: changes since go unnoticed")
            if is_first:
                keep_hashes(run, experiment.data.hashes)
            return experiment, run
        except BaseException:
            run.close()
            raise

    @cached_property
    def names_are_identified(self) -> bool:
        """Whether the weak labels, or the class prior given to the method, identify the class names."""
        return self.training.method.needs_prior or names_are_identified(training_sets(self.data.train).data)

    # ------------------------------------------------------------ in memory

    def train(self, snapshots: Snapshots | None = None, observer: Observer | None = None) -> Fitted:
        """Trains to the end, or until a signal comes; from where the snapshots left off, if there are any."""
        saved, watching = snapshots or Snapshots(None), observer or Observer()
        self._fitted = self.training.run(self.data.test, self.data.held_out, saved, watching)
        return self._fitted

    @property
    def fitted(self) -> Fitted:
        """What training left; before that a `RunError`."""
        if self._fitted is None:
            raise RunError("nothing is trained yet; call train() first")
        return self._fitted

    @property
    def predictor(self) -> Predictor:
        """The predictions of the trained network."""
        return self.fitted.predict

    def evaluate(self) -> dict[str, Any]:
        """All scores of the last epoch, which is the result; the best epoch on the test data stands beside it."""
        found = self.fitted.evaluation.as_dict()
        if self.fitted.noise.estimates:
            found["noise"] = [estimate.as_dict() for estimate in self.fitted.noise.estimates]
        if self.fitted.selection is not None:
            return {**found, "candidates": [asdict(each) for each in self.fitted.selection.candidates]}
        tested = [float(row["test_accuracy"]) for row in self.fitted.history if "test_accuracy" in row]
        return {**found, "best_on_test": max(tested)} if tested else found

    def predict(self) -> Columns:
        """For each instance its class and the probability of every class, as `glws predict` writes them."""
        data = self.data
        return as_columns(prediction_table(self.predictor, AskedRows.of_data(data), data.classes, self._bags))

    def label(self, report: Report = silent) -> Columns:
        """For each instance of each group its posterior given the weak label, as `glws label` writes them."""
        data = with_noise(self.data, self.fitted.noise)
        table = label_table(self.predictor, AskedRows.of_data(data), data.classes, self._bags)
        Approximations().add(table).report(report)
        return as_columns(table)

    @property
    def _bags(self) -> BagReading | None:
        """How to answer for whole bags, once it is trained."""
        return BagReading.of(self.data.train, self.fitted.evaluation)

    # ------------------------------------------------------------ in a run folder

    def begin(self, folder: Path | None = None, command: Sequence[str] | None = None) -> RunFolder:
        """A new run folder for it; without a path the next free runs/NAME-NUMBER.

        It stores the configuration, so there is none for an experiment that was built without (`RunError`).
        """
        if not self._is_described:
            raise RunError("there is no configuration to store in a run: build the experiment by Experiment.of")
        about: dict[str, Any] = {
            "seed": self.config.training.seed,
            "device": str(self.training.device),
            "command": command,
            "data": as_facts(self.data.hashes),
        }
        config = self.config.as_dict()
        run = (
            RunFolder.create_next(usual_folder(self.config), config, **about)
            if folder is None
            else RunFolder.create(folder, config, **about)
        )
        self._keep_columns(run)
        return run

    def finish(self, run: RunFolder, observer: Observer | None = None, report: Report = silent) -> Outcome:
        """Trains to the end in the folder, from where it stands there, and writes scores and report."""
        world, mirror = self.training.world, TensorBoardMirror(run.path / "tensorboard", report)
        if world.is_first:
            self._keep_columns(run)  # once more: it may have been killed between its beginning and this
            store_input(run, self.data)
        for note in self.data.notes:
            report(note)
        with _quiet_tensorboard():
            fitted = self.train(Snapshots(run, self.config.training.save_every, report, mirror), observer)
            mirror.close()
        if fitted.stopped_by is not None:
            return Outcome(run.path, {}, in_short(fitted.warnings), fitted.stopped_by)
        found = self.evaluate()
        if world.is_first:
            content = self.report(run)
            store_content(run, content)
            if self._bags is not None:
                self._bags.store(run)
            write_text(run.path / REPORT, page([content]))
            run.finish(found)
        return Outcome(run.path, found, in_short(fitted.warnings))

    def report(self, run: RunFolder) -> RunContent:
        """What the page of the run shows; `glws.report.page` writes it."""
        data = with_noise(own_part(self.data), self.fitted.noise)
        return run_content(run, data, self.fitted, self.evaluate())

    def _keep_columns(self, run: RunFolder) -> None:
        if self.data.scaling is not None and not has_scaling(run):
            run.write_tensors(SCALING, self.data.scaling)
        if self.data.schema is not None and not (run.path / f"{SCHEMA}.json").exists():
            run.write_json(SCHEMA, self.data.schema.as_dict())
        if self.config.data.table is not None and not (run.path / f"{DESCRIPTION}.json").exists():
            run.write_json(DESCRIPTION, plain_description(self.config.data.table))


def _training(
    model: nn.Module | Literal["auto"],
    train: WeakDataset,
    method: AbstractMethod,
    config: TrainingConfig,
    views: Views,
    world: World,
) -> Training | MixtureTraining:
    if isinstance(model, str):
        return MixtureTraining(train, config, views, method)
    return Training(model, train, method, config, views, world)


def usual_folder(config: ExperimentConfig) -> Path:
    """Where runs of this data go, less their number."""
    table = config.data.table
    names = [str(name).rpartition(":")[2] for name in (config.data.source, config.data.setting)]
    return Path("runs") / (Path(table).stem if table is not None else "-".join(names))


@contextmanager
def _quiet_tensorboard() -> Iterator[None]:
    """Inside, a thread of TensorBoard that cannot write prints nothing: the next row finds out and says so."""
    usual = threading.excepthook

    def hook(about: threading.ExceptHookArgs) -> None:
        if not type(about.thread).__module__.startswith("tensorboard"):
            usual(about)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


def has_scaling(run: RunFolder) -> bool:
    """Whether the run has stored what its features were scaled by."""
    return (run.path / f"{SCALING}.json").exists()


def stored_schema(run: RunFolder) -> Schema | None:
    """What the run has stored of the columns of its table; None if they are all numbers."""
    return Schema.read(run.read_json(SCHEMA)) if (run.path / f"{SCHEMA}.json").exists() else None


def _looks_at_all(method: AbstractMethod) -> bool:
    kind = type(method)
    return kind.begin_epoch is not AbstractMethod.begin_epoch or kind.end_epoch is not AbstractMethod.end_epoch
