"""Learned noise in training: planted rates come back, nothing is lost when training is killed, one place holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import (
    AbstractSupervision,
    Labels,
    MultiInstance,
    NoisyCandidates,
    NoisyLabels,
    PairComparison,
    Proportions,
    Together,
)
from glws.methods import GLWS
from glws.models import build
from glws.training import Fitted, LearnedNoise, NoiseEM, Observer, RunFolder, Snapshots, Training, TrainingConfig, World
from glws.training import fit as train
from glws.training._noise import NoiseLearning

TRANSITION = [[0.7, 0.2, 0.1], [0.05, 0.85, 0.1], [0.1, 0.3, 0.6]]


def blobs(seed: int = 0, size: int = 1500, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Instances of classes that a network can tell apart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (size,), generator=generator)
    centers = 4 * torch.randn(classes, 8, generator=generator)
    return centers[labels] + torch.randn(size, 8, generator=generator), labels


def trained(x: Tensor, groups: Tensor, weak: AbstractSupervision, **options: object) -> Fitted:
    model = build("mlp", [x.shape[1]], weak.num_classes, torch.Generator().manual_seed(0), hidden=[32])
    config = TrainingConfig(**{"epochs": 15, "learning_rate": 0.01, "device": "cpu", **options})  # type: ignore[arg-type]
    return train(model, WeakDataset(x, groups, weak), config=config)


def rates(weak: AbstractSupervision, fitted: Fitted) -> dict[str, float]:
    (learned,) = fitted.noise.relearned([weak])
    return learned.noise()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_a_planted_rate_of_wrong_labels_comes_back(rate: float) -> None:
    x, labels = blobs()
    planted = NoisyLabels.symmetric([], 3, rate).transition
    seen = NoisyLabels.from_labels(labels, planted, torch.Generator().manual_seed(1)).observed
    weak = NoisyLabels.symmetric(seen, 3, 0.45).learning()
    fitted = trained(x, torch.arange(len(x))[:, None], weak)
    assert rates(weak, fitted)["rate"] == pytest.approx(rate, abs=0.07)  # 2.5 standard errors of 300 kept labels
    assert float((fitted.predict(x).argmax(1) == labels).double().mean()) > 0.95


@pytest.mark.slow
def test_a_planted_matrix_comes_back() -> None:
    x, labels = blobs(size=3000)
    weak = NoisyLabels.from_labels(labels, TRANSITION, torch.Generator().manual_seed(1))
    start = NoisyLabels.symmetric([], 3, 0.45).transition
    fitted = trained(x, torch.arange(len(x))[:, None], NoisyLabels.of(weak.observed, start).learning(), epochs=8)
    (learned,) = fitted.noise.relearned([NoisyLabels.of(weak.observed, start).learning()])
    assert isinstance(learned, NoisyLabels)
    assert float((learned.transition - torch.tensor(TRANSITION)).abs().max()) < 0.12  # 100 kept labels of each class


@pytest.mark.slow
def test_a_planted_miss_of_candidate_sets_comes_back() -> None:
    x, labels = blobs(size=3000)
    planted = torch.full((3, 3), 0.3, dtype=torch.float64).fill_diagonal_(0.8)
    seen = NoisyCandidates.from_labels(labels, planted, torch.Generator().manual_seed(1))
    start = torch.full((3, 3), 0.4, dtype=torch.float64).fill_diagonal_(0.7)
    weak = NoisyCandidates.of(seen.candidates, start).learning()
    fitted = trained(x, torch.arange(len(x))[:, None], weak, epochs=8)
    (learned,) = fitted.noise.relearned([weak])
    assert isinstance(learned, NoisyCandidates)
    assert float((learned.inclusion - planted).abs().max()) < 0.12  # 100 kept sets of each class


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_a_planted_rate_of_flipped_pairs_comes_back(rate: float) -> None:
    x, labels = blobs(size=3000, classes=2)
    pairs = torch.arange(3000).view(-1, 2)
    seen = PairComparison.from_labels(labels[pairs], 2, flip=rate, generator=torch.Generator().manual_seed(1))
    weak = PairComparison.of(seen.winner, 2, flip=0.35).learning()
    assert rates(weak, trained(x, pairs, weak))["flip"] == pytest.approx(rate, abs=0.1)  # half the kept pairs tell


def test_planted_flips_of_bags_come_back() -> None:
    x, labels = blobs(size=4500, classes=2)
    labels = labels * (torch.rand(4500, generator=torch.Generator().manual_seed(2)) < 0.5)
    x = torch.where(labels[:, None] == 1, x + 4, x - 4)
    bags = torch.arange(4500).view(-1, 3)
    seen = MultiInstance.from_labels(labels[bags], flip=[0.1, 0.25], generator=torch.Generator().manual_seed(1))
    weak = MultiInstance.of(seen.present, flip=0.3).learning()
    found = rates(weak, trained(x, bags, weak, epochs=8))
    assert list(found.values()) == pytest.approx([0.1, 0.25], abs=0.09)  # 2.5 standard errors of 150 kept bags each


def test_no_round_of_em_lowers_the_likelihood_times_the_prior() -> None:
    generator = torch.Generator().manual_seed(3)
    log_probs = (3 * torch.randn(400, 3, generator=generator, dtype=torch.float64)).log_softmax(1)
    labels = torch.multinomial(log_probs.exp(), 1, generator=generator)[:, 0]
    seen = NoisyLabels.from_labels(labels, TRANSITION, generator).observed
    start = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]], dtype=torch.float64)
    weak = NoisyLabels.of(seen, start).learning(2.0)
    em = NoiseEM(WeakDataset(torch.zeros(400, 1), torch.arange(400)[:, None], weak))
    noise, before = em.learned, -torch.inf
    for _ in range(30):
        (present,) = noise.relearned([weak])
        assert isinstance(present, NoisyLabels)
        likelihood = present.infer(log_probs[:, None]).log_likelihood.sum()
        objective = float(likelihood + (2.0 * start * present.transition.log()).sum())
        assert objective >= before - 1e-12 * abs(objective)
        before, noise = objective, em.m_step(log_probs.__getitem__, noise)


def test_noise_beyond_which_classes_are_swapped_is_not_learned() -> None:
    """An untrained network that is mostly wrong would explain the labels best by a rate above one half."""
    seen = torch.arange(300) % 2
    log_probs = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64).log()[1 - seen]
    weak = NoisyLabels.symmetric(seen, 2, 0.3).learning()
    em = NoiseEM(WeakDataset(torch.zeros(300, 1), torch.arange(300)[:, None], weak))
    em.update(log_probs.__getitem__)
    (estimate,) = em.estimates(log_probs.__getitem__)
    assert estimate.value == pytest.approx(0.45)
    assert estimate.is_weak


def test_predictions_that_are_not_sure_yet_are_sharpened_before_they_tell_the_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (2000,), generator=generator)
    seen = NoisyLabels.from_labels(labels, [[0.8, 0.2], [0.2, 0.8]], generator).observed
    sure = torch.randn(2000, generator=generator, dtype=torch.float64).abs() * 4 * (2 * labels - 1)
    log_probs = torch.stack([-0.2 * sure, 0.2 * sure], 1).log_softmax(1)
    weak = NoisyLabels.symmetric(seen, 2, 0.35).learning()
    em = NoiseEM(WeakDataset(torch.zeros(2000, 1), torch.arange(2000)[:, None], weak))
    sharpened, plain = em.converged(log_probs.__getitem__, em.learned), em.learned
    for _ in range(100):
        plain = em.m_step(log_probs.__getitem__, plain)
    found = [noise.relearned([weak])[0].noise()["rate"] for noise in (sharpened.noise, plain)]  # type: ignore[attr-defined]
    assert sharpened.factor > 1.5
    assert found[0] == pytest.approx(0.2, abs=0.05)
    assert found[1] < 0.1


def learning(seed: int = 0) -> Training:
    x, labels = blobs(size=120)
    data = WeakDataset(x, torch.arange(120)[:, None], NoisyLabels.symmetric(labels, 3, 0.3).learning())
    config = TrainingConfig(epochs=6, batch_size=10, learning_rate=0.01, device="cpu")
    return Training(build("linear", [8], 3, torch.Generator().manual_seed(seed)), data, GLWS(), config, None, World())


class Killed(Observer):
    """Ends training at a step, as a signal that leaves no time to save does."""

    def __init__(self, step: int) -> None:
        self._step = step

    def stepped(self, step: int) -> None:
        if step == self._step:
            raise ConnectionError("killed")


@pytest.mark.parametrize("step", [17, 24, 31])
def test_training_that_was_killed_learns_the_same_noise_bit_for_bit(step: int, tmp_path: Path) -> None:
    whole = learning().run(None, None, Snapshots(None), Observer())
    with RunFolder.create(tmp_path / "run", {}, seed=0) as run, pytest.raises(ConnectionError):
        learning().run(None, None, Snapshots(run, 0.0), Killed(step))
    with RunFolder.resume(tmp_path / "run") as run:
        fitted = learning(seed=5).run(None, None, Snapshots(run, 0.0), Observer())
    assert torch.equal(fitted.noise.counts["NoisyLabels"], whole.noise.counts["NoisyLabels"])
    assert all(torch.equal(*pair) for pair in zip(fitted.model.parameters(), whole.model.parameters(), strict=True))
    assert fitted.history == whole.history


def test_the_groups_that_tell_the_noise_are_not_trained_on() -> None:
    weak = NoisyLabels.symmetric([0, 1] * 50, 2, 0.3).learning()
    clean = Labels.of([0, 1], 2)
    made = NoiseLearning(
        WeakDataset(torch.zeros(102, 1), [torch.arange(100)[:, None], [[100], [101]]], [weak, clean]), 0
    )
    assert [len(groups) for groups in made.train.groups] == [70, 2]
    kept, used = made.data.groups[0].indices, made.train.groups[0].indices
    assert sorted([*kept.tolist(), *used.tolist()]) == list(range(100))


def test_too_few_groups_are_all_trained_on_and_tell_the_noise_themselves() -> None:
    weak = PairComparison.of([0] * 20, flip=0.2).learning()
    made = NoiseLearning(WeakDataset(torch.zeros(40, 1), torch.arange(40).view(20, 2), weak), 0)
    assert (len(made.train), len(made.data), made.from_training) == (20, 20, ("PairComparison",))


def test_noise_that_is_given_stays() -> None:
    x, labels = blobs(size=60)
    weak = NoisyLabels.symmetric(labels, 3, 0.3)
    fitted = trained(x, torch.arange(60)[:, None], weak, epochs=1)
    assert fitted.noise.counts == {}
    assert fitted.noise.relearned([weak])[0] is weak


def test_learned_noise_of_other_weak_labels_is_refused() -> None:
    noise = LearnedNoise({"NoisyLabels": torch.tensor([1.0, 9.0])})
    with pytest.raises(DataError, match=r"the noise of PairComparison is to be learned, but .* \(NoisyLabels\); give"):
        noise.relearned([PairComparison.of([0], flip=0.2).learning()])


def test_noise_is_learned_from_a_start_between_0_and_1() -> None:
    with pytest.raises(DataError, match="a start between 0 and 1, found flip 0"):
        PairComparison.of([0]).learning()
    with pytest.raises(DataError, match="must be a number above 0, found -1"):
        PairComparison.of([0], flip=0.2).learning(-1)
    with pytest.raises(DataError, match="chosen by their report"):
        MultiInstance.of([0, 1], flip=0.2, share=0.5).learning()
    with pytest.raises(DataError, match="Together takes noise of PairComparison as given"):
        Together.of(PairComparison.of([0], flip=0.2).learning())


def test_a_relearned_kind_stays_as_it_is_by_its_own_counts() -> None:
    for weak in (
        NoisyLabels.of([0], TRANSITION),
        NoisyLabels.symmetric([0], 3, 0.2),
        MultiInstance.of([0], flip=[0.1, 0.3]),
        PairComparison.of([0], flip=0.2),
        NoisyCandidates.of([[1, 0]], [[0.9, 0.2], [0.4, 0.7]]),
    ):
        assert weak.relearned(weak.noise_counts()).noise() == pytest.approx(weak.noise())


def test_other_kinds_are_trained_as_before() -> None:
    x, labels = blobs(size=60)
    weak = Proportions.of((labels == 1).view(15, 4).sum(1), num_classes=3)
    made = NoiseLearning(WeakDataset(x, torch.arange(60).view(15, 4), weak), 0)
    assert not made.is_due(10, 10)
    assert len(made.train) == 15


@pytest.mark.slow
def test_digits_are_learned_from_labels_of_which_three_in_five_are_wrong() -> None:
    from sklearn.datasets import load_digits

    x, labels = (torch.as_tensor(values) for values in load_digits(return_X_y=True))
    x, order = x.float() / 16, torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train_on, test_on = order[:1400], order[1400:]
    planted = NoisyLabels.symmetric([], 10, 0.6).transition
    seen = NoisyLabels.from_labels(labels[train_on], planted, torch.Generator().manual_seed(1)).observed
    weak = NoisyLabels.symmetric(seen, 10, NoisyLabels.noise_starts(10)["rate"]).learning()
    fitted = trained(x[train_on], torch.arange(1400)[:, None], weak, epochs=20, learning_rate=0.003)
    assert rates(weak, fitted)["rate"] == pytest.approx(0.6, abs=0.1)
    accuracy = (fitted.predict(x[test_on]).argmax(1) == labels[test_on]).double().mean()
    assert float(accuracy) > 0.75
