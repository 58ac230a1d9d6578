"""Learned noise in training: M-steps for the noise of weak labels, next to those of the network.

A network that has memorized wrong labels finds them right, so that EM on its training groups learns a noise rate near
0 (`docs/noise.md`). The noise is therefore learned from a few groups that the network is not trained on, by EM with the
network's predictions held fixed, at regular steps of the training. All of it is a function of the predictions, the seed
and the step: processes agree, and an interrupted training resumes bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from glws._reprs import short_repr
from glws._seeds import derived_generator
from glws.data import Groups, WeakDataset, is_shared, split
from glws.errors import DataError
from glws.inference import Posterior
from glws.kinds import AbstractSupervision, LearnsNoise, is_learned
from glws.training._evaluate import Predict, Predictions
from glws.training._noise_estimates import (
    SHARPNESS,
    WEAK,
    NoiseEstimate,
    Predicted,
    intervals,
    score_of_sharpness,
    tempered,
)
from glws.training._ownership import Ownership
from glws.training._posteriors import posteriors_of, united_posteriors
from glws.training._world import World

M_STEPS = 25
"""The number of M-steps of the noise in a training."""
WARM_UP = 0.2
"""The share of training before the first of them: predictions of an untrained network say nothing about the noise."""
STEP_SIZE = 0.5
"""How far the expected counts move to those of the present predictions in one M-step."""
ROUNDS, SETTLED = 50, 1e-4
"""EM for fixed predictions ends after so many rounds, or when no parameter changes by more than this."""
FEWEST_ROUNDS, MOST_POSTERIORS = 2, 300_000
"""Fewer rounds for many groups, so that about so many posteriors are computed: each M-step begins where one ended."""
LONGEST = 0.5
"""The longest step of the logarithm of the sharpness."""
KEPT_GROUPS, LEAST_SHARE, MOST_SHARE = 300, 0.1, 0.3
"""The number of groups that are kept for the noise, within these shares of all."""
FEWEST = 10
"""With fewer groups of a kind kept, its noise is learned from the training groups."""

MOST_COMPARED = 1000
"""The number of training groups that are compared with those that are kept."""

Weak = tuple[AbstractSupervision, ...]
Estimates = tuple[NoiseEstimate, ...]
NOTHING: Mapping[str, LearnsNoise] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class LearnedNoise:
    """The noise that a training has learned: for each kind that learns it, by name, its expected counts.

    `estimates` are the parameters with intervals, at the end of a training that was completed.
    """

    __repr__ = short_repr

    counts: Mapping[str, Tensor] = field(default_factory=dict)
    estimates: tuple[NoiseEstimate, ...] = ()

    def applied(self, data: WeakDataset) -> WeakDataset:
        """The data with the learned noise in each kind that asks for it; noise that is given stays."""
        return data.with_weak(self.relearned(data.weak)) if any(map(is_learned, data.weak)) else data

    def relearned(self, weak: Sequence[AbstractSupervision]) -> Weak:
        """The kinds with the learned noise."""
        names = _names(weak)
        return tuple(self._one(names[place], part) if is_learned(part) else part for place, part in enumerate(weak))

    def _one(self, name: str, weak: LearnsNoise) -> LearnsNoise:
        counts = self.counts.get(name)
        if counts is None or counts.shape != weak.noise_counts().shape:
            known = ", ".join(self.counts) or "none"
            raise DataError(
                f"the noise of {name} is to be learned, but training has learned that of other weak labels ({known}); "
                "give the noise of this data as numbers"
            )
        return weak.relearned(counts).bounded()


class Sharpened(NamedTuple):
    """Learned noise, and the factor of the logits of the predictions that goes with it."""

    noise: LearnedNoise
    factor: float


class NoiseEM:
    """EM for the noise of weak labels, by predictions that are given: the expected counts so far, priors included.

    `data` are groups of kinds that learn their noise. Each round computes the posteriors given predictions and noise
    (E-step), and the noise that makes their expected and prior counts most likely (M-step): the likelihood times the
    prior never falls. `whole` are the same with the groups of all kinds, where votes and other weak labels are about
    the same instances: their posteriors are given all of it.
    """

    def __init__(self, data: WeakDataset, whole: WeakDataset | None = None) -> None:
        self.data = self._own = data
        self._whole = whole if whole is not None and is_shared(whole.weak) and _learns_evidence(data) else None
        self._world = World()
        self._names = _names(data.weak)
        self._prior = {name: _learned(data.weak[place]).prior_counts for place, name in self._names.items()}
        self.counts: dict[str, Tensor] = {}

    @property
    def learned(self) -> LearnedNoise:
        """What has been learned by now; before the first M-step the start."""
        return LearnedNoise({name: self.counts.get(name, prior) for name, prior in self._prior.items()})

    def update(self, predictions: Predicted, step_size: float = 1.0) -> None:
        """EM to its end; the counts move to those that it finds by this part of the way."""
        for name, found in self.converged(predictions, self.learned).noise.counts.items():
            before = self.counts.get(name)
            self.counts[name] = found if before is None else before + step_size * (found - before)

    def converged(self, predictions: Predicted, noise: LearnedNoise) -> Sharpened:
        """The noise at the end of EM, and how much sharper than the predictions those are that explain it best.

        The sharpness is a factor of the logits, its logarithm normal around 0 with deviation `SHARPNESS`. It is learned
        along, by the scores of the groups: predictions that are not sure yet would leave too little for the noise.
        """
        factor = 0.0
        for _ in range(self._rounds):
            before, (noise, step) = noise, self._round(tempered(predictions, math.exp(factor)), noise, factor)
            factor += step
            if abs(step) < SETTLED and self._change(before, noise) < SETTLED:
                break
        return Sharpened(noise, math.exp(factor))

    @property
    def _rounds(self) -> int:
        return max(FEWEST_ROUNDS, min(ROUNDS, MOST_POSTERIORS // max(len(self.data), 1)))

    def m_step(self, predictions: Predicted, noise: LearnedNoise) -> LearnedNoise:
        """One round of EM for the noise."""
        return self._round(predictions, noise, 0.0)[0]

    def _round(self, predictions: Predicted, noise: LearnedNoise, factor: float) -> tuple[LearnedNoise, float]:
        """The noise that the posteriors suggest, and a step of the logarithm of the sharpness."""
        data, once = noise.applied(self._own), float(self._world.is_first)
        total = {name: once * prior for name, prior in self._prior.items()}
        score, information = -once * factor / SHARPNESS**2, once * SHARPNESS**-2
        for number, chosen, _, posterior in self._posteriors(data, predictions, noise):
            counts = _learned(data.weak[number][chosen]).expected_counts(posterior)
            total[self._names[number]] = total[self._names[number]] + counts.double().cpu()
            own = score_of_sharpness(posterior)
            score, information = score + float(own.sum()), information + float(own.square().sum())
        total, (score, information) = self._of_all(total, score, information)
        return LearnedNoise(total), max(-LONGEST, min(LONGEST, score / information))

    def _posteriors(
        self, data: WeakDataset, predictions: Predicted, noise: LearnedNoise
    ) -> Iterator[tuple[int, Tensor, Tensor, Posterior]]:
        """Those of the groups of `data`; of votes given all weak labels of their instances."""
        if self._whole is None:
            yield from posteriors_of(data, predictions)
            return
        places = [place for place, one in enumerate(self._whole.weak) if is_learned(one)]
        votes = [place for place, one in enumerate(self._whole.weak) if is_learned(one) and one.is_evidence]
        for place, groups, members, posterior in united_posteriors(noise.applied(self._whole), predictions, votes):
            yield places.index(place), groups, members, posterior
        for place, weak in enumerate(data.weak):
            if not weak.is_evidence:
                for _, groups, members, posterior in posteriors_of(_only(data, place), predictions):
                    yield place, groups, members, posterior

    def _of_all(self, total: dict[str, Tensor], *scalars: float) -> tuple[dict[str, Tensor], list[float]]:
        """The sums over the groups of all processes, in one exchange."""
        if self._world.size == 1:
            return total, list(scalars)
        pieces = [*(each.reshape(-1) for each in total.values()), torch.tensor(scalars, dtype=torch.float64)]
        *sums, rest = torch.split(self._world.summed(torch.cat(pieces)), [len(piece) for piece in pieces])
        shaped = zip(total.items(), sums, strict=True)
        return {name: found.view_as(each) for (name, each), found in shaped}, rest.tolist()

    @torch.no_grad()
    def estimates(self, predictions: Predicted, by_training: Mapping[str, LearnsNoise] = NOTHING) -> Estimates:
        """The parameters with intervals, given predictions for the instances of these groups.

        `by_training` are kinds with the noise that EM finds on groups that the network was trained on.
        """
        learned = self.learned
        predictions = tempered(predictions, self.converged(predictions, learned).factor)
        return tuple(
            found
            for place, name in self._names.items()
            for found in self._of_kind(place, name, learned, predictions, by_training.get(name))
        )

    def _of_kind(
        self, place: int, name: str, learned: LearnedNoise, predictions: Predicted, by_training: LearnsNoise | None
    ) -> Iterator[NoiseEstimate]:
        weak, part = _learned(learned.relearned(self.data.weak)[place]), _only(self.data, place)
        start, own = _learned(self.data.weak[place]).noise(), {} if by_training is None else by_training.noise()
        is_at_bound = not _agree(weak.relearned(learned.counts[name]), weak)
        found = intervals(part, weak, learned.counts[name], self._prior[name], predictions)
        for parameter, value in weak.noise().items():
            low, high, share = found[parameter]
            ends = (value, low, high, start[parameter], own.get(parameter, math.nan))
            yield NoiseEstimate(name, parameter, *ends, is_weak=share > WEAK or is_at_bound)

    def _change(self, before: LearnedNoise, after: LearnedNoise) -> float:
        return max(
            (
                abs(old - new)
                for pair in zip(before.relearned(self.data.weak), after.relearned(self.data.weak), strict=True)
                for old, new in zip(*(_learned(weak).noise().values() for weak in pair), strict=True)
            ),
            default=0.0,
        )


class NoiseLearning(NoiseEM):
    """The M-steps of the noise in a training. `train` are the data without the groups that the noise is learned from.

    `counts` is part of every checkpoint. `from_training` names the kinds that had too few groups to keep any.
    """

    def __init__(self, data: WeakDataset, seed: int) -> None:
        self.train, counted, self.from_training = _divided(data, seed)
        super().__init__(counted, self.train)

    @property
    def row(self) -> dict[str, float]:
        """The present noise, for the row of an epoch."""
        kinds = dict(zip(self._names.values(), self.learned.relearned(self.data.weak), strict=True))
        return {
            f"noise {name} {parameter}".replace(" ", "_"): value
            for name, weak in kinds.items()
            for parameter, value in _learned(weak).noise_summary().items()
        }

    def is_due(self, step: int, num_steps: int) -> bool:
        """Whether an M-step follows this step: evenly spaced ones after the warm-up, and one at the end."""
        if not self.data.weak or step < math.ceil(WARM_UP * num_steps):
            return False
        every = max(1, round((1 - WARM_UP) * num_steps / M_STEPS))
        return (num_steps - step) % every == 0

    @torch.no_grad()
    def learn(self, predict: Predict, world: World) -> None:
        """An M-step by the present predictions; all processes must take it together, each with the groups it owns."""
        everything = [torch.arange(len(groups)) for groups in self.data.groups]
        own = Ownership(world).own(self.data, everything) if world.size > 1 and self._whole is None else None
        if own is None:
            self.update(self._predicted(predict, world), STEP_SIZE)
            return
        self._own, self._world = self.data.subset(own), world
        try:
            self.update(_in_float64(Predictions.of_members_here(self._own, predict)), STEP_SIZE)
        finally:
            self._own, self._world = self.data, World()

    @torch.no_grad()
    def concluded(self, predict: Predict, world: World) -> LearnedNoise:
        """What has been learned, with intervals, and beside it what training groups alone would say."""
        if not self.data.weak:
            return self.learned
        kept = self._predicted(predict, world)
        apart = [place for place, name in _names(self.train.weak).items() if name not in self.from_training]
        return LearnedNoise(self.learned.counts, self.estimates(kept, self._by_training(apart, predict, world)))

    def _predicted(self, predict: Predict, world: World) -> Predictions:
        """Of all instances of these groups; every process has all of them."""
        data = self.data
        if self._whole is not None:
            groups, weak = [*data.groups, *self._whole.groups], [*data.weak, *self._whole.weak]
            data = WeakDataset(data.instances, groups, weak, check=False)
        return _in_float64(Predictions.of_members(data, predict, world))

    def _by_training(self, places: Sequence[int], predict: Predict, world: World) -> dict[str, LearnsNoise]:
        """The kinds with the noise that EM finds on some of the groups that the network is trained on."""
        found: dict[str, LearnsNoise] = {}
        for place in places:
            name, part = _names(self.train.weak)[place], _only(self.train, place)
            part = part.subset([torch.arange(len(part))[:MOST_COMPARED]])
            predictions = _in_float64(Predictions.of_members(part, predict, world))
            start = LearnedNoise({_names(part.weak)[0]: self.learned.counts[name]})
            ended = NoiseEM(part).converged(predictions, start)
            found[name] = _learned(ended.noise.relearned(part.weak)[0])
        return found


# ---------------------------------------------------------------- the groups that are kept


class Divided(NamedTuple):
    """The data to train on, the groups that noise is learned from, and the names of kinds where these are the same."""

    train: WeakDataset
    counted: WeakDataset
    from_training: tuple[str, ...]


def _divided(data: WeakDataset, seed: int) -> Divided:
    """Keeps some groups of the kinds with learned noise, unless they check themselves or there are too few.

    Groups with a common instance, of all these kinds, stay together where that is possible (`glws.data.split`).
    """
    names = _names(data.weak)
    if not names:
        return Divided(data, _with_parts(data, []), ())
    asked = [n for n in names if not _learned(data.weak[n]).checks_itself]
    parts = {n: (data.groups[n], data.weak[n]) for n in range(len(data.weak))}
    counted = {n: parts[n] for n in names}
    scarce = []
    if asked:
        some = WeakDataset(
            data.instances, [data.groups[n] for n in asked], [data.weak[n] for n in asked], data.evidence, check=False
        )
        kept, held_out = split(some, _share(len(some)), derived_generator("cpu", seed, "noise"))
        for place, n in enumerate(asked):
            if len(held_out.groups[place]) < FEWEST:
                scarce.append(names[n])
                continue
            parts[n] = kept.groups[place], kept.weak[place]
            counted[n] = held_out.groups[place], held_out.weak[place]
    return Divided(_with_parts(data, list(parts.values())), _with_parts(data, list(counted.values())), tuple(scarce))


def _share(groups: int) -> float:
    """The share of the groups that is kept for the noise.

    >>> _share(100), _share(2000), _share(100_000)
    (0.3, 0.15, 0.1)
    """
    return min(MOST_SHARE, max(LEAST_SHARE, KEPT_GROUPS / max(groups, 1)))


def _with_parts(data: WeakDataset, parts: Sequence[tuple[Groups, AbstractSupervision]]) -> WeakDataset:
    groups, weak = zip(*parts, strict=True) if parts else ((), ())
    return WeakDataset(data.instances, list(groups), list(weak), data.evidence, check=False)


def _learns_evidence(data: WeakDataset) -> bool:
    return any(one.is_evidence for one in data.weak)


def _names(weak: Sequence[AbstractSupervision]) -> dict[int, str]:
    """A name for each kind with learned noise, by its place: the class, and a number from the second of a class on.

    >>> from glws.kinds import Labels, PairComparison
    >>> pairs = PairComparison.of([0], flip=0.2).learning()
    >>> _names([pairs, Labels.of([0], 2), pairs])
    {0: 'PairComparison', 2: 'PairComparison 2'}
    """
    names: dict[int, str] = {}
    for place, part in enumerate(weak):
        if is_learned(part):
            kind = type(part).__name__
            same = sum(name.partition(" ")[0] == kind for name in names.values())
            names[place] = f"{kind} {same + 1}" if same else kind
    return names


def _agree(one: LearnsNoise, other: LearnsNoise) -> bool:
    return all(
        math.isclose(a, b, abs_tol=1e-9) for a, b in zip(one.noise().values(), other.noise().values(), strict=True)
    )


def _learned(weak: AbstractSupervision) -> LearnsNoise:
    assert isinstance(weak, LearnsNoise)
    return weak


def _only(data: WeakDataset, place: int) -> WeakDataset:
    """The data with one of its kinds."""
    return _with_parts(data, [(data.groups[place], data.weak[place])])


def _in_float64(predictions: Predictions) -> Predictions:
    return Predictions(predictions.numbers, predictions.log_probs.double())
