"""What a trained network says of instances: predictions, and posterior labels given what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from glws._messages import one_line
from glws.data import Groups, Instances, instance_shape, read_table
from glws.data.augment import AUGMENTATIONS, Views, views
from glws.data.tables import read_description
from glws.errors import CheckpointError, DataError, RunError
from glws.evaluation import balanced_posterior
from glws.experiment._config import DataConfig, JobConfig, config_of
from glws.experiment._content import CONTENT, INPUT, file_rows
from glws.experiment._data import JobData, job_data
from glws.experiment._job import SCALING
from glws.experiment._model import job_model
from glws.experiment._provenance import OnRead, warning
from glws.inference import Posterior, real_instances
from glws.methods import AbstractMethod, Outputs, State, build_method
from glws.training import (
    CHECKPOINTS,
    Forward,
    RunFolder,
    World,
    chosen_device,
    group_probs_of,
    latest,
    log_probs_of,
    posteriors,
    ready,
    trained_weights,
)

GROUP = "group_"
"""What columns begin with that are about the group of a row."""
Columns = dict[str, Any]
"""A table to write: names and columns of one length."""
Report = Callable[[str], None]
ERROR = "approximation_error"


class Trained(NamedTuple):
    """A finished run to use: what it was told, the classes, and what was subtracted from features and divided by."""

    run: RunFolder
    config: JobConfig
    classes: tuple[str, ...]
    scaling: dict[str, Tensor] | None

    @classmethod
    def of(cls, folder: Path) -> Trained:
        """From its folder."""
        run = RunFolder.open(folder)
        if not run.is_finished:
            raise RunError(f"{folder} is not finished; go on with it: glws train --resume {folder}")
        run.result()  # which is there, and sound
        content = run.read_json(CONTENT)
        classes = content.get("classes") if isinstance(content, dict) else None
        if not isinstance(classes, list):
            raise RunError(f"{folder}: expected the classes in {CONTENT}.json, found {type(classes).__name__}")
        scaling = run.read_tensors(SCALING) if (run.path / f"{SCALING}.json").exists() else None
        return cls(run, config_of(run.config), tuple(str(name) for name in classes), scaling)

    @property
    def look(self) -> str:
        """The name of the views that the network knows."""
        wanted, source = self.config.data.views, self.config.data.source
        return wanted if wanted != "auto" else source if source in AUGMENTATIONS else "tables"

    def data_config(self, table: Path | None) -> DataConfig:
        """How to read all groups of its own data, or of another table as if it had been trained on."""
        asked = replace(self.config.data, held_out=0.0, test=None)
        if table is None:
            return asked
        return replace(asked, table=str(table), source=None, views=self.look, standardize=self.scaling is not None)

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
        training, seed = self.config.training, self.config.training.seed
        model = job_model(self.config.model, shape, len(self.classes), seed, allow_code)
        try:
            model.load_state_dict(_weights(self.run, report))
        except RuntimeError as error:
            reason = one_line(error)
            where = f"{self.run.path}: its network is not one for instances of shape {list(shape)}"
            raise RunError(f"{where}: {reason}") from error
        method, state = build_method(self.config.method.name, self.config.method.options), trained_state(self.run)
        device = chosen_device("cpu" if training.device == "cpu" else "auto")  # perhaps not where it was trained
        forward = Forward(ready(model, training, device).eval(), training, device, World())
        modules = None
        if method.predicts_groups:
            weights = trained_weights(self.run, lambda line: None, of_modules=True)
            modules = ready(method.restored_modules(weights), training, device)
        return Predictor(forward, views(self.look), method, state, device, modules)


@dataclass(frozen=True, eq=False)
class Predictor:
    """The network of a finished run, as its method reads it: called with instances it gives log-probabilities.

    `modules` are the networks of a method that predicts whole groups, None of one that does not.
    """

    forward: Forward
    look: Views
    method: AbstractMethod
    state: State
    device: torch.device
    modules: nn.ModuleDict | None

    @torch.no_grad()
    def __call__(self, instances: Tensor) -> Tensor:
        """Log-probabilities of instances."""
        return self.method.log_probs(self._outputs(instances).logits, self.state)

    def group_probs(self, instances: Instances, groups: Groups) -> Tensor | None:
        """What whole groups are, [groups, classes]; None if the method predicts instances only."""
        if self.modules is None:
            return None
        return group_probs_of(instances, groups, self._outputs, partial(self.method.group_probs, modules=self.modules))

    def _outputs(self, instances: Tensor) -> Outputs:
        return self.forward(self.look.plain(instances.to(self.device), torch.Generator(self.device)))


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


def predictions(
    folder: Path, table: Path | None, allow_code: bool = False, report: Report = lambda line: None
) -> Columns:
    """For each instance its most likely class and the probability of every class.

    Of a run that was told the shares of the classes, the class is the best one for balanced accuracy, as in its scores.
    `table` describes the instances; it needs no weak labels, and those the run was trained on need not be there any
    more. Without one the run's own data are taken. Of a method that predicts whole groups, `group_p(...)` says what the
    group of the row is, where each row is in one group. `row` is the place in the file, the first being 0.
    """
    used = Trained.of(folder)
    if table is None:
        data = job_data(used.data_config(None), used.config.training.seed, used.scaling, on_read=used.on_read(report))
        instances, rows, groups = data.whole.instances, file_rows(data), list(data.whole.groups)
    else:
        found = read_table(table)
        used.on_read(report)(str(table), found.data_hash())
        used.check(found.classes, found.feature_names)
        instances, rows = found.instances(used.scaling), np.argsort(np.argsort(found.row_numbers))
        groups = [Groups(torch.from_numpy(block.offsets), torch.from_numpy(block.members)) for block in found.blocks]
    predict = used.predictor(instance_shape(instances), allow_code, report)
    log_probs = log_probs_of(instances, predict).double()
    labels = balanced_posterior(log_probs, used.config.training.shares).argmax(1)
    order = np.argsort(rows, kind="stable")
    columns = {"row": rows, "label": _named(labels, used.classes), **_columns(log_probs.exp(), used.classes)}
    columns |= _columns_of_own_group(predict, instances, groups, used.classes)
    return {name: np.asarray(column)[order] for name, column in columns.items()}


def posterior_labels(
    folder: Path, table: Path | None, allow_code: bool = False, report: Report = lambda line: None
) -> Columns:
    """For each instance of each group: the posterior given network and weak label, and what it makes of the group.

    `label` is the most likely class of the instance by itself, `joint_label` its class in the most likely labeling of
    the whole group, `entropy` that of its posterior in nats, `log_likelihood` that of the group's weak label, `p(...)`
    the posterior. Of a method that predicts whole groups, `group_p(...)` is its prediction. Where the predictions rule
    out what is known there is no label, and the posterior is 0. `row` is the place in the file, the first being 0.
    Where some posteriors are approximate, `approximation_error` estimates how far those of the group may be off; it is
    0 where they are exact.
    """
    used = Trained.of(folder)
    if table is not None and not read_description(table).blocks:
        raise DataError(f"{table}: it describes no weak labels; glws predict does without them")
    data = job_data(used.data_config(table), used.config.training.seed, used.scaling, on_read=used.on_read(report))
    used.check(data.classes, data.feature_names)
    predict = used.predictor(data.input_shape, allow_code, report)
    rows = file_rows(data)
    of_groups = predict.group_probs(data.whole.instances, data.whole.groups[0])
    pieces = [
        {**_piece(data, rows, *answer), **_group_columns(of_groups, answer, used.classes)}
        for answer in posteriors(data.whole, predict)
    ]
    if not pieces:
        raise DataError("there are no groups to label")
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return _checked_errors(columns, report)


def _checked_errors(columns: Columns, report: Report) -> Columns:
    """Without the column of errors where all posteriors are exact; where some are not, says so."""
    errors = columns[ERROR]
    if not errors.any():
        return {name: column for name, column in columns.items() if name != ERROR}
    report(
        f"the posteriors of {int((errors > 0).sum()):,} of {len(errors):,} rows are approximate and may be off by up "
        f"to {errors.max():.2g} (estimate): see the column {ERROR}"
    )
    return columns


def _columns_of_own_group(
    predict: Predictor, instances: Instances, groups: Sequence[Groups], classes: Sequence[str]
) -> Columns:
    """For each instance what its group is, where the method predicts that and each instance is in one group."""
    if len(groups) != 1 or not torch.equal(groups[0].indices.sort().values, torch.arange(len(instances))):
        return {}
    probs = predict.group_probs(instances, groups[0])
    if probs is None:
        return {}
    group_of_member = torch.repeat_interleave(torch.arange(len(groups[0])), groups[0].lengths)
    return _columns(probs.double()[group_of_member[groups[0].indices.argsort()]], classes, GROUP)


def _group_columns(
    probs: Tensor | None, answer: tuple[int, Tensor, Tensor, Posterior], classes: Sequence[str]
) -> Columns:
    """For each row what its whole group is, where the method predicts that."""
    if probs is None:
        return {}
    _, groups, _, posterior = answer
    return _columns(probs.double()[groups.repeat_interleave(posterior.lengths)], classes, GROUP)


def _piece(data: JobData, rows: Any, kind: int, groups: Tensor, members: Tensor, answer: Posterior) -> Columns:
    """The rows of some groups."""
    weak = data.whole.weak[kind]
    real = real_instances(members, answer.lengths)
    marginals = answer.marginals.double()[real]
    error = torch.zeros(len(groups)).double() if answer.error is None else answer.error.double()
    single = torch.where(answer.impossible[:, None], -1, answer.marginals.argmax(2))
    repeated = groups[:, None].expand_as(members)[real]
    names = data.group_names[kind] if data.group_names else np.arange(len(weak))
    return {
        "row": rows[members[real].numpy()],
        "kind": np.full(len(repeated), type(weak).__name__),
        "group": np.asarray([str(names[number]) for number in repeated.tolist()]),
        "label": _named(single[real], data.classes),
        "joint_label": _named(answer.mode()[real], data.classes),
        "entropy": torch.special.entr(marginals).sum(1).numpy(),
        "log_likelihood": answer.log_likelihood.double()[:, None].expand_as(members)[real].numpy(),
        ERROR: error[:, None].expand_as(members)[real].numpy(),
        **_columns(marginals, data.classes),
    }


def _named(numbers: Tensor, classes: tuple[str, ...]) -> Any:
    """Class names; empty for -1."""
    return np.asarray([*classes, ""])[numbers.numpy()]


def _columns(probs: Tensor, classes: Sequence[str], whose: str = "") -> Columns:
    return {f"{whose}p({name})": probs[:, number].numpy() for number, name in enumerate(classes)}
