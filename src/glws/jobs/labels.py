"""What a trained network says of instances: predictions, and posterior labels given what is known of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glws.data import read_table
from glws.data.dataset import instances_of
from glws.errors import AutomatonError, DataError, RunError
from glws.inference import Posterior
from glws.jobs.config import JobConfig, config_of
from glws.jobs.content import CONTENT
from glws.jobs.data import JobData, job_data, scaled
from glws.jobs.job import SCALING
from glws.jobs.model import job_model
from glws.supervision import AbstractSupervision, ClassCounts
from glws.training.devices import chosen_device
from glws.training.evaluate import Predict, log_probs_of, posteriors
from glws.training.network import Forward, ready
from glws.training.run_folder import RunFolder
from glws.training.snapshot import trained_weights
from glws.training.world import World


class Trained(NamedTuple):
    """A run to use: its configuration, data as it was told to read them, and the network."""

    config: JobConfig
    data: JobData
    predict: Predict


def trained(folder: Path, table: Path | None = None, allow_code: bool = False) -> Trained:
    """The network of a run, with the data of another described table instead of its own if one is given."""
    run = RunFolder.open(folder)
    config = config_of(run.config)
    scaling = run.read_tensors(SCALING) if (run.path / f"{SCALING}.json").exists() else None
    asked = config.data if table is None else replace(config.data, table=str(table), source=None, test=None)
    data = job_data(replace(asked, held_out=0.0), config.training.seed, scaling)
    _check_same(data, run)
    model = job_model(config.model, data.input_shape, len(data.classes), config.training.seed, allow_code)
    model.load_state_dict(trained_weights(run))
    return Trained(config, data, _predictor(model, data, config))


def _check_same(data: JobData, run: RunFolder) -> None:
    if not run.is_finished:
        raise RunError(f"{run.path} is not finished; go on with it: glws train --resume {run.path}")
    expected = run.read_json(CONTENT)
    classes = expected.get("classes") if isinstance(expected, dict) else None
    if isinstance(classes, list) and tuple(classes) != data.classes:
        found = ", ".join(data.classes)
        raise RunError(f"{run.path} was trained for the classes {', '.join(map(str, classes))}, the data has {found}")


def _predictor(model: torch.nn.Module, data: JobData, config: JobConfig) -> Predict:
    device = chosen_device(config.training.device)
    forward = Forward(ready(model, config.training, device).eval(), config.training, device, World())

    @torch.no_grad()
    def predict(instances: Tensor) -> Tensor:
        seen = data.look.plain(instances.to(device), torch.Generator(device))
        return forward(seen).logits.log_softmax(-1)

    return predict


Columns = dict[str, Any]


def predictions(folder: Path, table: Path | None, allow_code: bool = False) -> Columns:
    """For each instance its most likely class and the probability of every class.

    `table` describes the instances; it needs no weak labels. Without one the run's own data are taken.
    """
    used = trained(folder, None, allow_code)
    if table is None:
        instances, rows = used.data.whole.instances, used.data.row_numbers
    else:
        found = read_table(table)
        if found.classes != used.data.classes:
            raise RunError(f"{folder} was trained for the classes {', '.join(used.data.classes)}, {table} has others")
        features: Any = found.features
        instances = instances_of(features if used.data.scaling is None else scaled(features, used.data.scaling))
        rows = found.row_numbers
    probs = log_probs_of(instances, used.predict).double().exp()
    numbers = np.arange(len(instances)) if rows is None else rows
    return {"row": numbers, "label": _named(probs.argmax(1), used.data.classes), **_columns(probs, used.data.classes)}


def posterior_labels(folder: Path, table: Path | None, allow_code: bool = False) -> Columns:
    """For each instance of each group: the posterior given network and weak label, and what it makes of the group.

    `label` is the most likely class of the instance by itself, `joint_label` its class in the most likely labeling of
    the whole group, `entropy` that of its posterior in nats, `log_likelihood` that of the group's weak label.
    """
    used = trained(folder, table, allow_code)
    pieces = [_piece(used.data, *answer) for answer in posteriors(used.data.whole, used.predict)]
    if not pieces:
        raise DataError("there are no groups to label")
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _piece(data: JobData, kind: int, groups: Tensor, members: Tensor, answer: Posterior) -> Columns:
    """The rows of some groups."""
    weak = data.whole.weak[kind]
    real = torch.arange(members.shape[1]) < answer.lengths[:, None]
    marginals = answer.marginals.double()[real]
    repeated = groups[:, None].expand_as(members)[real]
    names = data.group_names[kind] if data.group_names else np.arange(len(weak))
    numbers = members[real].numpy()
    return {
        "row": numbers if data.row_numbers is None else np.asarray(data.row_numbers)[numbers],
        "kind": np.full(len(numbers), type(weak).__name__),
        "group": np.asarray([str(names[number]) for number in repeated.tolist()]),
        "label": _named(marginals.argmax(1), data.classes),
        "joint_label": _named(most_likely(weak[groups], answer)[real], data.classes),
        "entropy": torch.special.entr(marginals).sum(1).numpy(),
        "log_likelihood": answer.log_likelihood.double()[:, None].expand_as(members)[real].numpy(),
        **_columns(marginals, data.classes),
    }


def most_likely(weak: AbstractSupervision, answer: Posterior) -> Tensor:
    """The most likely labeling of each group as a whole.

    For counts of many classes, whose automaton is too large, it is an assignment of instances to places. A projection
    says nothing of labelings as a whole: there it is the most likely class of each.
    """
    if isinstance(weak, ClassCounts):
        return _assigned(weak, answer)
    try:
        return answer.mode()
    except (AutomatonError, DataError):
        return answer.marginals.argmax(2)


def _assigned(weak: ClassCounts, answer: Posterior) -> Tensor:
    from scipy.optimize import linear_sum_assignment

    labels = torch.full(answer.marginals.shape[:2], -1)
    for group, length in enumerate(answer.lengths.tolist()):
        places = torch.repeat_interleave(torch.arange(weak.num_classes), weak.counts[group].long().cpu())
        cost = -answer.potentials[group, :length].double()[:, places].clamp(-1e9, 1e9)
        if len(places) == length and not bool(answer.impossible[group]):
            rows, columns = linear_sum_assignment(cost.numpy())
            labels[group, torch.as_tensor(rows)] = places[torch.as_tensor(columns)]
    return labels


def _named(numbers: Tensor, classes: tuple[str, ...]) -> Any:
    """Class names; empty for -1."""
    return np.asarray([*classes, ""])[numbers.numpy()]


def _columns(probs: Tensor, classes: tuple[str, ...]) -> Columns:
    return {f"p({name})": probs[:, number].numpy() for number, name in enumerate(classes)}
