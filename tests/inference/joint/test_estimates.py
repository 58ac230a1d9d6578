"""Approximate answers say so: what is exact is exact, and the reported error covers the true one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from strategies import random_log_probs
from torch import Tensor
from torch.nn.functional import one_hot

import glws
from benchmarks.joint_coverage import random_case, true_errors
from glws.inference import STATE_BUDGET, JointCounts, infer_two
from glws.inference._joint.exact import exact_posterior
from glws.inference._joint.groups import gather_columns
from glws.inference._joint.limits import LIVE_BUDGET, NEGLIGIBLE, PRUNED
from glws.inference._joint.live import live_posterior, log_num_live
from glws.inference._joint.tilting import tilted
from glws.inference._kernels import Kernel


def sharp_batch(seed: int, groups: int, instances: int, classes: int, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions of this scale; counts of labels that follow them, but for one that does not."""
    log_probs = random_log_probs(seed, groups, instances, classes, scale)
    labels = log_probs.argmax(2)
    labels[:, 0] = (labels[:, 0] + 1) % classes
    return log_probs, one_hot(labels, classes).sum(1), torch.full((groups,), instances)


@pytest.mark.parametrize("seed", range(8))
def test_the_live_count_vectors_give_the_answer_of_all_count_vectors(seed: int) -> None:
    case = random_case(seed, {2: 60, 3: 40, 5: 20, 10: 12})
    groups, _ = gather_columns(case.log_probs, case.counts, case.lengths)
    truth = exact_posterior(groups)
    found = live_posterior(groups, tilted(groups), NEGLIGIBLE, LIVE_BUDGET)
    possible = truth[0] > -torch.inf
    assert torch.all(found.error[possible] == 0)
    assert (found.marginals - truth[1])[possible].abs().max() <= 1e-10
    assert ((found.log_likelihood - truth[0]) / (1 + truth[0].abs()))[possible].abs().max() <= 1e-10


@pytest.mark.parametrize("share", [1e-3, PRUNED, 1e-9])
def test_what_is_pruned_is_bounded(share: float) -> None:
    for seed in range(6):
        case = random_case(100 + seed, {2: 60, 3: 40, 5: 20, 10: 12})
        groups, _ = gather_columns(case.log_probs, case.counts, case.lengths)
        found = live_posterior(groups, tilted(groups), share, LIVE_BUDGET)
        answered = found.error < torch.inf
        error = (found.marginals - exact_posterior(groups)[1]).abs().flatten(1).amax(1)
        assert torch.all(error[answered] <= found.error[answered] + 1e-10)


def test_sharp_groups_beyond_the_limit_of_all_count_vectors_are_exact() -> None:
    log_probs, counts, lengths = sharp_batch(1, 4, 40, 8, 30.0)
    assert ((counts + 1).prod(1) > STATE_BUDGET).all()
    answer = glws.infer(log_probs, JointCounts(counts), lengths)
    groups, classes = gather_columns(log_probs, counts, lengths)
    truth = exact_posterior(groups)
    found = answer.marginals.gather(2, classes[:, None].expand(-1, 40, -1))
    assert answer.error is None
    assert answer.engine == "joint counts"
    assert (found - truth[1]).abs().max() <= 1e-10
    assert (answer.log_likelihood - truth[0]).abs().max() <= 1e-8


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_certain_instances_are_set_aside(method: str) -> None:
    """Two thousand certain instances beside eight uncertain ones: the answer is that of the eight."""
    few, certain = random_log_probs(2, 1, 8, 6), torch.arange(2000) % 6
    sure = torch.where(one_hot(certain, 6).bool(), 0.0, -200.0)[None].double()
    rest = torch.tensor([[2, 1, 0, 3, 1, 1]])
    order = torch.randperm(2008, generator=torch.Generator().manual_seed(0))
    log_probs = torch.cat([few, sure], 1)[:, order]
    counts = rest + torch.bincount(certain, minlength=6)
    answer = JointCounts(counts, method).solution(log_probs, torch.tensor([2008]))
    alone = JointCounts(rest, "exact").solution(few, torch.tensor([8]))
    back = torch.argsort(order)
    assert answer.error is None
    assert (answer.marginals[:, back][:, :8] - alone.marginals).abs().max() <= 1e-10
    assert torch.equal(answer.marginals[:, back][0, 8:].argmax(1), certain)
    assert (answer.log_likelihood - alone.log_likelihood).abs().max() <= 1e-9


def test_the_estimates_cover_the_true_errors() -> None:
    """Of 320 random groups; `benchmarks.joint_coverage` does 10,000."""
    sizes = {2: 100, 3: 60, 5: 20, 10: 14}
    found = [true_errors(random_case(1000 + seed, sizes)) for seed in range(20)]
    for name, least in (("tilted", 0.95), ("corrected", 0.95), ("pruned", 1.0)):
        error, estimate = (torch.cat(part) for part in zip(*(each[name] for each in found), strict=True))
        assert len(error) == 320
        assert (error <= estimate + 1e-10).double().mean() >= least, name
        assert (estimate <= 1.0).all() or name == "pruned"


@pytest.mark.parametrize(("method", "engine"), [("tilted", "tilt"), ("corrected", "corrected tilt")])
def test_a_method_that_approximates_names_itself(method: str, engine: str) -> None:
    log_probs, counts, lengths = sharp_batch(3, 3, 10, 4, 2.0)
    answer = glws.infer(log_probs, JointCounts(counts, method), lengths)
    truth = glws.infer(log_probs, JointCounts(counts, "exact"), lengths)
    assert answer.engine == engine
    assert answer.error is not None
    assert torch.all(answer.error >= (answer.marginals - truth.marginals).abs().flatten(1).amax(1))
    assert (truth.engine, truth.error) == ("joint counts", None)
    assert glws.infer(log_probs, JointCounts(counts), lengths, engine="joint counts").error is None


def test_exact_and_approximate_groups_of_one_batch_are_told_apart() -> None:
    """Three soft groups: too large to be exact, small, and impossible."""
    counts = torch.tensor([[30, 30, 30, 30, 30], [3, 2, 2, 1, 1], [10, 0, 0, 0, 0]])
    lengths = torch.tensor([150, 9, 9])
    log_probs = random_log_probs(4, 3, 150, 5, 1.0).float().requires_grad_()
    answer = glws.infer(log_probs, JointCounts(counts), lengths)
    assert answer.engine == "joint counts + corrected tilt"
    assert answer.error is not None
    assert answer.error.dtype == torch.float32
    assert not answer.error.requires_grad
    assert 0 < answer.error[0] < 0.01
    assert answer.error[1:].tolist() == [0, 0]
    answer.log_likelihood[:2].sum().backward()
    assert torch.equal(log_probs.grad[:2], answer.marginals[:2])  # type: ignore[index]


def test_two_views_have_errors_of_their_own() -> None:
    counts, lengths = torch.tensor([[30, 30, 30, 30, 30]] * 2), torch.tensor([150, 150])
    views = random_log_probs(5, 2, 150, 5, 1.0), random_log_probs(6, 2, 150, 5, 2.0)
    both = infer_two(*views, JointCounts(counts), lengths)
    for view, answer in zip(views, both, strict=True):
        alone = glws.infer(view, JointCounts(counts), lengths)
        assert answer.engine == alone.engine == "corrected tilt"
        assert torch.allclose(answer.error, alone.error, rtol=1e-6)  # type: ignore[arg-type]


def test_large_sharp_groups_are_pruned_where_the_tilt_is_far_off() -> None:
    log_probs, counts, lengths = sharp_batch(7, 3, 60, 8, 12.0)
    answer = JointCounts(counts).solution(log_probs, lengths)
    worse = JointCounts(counts, "corrected").solution(log_probs, lengths)
    assert "pruned counts" in answer.engine  # type: ignore[operator]
    assert torch.all(answer.error < 0.2 * worse.error)  # type: ignore[operator]


def test_other_engines_are_named_and_exact() -> None:
    log_probs = random_log_probs(8, 2, 6, 2)
    for engine in ("auto", "trellis", "enumeration"):
        answer = glws.infer(log_probs, glws.automata.exactly(2), engine=engine)
        assert answer.error is None
        assert answer.engine == ("counts" if engine == "auto" else engine)


def test_hard_zeros_beyond_the_limit_are_impossible_without_error() -> None:
    log_probs, counts, lengths = sharp_batch(9, 2, 60, 8, 3.0)
    log_probs[1, :, 0] = -torch.inf
    assert counts[1, 0] > 0
    answer = JointCounts(counts).solution(log_probs, lengths)
    assert answer.log_likelihood[1] == -torch.inf
    assert torch.all(answer.marginals[1] == 0)
    assert answer.error is None or answer.error[1] == 0


def test_without_a_compiler_large_groups_are_approximate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "ready", lambda kernel: None)
    log_probs, counts, lengths = sharp_batch(1, 2, 40, 8, 30.0)
    answer = JointCounts(counts).solution(log_probs, lengths)
    assert answer.engine == "corrected tilt"
    assert torch.all(answer.error > 0)  # type: ignore[operator]


def test_too_many_live_count_vectors_are_foreseen() -> None:
    counts, lengths = torch.tensor([[40] * 5, [4] * 5]), torch.tensor([200, 20])
    groups, _ = gather_columns(random_log_probs(10, 2, 200, 5, 1.0), counts, lengths)
    many, few = log_num_live(groups, tilted(groups), NEGLIGIBLE).exp().tolist()
    assert many > 1e7
    assert few == pytest.approx(5.0**5)


def test_there_is_no_room_for_more_states_than_were_allowed(by_labelings: Any) -> None:
    """The same room serves group after group, also after one that did not fit."""
    counts, lengths = torch.tensor([[5, 5, 5], [2, 2, 1]]), torch.tensor([15, 5])
    log_probs = random_log_probs(11, 2, 15, 3, 0.5)
    groups, _ = gather_columns(log_probs, counts, lengths)
    point = tilted(groups)
    found = live_posterior(groups, point._replace(marginals=point.marginals), NEGLIGIBLE, 150)
    assert found.error.tolist() == [float("inf"), 0.0]
    oracle = by_labelings(log_probs[1:], [5], lambda group, occurs: (occurs == counts[1]).all(1))
    columns = torch.argsort(counts[1], descending=True, stable=True)
    assert (found.marginals[1, :5] - oracle[1][0, :5, columns]).abs().max() <= 1e-12
