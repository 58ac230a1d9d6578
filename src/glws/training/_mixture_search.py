"""Choosing by weak labels alone: candidates are cross-fitted, calibrated on held-out weak labels, and mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from glws._reprs import short_repr
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
    stated_prior,
    weak_fit,
    with_mean,
)
from glws.training._bag_means import bag_means, fitted_to_means, has_bags
from glws.training._mixture import Learner, Mixture, MixtureMember, answers, class_order, part_of, squashed
from glws.training._stack import Stack, StackOptions, train_stack
from glws.training._trees import TreeFamily, tree_families

Array = NDArray[np.float64]
SET_SIZE = 64
SMALL, MANY_FOLDS, FEW_FOLDS = 3000, 5, 3
"""Up to so many rows there are 5 folds, else 3."""
WORTH_A_ROUND = 0.3
"""Trees are fitted to posteriors once more if they have more than this weight in the mixture."""
BAD = 2.0
"""Candidates that explain held-out weak labels worse than the best by more standard errors are left out."""
RIDGE = "ridge of shares on bag means"
SOURCES = ("initial soft labels", "posteriors", "posteriors again")
"""What trees are fitted to, one after another."""


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
    """A candidate: its models, their predictions for held-out rows, their calibration, and log p(w | x) of groups."""

    __repr__ = short_repr

    name: str
    learner: Learner
    held_out: Array
    calibration: Calibration
    fits: Array


@dataclass(frozen=True, eq=False)
class Selection:
    """What a search came to: a mixture, all candidates, best first, and predictions for held-out rows.

    `held_out_log_probs` are predictions for the rows of `held_out` by models that were not trained on their groups.
    A search that was stopped is not complete: it mixes what it had trained.
    """

    __repr__ = short_repr

    mixture: Mixture
    candidates: tuple[Candidate, ...]
    held_out: HeldOut
    held_out_log_probs: Array
    is_complete: bool = True


Keep = Callable[[Learner, Sequence[Member]], bool]
"""Called after each stage with what was trained; True stops the search."""


class MixtureSearch:
    """Trains and weighs candidates; `run` does all of it.

    1. Unlabeled sets of different priors become facts about single rows (`set_facts`).
    2. Stacks of linear models and small networks are trained by maximum likelihood, one copy for each fold. For bags, a
       ridge regression of shares on the means of bags is convex.
    3. Trees are fitted to soft labels: those of the weak labels alone, then posteriors given the networks.
    4. Every candidate is calibrated on held-out weak labels, and the best ones are mixed by EM on their likelihood.
    5. The mixture is calibrated; a given class prior is kept.

    Rows are standardized features in float32.
    """

    def __init__(self, rows: Float[Tensor, "rows features"], known: WeakLabels, seed: int) -> None:
        self.facts, self.stated = set_facts(known), stated_prior(known)
        self.known = split_sets(known if self.facts is None else self.facts.known, SET_SIZE, seed)
        self.seed = seed
        self.rows = rows.float()
        wanted = MANY_FOLDS if len(rows) <= SMALL else FEW_FOLDS
        fewest = min(len(weak) for weak in self.known.weak)
        self.folds = folds_of(self.known, len(rows), max(2, min(wanted, fewest)), seed)
        self.held_out = self.folds.combined(self.known)
        even = np.full((len(rows), known.num_classes), -np.log(known.num_classes))
        self.begun = posterior_of_rows(even, self.known)
        self.covered = np.unique(torch.cat([groups.indices for groups in self.known.groups]).numpy())
        self.families = (LINEAR, NARROW, WIDE) if len(rows) <= SMALL else (LINEAR, NARROW)
        self.means, self.shares = bag_means(squashed(self.rows), self.known, self.begun)
        self.reference: Array | None = None

    @property
    def most_stages(self) -> int:
        """How many stages there are at most."""
        return len(self.families) + len(SOURCES) + has_bags(self.known, self.shares)

    def run(self, stored: Sequence[Learner] = (), keep: Keep = lambda learner, members: False) -> Selection:
        """Trains one stage after another, except those that are `stored`, and mixes what there is.

        Ctrl-C after the first stage ends the search.
        """
        before, members, is_complete = list(stored), list[Member](), True

        def learned(train: Callable[[], Learner]) -> Learner:
            return before.pop(0) if before else train()

        try:
            for learner, found in self._stages(members, learned):
                members += found
                if keep(learner, found):
                    is_complete = False
                    break
        except KeyboardInterrupt:
            if not members:
                raise
            is_complete = False
        return replace(self._finished(members, self._weights(members)), is_complete=is_complete)

    def _stages(
        self, members: Sequence[Member], learned: Callable[[Callable[[], Learner]], Learner]
    ) -> Iterator[tuple[Learner, list[Member]]]:
        """What is trained at each stage, and the candidates that it gives; `members` are those of earlier stages."""
        for family in self.families:
            stack = learned(lambda family=family: self._stack(family))  # type: ignore[misc]
            yield stack, self._members([family.name(decay) for decay in family.weight_decay], stack)
        if has_bags(self.known, self.shares):
            ridge = learned(self._ridge)
            yield ridge, self._members([RIDGE], ridge)
        families = tree_families(len(self.covered), self.begun.shape[1])
        if not families or len(np.unique(self.folds.of_rows[self.covered])) < 2:
            return  # some fold would have no rows to train on
        trees: list[Member] = []
        for source in SOURCES:
            weights = self._weights(members)
            if source == SOURCES[-1] and not weights[-len(trees) :].sum() > WORTH_A_ROUND:
                return
            soft = self.begun if source == SOURCES[0] else self._soft_labels(members, weights)
            grown = learned(lambda soft=soft: self._trees(families, soft))  # type: ignore[misc]
            trees = self._members([f"{family.name}, {source}" for family in families], grown)
            yield grown, trees

    # ------------------------------------------------------------ candidates

    def _stack(self, family: Family) -> Stack:
        """Networks of all decays and folds, with classes renamed as the weak labels name them."""
        folds = range(self.folds.number)
        decays = tuple(decay for decay in family.weight_decay for _ in folds)
        options = StackOptions(family.hidden, decays, family.dropout, family.learning_rate)
        masks = [
            torch.tensor(np.stack([own != fold for _ in family.weight_decay for fold in folds]), dtype=torch.float32)
            for own in self.folds.of_groups
        ]
        begun = torch.from_numpy(self.begun).float()
        stack = train_stack(squashed(self.rows), self.known, masks, begun, options, self.seed)
        for number, table in enumerate(self._answers(stack)):
            known = self.folds.training(self.known, number % self.folds.number)
            order = class_order(table, known, self.reference)
            stack.rename(number, order)
            self.reference = table[:, order] if self.reference is None else self.reference
        return stack

    def _trees(self, families: Sequence[TreeFamily], soft: Array) -> nn.ModuleList:
        """Trees of all families and folds."""
        raw, fold = self.rows.numpy(), self.folds.of_rows[self.covered]
        chosen = [self.covered[fold != number] for number in range(self.folds.number)]
        return nn.ModuleList(family.fit(raw[some], soft[some], self.seed) for family in families for some in chosen)

    def _ridge(self) -> Stack:
        """Linear models of bag means, one for each fold."""
        own = np.concatenate(self.folds.of_groups)
        return fitted_to_means(self.means, self.shares, [own != fold for fold in range(self.folds.number)])

    def _members(self, names: Sequence[str], learner: Learner) -> list[Member]:
        """The candidates of these names, each with as many models as there are folds."""
        size, found = self.folds.number, self._answers(learner)
        self.reference = found[0] if self.reference is None else self.reference
        places = [range(size * place, size * (place + 1)) for place in range(len(names))]
        return [
            self._member(name, part_of(learner, some), found[some]) for name, some in zip(names, places, strict=True)
        ]

    @torch.no_grad()
    def _answers(self, learner: Learner) -> Array:
        return np.asarray(answers(learner, self.rows).numpy())

    def _member(self, name: str, learner: Learner, tables: Array) -> Member:
        raw = self.held_out.pick(list(tables))
        calibration = calibrated(raw, self.held_out.known)
        table = calibration(raw)
        fits = weak_fit(table, self.held_out.known, needs_gradient=False).log_likelihood
        return Member(name, learner, table, calibration, fits)

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

    def _finished(self, members: Sequence[Member], weights: Array) -> Selection:
        mixed = log_mixture([member.held_out for member in members], weights)
        calibration = calibrated(mixed, self.held_out.known)
        if self.facts is not None:
            calibration = calibration.shifted(self.facts.shift)
            is_target = np.isin(self.held_out.rows, self.facts.rows)
            calibration = calibration.shifted(with_mean(calibration(mixed[is_target]), self.facts.target))
        elif self.stated is not None:
            is_stated = np.isin(self.held_out.rows, self.stated.rows)
            calibration = calibration.shifted(with_mean(calibration(mixed[is_stated]), self.stated.prior))
        best = max(members, key=lambda member: float(member.fits.sum()))
        candidates = [
            Candidate(member.name, float(member.fits.mean()), _standard_error(member.fits, best.fits), float(weight))
            for member, weight in zip(members, weights, strict=True)
        ]
        used = [
            MixtureMember(member.learner, member.calibration, float(weight))
            for member, weight in zip(members, weights, strict=True)
            if weight > 0
        ]
        return Selection(
            Mixture(used, calibration).eval().requires_grad_(False),
            tuple(sorted(candidates, key=lambda candidate: -candidate.score)),
            self.held_out,
            calibration(mixed),
        )


def _standard_error(fits: Array, best: Array) -> float:
    return float((fits - best).std() / np.sqrt(max(len(fits), 1)))


def _is_worse(fits: Array, best: Array) -> bool:
    return bool(best.mean() - fits.mean() > BAD * _standard_error(fits, best) + 1e-12)
