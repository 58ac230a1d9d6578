"""Exact count vectors: against all labelings, against the two-class engine, against each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from strategies import random_log_probs
from torch import Tensor
from torch.nn.functional import one_hot

import glws
from glws.inference import Exactly, JointCounts, count_posterior, waiting_for_kernels
from glws.inference._joint import exact
from glws.inference._joint.arithmetic import LINEAR, LOGS
from glws.inference._joint.groups import gather_columns, shares
from glws.inference._joint.kernels import COUNTS
from glws.inference._joint.layers import layer_posterior

SHAPES = [(2, 6), (3, 6), (4, 5), (5, 5), (5, 6)]
TOLERANCE = 1e-10  # float64, relative to the size of the log-likelihood; rounding of sums of positive terms


def drawn_counts(seed: int, lengths: Tensor, classes: int, instances: int) -> Tensor:
    """Counts of random labels, some classes favored; sums are the lengths."""
    generator = torch.Generator().manual_seed(seed)
    favor = torch.rand(len(lengths), classes, generator=generator) ** 3 + 1e-3
    labels = torch.multinomial(favor, max(instances, 1), replacement=True, generator=generator)[:, :instances]
    is_real = torch.arange(instances) < lengths[:, None]
    return (one_hot(labels, classes) * is_real[:, :, None]).sum(1)


def random_batch(seed: int, groups: int, instances: int, classes: int, scale: float = 2.0) -> tuple[Tensor, Any, Any]:
    lengths = torch.randint(0, instances + 1, (groups,), generator=torch.Generator().manual_seed(seed))
    log_probs = random_log_probs(seed, groups, instances, classes, scale)
    padded = torch.where((torch.arange(instances) < lengths[:, None])[:, :, None], log_probs, 0.0)
    return padded, lengths, drawn_counts(seed, lengths, classes, instances)


def assert_same(answer: tuple[Tensor, Tensor], oracle: tuple[Tensor, Tensor], tolerance: float = TOLERANCE) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    error = ((answer[0] - oracle[0]) / (1.0 + oracle[0].abs()))[possible].abs()
    assert error.numel() == 0 or error.max() <= tolerance
    assert answer[1].isfinite().all()
    assert answer[1].numel() == 0 or (answer[1] - oracle[1]).abs().max() <= tolerance


@pytest.mark.parametrize(("classes", "instances"), SHAPES)
def test_counts_equal_enumeration(classes: int, instances: int, way: str, by_labelings: Any) -> None:
    potentials, lengths, counts = random_batch(classes, 12, instances, classes)
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: (occurs == counts[group]).all(1))
    assert (oracle[0] > -torch.inf).all()
    assert_same(JointCounts(counts).solve(potentials, lengths), oracle)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_extreme_logits_equal_enumeration(scale: float, way: str, by_labelings: Any) -> None:
    """Logits of ±100 and ±1000: far below what a float can hold without logarithms or a tilt."""
    potentials, lengths, counts = random_batch(3, 40, 5, 3, scale)
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: (occurs == counts[group]).all(1))
    assert oracle[0].min() < -5.0 * scale
    assert_same(JointCounts(counts).solve(potentials, lengths), oracle)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_hard_zeros_equal_enumeration(classes: int, way: str, by_labelings: Any) -> None:
    potentials, lengths, counts = random_batch(20 + classes, 60, 5, classes)
    zeros = torch.rand(potentials.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    potentials = torch.where(zeros, -torch.inf, potentials)
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: (occurs == counts[group]).all(1))
    assert 5 < int((oracle[0] == -torch.inf).sum()) < 55
    assert_same(JointCounts(counts).solve(potentials, lengths), oracle)


def test_counts_that_do_not_sum_to_the_length_are_impossible(way: str) -> None:
    counts = torch.tensor([[1, 1, 1], [3, 0, 0], [4, -1, 0], [0, 0, 0], [2, 1, 0]])
    answer = JointCounts(counts).solve(random_log_probs(1, 5, 3, 3), torch.tensor([2, 3, 3, 3, 3]))
    assert (answer[0] > -torch.inf).tolist() == [False, True, False, False, True]
    assert torch.all(answer[1][[0, 2, 3]] == 0)


def test_an_empty_group_has_counts_of_zero(way: str) -> None:
    empty = JointCounts(torch.tensor([[0, 0], [0, 1]])).solve(torch.zeros(2, 0, 2).double(), torch.tensor([0, 0]))
    assert empty[0].tolist() == [0.0, -torch.inf]
    assert empty[1].shape == (2, 0, 2)
    nobody = JointCounts(torch.zeros(0, 2, dtype=torch.int64)).solve(torch.zeros(0, 3, 2), torch.zeros(0).long())
    assert nobody[0].shape == (0,)


@pytest.mark.parametrize("length", [1, 7, 60, 200])
@pytest.mark.parametrize("shift", [0.0, 14.0])
def test_two_classes_equal_the_count_engine(length: int, shift: float, way: str) -> None:
    """A shift of 14 is p = 1e-6: at length 200 the likelihood is e^-1400, so the tilt is needed."""
    potentials = random_log_probs(length, 6, length, 2) - torch.tensor([0.0, shift], dtype=torch.float64)
    ones = torch.arange(6) * length // 5
    lengths = torch.full((6,), length)
    known = count_posterior(potentials[:, :, 0], potentials[:, :, 1], lengths, Exactly(ones))
    answer = JointCounts(torch.stack([lengths - ones, ones], 1), "exact").solve(potentials, lengths)
    assert_same((answer[0], answer[1][:, :, 1]), known)


def test_all_recursions_agree_on_larger_groups() -> None:
    """Compiled, layer by layer, and in logarithms, with up to 5,000 count vectors, all sizes in one batch."""
    potentials, lengths, counts = random_batch(9, 30, 14, 6)
    groups, _ = gather_columns(potentials, counts, lengths)
    log_sums, weights = shares(groups.potentials, groups.is_real)
    with waiting_for_kernels():
        mass, compiled = exact.compiled(COUNTS.ready(), weights, groups.counts)
    for numbers, given in ((LINEAR, weights), (LOGS, groups.potentials)):
        plain_mass, plain = layer_posterior(given, groups.counts, numbers)
        log_mass = plain_mass - log_sums.sum(1) if numbers is LOGS else plain_mass.log()
        assert (log_mass - mass.log()).abs().max() <= 1e-11
        assert (plain - compiled).abs().max() <= 1e-11


def test_sums_over_instances_are_the_counts_and_rows_sum_to_one(way: str) -> None:
    potentials, lengths, counts = random_batch(5, 20, 12, 5, 10.0)
    _, marginals = JointCounts(counts).solve(potentials, lengths)
    is_real = torch.arange(12) < lengths[:, None]
    assert (marginals.sum(1) - counts).abs().max() <= 1e-11
    assert (marginals.sum(2) - is_real.double()).abs().max() <= 1e-12
    assert torch.all(marginals[~is_real] == 0)


def test_the_gradient_of_the_log_likelihood_is_the_posterior() -> None:
    """Fisher's identity, through `infer`, against a difference quotient."""
    log_probs = random_log_probs(6, 2, 6, 4).requires_grad_()
    form = JointCounts(torch.tensor([[2, 1, 0, 3], [1, 1, 2, 2]]))
    answer = glws.infer(log_probs, form)
    answer.log_likelihood.sum().backward()
    assert torch.equal(log_probs.grad, answer.marginals)  # type: ignore[arg-type]
    step, base = 1e-6, log_probs.detach()
    for instance, label in ((0, 0), (3, 3), (5, 1)):
        moved = base.clone()
        moved[:, instance, label] += step
        change = form.solve(moved, torch.tensor([6, 6]))[0] - form.solve(base, torch.tensor([6, 6]))[0]
        assert (change / step - answer.marginals[:, instance, label]).abs().max() < 1e-5  # second order in the step


def test_permuting_instances_permutes_and_permuting_classes_permutes(way: str) -> None:
    potentials, counts, lengths = random_log_probs(7, 3, 8, 4), torch.tensor([[3, 2, 2, 1]] * 3), torch.full((3,), 8)
    instances, classes = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4]), torch.tensor([2, 0, 3, 1])
    straight = JointCounts(counts).solve(potentials, lengths)
    turned = JointCounts(counts[:, classes]).solve(potentials[:, instances][:, :, classes], lengths)
    assert_same(turned, (straight[0], straight[1][:, instances][:, :, classes]), 1e-12)


def test_float32_stays_close(way: str) -> None:
    potentials, lengths, counts = random_batch(8, 20, 10, 4, 5.0)
    single = JointCounts(counts).solve(potentials.float(), lengths)
    double = JointCounts(counts).solve(potentials, lengths)
    assert single[0].dtype == single[1].dtype == torch.float32
    assert_same((single[0].double(), single[1].double()), double, 1e-4)


def test_a_likelihood_below_the_range_of_float32_is_impossible() -> None:
    """Rather than a posterior without a likelihood."""
    potentials = torch.tensor([[[0.0, -3e38], [0.0, -3e38]]])
    log_likelihood, marginals = JointCounts(torch.tensor([[0, 2]])).solve(potentials, torch.tensor([2]))
    assert log_likelihood.item() == -torch.inf
    assert torch.all(marginals == 0)


def test_every_engine_of_infer_gives_the_same() -> None:
    potentials, lengths, counts = random_batch(10, 8, 5, 3)
    form = JointCounts(counts)
    answer = glws.infer(potentials, form, lengths)
    for engine in ("trellis", "enumeration"):
        other = glws.infer(potentials, form, lengths, engine=engine)
        assert_same((answer.log_likelihood, answer.marginals), (other.log_likelihood, other.marginals))


def test_the_automaton_accepts_the_arrangements_of_the_counts() -> None:
    form = JointCounts(torch.tensor([[2, 0, 1], [1, -1, 1]]), "exact")
    automaton = form.automaton(0, 3)
    assert sorted(automaton.labelings(3)) == [(0, 0, 2), (0, 2, 0), (2, 0, 0)]
    assert automaton.num_states == automaton.minimize().num_states == 6
    assert form.automaton(1, 1).count(1) == 0
    assert form.select(torch.tensor([1])).method == "exact"
    assert form.engine(None) == "joint counts"


def test_mistakes_are_named() -> None:
    lengths = torch.tensor([60])
    many = JointCounts(torch.full((1, 20), 3), "exact")
    with pytest.raises(glws.errors.DataError, match=r"group 0: exact counts would need 1\.1e\+12 count vectors"):
        many.solve(torch.zeros(1, 60, 20), lengths)
    with pytest.raises(glws.errors.DataError, match=r"counts must be \[1 groups, 2 classes\], found shape \[1, 20\]"):
        many.solve(torch.zeros(1, 60, 2), lengths)
    with pytest.raises(
        glws.errors.DataError, match="method must be one of auto, exact, corrected, tilted, found 'fast'"
    ):
        JointCounts(torch.full((1, 20), 3), "fast").solve(torch.zeros(1, 60, 20), lengths)
