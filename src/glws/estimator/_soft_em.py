"""EM with any classifier of scikit-learn: posteriors as soft labels, soft labels as weighted copies of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from glws.data import WeakDataset
from glws.errors import DataError
from glws.estimator._network import interrupted
from glws.estimator._posteriors import RowPosterior, row_posterior
from glws.estimator._targets import ParsedTargets
from glws.estimator._tools import is_inside_tools
from glws.kinds import is_learned
from glws.training import LearnedNoise, NoiseEM, Predict, shown_progress

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
LEAST_WEIGHT = 1e-4
"""Copies that weigh less than this are left out: less than one row in ten thousand."""
LEAST_CHANGE = 1e-3
"""EM is over when the soft labels of the mean row change by less than this."""


class Learned(NamedTuple):
    """A classifier fitted to the last soft labels, how many rows it saw, the loss of each round, the learned noise.

    The loss is -mean log p(w | x) over groups, of predictions for rows that the classifier was not fitted to.
    """

    estimator: Any
    num_rows: int
    losses: list[float]
    noise: LearnedNoise


@dataclass(frozen=True)
class SoftEM:
    """EM by rounds. E-step: the posterior of every row given predictions and weak labels. M-step: the classifier is
    fitted to K copies of every row, each with a class for its label and the posterior of that class for its weight.

    Predictions for the E-step come from classifiers that were fitted to other `folds` (cross-fitting): one that has
    seen a row answers with the soft label it was given, and EM would stop where it began. Groups stay whole, and so do
    groups with rows in common; where all hang together, the folds are of rows. Rows of which nothing is known are not
    fitted to.
    """

    base: Any
    rounds: int
    folds: int
    seed: int
    verbose: bool = False

    def fit(self, features: Any, known: ParsedTargets, begun: RowPosterior, rows: Numbers) -> Learned:
        """Starts from a first posterior, and learns from these rows; true labels need no round."""
        _check_not_chosen(known)
        damped, probs, losses = begun.damped, begun.probs, list[float]()
        noise = _noise_em(known, features.shape[0])
        fold = folds_of(known, rows, self.folds, self.seed)
        rounds = self.rounds if is_open(begun, rows) else 0
        with shown_progress(self.verbose) as observer:
            observer.started(0, rounds)
            while len(losses) < rounds:
                try:
                    predicted = self._predicted(features, damped, rows, fold)
                except KeyboardInterrupt:
                    _keep_or_raise(losses)
                    break
                noise.update(_rows_of(predicted))
                answer = row_posterior(predicted, replace(known, weak=noise.learned.relearned(known.weak)))
                losses.append(-float(answer.log_likelihood.mean()))
                change = np.abs(answer.damped - damped)[rows].max(1).mean()
                damped, probs = answer.damped, answer.probs
                observer.stepped(len(losses))
                observer.epoch_ended({"epoch": len(losses), "step": len(losses), "loss": losses[-1]})
                if change < LEAST_CHANGE:
                    break
        estimates = noise.estimates(_rows_of(predicted)) if losses else ()
        learned = LearnedNoise(noise.learned.counts, estimates)
        return Learned(self._fitted(features, probs, rows), len(rows), losses, learned)

    def _fitted(self, features: Any, probs: Array, rows: Numbers) -> Any:
        from sklearn.base import clone

        kept = probs[rows] > LEAST_WEIGHT
        places, labels = np.nonzero(kept)
        learner = seeded(clone(self.base), self.seed)
        return learner.fit(features[rows[places]], labels, sample_weight=probs[rows][kept])

    def _predicted(self, features: Any, probs: Array, rows: Numbers, fold: Numbers) -> Array:
        """Log-probabilities of the rows that are fitted to, each by a classifier that was fitted to other folds."""
        answer = np.zeros_like(probs)
        for number in range(int(fold.max()) + 1):
            learner = self._fitted(features, probs, rows[fold != number])
            held_out = rows[fold == number]
            answer[held_out] = log_probs(learner, features[held_out], probs.shape[1], int((fold != number).sum()))
        return answer


def _keep_or_raise(losses: list[float]) -> None:
    """After Ctrl-C: what was learned is kept, with a warning, unless that is nothing or a tool goes on fitting."""
    if not losses or is_inside_tools():
        raise KeyboardInterrupt
    interrupted(f"stopped by Ctrl-C after round {len(losses)}; what was learned until then is kept")


def _rows_of(log_probs: Array) -> Predict:
    return torch.from_numpy(log_probs).__getitem__


def _noise_em(known: ParsedTargets, num_rows: int) -> NoiseEM:
    """EM for the noise of the kinds that learn it, of all rows: predictions are those of other folds."""
    rows = torch.zeros(num_rows, 0)
    parts = [pair for pair in zip(known.groups, known.weak, strict=True) if is_learned(pair[1])]
    groups, weak = [part for part, _ in parts], [part for _, part in parts]
    whole = WeakDataset(rows, known.groups, known.weak, check=False)
    return NoiseEM(WeakDataset(rows, groups, weak, check=False), whole)


def is_open(posterior: RowPosterior, rows: Numbers) -> bool:
    """Whether any of these rows may be of more than one class."""
    return bool((posterior.probs[rows].max(1) < 1).any())


def log_probs(learner: Any, features: Any, num_classes: int, num_rows: int) -> Array:
    """What a classifier fitted to n rows says, and one row more that says nothing: log (n p + 1/K) / (n + 1).

    So that no class is ruled out by a classifier that has not met it: a forest is often certain, and wrong.
    """
    table = class_table(learner, features, num_classes)
    return np.asarray(np.log((num_rows * table + 1 / num_classes) / (num_rows + 1)))


def class_table(learner: Any, features: Any, num_classes: int) -> Array:
    """Probabilities of all classes, 0 for those that the classifier has not met."""
    table = np.zeros((features.shape[0], num_classes))
    table[:, learner.classes_] = learner.predict_proba(features)
    return table


def folds_of(known: ParsedTargets, rows: Numbers, folds: int, seed: int) -> Numbers:
    """The fold of each of the rows: groups that hang together in one, or rows by themselves if all do."""
    together = components(known)[rows]
    names, together = np.unique(together, return_inverse=True)
    if len(names) < folds:
        names, together = np.arange(len(rows)), np.arange(len(rows))
    order = np.random.default_rng(seed).permutation(len(names))
    return np.asarray((order % min(folds, len(names)))[together], np.int64)


def components(known: ParsedTargets) -> Numbers:
    """A number for each row, the same for rows that groups connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    lengths = np.concatenate([groups.lengths.numpy() for groups in known.groups])
    members = np.concatenate([groups.indices.numpy() for groups in known.groups])
    num_rows = int(members.max(initial=-1)) + 1
    owners = num_rows + np.repeat(np.arange(len(lengths)), lengths)
    size = num_rows + len(lengths)
    edges = coo_array((np.ones(len(members)), (members, owners)), (size, size))
    return np.asarray(connected_components(edges, directed=False)[1][:num_rows], np.int64)


def _check_not_chosen(known: ParsedTargets) -> None:
    """Weights of rows cannot say that groups were chosen: that is no sum over rows."""
    for groups, weak in zip(known.groups, known.weak, strict=True):
        if weak.form(groups.lengths).selection is not None:
            raise DataError("only networks can learn from groups sampled conditional on their weak label (share)")


def seeded(learner: Any, seed: int) -> Any:
    """The learner with every random state that is None set to the seed."""
    wanted = {
        name: seed % 2**32
        for name, value in learner.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return learner.set_params(**wanted)
