"""A network as the learner behind the estimator: numpy in, numpy out, torch in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from glws._rules import check_keys
from glws._seeds import derived_generator, derived_seed
from glws.data import WeakDataset
from glws.errors import ConfigError
from glws.estimator._targets import ParsedTargets
from glws.evaluation import balanced_posterior
from glws.methods import AbstractMethod, State, build_method
from glws.models import build
from glws.training import Fitted, Observer, Snapshots, Training, TrainingConfig, World

Array = NDArray[np.float64]
MakeModel = Callable[[Sequence[int], int], nn.Module]
AT_ONCE = 4096
ONE_VIEW = {"e_step": "same", "m_step": "weak"}
"""Rows of a table are not augmented: all views are one, and looking once is enough."""


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network on the CPU in float64, with what its method needs to read it."""

    model: nn.Module
    method: AbstractMethod
    state: State
    shares: tuple[float, ...] | None = None

    def decided(self, features: Array) -> NDArray[np.int64]:
        """The most likely class of each row; where it was told `shares`, the best for balanced accuracy."""
        return np.asarray(balanced_posterior(torch.from_numpy(self.log_probs(features)), self.shares).argmax(1).numpy())

    @torch.no_grad()
    def log_probs(self, features: Array) -> Array:
        """Log-probabilities [rows, classes]."""
        pieces = torch.split(torch.as_tensor(features, dtype=torch.float64), AT_ONCE)
        logits = [self.model(piece) for piece in pieces]
        return np.asarray(self.method.log_probs(torch.cat(logits), self.state).numpy())


@dataclass(frozen=True)
class NetworkLearner:
    """How a network is made and trained; everything is checked when it is used."""

    model: str | nn.Module | MakeModel
    model_options: Mapping[str, Any] | None
    method: str | AbstractMethod
    method_options: Mapping[str, Any] | None
    recipe: Literal["published"] | None
    epochs: int | None
    training: Mapping[str, Any]
    seed: int

    def fit(self, features: Array, known: ParsedTargets) -> tuple[Network, list[float]]:
        """The trained network, and the loss of each epoch."""
        method = self._method()
        data = WeakDataset(torch.as_tensor(features, dtype=torch.float32), list(known.groups), list(known.weak))
        config = self._config(method)
        made = self._made(features.shape[1], len(known.classes), method)
        training = Training(deepcopy(made), data, method, config, None, World())
        fitted = training.run(None, None, Snapshots(None), Observer())
        fitted.stop_if_asked()
        _tell_collapse(fitted)
        trained = training.averaged if config.evaluate_average and training.averaged is not None else training.model
        made.load_state_dict(trained.state_dict())  # the trained one carries hooks of the loop
        state = {name: value.cpu() for name, value in training.state.items()}
        network = Network(made.cpu().double().eval(), method, state, config.shares)
        return network, [float(row["loss"]) for row in fitted.history]

    def _config(self, method: AbstractMethod) -> TrainingConfig:
        check_keys(self.training, list(TrainingConfig.__dataclass_fields__), "training_options")
        given = {**self.training, "seed": self.seed}
        config = TrainingConfig(**given) if self.recipe is None else TrainingConfig.published(method, **given)
        return config if self.epochs is None else replace(config, epochs=self.epochs)

    def _method(self) -> AbstractMethod:
        if isinstance(self.method, AbstractMethod):
            return self.method
        same = ONE_VIEW if self.method == "glws" else {}
        return build_method(self.method, {**same, **(self.method_options or {})})

    def _made(self, num_features: int, num_classes: int, method: AbstractMethod) -> nn.Module:
        if isinstance(self.model, str):
            generator = derived_generator("cpu", self.seed, "model")
            recipe = method.recipe() if self.recipe is not None and self.model == "mlp" else None
            options = {**({} if recipe is None else recipe.model), **(self.model_options or {})}
            return build(self.model, [num_features], num_classes, generator, **options)
        if isinstance(self.model, nn.Module):
            return deepcopy(self.model)
        with torch.random.fork_rng([]):
            torch.manual_seed(derived_seed(self.seed, "model"))
            made: Any = self.model([num_features], num_classes, **(self.model_options or {}))
        if not isinstance(made, nn.Module):
            raise ConfigError(f"`model` must give a torch module. Got a {type(made).__name__}.")
        return made


def _tell_collapse(fitted: Fitted) -> None:
    """Warns if the network ended up with one class for everything."""
    from sklearn.exceptions import ConvergenceWarning

    last = f"epoch {fitted.history[-1]['epoch']}: "
    if fitted.warnings and fitted.warnings[-1].startswith(last):
        warnings.warn(fitted.warnings[-1].removeprefix(last), ConvergenceWarning, stacklevel=4)
