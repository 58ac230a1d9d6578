"""Guards: against collapse, predictions that have gone to one class although what is known speaks of others; and
against posteriors that are far from exact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from glws.data.dataset import WeakDataset

MOST_GROUPS = 1000
ALMOST_ALL = 0.99
CLEARLY_LESS = 0.9
IMPRECISE = 0.05
"""Posteriors that may be off by more than this, in the mean over the steps of an epoch, are worth a warning."""
IMPRECISE_WORDS = "posteriors are approximate"


def implied_rates(data: WeakDataset) -> Float[Tensor, "classes"]:
    """The class rates that the weak labels alone suggest: the mean posterior of somebody who knows nothing else, unless
    the shares of the classes are told with them.

    >>> from glws.supervision import Proportions
    >>> implied_rates(WeakDataset(torch.zeros(4, 1), [[0, 1, 2, 3]], Proportions.of([1])))
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    total = torch.zeros(data.weak[0].num_classes, dtype=torch.float64)
    for groups, weak in zip(data.groups, data.weak, strict=True):
        chosen = torch.arange(len(groups))[:: max(1, len(groups) // MOST_GROUPS)]
        lengths = groups.lengths[chosen]
        shares = weak.told_shares()
        shares = torch.full((weak.num_classes,), 1 / weak.num_classes) if shares is None else shares
        alike = shares.double().log().expand(len(chosen), max(lengths.tolist(), default=0), -1)
        marginals = weak[chosen].infer(alike, lengths).marginals
        total += marginals.sum((0, 1)) * len(groups) / max(len(chosen), 1)
    return total / total.sum().clamp_min(1e-300)


def collapse(predicted: Float[Tensor, "classes"], implied: Float[Tensor, "classes"]) -> str | None:
    """A sentence if nearly all training instances are predicted to be of one class and the weak labels say otherwise.

    >>> print(collapse(torch.tensor([0.999, 0.001]), torch.tensor([0.5, 0.5])))
    99.9% of the training instances are predicted to be of class 0, the weak labels alone suggest 50.0%
    """
    most = int(predicted.argmax())
    if float(predicted[most]) < ALMOST_ALL or float(implied[most]) > CLEARLY_LESS:
        return None
    return (
        f"{100 * float(predicted[most]):.1f}% of the training instances are predicted to be of class {most}, "
        f"the weak labels alone suggest {100 * float(implied[most]):.1f}%"
    )


def imprecise(row: Mapping[str, float | int | str], said: Sequence[str]) -> str | None:
    """A sentence if posteriors of an epoch may be far off because they are approximate; only once in a run.

    >>> imprecise({"epoch": 2, "approximation_error": 0.12}, [])
    'posteriors are approximate and may be off by 0.12 (estimate, epoch 2); those of smaller groups are exact'
    >>> imprecise({"epoch": 2, "approximation_error": 0.01}, [])
    """
    error = float(row.get("approximation_error", 0.0))
    if error < IMPRECISE or any(message.startswith(IMPRECISE_WORDS) for message in said):
        return None
    return (
        f"{IMPRECISE_WORDS} and may be off by {error:.2g} (estimate, epoch {row['epoch']}); "
        "those of smaller groups are exact"
    )


def in_short(warnings: Sequence[str]) -> list[str]:
    """One line for epochs that follow each other, with the words of the last.

    >>> in_short(["epoch 2: 99.0% ...", "epoch 3: 99.5% ...", "epoch 7: 99.9% ..."])
    ['epochs 2 to 3: 99.5% ...', 'epoch 7: 99.9% ...']
    """
    lines, first, last = list[str](), 0, -1
    for warning in warnings:
        found = re.match(r"epoch (\d+): (.*)", warning, re.DOTALL)
        if found is None:
            lines.append(warning)
            continue
        epoch, words = int(found[1]), found[2]
        if lines and epoch == last + 1:
            lines[-1] = f"epochs {first} to {epoch}: {words}"
        else:
            first = epoch
            lines.append(warning)
        last = epoch
    return lines
