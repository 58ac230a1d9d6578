"""Evaluation: predictions in pieces, posteriors group by group, and the scores of groups that were held out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glws import infer
from glws.data import ShardInstances, WeakDataset
from glws.evaluation import scores
from glws.kinds import Labels, Proportions
from glws.training import Evaluation, Labeled, World, log_probs_of, posteriors
from glws.training import _evaluate as evaluate
from glws.training import _posteriors as posteriors_module

WEIGHTS = torch.tensor([[1.0, -0.5], [0.3, 0.2], [-1.0, 0.7]], dtype=torch.float64)


def predict(instances: Tensor) -> Tensor:
    """A fixed linear network."""
    return (instances.double() @ WEIGHTS).log_softmax(-1)


def data(seed: int = 0) -> WeakDataset:
    """Ragged bags that share instances, some labels, and evidence."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(30, 3, generator=generator)
    bags = [torch.randint(30, (length,), generator=generator).tolist() for length in (3, 1, 5, 2, 4)]
    evidence = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    weak = [Proportions.of([1, 0, 4, 2, 1]), Labels.of([1, -1, 0], 2)]
    return WeakDataset(x, [bags, [[4], [17], [2]]], weak, evidence)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few instances and groups are many pieces."""
    monkeypatch.setattr(evaluate, "AT_ONCE", 4)
    monkeypatch.setattr(posteriors_module, "GROUPS_AT_ONCE", 2)


@pytest.mark.usefixtures("small_pieces")
def test_predictions_in_pieces_are_those_of_all_at_once() -> None:
    instances = data().instances
    whole = predict(instances.take(torch.arange(30)))
    assert torch.allclose(log_probs_of(instances, predict), whole, atol=1e-15)
    some = torch.tensor([1, 4, 5, 6, 7, 22, 29])
    assert torch.allclose(log_probs_of(instances, predict, numbers=some), whole[some], atol=1e-15)


@pytest.mark.usefixtures("small_pieces")
def test_posteriors_are_those_of_each_group_by_itself() -> None:
    weak = data()
    seen = []
    for kind, chosen, members, answer in posteriors(weak, predict):
        for place, group in enumerate(chosen.tolist()):
            numbers = weak.groups[kind][group].indices
            length = len(numbers)
            assert torch.equal(members[place, :length], numbers)
            log_probs = predict(weak.instances.take(numbers))[None]
            assert weak.evidence is not None
            alone = infer(log_probs, weak.weak[kind][torch.tensor([group])], evidence=weak.evidence[numbers][None])
            assert torch.allclose(answer.marginals[place, :length], alone.marginals[0], atol=1e-12)
            assert torch.allclose(answer.log_likelihood[place], alone.log_likelihood[0], atol=1e-12)
            seen.append((kind, group))
    assert seen == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)]


@pytest.mark.usefixtures("small_pieces")
def test_held_out_scores_are_means_over_all_groups_and_instances() -> None:
    weak = data()
    answers = [
        (answer.log_likelihood[place], torch.special.entr(answer.marginals[place]).sum(), int(answer.lengths[place]))
        for *_, answer in posteriors(weak, predict)
        for place in range(len(answer.lengths))
    ]
    total, entropy, instances = (sum(each) for each in zip(*answers, strict=True))
    found = Evaluation.of(predict, held_out=weak).weak_scores
    assert found.log_likelihood == pytest.approx(float(total) / 8, abs=1e-12)
    assert found.per_instance == pytest.approx(float(total) / instances, abs=1e-12)
    assert found.entropy == pytest.approx(float(entropy) / instances, abs=1e-12)
    assert found.impossible == 0


def test_a_group_that_the_predictions_rule_out_is_counted_and_left_out() -> None:
    def certain(instances: Tensor) -> Tensor:
        return torch.tensor([0.0, -torch.inf]).expand(len(instances), 2)

    weak = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.of([0, 1]))
    found = Evaluation.of(certain, held_out=weak).weak_scores
    assert (found.log_likelihood, found.impossible) == (0.0, 1)


def test_labeled_scores_are_the_plain_numbers_of_the_evaluation() -> None:
    x = data().instances.take(torch.arange(30))
    labels = torch.arange(30) % 3 - 1  # some are not known
    labels[labels == 1] = 0
    labels[:5] = 1
    expected = scores(predict(x), labels).as_dict()
    found = Evaluation.of(predict, Labeled.of(x, labels)).row
    assert found == pytest.approx(
        {f"test_{name}": value for name, value in expected.items() if isinstance(value, float)}
    )
    assert "test_accuracy" in found


def test_each_instance_is_predicted_once_for_all_scores() -> None:
    weak, seen = data(), []

    def counted(instances: Tensor) -> Tensor:
        seen.extend(instances.tolist())
        return predict(instances)

    x = weak.instances.take(torch.arange(20, 30))
    evaluation = Evaluation.of(counted, Labeled.of(x, torch.arange(10) % 2), weak)
    assert evaluation.row.keys() > {"test_accuracy", "held_out_log_likelihood"}
    assert evaluation.as_dict()["held_out"]["log_likelihood"] == evaluation.row["held_out_log_likelihood"]
    assert evaluation.tempered(0.5).impossible == 0
    assert evaluation.accuracy_estimate is None
    members = torch.unique(torch.cat([groups.indices for groups in weak.groups]))
    assert seen == [*x.tolist(), *weak.instances.take(members).tolist()]


def test_tempered_scores_are_those_of_predictions_with_multiplied_logits() -> None:
    def colder(instances: Tensor) -> Tensor:
        return (0.5 * predict(instances)).log_softmax(-1)

    found = Evaluation.of(predict, held_out=data()).tempered(0.5)
    expected = Evaluation.of(colder, held_out=data()).weak_scores
    assert expected is not None
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-14)


def test_of_instances_that_are_spread_each_process_predicts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(1))
    monkeypatch.setattr(World, "gathered", lambda self, own: own)
    parts = [ShardInstances(x[first:last], (0, 4, 9), rank) for rank, (first, last) in enumerate([(0, 4), (4, 9)])]
    found = torch.cat([log_probs_of(part, predict, World(7, 8)) for part in parts])
    assert torch.allclose(found, predict(x), atol=1e-15)
    some = torch.tensor([1, 3, 8])
    found = torch.cat([log_probs_of(part, predict, numbers=some) for part in parts])
    assert torch.allclose(found, predict(x[some]), atol=1e-15)
