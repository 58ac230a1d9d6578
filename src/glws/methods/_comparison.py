"""Ordered pairs: the Pcomp risks, rank pruning, and pruning with a teacher.

The pairs are sampled by one of two rules, and a risk for one is biased on the other
(`glws.data.weaken.pair_comparison`):

    "swap"       two instances are drawn and sorted
    "discard"    two instances are drawn, and rejected if they are in the wrong order

With π₊ the share of positives, π₋ = 1 - π₊ and D = 1 - π₊π₋, the first of a pair is negative with probability φ₊, the
second positive with φ₋; a positive is found in the second place with probability ρ₊, a negative in the first with ρ₋:

    "swap"       φ₊ = π₋²,      φ₋ = π₊²,      ρ₊ = π₊ / 2,           ρ₋ = π₋ / 2
    "discard"    φ₊ = π₋² / D,  φ₋ = π₊² / D,  ρ₊ = π₊ / (1 + π₊),    ρ₋ = π₋ / (1 + π₋)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.data import BatchPart, WeakDataset
from glws.data.weaken import ComparisonRule, down
from glws.kinds import PairComparison
from glws.methods._abstract import Epoch, Setup
from glws.methods._risks import (
    AbstractBinaryMethod,
    Correction,
    check_choice,
    check_decay,
    check_prior,
    corrected_sum,
    mean,
    pair_scores,
    surrogate,
)
from glws.methods._step import State, Step

Selection = Literal["sign", "rank"]
PruningWeights = Literal["noise", "prior", "released"]
Consistency = Literal["squared", "cross_entropy"]


class AbstractComparison(AbstractBinaryMethod):
    """A method for ordered pairs of two classes, with a known share of positives."""

    takes: ClassVar[str] = "ordered pairs"
    kinds: ClassVar[tuple[tuple[type[PairComparison], ...], ...]] = ((PairComparison,),)
    needs_prior: ClassVar[bool] = True


@dataclass(frozen=True)
class Pcomp(AbstractComparison):
    """The risk of ordered pairs (Feng et al., ICML 2021, arXiv 2010.01875): unbiased, ReLU or ABS by `correction`.

        L = g(A) + g(B),    A estimates π₊ E₊ ℓ₊(z),    B estimates π₋ E₋ ℓ₋(z),    logistic losses of z = f1 - f0

        "discard"    A = mean ℓ₊(z) - π₋ mean ℓ₊(z'),                   B = mean ℓ₋(z') - π₊ mean ℓ₋(z)
        "swap"       A = [(1+π₊) mean ℓ₊(z) - π₋ mean ℓ₊(z')] / 2,      B = [(1+π₋) mean ℓ₋(z') - π₊ mean ℓ₋(z)] / 2

    z is the score of the more positive one of a pair, z' of the other. g leaves a partial risk unchanged, or takes
    max(0, A) or |A| of the mean over the batch; without it the loss is unbiased, and legitimately negative at times.
    The paper samples pairs by "discard" and its formula is for those; "swap" is our derivation for the pairs of the
    GLWS paper. The released GLWS code uses the formula of "discard" on pairs of "swap", summed instead of averaged: set
    `rule="discard"` on such data to reproduce it. A `flip` of the weak labels is not corrected for.
    """

    summary: ClassVar[str] = "risk of ordered pairs (Feng et al., 2021)"

    prior: float
    correction: Correction = "none"
    rule: ComparisonRule = "swap"
    view: str = "weak"

    def __post_init__(self) -> None:
        check_prior(self.prior)
        check_choice("correction", self.correction, get_args(Correction))
        check_choice("rule", self.rule, get_args(ComparisonRule))

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The sum of the two partial risks, each corrected."""
        (part,) = step.batch.parts
        risks = comparison_risks(ordered_scores(step.logits(self.view), part), self.prior, self.rule)
        return corrected_sum(risks, self.correction)


@dataclass(frozen=True)
class RankPruning(AbstractComparison):
    """Firsts as noisy positives, seconds as noisy negatives, without uncertain ones; noise rates from the prior.

    Rank pruning is of Northcutt et al. (UAI 2017), its use for ordered pairs of Feng et al. (ICML 2021). With n pairs,
    of which only selected instances are summed over:

        L = w₊ / n Σ ℓ₊(z) + w₋ / n Σ ℓ₋(z'),    logistic losses of z = f1 - f0

    `selection="sign"`: firsts that the network predicts positive (z > 0) and seconds that it predicts negative, by
    the predictions on the same view or on `selection_view`, without gradient. `selection="rank"`: before each epoch all
    firsts are ranked, and the ⌊φ₊ n⌋ lowest are left out, as are the ⌊φ₋ n⌋ highest seconds.

    `weights="noise"`: w± = 1 / (2 (1 - ρ±)), the published ones: with perfect selection L is the risk at the share of
    positives among all instances of the pairs, which is π for "swap", but π₊(1 + π₊) / 2D for "discard".
    `weights="prior"`: w± = π± / (1 - φ±), the risk at π for both rules. `weights="released"`: w± = ρ±, and each sum
    is divided by the number of selected instances; with `rule="discard"` that is the released GLWS code.

    In the first `warm_up_epochs` all are selected. Neither source does that, and 0 turns it off; but an untrained
    network selects by arbitrary predictions, by sign perhaps one class only, and then stays there. If nothing is
    selected, the loss is 0.
    """

    summary: ClassVar[str] = (
        "ordered pairs as noisy labels, uncertain ones pruned (Northcutt et al., 2017; Feng et al., 2021)"
    )

    prior: float
    rule: ComparisonRule = "swap"
    selection: Selection = "sign"
    weights: PruningWeights = "noise"
    warm_up_epochs: int = 5
    view: str = "weak"
    selection_view: str | None = None

    def __post_init__(self) -> None:
        check_pruning(self.prior, self.rule, self.weights)
        check_choice("selection", self.selection, get_args(Selection))

    def init(self, setup: Setup) -> State:
        """For selection by rank, a mask of the instances in pairs; all are kept at first."""
        if self.selection == "sign":
            return {}
        return {"kept": torch.ones(len(setup.data), 2, dtype=torch.int64, device=setup.device)}

    def begin_epoch(self, epoch: Epoch) -> None:
        """Rank all pairs, if selection is by rank and the warm-up is over."""
        if self.selection == "rank" and epoch.progress.epoch >= self.warm_up_epochs:
            numbers, part = every_pair(epoch.data)
            kept = kept_by_rank(ordered_scores(epoch.predict(numbers), part), self.prior, self.rule)
            epoch.state["kept"] = kept.to(epoch.state["kept"])

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The risk of the selected instances."""
        (part,) = step.batch.parts
        scores = ordered_scores(step.logits(self.view), part)
        selected = self._selected(step, part).to(scores.device)
        step.note("selected", mean(selected.to(scores)))
        return pruned_risk(scores, selected, self.prior, self.rule, self.weights)

    def _selected(self, step: Step, part: BatchPart) -> Bool[Tensor, "pairs 2"]:
        if self.selection == "rank":
            return step.state["kept"][part.groups.to(step.state["kept"].device)] > 0
        scores = ordered_scores(step.detached(self.selection_view or self.view), part)
        return agreeing(scores) | (step.progress.epoch < self.warm_up_epochs)


@dataclass(frozen=True)
class PcompTeacher(AbstractComparison):
    """Pruning by a teacher, plus consistency with it (Feng et al., ICML 2021; Tarvainen & Valpola, 2017).

        L = L_pruning(z, selected by the teacher's sign) + λ Ω

    L_pruning is that of `RankPruning`, with its `rule`, `weights` and `warm_up_epochs`. The teacher is the moving
    average of the network, with this `decay`, on its own view. `consistency="squared"`: Ω is the mean over all
    instances of the pairs of Σ_k (p(k) - p̄(k))², summed over both classes; "cross_entropy": of -Σ_k p̄(k) log p(k). λ
    is `consistency_weight`; 10 with decay 0.97 is the choice of public code, and there is no ramp-up.

    The released GLWS code has no moving average (`decay=0`) and takes "cross_entropy", λ = 1 and `weights="released"`
    with `rule="discard"`.
    """

    summary: ClassVar[str] = "ordered pairs pruned by a teacher, and agreement with it (Feng et al., 2021)"
    needs_teacher: ClassVar[bool] = True

    prior: float
    rule: ComparisonRule = "swap"
    weights: PruningWeights = "noise"
    consistency: Consistency = "squared"
    consistency_weight: float = 10.0
    decay: float = 0.97
    warm_up_epochs: int = 5
    view: str = "weak"
    teacher_view: str = "weak_2"

    def __post_init__(self) -> None:
        check_pruning(self.prior, self.rule, self.weights)
        check_choice("consistency", self.consistency, get_args(Consistency))
        check_decay("decay", self.decay)

    @property
    def teacher_decay(self) -> float:
        """The option `decay`."""
        return self.decay

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The pruned risk, and the distance to the teacher."""
        (part,) = step.batch.parts
        logits, taught = step.logits(self.view), step.teacher(self.teacher_view).logits
        selected = agreeing(ordered_scores(taught, part)) | (step.progress.epoch < self.warm_up_epochs)
        pruned = pruned_risk(ordered_scores(logits, part), selected, self.prior, self.rule, self.weights)
        distance = disagreement(part.gather(logits), part.gather(taught), self.consistency)
        step.note("selected", mean(selected.to(logits)))
        step.note("disagreement", distance)
        return pruned + self.consistency_weight * distance


def ordered_scores(logits: Float[Tensor, "rows 2"], part: BatchPart) -> Float[Tensor, "pairs 2"]:
    """The scores of the pairs, the more positive instance first."""
    assert isinstance(part.weak, PairComparison)
    winner = part.weak.winner.to(logits.device)
    return pair_scores(logits, part).gather(1, torch.stack([winner, 1 - winner], 1))


def every_pair(data: WeakDataset) -> tuple[Int[Tensor, "instances"], BatchPart]:
    """The instances that occur in pairs, and all pairs, as one batch; no instance is loaded."""
    everything = torch.arange(len(data.weak[0]))
    table, lengths = data.groups[0].padded(everything)
    numbers, rows = torch.unique(table, return_inverse=True)
    return numbers, BatchPart(rows, lengths, data.weak[0], everything)


def comparison_risks(
    scores: Float[Tensor, "pairs 2"], prior: float, rule: ComparisonRule
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """A and B of `Pcomp`: the terms of the positives and of the negatives in the risk.

    >>> scores = torch.tensor([[0.8, -0.5], [-0.3, 0.6], [1.5, 0.9], [0.1, -1.2]])
    >>> comparison_risks(scores, prior=0.4, rule="discard")
    (tensor(0.0354), tensor(0.3369))
    """
    positive = _class_risk(surrogate(scores), prior, rule)
    negative = _class_risk(surrogate(-scores.flip(1)), 1 - prior, rule)
    return positive, negative


def _class_risk(losses: Float[Tensor, "pairs 2"], prior: float, rule: ComparisonRule) -> Float[Tensor, ""]:
    """The term of one class, from its losses at its expected place (column 0) and the other."""
    own, other = mean(losses[:, 0]), mean(losses[:, 1])
    return own - (1 - prior) * other if rule == "discard" else ((1 + prior) * own - (1 - prior) * other) / 2


def noise_rate(prior: float, rule: ComparisonRule) -> float:
    """ρ of a class with this prior: the rate of its members at the other class's place.

    >>> noise_rate(0.5, "swap"), noise_rate(0.25, "discard")
    (0.25, 0.2)
    """
    return prior / 2 if rule == "swap" else prior / (1 + prior)


def impurity(prior: float, rule: ComparisonRule) -> float:
    """φ of the place of a class with this prior: the rate of the other class there.

    >>> impurity(0.5, "swap"), round(impurity(0.5, "discard"), 4)
    (0.25, 0.3333)
    """
    both_other = (1 - prior) ** 2
    return both_other if rule == "swap" else both_other / (1 - prior * (1 - prior))


def agreeing(scores: Float[Tensor, "pairs 2"]) -> Bool[Tensor, "pairs 2"]:
    """The mask of firsts that are predicted positive and seconds that are predicted negative.

    >>> agreeing(torch.tensor([[0.5, 0.1], [0.0, -2.0]]))
    tensor([[ True, False],
            [False,  True]])
    """
    return torch.stack([scores[:, 0] > 0, scores[:, 1] < 0], 1)


def kept_by_rank(scores: Float[Tensor, "pairs 2"], prior: float, rule: ComparisonRule) -> Bool[Tensor, "pairs 2"]:
    """All but the ⌊φ₊ n⌋ firsts with the lowest scores and the ⌊φ₋ n⌋ seconds with the highest.

    >>> kept_by_rank(torch.tensor([[2.0, 0.3], [0.1, 0.2], [0.4, 0.1], [0.5, -1.0]]), prior=0.5, rule="swap")
    tensor([[ True, False],
            [False,  True],
            [ True,  True],
            [ True,  True]])
    """
    kept = torch.ones_like(scores, dtype=torch.bool)
    for place, (toward, own) in enumerate([(scores[:, 0], prior), (-scores[:, 1], 1 - prior)]):
        number = down(len(scores) * impurity(own, rule))
        kept[toward.argsort(stable=True)[:number], place] = False
    return kept


def pruned_risk(
    scores: Float[Tensor, "pairs 2"],
    selected: Bool[Tensor, "pairs 2"],
    prior: float,
    rule: ComparisonRule,
    weights: PruningWeights,
) -> Float[Tensor, ""]:
    """The loss of `RankPruning`, given which instances are selected.

    >>> scores = torch.tensor([[0.8, -0.5], [-0.3, 0.6], [1.5, 0.9], [0.1, -1.2]])
    >>> pruned_risk(scores, agreeing(scores), 0.4, "discard", "noise")
    tensor(0.3604)
    """
    losses = torch.where(selected, torch.stack([surrogate(scores[:, 0]), surrogate(-scores[:, 1])], 1), 0.0)
    factors = losses.new_tensor([_pruning_weight(own, rule, weights) for own in (prior, 1 - prior)])
    number = selected.sum(0) if weights == "released" else torch.full_like(factors, len(scores))
    return (factors * losses.sum(0) / number.clamp_min(1)).sum()


def _pruning_weight(prior: float, rule: ComparisonRule, weights: PruningWeights) -> float:
    """The weight w of the class with this prior."""
    rate = noise_rate(prior, rule)
    if weights == "released":
        return rate
    return prior / (1 - impurity(prior, rule)) if weights == "prior" else 0.5 / (1 - rate)


def disagreement(
    logits: Float[Tensor, "pairs 2 classes"], taught: Float[Tensor, "pairs 2 classes"], consistency: Consistency
) -> Float[Tensor, ""]:
    """Ω of `PcompTeacher`: the distance of predictions from those of a teacher, mean over instances."""
    target = taught.softmax(-1)
    if consistency == "cross_entropy":
        return mean(-(target * logits.log_softmax(-1)).sum(-1))
    return mean(((logits.softmax(-1) - target) ** 2).sum(-1))


def check_pruning(prior: float, rule: str, weights: str) -> None:
    """Raise `DataError` unless these options of pruning exist."""
    check_prior(prior)
    check_choice("rule", rule, get_args(ComparisonRule))
    check_choice("weights", weights, get_args(PruningWeights))
