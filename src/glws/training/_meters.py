"""Averages over an epoch, stored as tensors so that no step syncs and a checkpoint can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

PREDICTED, SEPARATOR = "predicted", ","


class Meters:
    """Sums of numbers by name, the steps that added to them, and how often each class was predicted.

    Numbers of one step are summed together, in one tensor with the number of steps at its end: a step of a
    small network is short, and each operation on a GPU takes its time.
    """

    def __init__(self, num_classes: int, device: torch.device) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._num_classes, self._device = num_classes, device
        self.reset()

    def reset(self) -> None:
        """Reset all sums."""
        predicted = torch.zeros(self._num_classes, dtype=torch.float64, device=self._device)
        self.tensors = {PREDICTED: predicted}

    @torch.no_grad()
    def add(
        self, names: Sequence[str], row: Float[Tensor, "names_and_one"], predicted: Float[Tensor, "classes"]
    ) -> None:
        """Add precomputed sums: the numbers with a 1 at their end, and how often each class was predicted."""
        key = SEPARATOR.join(names)
        if names:
            if key in self.tensors:
                self.tensors[key] += row
            else:
                self.tensors[key] = row.clone()
        self.tensors[PREDICTED] += predicted

    def means(self) -> dict[str, float]:
        """The mean of each number over the steps that added to it, sorted by name."""
        sums: dict[str, tuple[float, float]] = {}
        for key, row in self.tensors.items():
            if key != PREDICTED:
                *totals, count = row.tolist()
                for name, total in zip(key.split(SEPARATOR), totals, strict=True):
                    before = sums.get(name, (0.0, 0.0))
                    sums[name] = before[0] + total, before[1] + count
        return {name: total / count for name, (total, count) in sorted(sums.items())}

    def predicted_rates(self) -> Float[Tensor, "classes"]:
        """The share of each class among the predictions."""
        counts = self.tensors[PREDICTED].cpu()
        return counts / counts.sum().clamp_min(1)


@torch.no_grad()
def row_of(values: Iterable[Tensor], device: torch.device) -> Float[Tensor, "names_and_one"]:
    """Numbers as one row, with a 1 at its end to count the step.

    >>> row_of([torch.tensor(0.5), torch.tensor(2)], torch.device("cpu"))
    tensor([0.5000, 2.0000, 1.0000], dtype=torch.float64)
    """
    if device.type == "cpu":
        return torch.tensor([*(float(value) for value in values), 1.0], dtype=torch.float64)
    here = [value.to(device) for value in values]
    same_type = here if len({value.dtype for value in here}) == 1 else [value.double() for value in here]
    one = torch.ones(1, dtype=torch.float64, device=device)
    return torch.cat([torch.stack(same_type).double(), one]) if here else one


@torch.no_grad()
def predicted_counts(
    logits: Float[Tensor, "rows classes"], is_counted: Bool[Tensor, "rows"] | None = None
) -> Float[Tensor, "classes"]:
    """The number of rows predicted as each class, of all rows or of some.

    >>> predicted_counts(torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([True, True, False]))
    tensor([1., 1.], dtype=torch.float64)
    """
    if is_counted is None and logits.device.type == "cpu":
        return torch.bincount(logits.argmax(1), minlength=logits.shape[1]).double()
    chosen = torch.nn.functional.one_hot(logits.argmax(1), logits.shape[1]).double()
    return chosen.sum(0) if is_counted is None else is_counted.double() @ chosen
