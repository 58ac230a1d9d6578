"""A network as the learner behind the estimator: numpy in, numpy out, torch in between."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glws._rules import check_keys
from glws._seeds import derived_generator, derived_seed
from glws.data import Instances, WeakDataset, instance_shape, instances_of
from glws.errors import ConfigError
from glws.estimator._targets import ParsedTargets
from glws.estimator._tools import is_inside_tools
from glws.evaluation import balanced_posterior
from glws.experiment import Experiment
from glws.methods import AbstractMethod, build_method
from glws.models import build
from glws.training import (
    Fitted,
    LearnedNoise,
    Predictor,
    Selection,
    TrainingConfig,
    is_searchable,
    log_probs_of,
    shown_progress,
)

Array = NDArray[np.float64]
MakeModel = Callable[[Sequence[int], int], nn.Module]
ONE_VIEW = {"e_step": "same", "m_step": "weak"}
"""Rows of a table are not augmented: all views are one, and looking once is enough."""


def rows_for_network(features: Any, dtype: torch.dtype) -> Instances:
    """Rows of numbers as a tensor; sparse and encoded rows as they are."""
    return instances_of(torch.as_tensor(features, dtype=dtype) if isinstance(features, np.ndarray) else features)


def log_probs(network: Predictor, features: Any) -> Array:
    """Log-probabilities [rows, classes] in float64."""
    return np.asarray(log_probs_of(rows_for_network(features, torch.float64), network).numpy())


def decided(network: Predictor, features: Any) -> NDArray[np.int64]:
    """The most likely class of each row; of a network that was given `shares`, the best for balanced accuracy."""
    found = torch.from_numpy(log_probs(network, features))
    return np.asarray(balanced_posterior(found, network.config.shares).argmax(1).numpy())


AUTO = "auto"


class LearnedNetwork(NamedTuple):
    """What was trained, on the CPU in float64, the loss of each epoch, the learned noise, and what was chosen from."""

    network: Predictor
    losses: list[float]
    noise: LearnedNoise
    selection: Selection | None = None


@dataclass(frozen=True)
class NetworkLearner:
    """How a network is made and trained; everything is checked when it is used."""

    model: str | nn.Module | MakeModel
    model_options: Mapping[str, Any] | None
    method: str | AbstractMethod
    method_options: Mapping[str, Any] | None
    recipe: Literal["published"] | None
    training: Mapping[str, Any]
    seed: int
    verbose: bool = False

    def fit(self, features: Any, known: ParsedTargets) -> LearnedNetwork:
        """Trains a network, or with `model="auto"` chooses a mixture of models."""
        method = self._method()
        data = WeakDataset(rows_for_network(features, torch.float32), list(known.groups), list(known.weak))
        model: nn.Module | Literal["auto"] = "auto"
        is_auto = isinstance(self.model, str) and self.model == AUTO
        if not is_auto or not is_searchable(data):
            name = "mlp" if is_auto else self.model
            model = self._made(name, instance_shape(data.instances)[0], len(known.classes), method)
        fitted = Experiment(data, model, method, self._config(method)).train(observer=shown_progress(self.verbose))
        _stop_or_keep(fitted)
        _tell_collapse(fitted)
        losses = [float(row["loss"]) for row in fitted.history if "loss" in row]
        return LearnedNetwork(fitted.predict.in_float64(), losses, fitted.noise, fitted.selection)

    def _config(self, method: AbstractMethod) -> TrainingConfig:
        check_keys(self.training, list(TrainingConfig.__dataclass_fields__), "training_options")
        given = {**self.training, "seed": self.seed}
        return TrainingConfig(**given) if self.recipe is None else TrainingConfig.published(method, **given)

    def _method(self) -> AbstractMethod:
        if isinstance(self.method, AbstractMethod):
            return self.method
        same = ONE_VIEW if self.method == "glws" else {}
        return build_method(self.method, {**same, **(self.method_options or {})})

    def _made(
        self, model: str | nn.Module | MakeModel, num_features: int, num_classes: int, method: AbstractMethod
    ) -> nn.Module:
        if isinstance(model, str):
            generator = derived_generator("cpu", self.seed, "model")
            recipe = method.recipe() if self.recipe is not None and model == "mlp" else None
            options = {**({} if recipe is None else recipe.model), **(self.model_options or {})}
            return build(model, [num_features], num_classes, generator, **options)
        if isinstance(model, nn.Module):
            return deepcopy(model)
        with torch.random.fork_rng([]):
            torch.manual_seed(derived_seed(self.seed, "model"))
            made: Any = model([num_features], num_classes, **(self.model_options or {}))
        if not isinstance(made, nn.Module):
            raise ConfigError(f"`model` must give a torch module. Got a {type(made).__name__}.")
        return made


def _stop_or_keep(fitted: Fitted) -> None:
    """After Ctrl-C keeps what was learned, with a warning; inside tools of scikit-learn passes it on, as other signals.

    Before the first epoch, or candidate, nothing was learned.
    """
    if fitted.stopped_by != signal.SIGINT or not fitted.history or is_inside_tools():
        fitted.stop_if_asked()
        return
    what = f"epoch {fitted.history[-1]['epoch']}" if fitted.selection is None else "some candidates"
    interrupted(f"stopped by Ctrl-C after {what}; what was learned until then is kept")


def interrupted(line: str) -> None:
    """Warns that learning has ended early."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(line, ConvergenceWarning, stacklevel=5)


def _tell_collapse(fitted: Fitted) -> None:
    """Warns if the network ended up with one class for everything."""
    from sklearn.exceptions import ConvergenceWarning

    last = f"epoch {fitted.history[-1]['epoch']}: " if fitted.selection is None else ""
    for line in fitted.warnings:
        if line.startswith(last):
            warnings.warn(line.removeprefix(last), ConvergenceWarning, stacklevel=4)
