"""`model="auto"`: a mixture of cross-fitted models, weighted and calibrated by weak labels alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glws.data import Scaling
from glws.estimator._auto_models import Model, NetworkModel, Rows, class_order, tree_families
from glws.selection import (
    Calibration,
    HeldOut,
    WeakLabels,
    calibrated,
    folds_of,
    log_mixture,
    mixture_weights,
    posterior_of_rows,
    set_facts,
    split_sets,
    weak_fit,
    with_mean,
)
from glws.training import StackOptions, stack_log_probs, train_stack

Array = NDArray[np.float64]
SET_SIZE = 64
SMALL, MANY_FOLDS, FEW_FOLDS = 3000, 5, 3
"""Up to so many rows there are 5 folds, else 3."""
WORTH_A_ROUND = 0.3
"""Trees are fitted to posteriors once more if they have more than this weight in the mixture."""
BAD = 2.0
"""Candidates that explain held-out weak labels worse than the best by more standard errors are left out."""


class Family(NamedTuple):
    """Networks of one shape, which are trained together."""

    hidden: tuple[int, ...]
    weight_decay: tuple[float, ...]
    dropout: float
    learning_rate: float

    def name(self, decay: float) -> str:
        """What one of them is called."""
        shape = "linear" if not self.hidden else f"mlp {'x'.join(map(str, self.hidden))}"
        return f"{shape}, weight decay {decay:g}"


LINEAR = Family((), (0.05, 0.5, 3.0), 0.0, 1e-2)
NARROW = Family((64,), (0.05, 0.5, 5.0), 0.3, 1e-2)
WIDE = Family((256,), (1.0,), 0.3, 5e-3)


@dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    score: the mean log-likelihood of held-out weak labels after calibration; standard_error: that of its difference to
    the best score (0 for the best). weight: its share of the mixture.
    """

    name: str
    score: float
    standard_error: float
    weight: float


@dataclass(frozen=True, eq=False)
class Member:
    """A candidate: one model for each fold, their predictions for held-out rows, and their calibration."""

    name: str
    models: tuple[Model, ...]
    held_out: Array
    calibration: Calibration
    fits: Array

    def log_probs(self, rows: Rows) -> Array:
        """The mean of the calibrated predictions of all folds."""
        found = [self.calibration(model.log_probs(rows)) for model in self.models]
        return log_mixture(found, np.full(len(found), 1 / len(found)))


@dataclass(frozen=True, eq=False)
class AutoModel:
    """What `model="auto"` learned: members, their weights, a last calibration, and all candidates.

    `held_out_log_probs` are predictions for the rows of `held_out` by models that were not trained on their groups.
    """

    scaling: Scaling | None
    members: tuple[Member, ...]
    weights: tuple[float, ...]
    calibration: Calibration
    candidates: tuple[Candidate, ...]
    held_out: HeldOut
    held_out_log_probs: Array

    def log_probs(self, features: Array) -> Array:
        """Log-probabilities [rows, classes]."""
        rows = Rows.of(features, self.scaling)
        return self.calibration(log_mixture([member.log_probs(rows) for member in self.members], self.weights))


class AutoSearch:
    """Trains and weighs candidates; `run` does all of it.

    1. Unlabeled sets of different priors become facts about single rows (`set_facts`).
    2. Stacks of linear models and small networks are trained by maximum likelihood, one copy for each fold.
    3. Trees are fitted to soft labels: those of the weak labels alone, then posteriors given the networks.
    4. Every candidate is calibrated on held-out weak labels, and the best ones are mixed by EM on their likelihood.
    5. The mixture is calibrated; a given class prior is kept.
    """

    def __init__(self, features: Array, known: WeakLabels, seed: int, scaling: Scaling | None) -> None:
        self.facts = set_facts(known)
        self.known = split_sets(known if self.facts is None else self.facts.known, SET_SIZE, seed)
        self.seed = seed
        self.scaling = scaling
        self.rows = Rows.of(features, self.scaling)
        wanted = MANY_FOLDS if len(features) <= SMALL else FEW_FOLDS
        fewest = min(len(weak) for weak in self.known.weak)
        self.folds = folds_of(self.known, len(features), max(2, min(wanted, fewest)), seed)
        self.held_out = self.folds.combined(self.known)
        even = np.full((len(features), known.num_classes), -np.log(known.num_classes))
        self.begun = posterior_of_rows(even, self.known)
        self.covered = np.unique(torch.cat([groups.indices for groups in self.known.groups]).numpy())

    def run(self) -> AutoModel:
        """The mixture."""
        members = [member for family in self._families() for member in self._networks(family)]
        members += self._trees("initial soft labels", self.begun)
        weights = self._weights(members)
        for source in ("posteriors", "posteriors again"):
            trees = self._trees(source, self._soft_labels(members, weights))
            members += trees
            weights = self._weights(members)
            if not weights[-len(trees) :].sum() > WORTH_A_ROUND:
                break
        return self._finished(members, weights)

    def _families(self) -> Sequence[Family]:
        return (LINEAR, NARROW, WIDE) if len(self.rows.raw) <= SMALL else (LINEAR, NARROW)

    # ------------------------------------------------------------ candidates

    def _networks(self, family: Family) -> list[Member]:
        folds = range(self.folds.number)
        decays = tuple(decay for decay in family.weight_decay for _ in folds)
        options = StackOptions(family.hidden, decays, family.dropout, family.learning_rate)
        masks = [
            torch.tensor(np.stack([own != fold for _ in family.weight_decay for fold in folds]), dtype=torch.float32)
            for own in self.folds.of_groups
        ]
        stack = train_stack(
            self.rows.squashed, self.known, masks, torch.from_numpy(self.begun).float(), options, self.seed
        )
        found = stack_log_probs(stack, self.rows.squashed)
        members, reference = [], None
        for place, decay in enumerate(family.weight_decay):
            models, tables = [], []
            for fold in folds:
                number = place * self.folds.number + fold
                order = class_order(found[number], self.folds.training(self.known, fold), reference)
                tables.append(found[number][:, order])
                reference = tables[0] if reference is None else reference
                models.append(NetworkModel(stack.member(number), order))
            members.append(self._member(family.name(decay), models, tables))
        return members

    def _trees(self, source: str, soft: Array) -> list[Member]:
        members: list[Member] = []
        if len(np.unique(self.folds.of_rows[self.covered])) < 2:
            return members  # some fold would have no rows to train on
        for family in tree_families(len(self.covered), soft.shape[1]):
            models, tables = [], []
            for fold in range(self.folds.number):
                chosen = self.covered[self.folds.of_rows[self.covered] != fold]
                models.append(family.fit(self.rows.raw[chosen], soft[chosen], self.seed))
                tables.append(models[-1].log_probs(self.rows))
            members.append(self._member(f"{family.name}, {source}", models, tables))
        return members

    def _member(self, name: str, models: Sequence[Model], tables: Sequence[Array]) -> Member:
        raw = self.held_out.pick(tables)
        calibration = calibrated(raw, self.held_out.known)
        table = calibration(raw)
        fits = weak_fit(table, self.held_out.known, needs_gradient=False).log_likelihood
        return Member(name, tuple(models), table, calibration, fits)

    # ------------------------------------------------------------ mixture

    def _weights(self, members: Sequence[Member]) -> Array:
        best = max(members, key=lambda member: float(member.fits.sum()))
        kept = np.array([not _is_worse(member.fits, best.fits) for member in members])
        weights = np.zeros(len(members))
        tables = [member.held_out for member, keep in zip(members, kept, strict=True) if keep]
        weights[kept] = mixture_weights(tables, self.held_out.known)
        return weights

    def _soft_labels(self, members: Sequence[Member], weights: Array) -> Array:
        """The posterior of each row, given predictions by models that were not trained on it."""
        mixed = log_mixture([member.held_out for member in members], weights)
        soft = self.begun.copy()
        rows, table = self.held_out.rows, posterior_of_rows(mixed, self.held_out.known)
        times = np.bincount(rows, minlength=len(soft))
        sums = np.stack([np.bincount(rows, column, len(soft)) for column in table.T], 1)
        soft[times > 0] = sums[times > 0] / times[times > 0, None]
        return soft

    def _finished(self, members: Sequence[Member], weights: Array) -> AutoModel:
        mixed = log_mixture([member.held_out for member in members], weights)
        calibration = calibrated(mixed, self.held_out.known)
        if self.facts is not None:
            calibration = calibration.shifted(self.facts.shift)
            is_target = np.isin(self.held_out.rows, self.facts.rows)
            calibration = calibration.shifted(with_mean(calibration(mixed[is_target]), self.facts.target))
        best = max(members, key=lambda member: float(member.fits.sum()))
        candidates = [
            Candidate(member.name, float(member.fits.mean()), _standard_error(member.fits, best.fits), float(weight))
            for member, weight in zip(members, weights, strict=True)
        ]
        used = [(member, float(weight)) for member, weight in zip(members, weights, strict=True) if weight > 0]
        return AutoModel(
            self.scaling,
            tuple(member for member, _ in used),
            tuple(weight for _, weight in used),
            calibration,
            tuple(sorted(candidates, key=lambda candidate: -candidate.score)),
            self.held_out,
            calibration(mixed),
        )


def _standard_error(fits: Array, best: Array) -> float:
    return float((fits - best).std() / np.sqrt(max(len(fits), 1)))


def _is_worse(fits: Array, best: Array) -> bool:
    return bool(best.mean() - fits.mean() > BAD * _standard_error(fits, best) + 1e-12)
