"""One run of a cell of the paper: from its plan to a line of `runs.jsonl`; what is done is not done again."""

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

from glws._seeds import derived_generator
from glws.data import Groups, Source, WeakDataset, instance_shape, load
from glws.data.weaken import positive_scores
from glws.errors import RunError
from glws.evaluation import scores
from glws.kinds import Labels, Unlabeled
from glws.models import build
from glws.training import (
    Fitted,
    Labeled,
    Observer,
    RunFolder,
    Snapshots,
    fit,
    held_out_accuracy,
    held_out_scores,
    log_probs_of,
)
from reproduction.clip import needs_clip, read_clip_scores
from reproduction.confidence import network_scores
from reproduction.plans import CEILING, Plan, chosen_options, plan, taken
from reproduction.published import Cell, cell
from reproduction.results import ACCURACY, BALANCED, ERROR, HELD_OUT, LIKELIHOOD, TEMPERED, find_run, store_run
from reproduction.weakening import SCORED, sets_singly

UNFINISHED = "unfinished"
"""The folder of the runs that are not done yet, inside that of the results."""
CUT_OFF, SPENT = "cut off", "seconds"
"""What a run that is asked to stop notes in its folder: how long it was at it, all parts together."""
LOOKS = 5
"""How often a run looks at what is held out."""
BAGS_HELD_OUT = 3
"""How many bags are held out for each that is trained on: they cost little, and fewer leave much to chance."""
FACTORS = (0.125, 0.1768, 0.25, 0.3536, 0.5, 0.7071, 1.0, 1.4142, 2.0)
"""What logits are multiplied with to see how well they would explain held-out groups if they were less or more sure."""


@dataclass(frozen=True)
class PaperRun:
    """One run: which cell, which method, which seed; options and epochs other than planned, if any.

    With `held_out` it is a run to choose by: this share of the instances is kept from training, weak data are drawn of
    them as of the others, how well these are explained is its result, and it never meets the test set.
    """

    setting: str
    dataset: str
    cell: str
    method: str = "glws"
    seed: int = 0
    epochs: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    held_out: float = 0.0

    @property
    def name(self) -> str:
        """Its name among the runs."""
        chosen = "".join(f"-{key}={value}" for key, value in self.options.items())
        cut = "" if self.epochs is None else f"-epochs={self.epochs}"
        cut += f"-held_out={self.held_out}" if self.held_out else ""
        words = f"{self.setting}-{self.dataset}-{self.cell}-{self.method}{chosen}{cut}-seed{self.seed}"
        return words.replace(",", "_").replace("/", "_")


def data_set(name: str, folder: Path | None) -> Source:
    """What a cell is drawn from; a `DataError` if it is not there. Files were checked when they were fetched."""
    return load(name, folder, verify=False)


def check_data(name: str, with_clip: bool, folder: Path | None) -> None:
    """Raises a `DataError` if the data set is not there, or CLIP's confidences of it where they are wanted."""
    source = data_set(name, folder)
    if with_clip:
        read_clip_scores(name, source.num_classes, folder)


def check_plan(run: PaperRun) -> None:
    """Raises one line for options that no run of it could have."""
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
    """Trains one run and writes its result; a result that is there is read instead.

    `folder` is where the data sets lie. A run that was cut off goes on: until it is done it is kept in a folder of its
    own beside the results, or, done or not, in `runs`.
    """
    known = find_run(results, run.name) if results.is_dir() else None
    if known is not None:
        return known
    one, source = cell(run.setting, run.dataset, run.cell), data_set(run.dataset, folder)
    made = plan(one, run.method, run.seed, device, run.epochs, speed, **run.options)
    if run.held_out:  # what counts is the end
        made = replace(made, config=replace(made.config, evaluate_every=-(-made.epochs // LOOKS)))
    began = time.perf_counter()
    data = weak_data(one, source, run, made, device, folder)
    began_training = time.perf_counter()
    test = None if run.held_out else Labeled.of(source.test.inputs, one.task_labels(source.test.labels))
    with _run_folder(one, run, runs or results / UNFINISHED) as keep:
        fitted = _trained(one, run, made, data, test, keep, observer)
        seconds = time.perf_counter() - began_training + _spent_before(keep)
        if fitted.stopped_by is not None:
            keep.note(CUT_OFF, {SPENT: round(seconds, 2)})
    fitted.stop_if_asked()
    result = {
        **_described(run, fitted, seconds),
        "chosen": chosen_options(one),
        **(_chosen_by(fitted, data[1]) if data[1] is not None else _scored(one, fitted, test)),
    }
    result["preparation_seconds"] = round(began_training - began, 2)
    stored = store_run(results, run.name, result)
    if runs is None:
        shutil.rmtree(keep.path, ignore_errors=True)
    return stored


def weak_data(
    one: Cell, source: Source, run: PaperRun, made: Plan, device: str, folder: Path | None = None
) -> tuple[WeakDataset, WeakDataset | None]:
    """What a cell is trained on, and what is held out, if anything: drawn likewise, from other instances."""
    images, labels, scores = torch.as_tensor(source.train.inputs), torch.as_tensor(source.train.labels), None
    if one.setting in SCORED and run.method != CEILING:
        given = (images, labels, source.num_classes, made.model, made.look, run.seed, device, made.config.speed)
        of_clip = needs_clip(one)
        found = read_clip_scores(source.name, source.num_classes, folder) if of_clip else network_scores(*given)
        scores = positive_scores(found, one.positive)
    drawn = partial(_drawn, one, run, made)
    if not run.held_out:
        return drawn(images, labels, scores, "weaken"), None
    order = torch.randperm(len(labels), generator=derived_generator("cpu", run.seed, "held out"))
    away, kept = order.tensor_split([round(run.held_out * len(order))])
    sides = [(images[side], labels[side], None if scores is None else scores[side]) for side in (kept, away)]
    judged = partial(_drawn, one, run, replace(made, weaken={**made.weaken, **_more_bags(one)}))
    return drawn(*sides[0], "weaken"), _as_samples(judged(*sides[1], "weaken what is held out"))


def _more_bags(one: Cell) -> dict[str, int]:
    bags = one.configuration.get("num_bags")
    return {} if bags is None else {"num_bags": BAGS_HELD_OUT * int(bags)}


def _drawn(
    one: Cell, run: PaperRun, made: Plan, images: Tensor, labels: Tensor, scores: Tensor | None, purpose: str
) -> WeakDataset:
    """What is known of these instances; true labels where the method is to have them."""
    if run.method == CEILING:
        task = one.task_labels(labels)
        return WeakDataset(images, Groups.singles(len(task)), Labels.of(task, one.num_classes))
    generator = derived_generator("cpu", run.seed, purpose, run.setting, run.cell)
    record = one.weakened(labels, generator, scores=scores, **made.weaken)
    return (sets_singly(record) if made.is_single else record).dataset(images)


def _as_samples(held_out: WeakDataset) -> WeakDataset:
    """A prior says the same of every group held out, however it is used in training: that the group is a sample, whose
    count is binomial."""
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
    model = build(
        made.model, instance_shape(train.instances), one.num_classes, derived_generator("cpu", run.seed, "model")
    )
    return fit(
        model,
        train,
        made.method,
        made.config,
        views=made.look,
        test=test,
        held_out=held_out,
        snapshots=Snapshots(keep, made.config.save_every),
        observer=observer,
    )


def _run_folder(one: Cell, run: PaperRun, runs: Path) -> RunFolder:
    """A new folder for the run, or the one it was begun in, if that was under the same plan."""
    folder = runs / run.name
    planned = taken(run.method, {**chosen_options(one), **run.options})
    config = {"run": run.name, "plan": json.loads(json.dumps(planned))}  # lists for tuples, as it is read back
    if not RunFolder.holds_run(folder):
        return RunFolder.create(folder, config, seed=run.seed)
    if RunFolder.open(folder).config != config:
        raise RunError(f"{folder} was begun under another plan; remove it, and the run begins anew")
    return RunFolder.resume(folder)


def _spent_before(keep: RunFolder) -> float:
    """Seconds up to the last time that it was cut off."""
    return max((float(str(noted[SPENT])) for noted in keep.noted(CUT_OFF)), default=0.0)


def _described(run: PaperRun, fitted: Fitted, seconds: float) -> dict[str, Any]:
    """Which run it is, and what it took."""
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


def _scored(one: Cell, fitted: Fitted, test: Labeled | None) -> dict[str, Any]:
    """How good it is on the test set."""
    assert test is not None
    final = scores(log_probs_of(test.instances, fitted.judged), test.labels)
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
    """How well it explains the groups that were held out: log-likelihood for each group, last epoch and all epochs.

    And the same with the predictions cooled or warmed as is best: what is known of a group is often explained badly by
    predictions that are right but too sure. And the accuracy on single instances, where these groups tell it.
    """
    curve = [float(row[LIKELIHOOD]) for row in fitted.history if LIKELIHOOD in row]
    tempered = {factor: _tempered(fitted, held_out, factor) for factor in FACTORS}
    best = max(tempered, key=tempered.__getitem__)
    found = held_out_accuracy(held_out, fitted.predict)
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


def _tempered(fitted: Fitted, held_out: WeakDataset, factor: float) -> float:
    """The log-likelihood with logits times a factor."""
    return held_out_scores(held_out, lambda seen: (factor * fitted.predict(seen)).log_softmax(-1)).log_likelihood
