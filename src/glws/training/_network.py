"""The network in training: its precision, its features, its outputs for the rows of all processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn
from torch.utils.checkpoint import checkpoint

from glws.data import Inputs
from glws.errors import DataError
from glws.methods import Outputs
from glws.training._config import TrainingConfig
from glws.training._graphs import NetworkGraphs
from glws.training._world import World

Module = TypeVar("Module", bound=nn.Module)


class WithFeatures(nn.Module):
    """A network that also returns the input of its last fully connected layer."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self._last = layers[-1:]

    def forward(self, instances: Any) -> tuple[Tensor, Tensor]:
        """Logits and features."""
        kept: list[Tensor] = []
        hooks = [last.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0])) for last in self._last]
        try:
            logits = self.logits(instances)
        finally:
            for hook in hooks:  # leave no hook on a network that many of these may share
                hook.remove()
        return logits, (kept[-1] if kept else logits).flatten(1)

    def logits(self, instances: Any) -> Tensor:
        """Logits alone."""
        return logits_of(self.model(**instances) if isinstance(instances, Inputs) else self.model(instances))


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returns: a tensor, or an object or a mapping with `logits`, as of Hugging Face."""
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if not isinstance(found, Tensor):
        raise DataError(f"the model must return logits [batch, classes], or an object with .logits, "
                        f"found {type(output).__name__}")  # fmt: skip
    return found


def keeps_integers(model: nn.Module) -> bool:
    """Whether whole numbers are ids for the model: it has an embedding."""
    return any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for module in model.modules())


def cast(instances: Any, dtype: torch.dtype, keeps: bool) -> Any:
    """The instances as floats; ids as they are, and inputs by name in types of their own."""
    is_integer = not isinstance(instances, Inputs) and instances.dtype in (torch.int16, torch.int32, torch.int64)
    return instances if keeps and is_integer else instances.to(dtype)


class Forward:
    """Outputs of a network for the rows of all processes of `world`, from the instances of this one.

    Features travel only if they are asked for.

    With `speed="graphs"` on a GPU, a network in training is replayed from CUDA graphs.
    """

    def __init__(
        self, model: nn.Module, config: TrainingConfig, device: torch.device, world: World, has_features: bool = True
    ) -> None:
        self.model = model
        self._has_features = has_features
        self.call = WithFeatures(model)
        self.dtype = torch.float64 if config.precision == "float64" else torch.float32
        self.keeps_integers = keeps_integers(model)
        self.is_half = config.precision == "bfloat16"
        self.rows_at_once = config.rows_at_once
        self.device, self.world = device, world
        is_replayed = config.speed == "graphs" and device.type == "cuda"
        self._graphs = NetworkGraphs(model, self.call, self._precision) if is_replayed else None

    def begin_step(self) -> None:
        """Release the results of earlier calls with gradient."""
        if self._graphs is not None:
            self._graphs.begin_step()

    def __call__(self, instances: Tensor) -> Outputs:
        """Logits and features of all rows, in float32 or wider."""
        seen = laid_out(cast(instances, self.dtype, self.keeps_integers))
        if not self._has_features and self._graphs is None and len(instances) <= self.rows_at_once:
            with self._precision():
                logits = self.call.logits(seen)
            return Outputs(self.world.gathered(logits.to(self.dtype)), _no_features)
        logits, features = self._answers(seen)
        own = Outputs(*(values.to(self.dtype) for values in (logits, features)))
        return Outputs(self.world.gathered(own.logits), lambda: self.world.gathered(own.features))

    def outputs(self, instances: Tensor, weights: Mapping[str, Tensor] | None = None) -> Outputs:
        """Outputs of one process in an eager step; with other weights, if they are given by name."""
        logits, features = self._eager_step(laid_out(cast(instances, self.dtype, self.keeps_integers)), weights or {})
        return Outputs(logits.to(self.dtype), features.to(self.dtype))

    def settle(self, pieces: Iterable[Tensor]) -> None:
        """Set the statistics of batch norm to those of these instances under the current weights.

        Without instances they stay unchanged; without batch norm nothing is computed.
        """
        some = (laid_out(cast(piece, self.dtype, self.keeps_integers)) for piece in pieces)
        is_normed = any(isinstance(module, _BatchNorm) for module in self.model.modules())
        first = next(some, None) if is_normed else None
        if first is not None:
            with self._precision():
                update_bn(chain([first], some), self.model)

    def _answers(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        # A graph has gradients of the weights only.
        if self._graphs is not None and self.model.training and len(instances) and not instances.requires_grad:
            return self._graphs(instances)
        return self._eager_step(instances, {})

    def _eager_step(self, instances: Tensor, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        with self._precision():
            if len(instances) > self.rows_at_once and not weights and not self._mixes_rows:
                return self._piece_by_piece(instances)
            answers: tuple[Tensor, Tensor] = (
                functional_call(self.call, dict(weights), (instances,)) if weights else self.call(instances)
            )
            return answers

    @cached_property
    def _mixes_rows(self) -> bool:
        """Whether a row's output depends on the other rows, by batch norm."""
        return any(isinstance(module, _BatchNorm) for module in self.model.modules())

    def _piece_by_piece(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs of many rows; activations are computed again in the backward pass, a piece at a time."""
        found = [
            checkpoint(self.call, piece, use_reentrant=False) if torch.is_grad_enabled() else self.call(piece)
            for piece in torch.split(instances, self.rows_at_once)
        ]
        logits, features = (torch.cat(values) for values in zip(*found, strict=True))
        return logits, features

    def _precision(self) -> AbstractContextManager[Any]:
        # Weights are cast again in each call: a graph must not keep an earlier cast.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False) if self.is_half else nullcontext()


def _no_features() -> Tensor:
    raise AssertionError("the method reads features: set needs_features")


def laid_out(instances: Tensor) -> Tensor:
    """Images on a GPU in channels-last format, the fastest for its convolutions."""
    if instances.is_cuda and instances.ndim == 4:
        return instances.contiguous(memory_format=torch.channels_last)
    return instances


def ready(model: Module, config: TrainingConfig, device: torch.device) -> Module:
    """The network on its device, in the precision of its stored weights."""
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    model = model.to(device, dtype)
    if device.type == "cuda" and any(weight.ndim == 4 for weight in model.parameters()):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def averaged_copy(model: Module) -> Module:
    """A copy to average into: the initial teacher."""
    copy = deepcopy(model)
    return copy.requires_grad_(False)


@torch.no_grad()
def average(copy: nn.Module, model: nn.Module, decay: float, step: int, warms_up: bool = True) -> None:
    """copy ← decay · copy + (1 - decay) · model; with `warms_up` the decay is smaller at first.

    Buffers (the statistics of batch norm) are copied. They are not those of the averaged weights, which are computed
    before the average is evaluated (`Forward.settle`).
    """
    weight = 1 - (min(decay, (1 + step) / (10 + step)) if warms_up else decay)
    averages: list[Tensor] = list(copy.parameters())
    weights = [each.detach() for each in model.parameters()]
    if averages:
        torch._foreach_lerp_(averages, weights, weight)
    for mine, other in zip(copy.buffers(), model.buffers(), strict=True):
        mine.copy_(other)


@torch.no_grad()
def number_of_features(model: nn.Module, instances: Tensor) -> int:
    """The length of the input of the last layer, from one instance, without side effects."""
    was_training = model.training
    tried = WithFeatures(deepcopy(model)).eval()
    features: Float[Tensor, "one features"] = tried(instances[:1])[1]
    model.train(was_training)
    return features.shape[1]
