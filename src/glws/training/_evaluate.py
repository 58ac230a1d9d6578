"""How good the network is: on labeled test data, and on groups that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.data import Groups, Instances, ShardInstances, WeakDataset, instances_of, is_shared
from glws.evaluation import (
    BagAccuracy,
    BagCalibration,
    Scores,
    WeakScores,
    accuracy_from_counts,
    accuracy_from_presence,
    bag_scores,
    bags_needed,
    scores,
    weak_scores,
)
from glws.inference import Posterior
from glws.kinds import BagRule
from glws.methods import Outputs
from glws.training._posteriors import pieces, posteriors_of, united_posteriors
from glws.training._world import World

AT_ONCE = 1024

Predict = Callable[[Tensor], Float[Tensor, "rows classes"]]
"""From instances as they lie to log-probabilities, in the plain view."""

ReadGroups = Callable[[Outputs, Tensor], Float[Tensor, "groups classes"]]
"""From outputs [groups, instances, ...] and the lengths of the groups to what each group is."""

ReadBags = Callable[[WeakDataset, BagRule, "Predictions"], Float[Tensor, "groups questions"] | None]
"""From groups, their rule, and predictions for their instances to the log-odds of each bag, if available."""


@dataclass(frozen=True, eq=False)
class Labeled:
    """Instances with true labels (-1: not known), for evaluation only; `bags` are labeled groups of them."""

    __repr__ = short_repr

    instances: Instances
    labels: Int[Tensor, "instances"]
    bags: WeakDataset | None = None

    @property
    def has_labels(self) -> bool:
        """Whether the true label of any instance is known."""
        return bool((self.labels >= 0).any())

    @classmethod
    def of(cls, instances: Any, labels: Any) -> Labeled:
        """From anything that a data set takes for instances, and class numbers."""
        return cls(instances_of(instances), torch.as_tensor(labels))


@torch.no_grad()
def log_probs_of(
    instances: Instances,
    predict: Predict,
    world: World | None = None,
    numbers: Int[Tensor, "instances"] | None = None,
) -> Float[Tensor, "instances classes"]:
    """Predictions for all instances, or for those of these sorted numbers, on the CPU.

    Several processes share the work. Of instances that are spread over processes each predicts those it has: there all
    processes must ask together.
    """
    world = _sharing(instances, world)
    numbers = torch.arange(len(instances)) if numbers is None else numbers
    own = numbers[world.share(numbers)]
    return world.gathered(_in_pieces(instances, predict, own)).cpu()


def _in_pieces(instances: Instances, predict: Predict, numbers: Tensor) -> Tensor:
    """Predictions for a piece of the instances at a time, written into one tensor.

    A list of small tensors would keep the memory between them from being used again.
    """
    found, start = None, 0
    for some in torch.split(numbers, AT_ONCE):
        values = predict(instances.take(some))
        found = values.new_empty(len(numbers), *values.shape[1:]) if found is None else found
        found[start : start + len(some)] = values
        start += len(some)
    assert found is not None, "torch.split gives one piece at least"
    return found


def _sharing(instances: Instances, world: World | None) -> World:
    """The processes that predict these instances, each its own or an even share."""
    if isinstance(instances, ShardInstances):
        return World(instances.rank, len(instances.bounds) - 1, instances.bounds)
    return replace(world or World(), bounds=None)


def group_probs_of(
    instances: Instances, groups: Groups, answers: Callable[[Tensor], Outputs], read: ReadGroups
) -> Float[Tensor, "groups classes"]:
    """What groups are, on the CPU: `answers` are those of the network to instances, and `read` is the method's."""
    return torch.cat([found for found, _ in _group_answers(instances, groups, answers, read)])


def group_values_of(
    instances: Instances, groups: Groups, answers: Callable[[Tensor], Outputs], read: ReadGroups
) -> Float[Tensor, "members values"]:
    """What `read` gives for the members of groups, [groups, instances, values]: one row for each member."""
    found = _group_answers(instances, groups, answers, read)
    return torch.cat([values[torch.arange(values.shape[1]) < lengths[:, None]] for values, lengths in found])


@torch.no_grad()
def _group_answers(
    instances: Instances, groups: Groups, answers: Callable[[Tensor], Outputs], read: ReadGroups
) -> Iterator[tuple[Tensor, Tensor]]:
    groups.check(len(instances))
    for chosen in pieces(groups.lengths):
        table, lengths = groups.padded(chosen)
        numbers, rows = torch.unique(table, return_inverse=True)
        parts = [answers(instances.take(piece)) for piece in torch.split(numbers, AT_ONCE)]
        logits, features = (torch.cat(values) for values in zip(*parts, strict=True))
        laid_out = (values[rows.to(values.device)] for values in (logits, features))
        yield read(Outputs(*laid_out), lengths).cpu(), lengths


@torch.no_grad()
def bag_log_odds_of(
    groups: Groups, rule: BagRule, log_probs: Callable[[Tensor], Tensor]
) -> Float[Tensor, "groups questions"]:
    """The log-odds of what bags are; `log_probs` gives the predictions for sorted instance numbers."""
    found = [torch.zeros(0, len(rule.sets)).double()]
    for chosen in pieces(groups.lengths):
        table, lengths = groups.padded(chosen)
        numbers, rows = torch.unique(table, return_inverse=True)
        found.append(rule.log_odds(log_probs(numbers)[rows.view_as(table)], lengths).cpu())
    return torch.cat(found)


def bag_rule_of(data: WeakDataset | None) -> BagRule | None:
    """What the weak labels of a data set say about whole groups, if they are of one kind that does."""
    return data.weak[0].bag_rule() if data is not None and len(data.weak) == 1 else None


def posteriors(data: WeakDataset, predict: Predict) -> Iterator[tuple[int, Tensor, Tensor, Posterior]]:
    """For some groups of a kind at a time: the kind's number, the groups' numbers, their instances and posterior.

    The posterior of an instance is the same in a group and in votes on it (`united_posteriors`).
    """
    if is_shared(data.weak):
        yield from posteriors_given(data, Predictions.of_members(data, predict))
    else:
        yield from posteriors_of(data, lambda table: _predicted(data, table, predict))


def posteriors_given(data: WeakDataset, known: Predictions) -> Iterator[tuple[int, Tensor, Tensor, Posterior]]:
    """The same by predictions for all instances of the groups."""
    yield from (united_posteriors if is_shared(data.weak) else posteriors_of)(data, known)


@torch.no_grad()
def _predicted(data: WeakDataset, table: Tensor, predict: Predict) -> Tensor:
    numbers, rows = torch.unique(table, return_inverse=True)
    found = [predict(data.instances.take(piece)).cpu() for piece in torch.split(numbers, AT_ONCE)]
    return torch.cat(found)[rows.view_as(table)]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for some instances of a data set, on the CPU, and the sorted numbers of these instances."""

    __repr__ = short_repr

    numbers: Int[Tensor, "some"]
    log_probs: Float[Tensor, "some classes"]

    @classmethod
    def of_members(cls, data: WeakDataset, predict: Predict, world: World | None = None) -> Predictions:
        """Those for all instances of all groups, each instance once; all processes must ask together."""
        members = _distinct(torch.cat([groups.indices for groups in data.groups]))
        return cls(members, log_probs_of(data.instances, predict, world, members))

    @classmethod
    def of_members_here(cls, data: WeakDataset, predict: Predict) -> Predictions:
        """Those for all instances of all groups, by this process, which has them all."""
        members = torch.unique(torch.cat([groups.indices for groups in data.groups]))
        return cls(members, _in_pieces(data.instances, predict, members).cpu())

    @classmethod
    def of_all(cls, instances: Instances, predict: Predict, world: World | None = None) -> Predictions:
        """Those for all instances."""
        return cls(torch.arange(len(instances)), log_probs_of(instances, predict, world))

    def __call__(self, numbers: Int[Tensor, "*chosen"]) -> Float[Tensor, "*chosen classes"]:
        """The rows of these instances, which must be among its own."""
        return self.log_probs[self.places(numbers)]

    def places(self, numbers: Int[Tensor, "*chosen"]) -> Int[Tensor, "*chosen"]:
        """The places of these instances among its own."""
        is_all = len(self.numbers) == 0 or int(self.numbers[-1]) == len(self.numbers) - 1
        return numbers if is_all else torch.searchsorted(self.numbers, numbers)


def _distinct(numbers: Tensor) -> Tensor:
    """The distinct numbers in order, without sorting those that increase already."""
    return numbers if bool((numbers[1:] > numbers[:-1]).all()) else torch.unique(numbers)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for test instances and for held-out groups, computed once, and the scores that follow from them.

    `tested` are the log-probabilities that scores against true labels are of; `predicted` those for the instances of
    held-out groups; `held_out_odds` and `test_odds` the log-odds of bags, for kinds with a `bag_rule`. Any part may be
    missing.
    """

    __repr__ = short_repr

    test: Labeled | None = None
    tested: Float[Tensor, "instances classes"] | None = None
    held_out: WeakDataset | None = None
    predicted: Predictions | None = None
    held_out_odds: Float[Tensor, "groups questions"] | None = None
    test_odds: Float[Tensor, "groups questions"] | None = None

    @classmethod
    def of(
        cls,
        predict: Predict,
        test: Labeled | None = None,
        held_out: WeakDataset | None = None,
        world: World | None = None,
        for_scores: Predict | None = None,
        read_bags: ReadBags | None = None,
    ) -> Evaluation:
        """Predicts each test instance and each instance of a held-out group once.

        `for_scores` gives the predictions that test scores are of, where they are others than those of `predict`. With
        a `world`, and of instances that are spread over processes, all processes must ask together: each predicts its
        share, and all come to the same answer.

        >>> test = Labeled.of(torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]).log(), [0, 1, 1])
        >>> round(Evaluation.of(lambda instances: instances, test).scores.accuracy, 3)
        0.667
        """
        is_tested = test is not None and test.has_labels
        tested = log_probs_of(test.instances, for_scores or predict, world) if test is not None and is_tested else None
        predicted = None if held_out is None else Predictions.of_members(held_out, predict, world)
        bags = None if test is None else test.bags
        known = None if bags is None else Predictions.of_members(bags, predict, world)
        odds = [_bag_odds(*pair, read_bags) for pair in ((held_out, predicted), (bags, known))]
        return cls(test, tested, held_out, predicted, *odds)

    @cached_property
    def scores(self) -> Scores | None:
        """How good the predictions are against true labels."""
        return None if self.test is None or self.tested is None else scores(self.tested, self.test.labels)

    @cached_property
    def weak_scores(self) -> WeakScores | None:
        """How well the predictions explain held-out weak labels, all kinds together."""
        return None if self.held_out is None else self.tempered(1.0)

    @cached_property
    def held_out_bags(self) -> Scores | None:
        """How good the predictions for held-out bags are, against their weak labels."""
        return _scores_of_bags(self.held_out, self.held_out_odds)

    @cached_property
    def calibration(self) -> BagCalibration | None:
        """The recalibration of bags that held-out bags suggest; None where they are too few."""
        if self.held_out is None or self.held_out_odds is None:
            return None
        return BagCalibration.fitted(self.held_out_odds, _marks(self.held_out))

    @cached_property
    def test_bags(self) -> Scores | None:
        """How good the predictions for test bags are, recalibrated where held-out bags tell how."""
        if self.test is None or self.test_odds is None:
            return None
        odds = self.test_odds if self.calibration is None else self.calibration(self.test_odds)
        return _scores_of_bags(self.test.bags, odds)

    def tempered(self, factor: float) -> WeakScores:
        """The same for predictions whose logits are multiplied by a factor: above 1 they are surer, below less sure."""
        assert self.held_out is not None
        assert self.predicted is not None
        log_probs = self.predicted.log_probs
        log_probs = log_probs if factor == 1 else (factor * log_probs).log_softmax(-1)
        return _weak_scores(self.held_out, Predictions(self.predicted.numbers, log_probs))

    @cached_property
    def accuracy_estimate(self) -> BagAccuracy | None:
        """The accuracy on single instances, estimated from held-out bags; None where they do not tell it.

        They do by exact counts (`known_counts`: `ClassCounts`, `Proportions` of two classes) and by the classes that
        are present (`known_presence`: `PresentClasses` without noise; none of them everywhere), of one kind and
        `bags_needed` of them.
        """
        if self.held_out is None or self.predicted is None:
            return None
        return _estimated_accuracy(self.held_out, self.predicted)

    @property
    def row(self) -> dict[str, float]:
        """The scores that are one number each, by the names that they have in the metrics of an epoch."""
        against_labels = {} if self.scores is None else self.scores.as_dict()
        found = {f"test_{name}": value for name, value in against_labels.items() if isinstance(value, float)}
        for name, bags in (("test_bag", self.test_bags), ("held_out_bag", self.held_out_bags)):
            found |= _named_bag_scores(bags, name)
        weak = self.weak_scores
        if weak is None:
            return found
        found |= {"held_out_log_likelihood": weak.log_likelihood, "held_out_entropy": weak.entropy}
        if weak.approximation_error > 0:
            found["held_out_approximation_error"] = weak.approximation_error
        return found

    def as_dict(self) -> dict[str, Any]:
        """All scores as plain values: those against true labels, and those of held-out groups under "held_out"."""
        found = {} if self.scores is None else {**self.scores.as_dict(), "per_class": list(self.scores.per_class)}
        if self.test_bags is not None:
            found["bags"] = _named_bag_scores(self.test_bags)
        return found if self.held_out is None else {**found, "held_out": self._held_out_as_dict()}

    def _held_out_as_dict(self) -> dict[str, float]:
        assert self.weak_scores is not None
        found = asdict(self.weak_scores)
        if not found["approximation_error"] > 0:
            del found["approximation_error"]
        found |= _named_bag_scores(self.held_out_bags, "bag")
        estimate = self.accuracy_estimate
        if estimate is None:
            return found
        own = {"estimated_accuracy": estimate.accuracy, "estimated_accuracy_error": estimate.standard_error}
        return {**found, **own}


def _bag_odds(data: WeakDataset | None, known: Predictions | None, read: ReadBags | None) -> Tensor | None:
    rule = bag_rule_of(data)
    if data is None or known is None or rule is None:
        return None
    return bag_log_odds_of(data.groups[0], rule, known) if read is None else read(data, rule, known)


def _marks(data: WeakDataset) -> Int[Tensor, "groups questions"]:
    marks = data.weak[0].bag_marks()
    assert marks is not None, "a kind with a bag_rule has bag_marks"
    return marks


def _scores_of_bags(data: WeakDataset | None, odds: Tensor | None) -> Scores | None:
    return None if data is None or odds is None else bag_scores(odds, _marks(data))


def _named_bag_scores(found: Scores | None, name: str = "") -> dict[str, float]:
    """The scores that bags have, with this word before each name; without true labels none."""
    if found is None:
        return {}
    chosen = {key: getattr(found, key) for key in ("accuracy", "balanced_accuracy", "auc", "calibration_error")}
    return {f"{name}_{key}" if name else key: value for key, value in chosen.items() if value is not None}


def _weak_scores(data: WeakDataset, known: Predictions) -> WeakScores:
    answers = posteriors_of(data, known)
    found = [(weak_scores(answer), answer) for *_, answer in answers]
    groups = sum(int((~answer.impossible).sum()) for _, answer in found)
    instances = sum(int(answer.lengths[~answer.impossible].sum()) for _, answer in found)
    total = sum(score.log_likelihood * int((~answer.impossible).sum()) for score, answer in found)
    entropy = sum(score.entropy * int(answer.lengths[~answer.impossible].sum()) for score, answer in found)
    impossible = sum(score.impossible for score, _ in found)
    error = max((score.approximation_error for score, _ in found), default=0.0)
    return WeakScores(total / max(groups, 1), total / max(instances, 1), entropy / max(instances, 1), impossible, error)


def _estimated_accuracy(data: WeakDataset, known: Predictions) -> BagAccuracy | None:
    if len(data.weak) != 1 or len(data.groups[0]) < bags_needed(data.weak[0].num_classes):
        return None
    (weak,), (groups,) = data.weak, data.groups
    members, rows = torch.unique(groups.indices, return_inverse=True)
    labels = known(members).argmax(1)[rows]
    lengths = groups.lengths
    places = torch.repeat_interleave(torch.arange(len(groups)), lengths) * weak.num_classes + labels
    predicted = torch.bincount(places, minlength=len(groups) * weak.num_classes).view(len(groups), -1)
    counts, present = weak.known_counts(lengths), weak.known_presence()
    if counts is not None:
        return accuracy_from_counts(predicted, counts)
    if present is not None and not bool(present.all(0).any()):
        return accuracy_from_presence(predicted, present)
    return None
