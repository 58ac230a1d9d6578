"""Bags that were chosen by their report: the likelihood given that they were, its gradient, what it recovers, edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from strategies import random_log_probs
from torch import Tensor

from glws import WeakClassifier
from glws._objective import em_loss
from glws.data import read_table
from glws.data.weaken import multi_instance
from glws.errors import DataError
from glws.inference import Posterior, infer, infer_two
from glws.kinds import MultiInstance, Together
from glws.testing import check_supervision


@dataclass(frozen=True)
class Told:
    """What is told of some bags, and by hand what it means."""

    marks: tuple[int, ...]
    lengths: tuple[int, ...]
    flip: tuple[float, float]
    share: float
    counted: tuple[int, ...] = (1,)
    num_classes: int = 2

    def weak(self) -> MultiInstance:
        return MultiInstance.of(self.marks, self.counted, self.num_classes, self.flip, self.share)

    def log_probs(self, seed: int) -> Tensor:
        return random_log_probs(seed, len(self.marks), max(self.lengths), self.num_classes, scale=1.0)

    def report(self, report: int, some: bool) -> float:
        """P(report | whether there is a counted instance)."""
        wrong = self.flip[some]
        return wrong if report != some else 1 - wrong

    def chance(self, report: int, length: int) -> float:
        """What P(taken | report) is in proportion to: its share in the data over its share among all such bags."""
        in_data = self.marks.count(report) / (self.marks.count(0) + self.marks.count(1))
        none = (1 - self.share) ** length
        return in_data / (none * self.report(report, False) + (1 - none) * self.report(report, True))

    def by_hand(self, group: int, probs: Tensor, evidence: Tensor) -> tuple[float, float, list[list[float]]]:
        """Z = p(w, taken | x) with evidence, p(taken | x), and the posterior, summed over labelings and reports."""
        mark, length = self.marks[group], self.lengths[group]
        total, taken, sums = 0.0, 0.0, [[0.0] * self.num_classes for _ in range(length)]
        for labels in product(range(self.num_classes), repeat=length):
            prior = math.prod(float(probs[group, j, k]) for j, k in enumerate(labels))
            seen = math.prod(float(evidence[group, j, k]) for j, k in enumerate(labels))
            some = any(label in self.counted for label in labels)
            joint = [self.report(w, some) * self.chance(w, length) for w in (0, 1)] if mark >= 0 else [1.0]
            taken += prior * sum(joint)
            total += prior * seen * joint[max(mark, 0)]
            for j, k in enumerate(labels):
                sums[j][k] += prior * seen * joint[max(mark, 0)]
        return total, taken, [[value / total for value in row] for row in sums]


MARKS, LENGTHS = (1, 0, -1, 1, 0, 1, 1, -1), (3, 1, 2, 4, 5, 1, 5, 4)
TOLD = {
    "plain": Told(MARKS, LENGTHS, (0.0, 0.0), 0.3),
    "sometimes wrong": Told(MARKS, LENGTHS, (0.1, 0.25), 0.3),
    "wrong only of some": Told(MARKS, LENGTHS, (0.0, 0.35), 0.8),
    "three classes": Told(MARKS, LENGTHS, (0.05, 0.4), 0.55, (0, 2), 3),
}
every = pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
WRONG_AT_TIMES = TOLD["sometimes wrong"]


def close(found: Tensor, wanted: object, tolerance: float = 1e-11) -> None:
    expected = torch.as_tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=tolerance)


def log_selection(answer: Posterior) -> Tensor:
    assert answer.log_selection is not None
    return answer.log_selection


def gradient(value: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(value, of, retain_graph=True)[0]


# The likelihood


@every
@pytest.mark.parametrize("engine", ["auto", "closed", "trellis", "enumeration"])
def test_answers_are_those_of_all_labelings_and_reports(told: Told, engine: str) -> None:
    log_probs = told.log_probs(0)
    answer = told.weak().infer(log_probs, told.lengths, engine=engine)
    for group, length in enumerate(told.lengths):
        total, taken, posterior = told.by_hand(group, log_probs.exp(), torch.ones_like(log_probs))
        close(answer.log_likelihood[group], math.log(total / taken))
        close(log_selection(answer)[group], math.log(taken))
        close(answer.marginals[group, :length], posterior)
        assert bool((answer.marginals[group, length:] == 0).all())


@every
def test_both_reports_together_are_certain(told: Told) -> None:
    weak, log_probs = told.weak(), told.log_probs(1)
    other = replace(weak, present=torch.where(weak.present < 0, -1, 1 - weak.present))
    ours, theirs = (each.infer(log_probs, told.lengths).log_likelihood.exp() for each in (weak, other))
    known = weak.present >= 0
    close((ours + theirs)[known], [1.0] * int(known.sum()))
    close(ours[~known], [1.0] * int((~known).sum()))
    assert float((ours - theirs)[known].abs().min()) > 1e-3


@every
def test_the_posterior_does_not_depend_on_the_choice(told: Told) -> None:
    log_probs, untold = told.log_probs(2), MultiInstance.of(told.marks, told.counted, told.num_classes, told.flip)
    as_they_come = untold.infer(log_probs, told.lengths)
    answer = told.weak().infer(log_probs, told.lengths)
    close(answer.marginals, as_they_come.marginals)
    assert as_they_come.log_selection is None
    known = torch.tensor(told.marks) >= 0
    assert float((answer.log_likelihood - as_they_come.log_likelihood)[known].abs().max()) > 0.1


def test_the_weights_of_labelings_are_those_of_the_automata() -> None:
    told, weak = WRONG_AT_TIMES, WRONG_AT_TIMES.weak()
    for group, length in enumerate(told.lengths):
        automaton = weak.automaton(group, length)
        for labels in product(range(2), repeat=length):
            assert automaton.log_weight(labels) == pytest.approx(weak.log_weight(group, labels), abs=1e-12)


@pytest.mark.parametrize("flip", [(0.0, 0.0), (0.1, 0.3)])
def test_it_is_the_probability_of_a_report_in_a_world_of_chosen_bags(flip: tuple[float, float]) -> None:
    """All bags of three of a small world, and how often each is met with each report if reports are met 3 to 1."""
    kinds = ((0.5, 0.1), (0.3, 0.45), (0.2, 0.8))  # how frequent, and how often positive
    told = Told((1, 1, 0, 1), (3,) * 4, flip, sum(often * positive for often, positive in kinds))
    joint = {}
    for bag in product(kinds, repeat=3):
        none = math.prod(1 - positive for _, positive in bag)
        for w in (0, 1):
            reported = none * told.report(w, False) + (1 - none) * told.report(w, True)
            joint[bag, w] = math.prod(often for often, _ in bag) * reported
    totals = [sum(mass for (_, w), mass in joint.items() if w == report) for report in (0, 1)]
    met = {case: (0.25, 0.75)[case[1]] * mass / totals[case[1]] for case, mass in joint.items()}
    for bag in product(kinds, repeat=3):
        positive = torch.tensor([positive for _, positive in bag], dtype=torch.float64)
        log_probs = torch.stack([1 - positive, positive], 1).log().expand(4, -1, -1)
        wanted = met[bag, 1] / (met[bag, 0] + met[bag, 1])
        close(told.weak().infer(log_probs).log_likelihood.exp(), [wanted, wanted, 1 - wanted, wanted])


def test_the_scale_of_predictions_and_what_stands_in_padding_do_not_matter() -> None:
    told, log_probs = WRONG_AT_TIMES, WRONG_AT_TIMES.log_probs(3)
    shift = torch.randn(log_probs.shape[:2], generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    padding = torch.arange(log_probs.shape[1]) >= torch.tensor(told.lengths)[:, None]
    moved = torch.where(padding[:, :, None], torch.nan, log_probs + shift[:, :, None])
    plain, other = (told.weak().infer(values, told.lengths) for values in (log_probs, moved))
    known = torch.tensor(told.marks) >= 0
    close(other.log_likelihood[known], plain.log_likelihood[known])
    close(other.marginals, plain.marginals)


def test_long_bags_and_single_precision_keep_their_digits() -> None:
    """Without positives among 2000 is of probability 1e-310 in a bag as it comes: only logarithms can hold it."""
    positive = torch.full((2, 2000), 0.3, dtype=torch.float64)
    log_probs = torch.stack([1 - positive, positive], 2).log()
    weak = MultiInstance.of([0, 1], share=0.3)
    close(weak.infer(log_probs).log_likelihood, [math.log(0.5)] * 2, 1e-9)  # a bag like all the others says nothing
    answer = weak.infer(log_probs.float())
    assert answer.log_likelihood.dtype == torch.float32
    close(answer.log_likelihood.double(), [math.log(0.5)] * 2, 1e-3)


def test_evidence_has_no_part_in_what_was_taken() -> None:
    told, log_probs = WRONG_AT_TIMES, WRONG_AT_TIMES.log_probs(4)
    evidence = random_log_probs(5, *log_probs.shape)
    for engine in ("auto", "trellis", "enumeration"):
        answer = told.weak().infer(log_probs, told.lengths, evidence, engine)
        close(log_selection(answer), log_selection(told.weak().infer(log_probs, told.lengths)))
        for group, length in enumerate(told.lengths):
            total, taken, posterior = told.by_hand(group, log_probs.exp(), evidence.exp())
            close(answer.log_likelihood[group], math.log(total) - math.log(taken))
            close(answer.marginals[group, :length], posterior)


# The gradient, and EM


@every
@pytest.mark.parametrize("engine", ["auto", "trellis", "enumeration"])
def test_the_gradient_is_that_of_finite_differences(told: Told, engine: str) -> None:
    """Groups do not touch each other: one entry of each is moved at a time."""

    def log_likelihood(logits: Tensor) -> Tensor:
        return told.weak().infer(logits.log_softmax(2), told.lengths, engine=engine).log_likelihood

    logits, step = told.log_probs(6), 1e-5
    slopes = torch.zeros_like(logits)
    for instance, label in product(*map(range, logits.shape[1:])):
        moved = torch.zeros_like(logits)
        moved[:, instance, label] = step
        slopes[:, instance, label] = (log_likelihood(logits + moved) - log_likelihood(logits - moved)) / (2 * step)
    logits.requires_grad_()
    close(gradient(log_likelihood(logits).sum(), logits), slopes, 1e-8)
    assert float(slopes.abs().max()) > 0.1


@every
def test_both_terms_have_the_same_gradient_on_the_same_predictions(told: Told) -> None:
    logits = told.log_probs(7).requires_grad_()
    terms = [
        em_loss(
            logits.log_softmax(2),
            told.weak(),
            told.lengths,
            unsupervised=unsupervised,
            supervised=1 - unsupervised,
            reduction="group",
        ).loss
        for unsupervised in (1.0, 0.0)
    ]
    close(gradient(terms[0], logits), gradient(terms[1], logits))
    assert float(gradient(terms[0], logits).abs().max()) > 1e-2


@every
def test_the_loss_is_the_one_written_by_hand(told: Told) -> None:
    log_probs = told.log_probs(8)
    answer = told.weak().infer(log_probs, told.lengths)
    each = -(answer.marginals * log_probs).sum((1, 2)) + log_selection(answer)
    by_instance, by_group = (
        em_loss(log_probs, told.weak(), told.lengths, reduction=reduction) for reduction in ("instance", "group")
    )
    close(by_instance.unsupervised, each.sum() / sum(told.lengths))
    close(by_group.unsupervised, each.mean())
    for loss in (by_instance, by_group):
        close(loss.supervised, -answer.log_likelihood.mean())
        close(loss.loss, loss.unsupervised + loss.supervised)


@every
def test_what_was_taken_is_asked_of_the_view_that_is_trained(told: Told) -> None:
    logits, others = told.log_probs(9).requires_grad_(), told.log_probs(10).requires_grad_()
    log_probs = logits.log_softmax(2)
    loss = em_loss(log_probs, told.weak(), told.lengths, e_log_probs=others)
    trained, guide = (told.weak().infer(view, told.lengths) for view in (log_probs, others.detach()))
    close(loss.posterior.marginals, guide.marginals)
    wanted = (-(guide.marginals * log_probs).sum() + log_selection(trained).sum()) / sum(told.lengths)
    close(loss.unsupervised, wanted.detach())
    close(gradient(loss.unsupervised, logits), gradient(wanted, logits))
    close(loss.supervised, -trained.log_likelihood.mean().detach())
    loss.loss.backward()
    assert others.grad is None


@every
@pytest.mark.parametrize("with_evidence", [False, True])
def test_two_answers_at_once_are_those_of_two_calls(told: Told, with_evidence: bool) -> None:
    log_probs, others = told.log_probs(11).requires_grad_(), told.log_probs(12).requires_grad_()
    evidence = told.log_probs(13) if with_evidence else None
    both = infer_two(log_probs, others, told.weak(), told.lengths, evidence)
    for found, view in zip(both, (log_probs, others), strict=True):
        alone = infer(view, told.weak(), told.lengths, evidence)
        close(found.log_likelihood, alone.log_likelihood.detach())
        close(found.marginals, alone.marginals)
        close(log_selection(found), log_selection(alone).detach())
    alone = infer(log_probs, told.weak(), told.lengths, evidence)
    slopes = [gradient(one.log_likelihood.sum(), log_probs) for one in (both[0], alone)]
    close(slopes[0], slopes[1])
    assert not both[1].log_likelihood.requires_grad
    assert not log_selection(both[1]).requires_grad


# What is learned


def learned(weak: MultiInstance, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely logit of each value, and its standard error by the squares of the scores of the bags."""
    table = torch.zeros(int(values.max()) + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([table], max_iter=50, tolerance_grad=1e-8, line_search_fn="strong_wolfe")

    def log_likelihoods(logits: Tensor) -> Tensor:
        log_probs = torch.nn.functional.logsigmoid(torch.stack([-logits, logits], 2))
        return weak.infer(log_probs, lengths).log_likelihood

    def closure() -> float:
        optimizer.zero_grad()
        loss = -log_likelihoods(table[values]).mean()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    assert table.grad is not None
    assert float(table.grad.abs().max()) < 1e-5
    logits = table.detach()[values].requires_grad_()
    slopes = gradient(log_likelihoods(logits).sum(), logits)
    scores = torch.zeros(len(values), len(table), dtype=torch.float64).scatter_add_(1, values, slopes)
    return table.detach(), torch.linalg.inv(scores.T @ scores).diagonal().sqrt()


def test_the_truth_is_found_only_by_whoever_knows_of_the_choice() -> None:
    """Four values of x in bags of about eight: as they come, one bag in ten would be without positives, not half."""
    generator = torch.Generator().manual_seed(0)
    x = torch.multinomial(torch.tensor([0.4, 0.3, 0.2, 0.1]), 20_000, replacement=True, generator=generator)
    y = torch.rand(len(x), generator=generator) < torch.tensor([0.02, 0.4, 0.1, 0.95])[x]
    truth = torch.stack([y[x == value].double().mean() for value in range(4)])
    record = multi_instance(y.long(), 4000, 8, 2, share_known=True, generator=generator)
    table, lengths = record.groups.padded(torch.arange(4000))
    weak = record.weak
    assert isinstance(weak, MultiInstance)
    logits, errors = learned(weak, x[table], lengths)
    assert bool(((logits - truth.logit()).abs() < 4 * errors).all()), f"{logits.sigmoid()} of {truth}"
    ambiguous = float(errors[1] * truth[1] * (1 - truth[1]))
    assert ambiguous < 0.02
    untold, _ = learned(replace(weak, share=None), x[table], lengths)
    assert float(untold[1].sigmoid()) < float(truth[1]) - 8 * ambiguous


# Edges


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(DataError, match="share, that of the counted class among all instances, must be between 0 and"):
        MultiInstance.of([1, 0], share=share)


@pytest.mark.parametrize("marks", [[1, 1], [0, 0, -1], [-1, -1], []])
def test_groups_of_one_sort_were_not_chosen(marks: list[int]) -> None:
    with pytest.raises(DataError, match="must be of both sorts"):
        MultiInstance.of(marks, share=0.3)


def test_noise_is_not_learned_of_chosen_groups() -> None:
    told, weak = WRONG_AT_TIMES, WRONG_AT_TIMES.weak()
    posterior = weak.infer(told.log_probs(14), told.lengths)
    for learn in (weak.m_step, weak.expected_counts):
        with pytest.raises(DataError, match="cannot be learned of groups that were chosen by their report"):
            learn(posterior)


@pytest.mark.parametrize("engine", ["auto", "trellis", "enumeration"])
def test_a_bag_of_nothing_has_none(engine: str) -> None:
    weak = MultiInstance.of([0, 1, 1], share=0.3)
    log_probs = random_log_probs(15, 3, 2, 2).requires_grad_()
    answer = weak.infer(log_probs, [0, 0, 2], engine=engine)
    close(answer.log_likelihood[:2], [0.0, -math.inf])
    assert answer.impossible.tolist() == [False, True, False]
    assert bool(log_selection(answer).isfinite().all())
    assert bool((answer.marginals[:2] == 0).all())
    assert bool(gradient(answer.log_likelihood[[0, 2]].sum(), log_probs).isfinite().all())


@pytest.mark.filterwarnings("ignore:.* groups are impossible under the predictions")
@pytest.mark.parametrize("reduction", ["instance", "group"])
def test_bags_of_nothing_leave_the_loss_to_the_others(reduction: str) -> None:
    weak = MultiInstance.of([1, 1, 0], share=0.3)
    log_probs = random_log_probs(16, 3, 3, 2).requires_grad_()
    loss, others = (
        em_loss(log_probs[groups], weak[groups], lengths, reduction=reduction).loss
        for groups, lengths in (([0, 1, 2], [0, 3, 2]), ([1, 2], [3, 2]))
    )
    close(loss, others.detach())
    close(gradient(loss, log_probs), gradient(others, log_probs))
    assert bool((gradient(loss, log_probs)[0] == 0).all())


@pytest.mark.filterwarnings("ignore:.* groups are impossible under the predictions")
def test_impossible_bags_leave_the_loss_to_the_others() -> None:
    weak = MultiInstance.of([1, 0, 1], share=0.3)
    log_probs = random_log_probs(17, 3, 2, 2)
    log_probs[0] = torch.tensor([0.0, -torch.inf])
    log_probs.requires_grad_()
    loss, others = (em_loss(log_probs[groups], weak[groups]).loss for groups in ([0, 1, 2], [1, 2]))
    close(loss, others.detach())
    close(gradient(loss, log_probs), gradient(others, log_probs))


def test_an_impossible_bag_has_no_gradient() -> None:
    log_probs = torch.tensor([[[0.0, -math.inf]], [[-0.4, -1.1]]], dtype=torch.float64, requires_grad=True)
    answer = MultiInstance.of([1, 0], share=0.3).infer(log_probs)
    assert answer.impossible.tolist() == [True, False]
    assert bool((gradient(answer.log_likelihood.sum(), log_probs)[0] == 0).all())


def test_predictions_that_allow_nothing_are_impossible() -> None:
    log_probs = torch.full((2, 1, 2), -math.inf, dtype=torch.float64)
    answer = MultiInstance.of([1, 0], share=0.3).infer(log_probs)
    close(answer.log_likelihood, [-math.inf] * 2)
    assert answer.num_impossible == 2


def test_some_of_the_groups_keep_what_is_known_of_all() -> None:
    told, weak = WRONG_AT_TIMES, WRONG_AT_TIMES.weak()
    log_probs = told.log_probs(18)
    answer = weak.infer(log_probs, told.lengths)
    for some, order in ((weak[[2, 0]], [2, 0]), (weak.to("cpu"), list(range(len(weak)))), (weak[:1], [0])):
        assert some.share == weak.share == 0.3
        assert some.reported == weak.reported == pytest.approx((2 / 6, 4 / 6))
        found = some.infer(log_probs[order], [told.lengths[group] for group in order])
        close(found.log_likelihood, answer.log_likelihood[order])


def test_balanced_bags_may_know_the_share() -> None:
    labels = [0, 1, 0, 0, 1, 0, 0]
    generator = torch.Generator().manual_seed(1)
    weak = multi_instance(labels, 5, 4, 1, share_known=True, generator=generator).weak
    assert isinstance(weak, MultiInstance)
    assert weak.share == 2 / 7
    assert weak.reported == pytest.approx((2 / 5, 3 / 5))
    untold = multi_instance(labels, 5, 4, 1, generator=generator).weak
    assert isinstance(untold, MultiInstance)
    assert untold.share is None
    with pytest.raises(DataError, match="share_known needs balanced bags"):
        multi_instance(labels, 5, 4, 1, share_known=True, balanced=False, generator=generator)
    with pytest.raises(DataError, match="share_known needs balanced bags"):
        multi_instance(labels, 5, 4, 1, share_known=True, redraw="bag", generator=generator)


def described(folder: Path, options: dict[str, object]) -> dict[str, object]:
    (folder / "bags.csv").write_text("bag,f,w\n1,0.1,yes\n1,0.7,yes\n2,0.4,no\n3,0.2,yes\n")
    columns = {"features": "f", "group": "bag", "weak": {"present": "w"}}
    return {
        "data": str(folder / "bags.csv"),
        "classes": ["a", "b"],
        "kind": "multi_instance",
        "options": options,
        **columns,
    }


def test_a_table_may_tell_the_share(tmp_path: Path) -> None:
    weak = read_table(described(tmp_path, {"counted": "a", "flip": 0.1, "share": 0.2})).supervision()
    assert isinstance(weak, MultiInstance)
    assert weak.share == 0.2
    assert weak.reported == pytest.approx((1 / 3, 2 / 3))
    assert weak.counted.tolist() == [True, False]
    assert weak.flip.tolist() == [0.1, 0.1]


@pytest.mark.parametrize(("share", "message"), [(1.2, "between 0 and 1: 1.2"), ("much", "between 0 and 1: 'much'")])
def test_a_table_with_a_wrong_share_is_refused(tmp_path: Path, share: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(described(tmp_path, {"share": share})).supervision()


def test_what_is_known_beside_keeps_the_choice() -> None:
    told, log_probs = WRONG_AT_TIMES, WRONG_AT_TIMES.log_probs(19)
    weak, nothing = told.weak(), MultiInstance.of([-1] * len(told.marks))
    alone, beside = (each.infer(log_probs, told.lengths) for each in (weak, Together.of(nothing, weak)))
    close(beside.log_likelihood, alone.log_likelihood)
    close(beside.marginals, alone.marginals)
    with pytest.raises(DataError, match="chosen by one of their weak labels only"):
        Together.of(weak, weak).infer(log_probs, told.lengths)


def test_a_classifier_of_weighted_rows_cannot_learn_of_a_choice() -> None:
    learner = WeakClassifier(base_estimator=LogisticRegression(), kind="multi_instance", kind_options={"share": 0.3})
    with pytest.raises(DataError, match="only networks can learn from groups sampled conditional"):
        learner.fit(torch.randn(8, 2).numpy(), [1, 0, 1, 0], groups=[0, 0, 1, 1, 2, 2, 3, 3])


def test_it_is_a_kind_like_any_other() -> None:
    check_supervision(WRONG_AT_TIMES.weak(), WRONG_AT_TIMES.lengths)
