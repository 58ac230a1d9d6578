"""Sets of classes that occur: against all labelings, at the edges, and both ways to compute."""

from __future__ import annotations

from typing import Any

import mpmath
import pytest
import torch
from strategies import random_log_probs
from torch import Tensor

import glws
from glws.inference import PresenceSet, waiting_for_kernels
from glws.inference._joint import forms, large_sets, subsets
from glws.inference._joint.arithmetic import LINEAR
from glws.inference._joint.groups import gather_columns, shares
from glws.inference._joint.kernels import SETS

TOLERANCE = 1e-10  # float64; rounding of sums of positive terms


def random_batch(seed: int, groups: int, instances: int, classes: int, scale: float = 2.0) -> tuple[Tensor, Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, instances + 1, (groups,), generator=generator)
    present = torch.rand(groups, classes, generator=generator) < 0.5
    log_probs = random_log_probs(seed, groups, instances, classes, scale)
    return torch.where((torch.arange(instances) < lengths[:, None])[:, :, None], log_probs, 0.0), lengths, present


def assert_same(answer: tuple[Tensor, Tensor], oracle: tuple[Tensor, Tensor], tolerance: float = TOLERANCE) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    assert ((answer[0] - oracle[0]) / (1.0 + oracle[0].abs()))[possible].abs().max() <= tolerance
    assert (answer[1] - oracle[1]).abs().max() <= tolerance


@pytest.mark.parametrize(("classes", "instances", "scale"), [(2, 6, 2.0), (3, 6, 2.0), (4, 5, 100.0), (5, 6, 1.0)])
def test_sets_equal_enumeration(classes: int, instances: int, scale: float, way: str, by_labelings: Any) -> None:
    potentials, lengths, present = random_batch(classes, 25, instances, classes, scale)
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: ((occurs > 0) == present[group]).all(1))
    assert 0 < int((oracle[0] > -torch.inf).sum()) < 25
    assert_same(PresenceSet(present).solve(potentials, lengths), oracle)


def test_probabilities_too_small_for_a_float(way: str, by_labelings: Any) -> None:
    """Two classes of e^-500 each: their product is no float, the posterior is."""
    potentials = random_log_probs(3, 6, 4, 4) + torch.tensor([0.0, -500.0, -500.0, -3000.0], dtype=torch.float64)
    present = torch.tensor([[True, True, True, False], [False, True, True, True]]).repeat(3, 1)
    lengths = torch.tensor([4, 4, 3, 3, 4, 2])
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: ((occurs > 0) == present[group]).all(1))
    assert_same(PresenceSet(present).solve(potentials, lengths), oracle)


def test_hard_zeros_equal_enumeration(way: str, by_labelings: Any) -> None:
    potentials, lengths, present = random_batch(11, 60, 5, 3)
    zeros = torch.rand(potentials.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    potentials = torch.where(zeros, -torch.inf, potentials)
    oracle = by_labelings(potentials, lengths.tolist(), lambda group, occurs: ((occurs > 0) == present[group]).all(1))
    assert_same(PresenceSet(present).solve(potentials, lengths), oracle)


def test_short_groups_and_empty_sets(way: str) -> None:
    present = torch.tensor([[True, True], [False, False], [False, False], [True, False]])
    answer = PresenceSet(present).solve(random_log_probs(1, 4, 2, 2), torch.tensor([1, 0, 2, 2]))
    assert (answer[0] > -torch.inf).tolist() == [False, True, False, True]
    assert answer[0][1] == 0.0
    assert torch.all(answer[1][:3] == 0)


def test_compiled_and_plain_agree_on_larger_sets() -> None:
    potentials, lengths, present = random_batch(4, 12, 30, 10, 3.0)
    lengths = lengths.clamp_min(10)
    groups, _ = gather_columns(potentials, present.long(), lengths)
    weights = groups._replace(potentials=shares(groups.potentials, groups.is_real)[1])
    with waiting_for_kernels():
        kernel = SETS.ready()
    compiled, plain = subsets.compiled(kernel, weights), subsets.plain(weights, LINEAR)
    assert (compiled[0] / plain[0] - 1.0).abs().max() <= 1e-11
    assert (compiled[1] - plain[1]).abs().max() <= 1e-11


def test_an_improbable_set_keeps_its_digits_where_inclusion_and_exclusion_cancels() -> None:
    """Four classes of probability about 1e-5 in a group of 8, against inclusion and exclusion in 60 digits."""
    rare = random_log_probs(5, 1, 8, 5) + torch.tensor([0.0, -12.0, -12.0, -12.0, -12.0], dtype=torch.float64)
    log_probs = rare.log_softmax(2)
    answer = PresenceSet(torch.ones(1, 5, dtype=torch.bool)).solve(log_probs, torch.tensor([8]))[0]
    probabilities = log_probs[0].tolist()
    with mpmath.workdps(60):
        exact = mpmath.mpf(0)
        for subset in range(32):
            chosen = [k for k in range(5) if subset >> k & 1]
            sums = [mpmath.fsum(mpmath.exp(row[k]) for k in chosen) for row in probabilities]
            exact += (-1) ** (5 - len(chosen)) * mpmath.fprod(sums)
        assert abs(float(answer) - float(mpmath.log(exact))) < 1e-12
    assert exact < 1e-16  # of terms around 1: in float64 nothing would be left


def test_the_gradient_is_the_posterior_and_engines_agree() -> None:
    potentials, lengths, present = random_batch(6, 10, 5, 3)
    log_probs = potentials.clone().requires_grad_()
    answer = glws.infer(log_probs, PresenceSet(present), lengths)
    answer.log_likelihood[answer.log_likelihood > -torch.inf].sum().backward()
    assert torch.equal(log_probs.grad, answer.marginals)  # type: ignore[arg-type]
    for engine in ("trellis", "enumeration"):
        other = glws.infer(potentials, PresenceSet(present), lengths, engine=engine)
        assert_same((answer.log_likelihood.detach(), answer.marginals), (other.log_likelihood, other.marginals))


def test_rows_sum_to_one_and_permuting_permutes(way: str) -> None:
    potentials, present, lengths = random_log_probs(7, 2, 6, 4), torch.tensor([[True, False, True, True]] * 2), [6, 6]
    order, classes = torch.tensor([3, 1, 0, 2, 5, 4]), torch.tensor([2, 0, 3, 1])
    straight = PresenceSet(present).solve(potentials, torch.tensor(lengths))
    turned = PresenceSet(present[:, classes]).solve(potentials[:, order][:, :, classes], torch.tensor(lengths))
    assert_same(turned, (straight[0], straight[1][:, order][:, :, classes]), 1e-12)
    assert (straight[1].sum(2) - 1.0).abs().max() < 1e-12
    assert (straight[1].sum(1)[present] >= 1.0 - 1e-12).all()  # every class of the set at least once


def test_float32_stays_close() -> None:
    potentials, lengths, present = random_batch(8, 20, 8, 4, 4.0)
    single, double = (PresenceSet(present).solve(given, lengths) for given in (potentials.float(), potentials))
    assert single[1].dtype == torch.float32
    assert_same((single[0].double(), single[1].double()), double, 1e-4)


def test_the_automaton_has_a_state_for_each_subset() -> None:
    automaton = PresenceSet(torch.tensor([[True, False, True]])).automaton(0, 3)
    assert automaton.num_states == automaton.minimize().num_states == 4
    assert automaton.count(3) == 6
    assert not automaton.accepts([0, 1, 2])


def test_a_set_too_large_is_refused_unless_it_is_impossible_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_sets, "MOST_WORK", 2.0**25)  # or it takes half a minute to be sure
    present = torch.ones(2, 70, dtype=torch.bool)
    potentials = torch.zeros(2, 71, 70)
    with pytest.raises(glws.errors.DataError, match="group 1: a set of 70 classes in 71 instances has no exact answer"):
        PresenceSet(present).solve(potentials, torch.tensor([3, 71]))
    assert PresenceSet(present).solve(potentials, torch.tensor([3, 4]))[0].tolist() == [-torch.inf] * 2
    with pytest.raises(glws.errors.DataError, match=r"present must be \[2 groups, 70 classes\]"):
        PresenceSet(present[:1]).solve(potentials, torch.tensor([3, 4]))
    with pytest.raises(glws.errors.DataError, match="group 0: a set of 70 classes is larger than 12"):
        glws.infer(potentials, PresenceSet(present), engine="trellis")


@pytest.mark.parametrize(("length", "scale"), [(5, 1.0), (6, 4.0), (12, 1.0), (40, 2.0)])
def test_large_sets_equal_the_table_of_all_subsets(length: int, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is remembered: nothing is common, everything is, or some classes are."""
    present = torch.ones(3, 5, dtype=torch.bool)
    potentials, lengths = random_log_probs(9, 3, length, 5, scale), torch.full((3,), length)
    oracle = PresenceSet(present).solve(potentials, lengths)
    monkeypatch.setattr(forms, "MAX_SET", 4)
    for rare in (0.0, 0.3, 1.1):
        monkeypatch.setattr(large_sets, "RARE", rare)
        answer = PresenceSet(present).solution(potentials, lengths)
        assert_same((answer.log_likelihood, answer.marginals), oracle)
        assert answer.error is None


def test_where_nearly_everything_cancels_more_classes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of fourteen classes once: inclusion and exclusion alone loses eight digits."""
    present, lengths = torch.ones(1, 14, dtype=torch.bool), torch.tensor([14])
    potentials = random_log_probs(3, 1, 14, 14, 0.1).log_softmax(2)
    answer = PresenceSet(present).solution(potentials, lengths)
    monkeypatch.setattr(forms, "MAX_SET", 14)
    assert_same((answer.log_likelihood, answer.marginals), PresenceSet(present).solve(potentials, lengths), 1e-9)
    monkeypatch.setattr(forms, "MAX_SET", 12)
    monkeypatch.setattr(large_sets, "MOST_NUMBERS", 32)
    rough = PresenceSet(present).solution(potentials, lengths)
    assert rough.error is not None
    assert float((rough.marginals - answer.marginals).abs().max()) <= float(rough.error) < 1e-3


def test_a_class_that_no_instance_can_have_makes_a_large_set_impossible() -> None:
    potentials = torch.zeros(1, 20, 14, dtype=torch.float64)
    potentials[:, :, 3] = -torch.inf
    answer = PresenceSet(torch.ones(1, 14, dtype=torch.bool)).solution(potentials, torch.tensor([20]))
    assert float(answer.log_likelihood) == -torch.inf
    assert not bool(answer.marginals.any())


def test_long_groups_may_have_any_set() -> None:
    """Forty classes that all occur almost surely: the posteriors are the predictions, nearly."""
    log_probs = random_log_probs(2, 2, 900, 40, 0.5).log_softmax(2)
    weak = glws.kinds.PresentClasses.of(torch.ones(2, 40))
    answer = weak.infer(log_probs)
    assert answer.error is None
    assert (answer.marginals - log_probs.exp()).abs().max() < 1e-3
    assert (answer.marginals.sum(2) - 1.0).abs().max() < 1e-10
