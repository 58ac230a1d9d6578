"""`train`: one job, from its configuration to a run folder that holds network, scores and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glws.errors import RunError
from glws.evaluation import scores
from glws.files import write_text
from glws.jobs.config import JobConfig, config_of
from glws.jobs.content import run_content, store_content
from glws.jobs.data import JobData, job_data
from glws.jobs.model import job_model
from glws.methods.catalogue import build_method
from glws.report import page
from glws.training.evaluate import held_out_scores, log_probs_of
from glws.training.loop import Fitted, Training
from glws.training.metrics_log import TensorBoardMirror
from glws.training.observer import Observer
from glws.training.run_folder import RunFolder
from glws.training.snapshot import Snapshots
from glws.training.world import World

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
    def ready(cls, config: JobConfig, world: World, allow_code: bool = False) -> Job:
        """Reads the data, builds the network and the method; whatever does not fit together is found here."""
        seed = config.training.seed
        data = job_data(config.data, seed)
        method = build_method(config.method.name, config.method.options)
        method.check(data.train)
        model = job_model(config.model, data.input_shape, len(data.classes), seed, allow_code)
        return cls(config, data, Training(model, data.train, method, config.training, data.look, world))

    def begin(self, folder: Path, command: Sequence[str] | None = None) -> RunFolder:
        """A new run folder for it."""
        about = {"seed": self.config.training.seed, "device": str(self.training.device), "command": command}
        run = RunFolder.create(folder, self.config.as_dict(), **about)  # type: ignore[arg-type]
        if self.data.scaling is not None:
            run.write_tensors(SCALING, self.data.scaling)
        return run

    def finish(self, run: RunFolder, observer: Observer, report: Callable[[str], None]) -> Outcome:
        """Trains to the end in the folder, from where it stands there, and writes scores and report."""
        mirror = TensorBoardMirror(run.path / "tensorboard", report)
        snapshots = Snapshots(run, self.config.training.save_every, report, mirror)
        fitted = self.training.run(self.data.test, self.data.held_out, snapshots, observer)
        mirror.close()
        if fitted.stopped_by is not None or not self.training.world.is_first:
            return Outcome(run.path, {}, fitted.warnings, fitted.stopped_by)
        found = _final_scores(self.data, fitted)
        content = run_content(run, self.data, fitted, found)
        store_content(run, content)
        write_text(run.path / REPORT, page([content]))
        run.finish(found)
        return Outcome(run.path, found, fitted.warnings)


def resumed(folder: Path, world: World, allow_code: bool = False) -> tuple[Job, RunFolder]:
    """A run that was begun, with its own configuration, ready to go on."""
    run = RunFolder.resume(folder) if world.is_first else RunFolder.open(folder)
    try:
        if world.is_first and run.is_finished:
            raise RunError(f"{folder} is finished; its report is {folder / REPORT}")
        return Job.ready(config_of(run.config), world, allow_code), run
    except BaseException:
        run.close()
        raise


def _final_scores(data: JobData, fitted: Fitted) -> dict[str, Any]:
    """The last epoch is the result; the best epoch on the test data stands beside it, so named."""
    found: dict[str, Any] = {}
    if data.test is not None:
        found |= scores(log_probs_of(data.test.instances, fitted.predict), data.test.labels).as_dict()
        found["per_class"] = list(found["per_class"])
        found["best_on_test"] = max(float(row["test_accuracy"]) for row in fitted.history if "test_accuracy" in row)
    if data.held_out is not None:
        weak = held_out_scores(data.held_out, fitted.predict)
        found["held_out"] = {
            "log_likelihood": weak.log_likelihood,
            "per_instance": weak.per_instance,
            "entropy": weak.entropy,
            "impossible": weak.impossible,
        }
    return found
