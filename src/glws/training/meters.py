"""Averages over an epoch, kept as tensors so that a step waits for nothing and a checkpoint can hold them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

PREDICTED, SEPARATOR = "predicted", ","


class Meters:
    """Sums of numbers by name, the steps they were noted in, and how often each class was predicted.

    Numbers that are noted together are summed together, in one tensor with the number of steps at its end: a step of a
    small network is short, and each operation on a GPU takes its time.
    """

    def __init__(self, num_classes: int, device: torch.device) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._num_classes, self._device = num_classes, device
        self._one = torch.ones((), dtype=torch.float64, device=device)
        self.reset()

    def reset(self) -> None:
        """Nothing noted."""
        predicted = torch.zeros(self._num_classes, dtype=torch.float64, device=self._device)
        self.tensors = {PREDICTED: predicted}

    @torch.no_grad()
    def note(self, notes: Mapping[str, Tensor], logits: Float[Tensor, "rows classes"]) -> None:
        """The numbers of one step, and its predictions."""
        key, values = SEPARATOR.join(notes), [value.to(self._device) for value in notes.values()]
        if values:
            wide = values if len({value.dtype for value in values}) == 1 else [value.double() for value in values]
            row = torch.cat([torch.stack(wide).double(), self._one[None]])
            self.tensors[key] = self.tensors[key] + row if key in self.tensors else row
        self.tensors[PREDICTED] += torch.nn.functional.one_hot(logits.argmax(1), self._num_classes).double().sum(0)

    def means(self) -> dict[str, float]:
        """The mean of each number over the steps in which it was noted, in the order of their names."""
        sums: dict[str, tuple[float, float]] = {}
        for key, row in self.tensors.items():
            if key != PREDICTED:
                *totals, count = row.tolist()
                for name, total in zip(key.split(SEPARATOR), totals, strict=True):
                    before = sums.get(name, (0.0, 0.0))
                    sums[name] = before[0] + total, before[1] + count
        return {name: total / count for name, (total, count) in sorted(sums.items())}

    def predicted_rates(self) -> Float[Tensor, "classes"]:
        """How often each class was predicted."""
        counts = self.tensors[PREDICTED].cpu()
        return counts / counts.sum().clamp_min(1)
