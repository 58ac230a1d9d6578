"""`train`: one job, from its configuration to a run folder that holds network, scores and report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from glws._files import write_text
from glws.data import check_learnable
from glws.errors import RunError
from glws.evaluation import scores
from glws.experiment._config import JobConfig, config_of
from glws.experiment._content import run_content, store_content
from glws.experiment._data import JobData, job_data, own_part
from glws.experiment._model import job_model, published_model
from glws.experiment._provenance import OnRead, as_facts, keep_hashes, refusing, stored_hashes, warning
from glws.methods import AbstractMethod, build_method
from glws.report import page
from glws.selection import names_are_identified
from glws.training import (
    Fitted,
    Observer,
    RunFolder,
    Snapshots,
    TensorBoardMirror,
    Training,
    World,
    held_out_accuracy,
    held_out_scores,
    in_short,
    log_probs_of,
)

SCALING = "scaling"
REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a job came to. `stopped_by` is the signal that ended it early; then there are no scores yet."""

    folder: Path
    scores: dict[str, Any]
    warnings: list[str]
    stopped_by: int | None = None

    @property
    def report(self) -> Path:
        """The page to open."""
        return self.folder / REPORT


@dataclass(frozen=True, eq=False)
class Job:
    """A job that is ready to start: everything is read and built, nothing is written."""

    config: JobConfig
    data: JobData
    training: Training

    @classmethod
    def ready(
        cls,
        config: JobConfig,
        world: World,
        allow_code: bool = False,
        scaling: Mapping[str, Tensor] | None = None,
        on_read: OnRead | None = None,
    ) -> Job:
        """Reads the data, builds the network and the method; whatever does not fit together is found here.

        `scaling` is that of the run, if it has been begun; `on_read` is told what was read (`job_data`). Of several
        processes each reads its part of a large table, unless the method asks for predictions of all instances between
        epochs.
        """
        seed = config.training.seed
        method = build_method(config.method.name, config.method.options)
        data = job_data(config.data, seed, scaling, None if _looks_at_all(method) else world, on_read)
        check_learnable(data.train.groups, data.train.weak, data.classes, needs_all=True)
        method.check(data.train)
        config = replace(config, model=published_model(config.model, config.method.published(), data.input_shape))
        model = job_model(config.model, data.input_shape, len(data.classes), seed, allow_code)
        world = replace(world, bounds=data.bounds)
        training = Training(model, data.train, method, config.training, data.look, world)
        return cls(replace(config, training=training.config), data, training)

    @cached_property
    def names_are_identified(self) -> bool:
        """Whether what it learns from, or the prior its method is told, says which class is which."""
        return self.training.method.needs_prior or names_are_identified(self.data.train)

    def begin(self, folder: Path | None = None, command: Sequence[str] | None = None) -> RunFolder:
        """A new run folder for it; without a path the next free runs/NAME-NUMBER."""
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
        self._keep_scaling(run)
        return run

    def finish(self, run: RunFolder, observer: Observer, report: Callable[[str], None]) -> Outcome:
        """Trains to the end in the folder, from where it stands there, and writes scores and report."""
        world, mirror = self.training.world, TensorBoardMirror(run.path / "tensorboard", report)
        if world.is_first:
            self._keep_scaling(run)  # once more: it may have been killed between its beginning and this
        for note in self.data.notes:
            report(note)
        snapshots = Snapshots(run, self.config.training.save_every, report, mirror)
        with _quiet_tensorboard():
            fitted = self.training.run(self.data.test, self.data.held_out, snapshots, observer)
            mirror.close()
        if fitted.stopped_by is not None:
            return Outcome(run.path, {}, in_short(fitted.warnings), fitted.stopped_by)
        found = _final_scores(self.data, fitted, world)
        if world.is_first:
            content = run_content(run, own_part(self.data), fitted, found)
            store_content(run, content)
            write_text(run.path / REPORT, page([content]))
            run.finish(found)
        return Outcome(run.path, found, in_short(fitted.warnings))

    def _keep_scaling(self, run: RunFolder) -> None:
        if self.data.scaling is not None and not _has_scaling(run):
            run.write_tensors(SCALING, self.data.scaling)


def usual_folder(config: JobConfig) -> Path:
    """Where runs of this data go, less their number."""
    table = config.data.table
    return Path("runs") / (Path(table).stem if table is not None else f"{config.data.source}-{config.data.setting}")


def resumed(
    folder: Path,
    world: World,
    allow_code: bool = False,
    changed_data: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Job, RunFolder]:
    """A run that was begun, with its own configuration, ready to go on.

    Data that have changed since are a `RunError`. With `changed_data` they are reported, and from now on the run's own.
    """
    run = RunFolder.resume(folder) if world.is_first else RunFolder.open(folder)
    try:
        if run.is_finished:
            raise RunError(f"{folder} is finished; its report is {folder / REPORT}")
        scaling = run.read_tensors(SCALING) if _has_scaling(run) else None
        config, known = config_of(run.config), stored_hashes(run)
        goes_on = warning(run, config.data, "training goes on with the data as it is now", report)
        on_read = goes_on if changed_data else refusing(run, config.data)
        job = Job.ready(config, world, allow_code, scaling, on_read)
        if job.data.hashes and not known:
            report(f"{folder} was begun without a hash of its data, by an earlier glws: changes since go unnoticed")
        if world.is_first:
            keep_hashes(run, job.data.hashes)
        return job, run
    except BaseException:
        run.close()
        raise


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


def _has_scaling(run: RunFolder) -> bool:
    return (run.path / f"{SCALING}.json").exists()


def _looks_at_all(method: AbstractMethod) -> bool:
    kind = type(method)
    return kind.begin_epoch is not AbstractMethod.begin_epoch or kind.end_epoch is not AbstractMethod.end_epoch


def _final_scores(data: JobData, fitted: Fitted, world: World) -> dict[str, Any]:
    """The last epoch is the result; the best epoch on the test data stands beside it, so named. All processes ask."""
    found: dict[str, Any] = {}
    if data.test is not None:
        found |= scores(log_probs_of(data.test.instances, fitted.judged, world), data.test.labels).as_dict()
        found["per_class"] = list(found["per_class"])
        found["best_on_test"] = max(float(row["test_accuracy"]) for row in fitted.history if "test_accuracy" in row)
    if data.held_out is not None:
        weak = held_out_scores(data.held_out, fitted.predict, world)
        found["held_out"] = {
            "log_likelihood": weak.log_likelihood,
            "per_instance": weak.per_instance,
            "entropy": weak.entropy,
            "impossible": weak.impossible,
        }
        if weak.approximation_error > 0:
            found["held_out"]["approximation_error"] = weak.approximation_error
        estimate = held_out_accuracy(data.held_out, fitted.predict, world)
        if estimate is not None:
            found["held_out"] |= {
                "estimated_accuracy": estimate.accuracy,
                "estimated_accuracy_error": estimate.standard_error,
            }
    return found
