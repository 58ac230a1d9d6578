"""Run one cell of the paper: from its plan to a line of `runs.jsonl`."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glws._aliases import with_current_names
from glws._seeds import derived_generator
from glws.data import Groups, Source, WeakDataset, instance_shape, load
from glws.data.weaken import positive_scores
from glws.errors import RunError
from glws.experiment import Experiment, ExperimentData
from glws.kinds import Labels, Unlabeled
from glws.models import build
from glws.training import (
    Fitted,
    Labeled,
    Observer,
    RunFolder,
    Snapshots,
)
from reproduction.clip import needs_clip, read_clip_scores
from reproduction.confidence import network_scores
from reproduction.plans import CEILING, Plan, chosen_options, plan, taken
from reproduction.published import Cell, cell
from reproduction.results import ACCURACY, BALANCED, ERROR, HELD_OUT, LIKELIHOOD, TEMPERED, find_run, store_run
from reproduction.weakening import SCORED, sets_singly

UNFINISHED = "unfinished"
"""The folder of unfinished runs, inside that of the results."""
INTERRUPTED, SPENT = "interrupted", "seconds"
"""The event that an interrupted run stores, and its field: seconds of training so far."""
LOOKS = 5
"""The number of evaluations on held-out groups in a run."""
BAGS_HELD_OUT = 3
"""Held-out bags per training bag; more bags give smaller errors at little cost."""
FACTORS = (0.125, 0.1768, 0.25, 0.3536, 0.5, 0.7071, 1.0, 1.4142, 2.0)
"""Factors of the logits for the tempered likelihood."""


@dataclass(frozen=True)
class PaperRun:
    """One run: cell, method, seed, and changed options and epochs.

    With `held_out` it is a run for model selection: this share of the instances is held out, weak data are drawn from
    both parts, the result is the likelihood of the held-out weak data, and the test set is not used.
    """

    setting: str
    dataset: str
    cell: str
    method: str = "glws"
    seed: int = 0
    epochs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    held_out: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", with_current_names(self.options))

    @property
    def name(self) -> str:
        """Its name among the runs."""
        chosen = "".join(f"-{key}={value}" for key, value in self.options.items())
        cut = "" if self.epochs is None else f"-epochs={self.epochs}"
        cut += f"-held_out={self.held_out}" if self.held_out else ""
        words = f"{self.setting}-{self.dataset}-{self.cell}-{self.method}{chosen}{cut}-seed{self.seed}"
        return words.replace(",", "_").replace("/", "_")


def data_set(name: str, folder: Path | None) -> Source:
    """The data set of a cell; `DataError` if it is missing."""
    return load(name, folder, verify=False)


def check_data(name: str, with_clip: bool, folder: Path | None) -> None:
    """Raise `DataError` if the data set, or its CLIP confidences if needed, are missing."""
    source = data_set(name, folder)
    if with_clip:
        read_clip_scores(name, source.num_classes, folder)


def check_plan(run: PaperRun) -> None:
    """Raise an error of one line for invalid options."""
    plan(cell(run.setting, run.dataset, run.cell), run.method, run.seed, "cpu", run.epochs, **run.options)


def run_cell(
    run: PaperRun,
    results: Path,
    folder: Path | None = None,
    device: str = "auto",
    runs: Path | None = None,
    speed: Literal["eager", "graphs"] = "eager",
    observer: Observer | None = None,
) -> dict[str, Any]:
    """Train one run and store its result; return the stored result if it exists.

    `folder` has the data sets. An interrupted run resumes: until it finishes, its folder is kept next to the results,
    or permanently in `runs`.
    """
    known = find_run(results, run.name) if results.is_dir() else None
    if known is not None:
        return known
    one, source = cell(run.setting, run.dataset, run.cell), data_set(run.dataset, folder)
    made = plan(one, run.method, run.seed, device, run.epochs, speed, **run.options)
    if run.held_out:  # only the last epoch matters
        made = replace(made, config=replace(made.config, evaluate_every=-(-made.epochs // LOOKS)))
    began = time.perf_counter()
    data = weak_data(one, source, run, made, device, folder)
    began_training = time.perf_counter()
    test = None if run.held_out else Labeled.of(source.test.inputs, one.task_labels(source.test.labels))
    with _run_folder(one, run, runs or results / UNFINISHED) as keep:
        fitted = _trained(one, run, made, data, test, keep, observer)
        seconds = time.perf_counter() - began_training + _spent_before(keep)
        if fitted.stopped_by is not None:
            keep.note(INTERRUPTED, {SPENT: round(seconds, 2)})
    fitted.stop_if_asked()
    result = {
        **_described(run, fitted, seconds),
        "chosen": chosen_options(one),
        **(_chosen_by(fitted, data[1]) if data[1] is not None else _scored(one, fitted)),
    }
    result["preparation_seconds"] = round(began_training - began, 2)
    stored = store_run(results, run.name, result)
    if runs is None:
        shutil.rmtree(keep.path, ignore_errors=True)
    return stored


def weak_data(
    one: Cell, source: Source, run: PaperRun, made: Plan, device: str, folder: Path | None = None
) -> tuple[WeakDataset, WeakDataset | None]:
    """The weak training data of a cell, and held-out weak data from other instances."""
    images, labels, scores = torch.as_tensor(source.train.inputs), torch.as_tensor(source.train.labels), None
    if one.setting in SCORED and run.method != CEILING:
        given = (images, labels, source.num_classes, made.model, made.views, run.seed, device, made.config.speed)
        of_clip = needs_clip(one)
        found = read_clip_scores(source.name, source.num_classes, folder) if of_clip else network_scores(*given)
        scores = positive_scores(found, one.positive)
    drawn = partial(_drawn, one, run, made)
    if not run.held_out:
        return drawn(images, labels, scores, "weaken"), None
    order = torch.randperm(len(labels), generator=derived_generator("cpu", run.seed, "held out"))
    away, kept = order.tensor_split([round(run.held_out * len(order))])
    sides = [(images[side], labels[side], None if scores is None else scores[side]) for side in (kept, away)]
    drawn_held_out = partial(_drawn, one, run, replace(made, weaken={**made.weaken, **_more_bags(one)}))
    return drawn(*sides[0], "weaken"), _as_samples(drawn_held_out(*sides[1], "weaken what is held out"))


def _more_bags(one: Cell) -> dict[str, int]:
    bags = one.configuration.get("num_bags")
    return {} if bags is None else {"num_bags": BAGS_HELD_OUT * int(bags)}


def _drawn(
    one: Cell, run: PaperRun, made: Plan, images: Tensor, labels: Tensor, scores: Tensor | None, purpose: str
) -> WeakDataset:
    """The weak labels of these instances; true labels for supervised training."""
    if run.method == CEILING:
        task = one.task_labels(labels)
        return WeakDataset(images, Groups.singles(len(task)), Labels.of(task, one.num_classes))
    generator = derived_generator("cpu", run.seed, purpose, run.setting, run.cell)
    record = one.weakened(labels, generator, scores=scores, **made.weaken)
    return (sets_singly(record) if made.is_single else record).dataset(images)


def _as_samples(held_out: WeakDataset) -> WeakDataset:
    """Give held-out unlabeled groups binomial counts: each group is a sample from its prior."""
    weak = (replace(each, count="binomial") if isinstance(each, Unlabeled) else each for each in held_out.weak)
    return WeakDataset(held_out.instances, held_out.groups, tuple(weak))


def _trained(
    one: Cell,
    run: PaperRun,
    made: Plan,
    data: tuple[WeakDataset, WeakDataset | None],
    test: Labeled | None,
    keep: RunFolder,
    observer: Observer | None,
) -> Fitted:
    train, held_out = data
    shape = instance_shape(train.instances)
    model = build(made.model, shape, one.num_classes, derived_generator("cpu", run.seed, "model"))
    experiment = Experiment(ExperimentData.of(train, held_out, test, made.views), model, made.method, made.config)
    return experiment.train(Snapshots(keep, made.config.save_every), observer)


def _run_folder(one: Cell, run: PaperRun, runs: Path) -> RunFolder:
    """A new run folder, or the unfinished one of the same plan."""
    folder = runs / run.name
    planned = taken(run.method, {**chosen_options(one), **run.options})
    config = {"run": run.name, "plan": json.loads(json.dumps(planned))}  # lists for tuples, as it is read back
    if not RunFolder.holds_run(folder):
        return RunFolder.create(folder, config, seed=run.seed)
    if RunFolder.open(folder).config != config:
        raise RunError(f"{folder} was begun under another plan; remove it to start the run again")
    return RunFolder.resume(folder)


def _spent_before(keep: RunFolder) -> float:
    """Seconds until the last interruption."""
    return max((float(str(noted[SPENT])) for noted in keep.noted(INTERRUPTED)), default=0.0)


def _described(run: PaperRun, fitted: Fitted, seconds: float) -> dict[str, Any]:
    """The identity and cost of a run."""
    device = next(fitted.model.parameters()).device
    return {
        "setting": run.setting,
        "dataset": run.dataset,
        "cell": run.cell,
        "method": run.method,
        "options": dict(run.options),
        "seed": run.seed,
        "epochs": int(fitted.history[-1]["epoch"]),
        "seconds": round(seconds, 2),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "warnings": fitted.warnings[-1:],
    }


def _scored(one: Cell, fitted: Fitted) -> dict[str, Any]:
    """The test scores."""
    final = fitted.evaluation.scores
    assert final is not None
    curve = [float(row[f"test_{one.metric}"]) for row in fitted.history if f"test_{one.metric}" in row]
    return {
        "accuracy": final.accuracy,
        "balanced_accuracy": final.balanced_accuracy,
        "matched_accuracy": final.matched_accuracy,
        "calibration_error": final.calibration_error,
        "best_on_test": max(curve),
        "curve": [round(value, 5) for value in curve],
    }


def _chosen_by(fitted: Fitted, held_out: WeakDataset) -> dict[str, Any]:
    """Log-likelihood per held-out group, after the last epoch and after all epochs.

    Also the same with the best factor of the logits, since predictions that are right but overconfident have a low
    likelihood, and an estimate of the accuracy on single instances, if these groups allow it.
    """
    curve = [float(row[LIKELIHOOD]) for row in fitted.history if LIKELIHOOD in row]
    tempered = {factor: fitted.evaluation.tempered(factor).log_likelihood for factor in FACTORS}
    best = max(tempered, key=tempered.__getitem__)
    found = fitted.evaluation.accuracy_estimate
    return {
        LIKELIHOOD: curve[-1],
        HELD_OUT: sum(map(len, held_out.groups)),
        TEMPERED: tempered[best],
        "factor": best,
        ACCURACY: None if found is None else found.accuracy,
        BALANCED: None if found is None else found.balanced_accuracy,
        ERROR: None if found is None else found.standard_error,
        "curve": [round(value, 5) for value in curve],
    }
