"""EM over votes without features, and the choice of a form by held-out votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws.kinds._vote_arrays import PackedVotes, counted
from glws.kinds._vote_model import (
    Floats,
    FormName,
    SourceCounts,
    SourceForm,
    SourceParameters,
    maximized,
    with_prior_counts,
)

Integers = NDArray[np.integer]
MOST_STEPS, LEAST_GAIN, ROUGH_GAIN = 500, 1e-7, 1e-5
"""EM ends when the objective gains less than this for each vote; earlier where forms are compared."""
FOLDS, FEW_VOTES, MANY_VOTES = 5, 10_000, 500_000
"""A fifth of the votes is held out: each fifth in turn of few votes, one of more, one of a sample of many."""
LEAST_PRIOR, MOST_PRIOR = 1.0, 256.0
"""Limits of the search for prior counts."""
VOTES_FOR_DIFFICULTY = 5
"""Items with as many votes tell how difficult they are."""


class Emission(NamedTuple):
    """Log-probabilities of statements: `vote` [levels, statements, classes], and `relative` to abstention.

    `prior` [levels, classes] is that of an item without a vote.
    """

    relative: Floats
    vote: Floats
    prior: Floats


class Fit(NamedTuple):
    """The end of EM: parameters, posterior [items, classes], expected counts, and the objective after each step."""

    parameters: SourceParameters
    posterior: Floats
    counts: SourceCounts
    objective: tuple[float, ...]


def emission_of(votes: PackedVotes, parameters: SourceParameters) -> Emission:
    """What the kernels need."""
    confusion, rates = parameters.confusion, parameters.rates
    weight = votes.weights[votes.speakers][:, None]
    with np.errstate(divide="ignore"):
        prior = np.log(parameters.shares)[:, None] + np.log(parameters.balance)
        vote = weight * np.log(_heard(votes, confusion))
        if rates is None:
            return Emission(vote, vote, prior)
        silence = votes.weights[:, None] * np.log1p(-rates)
        vote = vote + weight * np.log(rates)[votes.speakers]
        return Emission(vote - silence[votes.speakers], vote, prior + silence.sum(0))


def _heard(votes: PackedVotes, confusion: Floats) -> Floats:
    """p(statement | class) [levels, statements, classes]: Σ_o C[y, o] meaning[o]."""
    if votes.is_plain:
        return np.ascontiguousarray(confusion.swapaxes(2, 3)).reshape(len(confusion), -1, confusion.shape[-1])
    return np.asarray(np.einsum("dtyo,to->dty", confusion[:, votes.speakers], votes.meanings))


def confusion_counts(votes: PackedVotes, counts: Floats, confusion: Floats) -> Floats:
    """Counts of statements [levels, statements, classes] as counts [levels, sources, classes, classes].

    A statement that leaves open which class the source meant counts for each with its posterior probability.
    """
    levels, _, classes = counts.shape
    if votes.is_plain:
        found = counts.reshape(levels, votes.num_sources, classes, classes).swapaxes(2, 3)
        return np.asarray(found * votes.weights[:, None, None])
    meant = confusion[:, votes.speakers] * votes.meanings[:, None]
    whole = meant.sum(-1, keepdims=True)
    meant = np.divide(meant, whole, out=np.zeros_like(meant), where=whole > 0) * counts[..., None]
    found = np.zeros((levels, votes.num_sources, classes, classes))
    for level in range(levels):
        np.add.at(found[level], votes.speakers, meant[level])
    return found * votes.weights[:, None, None]


def fit(
    votes: PackedVotes,
    form: SourceForm,
    has_rates: bool = False,
    balance: Floats | None = None,
    start: SourceParameters | None = None,
    least_gain: float = LEAST_GAIN,
) -> Fit:
    """EM from the smoothed majority vote, or from other parameters.

    The objective is log p(votes) + log prior; it never falls. `balance` is the class balance, None to learn it.
    """
    step = _Step(votes, form)
    parameters = maximized(step.majority(), form, None, has_rates, balance) if start is None else start
    objective: list[float] = []
    while True:
        total, found = step.expected(parameters)
        objective.append(total + parameters.log_prior)
        gain = objective[-1] - objective[-2] if len(objective) > 1 else np.inf
        if gain < least_gain * max(len(votes.said), 1) or len(objective) == MOST_STEPS:
            return Fit(parameters, step.posterior, found, tuple(objective))
        parameters = maximized(found, form, parameters, has_rates, balance)


class _Step:
    """The E-step on the memory of one fit."""

    def __init__(self, votes: PackedVotes, form: SourceForm) -> None:
        self.votes, self.levels, self.classes = votes, form.levels, votes.meanings.shape[1]
        self.posterior = np.empty((votes.num_items, self.classes))
        self.counts = np.zeros((self.levels, len(votes.speakers), self.classes))
        is_binary = self.classes == 2 and self.levels == 1
        self.number = counted(votes.said, len(votes.speakers)).astype(float) if is_binary else None

    def majority(self) -> SourceCounts:
        """Expected counts by the majority vote; all items are of the first level."""
        from glws.kinds import _vote_kernels as kernels

        votes, mass = self.votes, np.zeros((self.levels, self.classes))
        said = votes.meanings / votes.meanings.sum(1, keepdims=True) * votes.weights[votes.speakers][:, None]
        mass[0] = kernels.majority(votes.offsets, votes.said, said, self.posterior, self.counts[0])
        even = np.full((self.levels, votes.num_sources, self.classes, self.classes), 1 / self.classes)
        return SourceCounts(confusion_counts(votes, self.counts, even), mass)

    def expected(self, parameters: SourceParameters) -> tuple[float, SourceCounts]:
        """log p(votes) and expected counts; `posterior` is that of these parameters afterwards."""
        emission = emission_of(self.votes, parameters)
        self.counts[:] = 0.0
        total, mass = self._binary(emission) if self.number is not None else self._general(emission)
        return total, SourceCounts(confusion_counts(self.votes, self.counts, parameters.confusion), mass)

    def _general(self, emission: Emission) -> tuple[float, Floats]:
        from glws.kinds import _vote_kernels as kernels

        found: tuple[float, Floats] = kernels.expectation(
            self.votes.offsets, self.votes.said, emission.relative, emission.prior, self.posterior, self.counts
        )
        return found

    def _binary(self, emission: Emission) -> tuple[float, Floats]:
        from glws.kinds import _vote_kernels as kernels

        assert self.number is not None
        votes, log_odds = self.votes, emission.relative[0, :, 1] - emission.relative[0, :, 0]
        prior, ones = emission.prior[0], np.zeros(len(self.number))
        total, mass = kernels.binary_expectation(
            votes.offsets, votes.said, log_odds, prior[1] - prior[0], self.posterior, ones
        )
        self.counts[0, :, 0], self.counts[0, :, 1] = self.number - ones, ones
        total += votes.num_items * prior[0] + float(self.number @ emission.relative[0, :, 0])
        return float(total), np.array([[votes.num_items - mass, mass]])


class Candidate(NamedTuple):
    """A form, and the mean of log p(vote | other votes of the item) over held-out votes."""

    form: SourceForm
    held_out: float


def choose_form(
    votes: PackedVotes,
    name: FormName | Literal["auto"] = "auto",
    has_rates: bool = False,
    balance: Floats | None = None,
    seed: int = 0,
) -> list[Candidate]:
    """The forms that were tried, best first: all of them, or those of a name.

    Each with 4 prior counts; then the best with more or fewer, by factors of 4, until that is no better.
    """
    tried: dict[SourceForm, float] = {}
    splits = list(_splits(votes, seed))

    def score(form: SourceForm) -> float:
        if form not in tried:
            tried[form] = _held_out(splits, form, has_rates, balance)
        return tried[form]

    best = max(_first_forms(votes) if name == "auto" else [SourceForm(name)], key=score)
    if name == "auto" and best.name == "accuracy" and _may_tell_difficulty(votes):
        best = max(best, SourceForm("difficulty"), key=score)
    for factor in (4.0, 0.25):
        while score(following := with_prior_counts(best, best.prior_counts * factor)) > score(best):
            best = following
            if not LEAST_PRIOR < best.prior_counts < MOST_PRIOR:
                break
    return sorted((Candidate(*item) for item in tried.items()), key=lambda each: -each.held_out)


def _first_forms(votes: PackedVotes) -> list[SourceForm]:
    forms = [SourceForm("accuracy"), SourceForm("per_class")]
    if votes.meanings.shape[1] == 2:  # then per_class is all there is to know of a matrix
        return forms
    return [*forms, SourceForm("matrix"), SourceForm("matrix", 16.0)]


def _may_tell_difficulty(votes: PackedVotes) -> bool:
    return VOTES_FOR_DIFFICULTY * votes.num_items <= len(votes.said) <= MANY_VOTES


def _splits(votes: PackedVotes, seed: int) -> Iterator[tuple[PackedVotes, PackedVotes, NDArray[np.bool_]]]:
    """The votes to learn from, all votes, and which of these are held out."""
    random = np.random.default_rng(seed)
    if len(votes.said) > MANY_VOTES:
        number = max(votes.num_items * MANY_VOTES // len(votes.said), 1)
        votes = votes.sampled(np.sort(random.choice(votes.num_items, number, replace=False)))
    votes = votes._replace(weights=np.ones(votes.num_sources))
    fold = random.integers(0, FOLDS, len(votes.said))
    for number in range(FOLDS if len(votes.said) < FEW_VOTES else 1):
        yield votes.kept(fold != number), votes, fold == number


def _held_out(
    splits: Sequence[tuple[PackedVotes, PackedVotes, NDArray[np.bool_]]],
    form: SourceForm,
    has_rates: bool,
    balance: Floats | None,
) -> float:
    from glws.kinds import _vote_kernels as kernels

    scores = []
    for kept, votes, held_out in splits:
        found = np.zeros(int(held_out.sum()))
        emission = emission_of(votes, fit(kept, form, has_rates, balance, least_gain=ROUGH_GAIN).parameters)
        kernels.held_out_scores(
            votes.offsets, votes.said, held_out, emission.relative, emission.vote, emission.prior, found
        )
        scores.append(found)
    every = np.concatenate(scores)
    return float(every.mean()) if len(every) else 0.0
