"""Guards against collapse and against posteriors that are far from exact."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.data import WeakDataset
from glws.data._distinct import Distinct
from glws.kinds import AbstractSupervision
from glws.training._noise_estimates import NoiseEstimate

MOST_GROUPS = 1000
MOST_INSTANCES = 100_000
"""Number of groups of a kind, and of their instances, from which implied rates are estimated."""
ROUNDS, SETTLED = 30, 1e-4
"""EM ends after this many rounds, or when no rate changes by more than this."""
ALMOST_ALL = 0.99
CLEARLY_LESS = 0.9
IMPRECISE = 0.05
"""A mean error estimate of posteriors over an epoch above this causes a warning."""
IMPRECISE_WORDS = "posteriors are approximate"


def implied_rates(data: WeakDataset) -> Float[Tensor, "classes"]:
    """The class rates that explain the weak labels best, with equal predictions for all instances.

    By EM from uniform rates: each kind states the number of instances of each class (`stated_counts`), or its mean
    posterior under the rates gives it. Rates that a kind states for all instances (`class_prior`) are fixed.

    >>> from glws.kinds import MultiInstance, Proportions
    >>> implied_rates(WeakDataset(torch.zeros(4, 1), [[0, 1, 2, 3]], Proportions.of([1])))
    tensor([0.7500, 0.2500], dtype=torch.float64)

    In half of many bags of ten there is a positive instance: this is expected with a share of 7%.

    >>> bags = torch.arange(1000).view(100, 10)
    >>> implied_rates(WeakDataset(torch.zeros(1000, 1), bags, MultiInstance.of([1, 0] * 50)))
    tensor([0.93..., 0.06...], dtype=torch.float64)
    """
    classes = data.weak[0].num_classes
    rates = torch.full((classes,), 1 / classes, dtype=torch.float64)
    sources = [_source(weak, groups.lengths) for groups, weak in zip(data.groups, data.weak, strict=True)]
    for _ in range(ROUNDS):
        before = rates
        total = torch.stack([source(before) for source in sources]).sum(0)
        rates = total / total.sum().clamp_min(1e-300)
        if float((rates - before).abs().max()) < SETTLED:
            break
    return rates


Source = Callable[[Float[Tensor, "classes"]], Float[Tensor, "classes"]]
"""The number of instances of each class, from predicted rates."""


def _source(weak: AbstractSupervision, lengths: Int[Tensor, "groups"]) -> Source:
    stated = weak.stated_counts(lengths)
    if stated is not None and torch.equal(*stated):
        return lambda _: stated[0].double().sum(0)
    prior, found = weak.class_prior(), _sample(Distinct.of(weak, lengths))
    scale = float(lengths.sum() / (found.lengths * found.times).sum().clamp_min(1))
    return lambda rates: scale * _expected_counts(found, rates if prior is None else prior)


def _sample(found: Distinct) -> Distinct:
    """Evenly spaced groups: at most MOST_GROUPS, and at most MOST_INSTANCES instances or a single group."""
    chosen = torch.arange(len(found.lengths))[:: max(1, -(-len(found.lengths) // MOST_GROUPS))]
    while len(chosen) > 1 and int(found.lengths[chosen].sum()) > MOST_INSTANCES:
        chosen = chosen[::2]
    return found[chosen]


def _expected_counts(found: Distinct, rates: Float[Tensor, "classes"]) -> Float[Tensor, "classes"]:
    total = torch.zeros(len(rates), dtype=torch.float64)
    for piece in found.pieces():
        marginals = piece.weak.infer(piece.filled(rates.double().log()), piece.lengths).marginals
        total += (piece.times[:, None] * marginals.sum(1)).sum(0)
    return total


def collapse(predicted: Float[Tensor, "classes"], implied: Float[Tensor, "classes"]) -> str | None:
    """A sentence if predictions collapse to one class against the weak labels.

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


def imprecise(row: Mapping[str, float | int | str], earlier: Sequence[str]) -> str | None:
    """A sentence if approximate posteriors of an epoch have a large error; once per run.

    >>> imprecise({"epoch": 2, "approximation_error": 0.12}, [])
    'posteriors are approximate and may be off by 0.12 (estimate, epoch 2); those of smaller groups are exact'
    >>> imprecise({"epoch": 2, "approximation_error": 0.01}, [])
    """
    error = float(row.get("approximation_error", 0.0))
    if error < IMPRECISE or any(message.startswith(IMPRECISE_WORDS) for message in earlier):
        return None
    return (
        f"{IMPRECISE_WORDS} and may be off by {error:.2g} (estimate, epoch {row['epoch']}); "
        "those of smaller groups are exact"
    )


def weakly_identified(estimates: Sequence[NoiseEstimate], from_training: Sequence[str] = ()) -> list[str]:
    """A sentence for each kind whose learned noise the data hardly tell.

    >>> from glws.training._noise_estimates import NoiseEstimate
    >>> print(*weakly_identified([NoiseEstimate("Triplets", "flip", 0.2, 0.02, 0.7, 0.3, is_weak=True)], ["Triplets"]))
    the noise of Triplets is weakly identified: flip may be 0.02 to 0.7; give it as a number, or a few true labels ...
    """
    lines = []
    for kind in dict.fromkeys(estimate.kind for estimate in estimates):
        own = [estimate for estimate in estimates if estimate.kind == kind]
        weak = [f"{each.name} may be {each.low:.2g} to {each.high:.2g}" for each in own if each.is_weak]
        more = f" and {len(weak) - 1} more of {len(own)} parameters" if len(weak) > 1 else ""
        if weak:
            hint = "give it as a number, or a few true labels"
            lines.append(f"the noise of {kind} is weakly identified: {weak[0]}{more}; {hint}")
    for kind in from_training:
        lines.append(
            f"the noise of {kind} is learned from training groups, as there are too few to keep some apart: a network "
            "that memorizes wrong labels makes it too low"
        )
    return lines


def in_short(warnings: Sequence[str]) -> list[str]:
    """Warnings of consecutive epochs merged into one line, with the text of the last.

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
