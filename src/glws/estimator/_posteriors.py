"""The posterior of every row, given predictions and all its weak labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glws.data import WeakDataset, united
from glws.estimator._targets import ParsedTargets
from glws.inference import padding_mask, waiting_for_kernels

GROUPS_AT_ONCE = 256
Array = NDArray[np.float64]


class RowPosterior(NamedTuple):
    """What each row is, given all that is known, and how likely that is.

    With the posterior q_g(k) that each of the d groups of a row gives by itself under predictions p,

        probs(k) ∝ p(k) Π_g q_g(k) / p(k)          damped(k) ∝ p(k) Π_g (q_g(k) / p(k))^(1/d)

    both [rows, classes]; both are q_g where a row is in one group, and p where it is in none. Votes on rows of other
    groups are evidence in these groups (`glws.data.united`), and p includes them here. `probs` takes groups that
    share a row for independent witnesses. `damped` is what EM continues with: where all groups hold that there are too
    few of a class, each asks for the whole correction, and all of them together would overshoot. log_likelihood:
    log p(w | x) of every group, kind after kind.
    """

    probs: Array
    damped: Array
    log_likelihood: Array


@waiting_for_kernels()
def row_posterior(log_probs: Array, known: ParsedTargets) -> RowPosterior:
    """The posterior of the rows that these predictions, [rows, classes], are of.

    >>> from glws.data import Groups
    >>> from glws.kinds import Labels, Proportions
    >>> weak = (Proportions.of([1]), Labels.of([0], 2))
    >>> known = ParsedTargets(np.arange(2), (Groups.of([[0, 1]]), Groups.of([[0]])), weak)
    >>> row_posterior(np.log([[0.5, 0.5], [0.8, 0.2], [0.3, 0.7]]), known).probs.round(2)
    array([[1. , 0. ],
           [0.8, 0.2],
           [0.3, 0.7]])
    """
    predicted = torch.as_tensor(log_probs)
    data = united(WeakDataset(torch.zeros(len(predicted), 0), known.groups, known.weak, check=False))
    before = predicted if data.evidence is None else predicted + data.evidence
    messages, times, likelihoods = torch.zeros_like(predicted), torch.zeros(len(predicted), 1).double(), []
    for groups, weak in zip(data.groups, data.weak, strict=True):
        for chosen in torch.split(torch.arange(len(groups)), GROUPS_AT_ONCE):
            members, lengths = groups.padded(chosen)
            evidence = None if data.evidence is None else data.evidence[members]
            answer = weak[chosen].infer(predicted[members], lengths, evidence)
            real = padding_mask(members, lengths) & ~answer.impossible[:, None]
            rows = members[real]
            messages.index_add_(0, rows, _messages(answer.marginals[real], before[rows]))
            times.index_add_(0, rows, torch.ones(len(rows), 1).double())
            likelihoods.append(answer.log_likelihood)
    probs, damped = (
        _normalized(before + part, predicted).numpy() for part in (messages, messages / times.clamp_min(1))
    )
    return RowPosterior(probs, damped, torch.cat([torch.zeros(0), *likelihoods]).double().numpy())


def first_posterior(known: ParsedTargets, num_rows: int) -> RowPosterior:
    """The posterior before any prediction: under even predictions, or as the kind says to begin.

    >>> from glws.data import Groups
    >>> from glws.kinds import Proportions
    >>> known = ParsedTargets(np.arange(2), (Groups.of([[0, 1, 2, 3]]),), (Proportions.of([1]),))
    >>> first_posterior(known, 5).probs[3:]
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    num_classes = len(known.classes)
    begun = np.full((num_rows, num_classes), 1 / num_classes)
    others = []
    for groups, weak in zip(known.groups, known.weak, strict=True):
        guess = weak.initial_posterior()
        if guess is None:
            others.append((groups, weak))
            continue
        owners = torch.repeat_interleave(torch.arange(len(groups)), groups.lengths)
        begun[groups.indices.numpy()] = guess.double()[owners].numpy()
    members, kinds = zip(*others, strict=True) if others else ((), ())
    with np.errstate(divide="ignore"):
        return row_posterior(np.log(begun), ParsedTargets(known.classes, members, kinds))


def informed_rows(known: ParsedTargets, num_rows: int, seed: int) -> NDArray[np.bool_]:
    """Rows with a weak label that tells something: their posterior differs from some prediction."""
    drawn = np.random.default_rng(seed).dirichlet(np.ones(len(known.classes)), num_rows)
    change = np.abs(row_posterior(np.log(drawn), known).probs - drawn).max(1)
    return np.asarray(change > 1e-9)  # rounding of a normalized product of doubles


def _messages(marginals: Tensor, predicted: Tensor) -> Tensor:
    """log q - log p; 0 where both are impossible."""
    return torch.where(predicted > -torch.inf, marginals.double().log() - predicted, 0.0)


def _normalized(total: Tensor, predicted: Tensor) -> Tensor:
    """Probabilities; the predictions again where the groups of a row contradict each other."""
    contradictory = (total == -torch.inf).all(1, keepdim=True)
    return torch.where(contradictory, predicted, total).softmax(1)
