"""Votes beside other weak labels of the same instances: one posterior, in every path, as enumeration has it."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from training.test_noise import Killed

from glws import WeakClassifier, batch_loss
from glws.data import Groups, WeakDataset, united
from glws.estimator._posteriors import row_posterior
from glws.estimator._targets import ParsedTargets
from glws.kinds import AbstractSupervision, Labels, Proportions, Votes
from glws.methods import GLWS
from glws.models import build
from glws.training import (
    LearnedNoise,
    NoiseEM,
    Observer,
    RunFolder,
    Snapshots,
    Training,
    TrainingConfig,
    World,
    fit,
    posteriors,
    united_posteriors,
)

MEMBERS = [[0, 1, 2], [3, 4, 5]]


def log_probs() -> Tensor:
    random = torch.rand(7, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.1
    return (random / random.sum(1, keepdim=True)).log()


def bags_and_votes() -> WeakDataset:
    """Bags of instances 0 to 5, votes on them in another order, and one vote on instance 6 alone."""
    matrix = [[-1, 1, 1], [1, 0, -1], [0, -1, 1], [-1, -1, -1], [0, -1, -1], [1, 1, 0], [1, -1, -1]]
    weak = Votes.of(matrix, 2, accuracy=[0.9, 0.6, 0.7])
    groups = [Groups.of(MEMBERS), Groups.of([[2], [0], [1], [5], [4], [3], [6]])]
    return WeakDataset(torch.arange(7)[:, None].float(), groups, [Proportions.of([1, 2]), weak])


def enumerated(data: WeakDataset, predicted: Tensor) -> tuple[Tensor, Tensor]:
    """log p(all weak labels | x), and the posterior of each instance, over all labelings of all instances."""
    total = torch.zeros_like(predicted)
    for labels in product(range(2), repeat=len(predicted)):
        log_weight = sum(float(predicted[place, label]) for place, label in enumerate(labels))
        for groups, weak in zip(data.groups, data.weak, strict=True):
            for group in range(len(groups)):
                members = groups[group].indices.tolist()
                log_weight += weak.log_weight(group, [labels[member] for member in members])
        for place, label in enumerate(labels):
            total[place, label] += math.exp(log_weight)
    return total[0].sum().log(), total / total.sum(1, keepdim=True)


def test_the_loss_is_that_of_the_joint_likelihood() -> None:
    data, predicted = bags_and_votes(), log_probs()
    batch = next(united(data).batches(1))
    loss = batch_loss(batch, predicted, unsupervised=0.0, reduction="group")
    (alone,) = united(data).weak[1].infer(predicted[None, [6]]).log_likelihood.tolist()
    both = float(enumerated(data, predicted)[0])
    assert loss.item() == pytest.approx(-(both - alone) / 2 - alone, abs=1e-12)  # the mean over bags, and the seventh


def test_groups_and_votes_have_the_posterior_of_enumeration() -> None:
    data, predicted = bags_and_votes(), log_probs()
    oracle = enumerated(data, predicted)[1]
    seen = set()
    for kind, _, members, answer in united_posteriors(data, predicted.__getitem__):
        torch.testing.assert_close(answer.marginals, oracle[members], atol=1e-12, rtol=0)
        seen |= {(kind, member) for member in members.flatten().tolist()}
    assert len(seen) == 13


def test_the_estimator_has_the_posterior_of_enumeration() -> None:
    data, predicted = bags_and_votes(), log_probs()
    known = ParsedTargets(np.arange(2), data.groups, data.weak)
    np.testing.assert_allclose(
        row_posterior(predicted.numpy(), known).probs, enumerated(data, predicted)[1], atol=1e-12
    )


def test_true_labels_calibrate_the_sources_of_votes_on_the_same_instances() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 400)
    said = np.stack([np.where(random.random(400) < accuracy, truth, 1 - truth) for accuracy in (0.9, 0.6)], 1)
    weak = [Labels.of(truth, 2), Votes.of(said, 2).learning()]
    data = WeakDataset(torch.zeros(400, 1), [Groups.singles(400)] * 2, weak)
    alone = WeakDataset(data.instances, [data.groups[1]], [data.weak[1]])
    even = torch.full((400, 2), 0.5, dtype=torch.float64).log()
    em = NoiseEM(alone, data)
    em.update(even.__getitem__)
    found = em.learned.relearned(alone.weak)[0].noise()  # type: ignore[attr-defined]
    counts = (said == truth[:, None]).sum(0)
    prior = 4 * 2 * np.array([0.7, 0.7])  # four observations of each class
    np.testing.assert_allclose(list(found.values()), (counts + prior) / 408, atol=1e-3)


@pytest.mark.parametrize("is_learned", [False, True])
def test_training_uses_bags_and_votes_at_once(is_learned: bool) -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, 300)
    x = torch.from_numpy(random.normal(size=(300, 3)) + 1.2 * truth[:, None]).float()
    said = np.where(random.random((300, 3)) < 0.75, truth[:, None], 1 - truth[:, None])
    bags = Groups.of(torch.arange(300).view(100, 3))
    weak = Votes.of(said, 2)
    kinds: list[AbstractSupervision] = [
        Proportions.of(torch.from_numpy(truth).view(100, 3).sum(1)),
        weak.learning() if is_learned else weak,
    ]
    data = WeakDataset(x, [bags, Groups.singles(300)], kinds)
    network = build("linear", [3], 2)
    fitted = fit(network, data, config=TrainingConfig(epochs=15, learning_rate=0.05, device="cpu"))
    given = [fitted.noise.relearned(data.weak)[1] if is_learned else weak]
    by_kind: dict[int, Tensor] = {}
    for kind, _, members, answer in posteriors(data.with_weak([kinds[0], *given]), fitted.predict):
        by_kind.setdefault(kind, torch.zeros(300, 2))[members.flatten()] = answer.marginals.flatten(0, 1).float()
    torch.testing.assert_close(by_kind[0], by_kind[1], atol=1e-5, rtol=0)
    assert (by_kind[0].argmax(1).numpy() == truth).mean() > 0.93
    if is_learned:
        assert [estimate.value for estimate in fitted.noise.estimates] == pytest.approx([0.75] * 3, abs=0.08)
    else:
        assert fitted.noise.counts == LearnedNoise().counts


def test_other_kinds_stay_as_they_are() -> None:
    weak = [Proportions.of([1, 2]), Labels.of([1], 2)]
    data = WeakDataset(torch.zeros(7, 1), [MEMBERS, [[1]]], weak)
    assert united(data) is data
    alone = WeakDataset(torch.zeros(2, 1), Groups.singles(2), Votes.of([[0], [1]], 2))
    assert united(alone) is alone


def test_the_estimator_takes_votes_beside_labels() -> None:
    random = np.random.default_rng(2)
    truth = random.integers(0, 2, 200)
    x = random.normal(size=(200, 3)) + truth[:, None]
    said = np.where(random.random((200, 3)) < 0.6, truth[:, None], 1 - truth[:, None])
    model = WeakClassifier("linear", epochs=5, random_state=0, device="cpu")
    groups = [np.arange(200)[:, None], np.arange(20)[:, None]]
    model.fit(x, [Votes.of(said, 2), Labels.of(truth[:20], 2)], groups=groups)
    np.testing.assert_allclose(model.posterior_[np.arange(20), truth[:20]], 1.0, atol=1e-6)


def learning(is_beside_bags: bool, seed: int = 0) -> Training:
    random = np.random.default_rng(4)
    truth = random.integers(0, 2, 120)
    x = torch.from_numpy(random.normal(size=(120, 3)) + truth[:, None]).float()
    said = np.where(random.random((120, 3)) < 0.75, truth[:, None], 1 - truth[:, None])
    groups, weak = [Groups.singles(120)], [Votes.of(said, 2).learning()]
    if is_beside_bags:
        counts = Proportions.of(torch.from_numpy(truth[:90]).view(30, 3).sum(1))
        groups, weak = [Groups.of(torch.arange(90).view(30, 3)), *groups], [counts, *weak]  # type: ignore[list-item]
    data = WeakDataset(x, groups, weak)
    config = TrainingConfig(epochs=6, batch_size=10, learning_rate=0.02, device="cpu")
    return Training(build("linear", [3], 2, torch.Generator().manual_seed(seed)), data, GLWS(), config, None, World())


@pytest.mark.parametrize("is_beside_bags", [False, True])
@pytest.mark.parametrize("part", [0.45, 0.75])
def test_training_that_was_killed_learns_the_same_sources_bit_for_bit(
    part: float, is_beside_bags: bool, tmp_path: Path
) -> None:
    whole = learning(is_beside_bags).run(None, None, Snapshots(None), Observer())
    step = round(part * whole.history[-1]["step"])  # type: ignore[operator]
    with RunFolder.create(tmp_path / "run", {}, seed=0) as run, pytest.raises(ConnectionError):
        learning(is_beside_bags).run(None, None, Snapshots(run, 0.0), Killed(step))
    with RunFolder.resume(tmp_path / "run") as run:
        fitted = learning(is_beside_bags, seed=5).run(None, None, Snapshots(run, 0.0), Observer())
    assert torch.equal(fitted.noise.counts["Votes"], whole.noise.counts["Votes"])
    assert all(torch.equal(*pair) for pair in zip(fitted.model.parameters(), whole.model.parameters(), strict=True))
    assert fitted.history == whole.history
