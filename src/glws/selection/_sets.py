"""Unlabeled sets of different class priors, as facts about single rows: which set a row is from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glws._reprs import short_repr
from glws.data import Groups
from glws.kinds import AbstractSupervision, Labels, PositiveUnlabeled, SoftLabels, Unlabeled, UnlabeledClasses
from glws.selection._likelihood import WeakLabels

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class SetFacts(NamedTuple):
    """Weak labels that say of each row which set it is from, and the class priors that belong to them.

    pooled: the class prior of all rows of the sets, which predictions then refer to. target: that of the unlabeled rows
    alone, the population to predict for. rows: these unlabeled rows.
    """

    def __repr__(self) -> str:
        return short_repr(self)

    known: WeakLabels
    pooled: Array
    target: Array
    rows: Numbers

    @property
    def shift(self) -> Array:
        """What is added to logits for the pooled rows to get those for the unlabeled rows."""
        positive = (self.pooled > 0) & (self.target > 0)
        return np.log(np.where(positive, self.target, 1.0) / np.where(positive, self.pooled, 1.0))


class _RowSet(NamedTuple):
    """Rows drawn from one population, and its class prior."""

    rows: Numbers
    prior: Array
    is_labeled: bool


def set_facts(known: WeakLabels) -> SetFacts | None:
    """Positive-unlabeled data and unlabeled sets, read as draws from sets; None for other weak labels.

    A row of set s, with n_s rows of which a share θ_s(y) is of class y, is a draw from the pooled rows. Given its class
    it is from set s with probability

        p(s | y) = n_s θ_s(y) / Σ_t n_t θ_t(y)

    which is a fact about the row alone: its likelihood is exact, without batches and projections. Labeled rows of class
    k are a set with θ(k) = 1 if some class has no label: then they were chosen because of their class.

    >>> labels, rest = Labels.of([1, 1], 2), Unlabeled.of([0.25])
    >>> facts = set_facts(WeakLabels((Groups.of([[0], [1]]), Groups.of([[2, 3, 4, 5]])), (labels, rest)))
    >>> facts.pooled, facts.target
    (array([0.5, 0.5]), array([0.75, 0.25]))
    >>> facts.known.weak[0].scores[[0, 2]].tolist()                       # p(set | y), for y = 0 and 1
    [[0.0, 0.6666666666666666], [1.0, 0.3333333333333333]]
    """
    sets = [one for part in zip(*known, strict=True) for one in _sets_of(*part)]
    unlabeled = [one for one in sets if not one.is_labeled]
    rows = np.concatenate([np.zeros(0, np.int64), *(one.rows for one in sets)])
    if len(sets) < 2 or not unlabeled or len(np.unique(rows)) < len(rows):
        return None
    joint = np.array([len(one.rows) * one.prior for one in sets])
    membership = np.divide(joint, joint.sum(0), out=np.zeros_like(joint), where=joint.sum(0) > 0)
    scores = np.repeat(membership, [len(one.rows) for one in sets], 0)
    target = sum(len(one.rows) * one.prior for one in unlabeled)
    rest = [place for place, part in enumerate(zip(*known, strict=True)) if not any(_sets_of(*part))]
    facts = WeakLabels(
        (Groups(torch.arange(len(rows) + 1), torch.from_numpy(rows)), *(known.groups[place] for place in rest)),
        (SoftLabels.of(scores), *(known.weak[place] for place in rest)),
    )
    own = np.concatenate([one.rows for one in unlabeled])
    return SetFacts(facts, joint.sum(0) / joint.sum(), np.asarray(target / np.sum(target)), own)


class StatedPrior(NamedTuple):
    """Rows whose class prior is stated, and that prior."""

    rows: Numbers
    prior: Array

    def __repr__(self) -> str:
        return short_repr(self)


def stated_prior(known: WeakLabels) -> StatedPrior | None:
    """The rows of unlabeled sets and of positive-unlabeled data, and their class prior; None without such rows.

    >>> from glws.kinds import PairSimilarity
    >>> weak = (PairSimilarity.of([1]), Unlabeled.of([0.25]))
    >>> found = stated_prior(WeakLabels((Groups.of([[0, 1]]), Groups.of([[1, 2, 3]])), weak))
    >>> found.rows.tolist(), found.prior.tolist()
    ([1, 2, 3], [0.75, 0.25])
    """
    found = [one for part in zip(*known, strict=True) for one in _stated(*part)]
    if not found:
        return None
    total = np.sum([len(one.rows) * one.prior for one in found], 0)
    return StatedPrior(np.unique(np.concatenate([one.rows for one in found])), total / total.sum())


def _stated(groups: Groups, weak: AbstractSupervision) -> Iterator[_RowSet]:
    if isinstance(weak, PositiveUnlabeled) and weak.prior is not None:
        rows, labeled = groups.indices.numpy(), weak.labeled.cpu().numpy()
        is_population = np.ones(len(rows), bool) if weak.scenario == "single_training_set" else ~labeled
        yield _RowSet(rows[is_population], np.array([1 - weak.prior, weak.prior]), False)
    else:
        yield from (one for one in _sets_of(groups, weak) if not one.is_labeled)


def _sets_of(groups: Groups, weak: AbstractSupervision) -> Iterator[_RowSet]:
    """The sets of rows that a kind consists of: labeled rows by class if some class has none, samples by prior."""
    if type(weak) is Labels:
        yield from _labeled_sets(groups, weak)
    if isinstance(weak, Unlabeled | UnlabeledClasses):
        prior = weak.initial_posterior() if isinstance(weak, Unlabeled) else weak.prior
        population = weak.exchangeable_sets()
        for number in [] if population is None else torch.unique(population):
            mine = (population == number).nonzero()[:, 0]
            yield _RowSet(np.unique(groups[mine].indices.numpy()), prior[mine[0]].double().numpy(), False)


def _labeled_sets(groups: Groups, weak: Labels) -> Iterator[_RowSet]:
    labels, rows = weak.labels.numpy(), groups.indices.numpy()
    found = np.unique(labels[labels >= 0])
    if len(found) < weak.num_classes:
        for number in found:
            yield _RowSet(rows[labels == number], np.eye(weak.num_classes)[number], True)
