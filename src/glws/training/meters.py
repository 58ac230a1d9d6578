"""Averages over an epoch, kept as tensors so that a step waits for nothing and a checkpoint can hold them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor


class Meters:
    """Sums of numbers by name, the steps they were noted in, and how often each class was predicted."""

    def __init__(self, num_classes: int, device: torch.device) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._num_classes, self._device = num_classes, device
        self.reset()

    def reset(self) -> None:
        """Nothing noted."""
        predicted = torch.zeros(self._num_classes, dtype=torch.float64, device=self._device)
        self.tensors = {"predicted": predicted}

    @torch.no_grad()
    def note(self, notes: Mapping[str, Tensor], logits: Float[Tensor, "rows classes"]) -> None:
        """The numbers of one step, and its predictions."""
        for name, value in notes.items():
            pair = torch.stack([value.double().to(self._device), torch.ones((), device=self._device).double()])
            self.tensors[f"mean.{name}"] = self.tensors.get(f"mean.{name}", torch.zeros_like(pair)) + pair
        self.tensors["predicted"] += torch.nn.functional.one_hot(logits.argmax(1), self._num_classes).double().sum(0)

    def means(self) -> dict[str, float]:
        """The mean of each number over the steps in which it was noted, in the order of their names."""
        pairs = {name: pair.tolist() for name, pair in sorted(self.tensors.items()) if name != "predicted"}
        return {name.removeprefix("mean."): total / count for name, (total, count) in pairs.items()}

    def predicted_rates(self) -> Float[Tensor, "classes"]:
        """How often each class was predicted."""
        counts = self.tensors["predicted"].cpu()
        return counts / counts.sum().clamp_min(1)
