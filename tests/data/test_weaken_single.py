"""Candidate sets, complementary labels, few labels, wrong labels: the rules and their exact numbers."""

import pytest
import torch

from glws.data.weaken import complementary_labels, noisy_labels, partial_labels, semi_supervised
from glws.errors import DataError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn_labels(number: int = 50_000, num_classes: int = 10) -> torch.Tensor:
    return torch.randint(num_classes, (number,), generator=seeded(99))


@pytest.mark.parametrize(
    ("ratio", "singletons", "full_sets"), [(0.1, 0.387420, 1e-9), (0.5, 0.001953, 0.001953), (0.7, 0.00002, 0.040354)]
)
def test_partial_labels_have_the_sizes_of_the_specification(ratio: float, singletons: float, full_sets: float) -> None:
    found = partial_labels(drawn_labels(), 10, ratio, generator=seeded()).statistics
    spread = 4 / 50_000**0.5  # four standard deviations of a share are at most 2 / sqrt(n)
    assert found["mean_candidates"] == pytest.approx(1 + 9 * ratio, abs=2 * spread)
    assert found["expected_candidates"] == pytest.approx(1 + 9 * ratio)
    assert found["singletons"] == pytest.approx(singletons, abs=spread)
    assert found["full_sets"] == pytest.approx(full_sets, abs=spread)


def test_true_class_is_always_a_candidate_and_wrong_ones_are_equally_likely() -> None:
    labels = drawn_labels()
    mask = partial_labels(labels, 10, 0.3, generator=seeded()).weak.candidates
    assert mask[torch.arange(len(labels)), labels].all()
    shift = (torch.arange(10) + labels[:, None]) % 10
    assert mask.gather(1, shift)[:, 1:].double().mean(0).sub(0.3).abs().max() < 0.01


def test_no_plain_label_is_left_with_two_candidates_at_least() -> None:
    labels = drawn_labels(5000)
    few, more = (partial_labels(labels, 10, 0.1, min_candidates=n, generator=seeded()) for n in (1, 2))
    assert int(more.weak.candidates.sum(1).min()) == 2
    grown = (more.weak.candidates & ~few.weak.candidates).sum(1)
    assert torch.equal(grown == 1, few.weak.candidates.sum(1) == 1)
    added = (more.weak.candidates & ~few.weak.candidates).double().sum(0)
    assert added.min() > 0.8 * added.mean()


def test_full_sets_can_be_drawn_again() -> None:
    record = partial_labels(drawn_labels(5000, 3), 3, 0.5, allow_full=False, generator=seeded())
    sizes = record.weak.candidates.sum(1)
    assert record.statistics["full_sets"] == 0
    assert (sizes == 1).double().mean() == pytest.approx(1 / 3, abs=0.03)  # each of the 2^2 - 1 sets alike


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"ratio": 1.5}, "ratio must be within 0 and 1"),
        ({"ratio": 0.5, "min_candidates": 4}, "min_candidates must be within 1..3, found 4"),
        ({"ratio": 0.5, "min_candidates": 3, "allow_full": False}, "within 1..2, found 3"),
        ({"ratio": 1.0, "allow_full": False}, "every set is the set of all classes"),
    ],
)
def test_impossible_sets_are_refused(keywords: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        partial_labels([0, 1, 2], 3, generator=seeded(), **keywords)


def test_complementary_label_is_a_wrong_class_and_any_of_them() -> None:
    labels = drawn_labels()
    candidates = complementary_labels(labels, 10, generator=seeded()).weak.candidates
    assert (candidates.sum(1) == 9).all()
    assert candidates[torch.arange(len(labels)), labels].all()
    shift = ((~candidates).long().argmax(1) - labels) % 10
    assert torch.bincount(shift, minlength=10)[1:].double().div(len(labels)).sub(1 / 9).abs().max() < 0.01
    with pytest.raises(DataError, match="num_classes must be at least 2"):
        complementary_labels([0], 1, generator=seeded())


@pytest.mark.parametrize("number", [0, 7, 40])
def test_exactly_as_many_labels_are_kept(number: int) -> None:
    labels = drawn_labels(500)
    for balanced in (True, False):
        record = semi_supervised(labels, 10, number, balanced=balanced, generator=seeded())
        known = record.weak.labels >= 0
        assert int(known.sum()) == number == record.statistics["labeled"]
        assert torch.equal(record.weak.labels[known], labels[known])
    balanced_record = semi_supervised(labels, 10, number, generator=seeded())
    assert balanced_record.statistics["most_of_a_class"] - balanced_record.statistics["least_of_a_class"] <= 1


def test_missing_labels_of_a_class_are_named() -> None:
    with pytest.raises(DataError, match="2 instances of class 1 are needed without replacement, but there are only 1"):
        semi_supervised([0, 0, 0, 1], 2, 4, generator=seeded())
    with pytest.raises(DataError, match="5 labels are to be kept, but there are only 4 instances"):
        semi_supervised([0, 0, 0, 1], 2, 5, generator=seeded())


def test_noise_has_its_rate_and_its_matrix() -> None:
    labels = drawn_labels(20_000, 3)
    record = noisy_labels(labels, 3, 0.4, generator=seeded())
    assert record.statistics["wrong"] == pytest.approx(0.4, abs=0.015)
    assert record.statistics["expected_wrong"] == pytest.approx(0.4)
    matrix = torch.tensor([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7]], dtype=torch.float64)
    observed = noisy_labels(labels, 3, matrix, generator=seeded()).weak.observed
    for row in range(3):
        shares = torch.bincount(observed[labels == row], minlength=3).double() / (labels == row).sum()
        assert (shares - matrix[row]).abs().max() < 0.03
    with pytest.raises(DataError, match="a matrix for 3 classes, but there are 4"):
        noisy_labels(labels, 4, matrix, generator=seeded())


def test_noise_that_training_is_to_learn_is_not_given_to_it() -> None:
    labels = drawn_labels(500, 3)
    given, learned = (noisy_labels(labels, 3, 0.4, generator=seeded(), learn=learn).weak for learn in (False, True))
    assert torch.equal(given.observed, learned.observed)
    assert learned.noise() == {"rate": pytest.approx(0.7 * 2 / 3)}
    assert (given.learn, learned.learn) == (None, 4.0)
    matrix = noisy_labels(labels, 3, torch.eye(3) * 0.7 + 0.1, generator=seeded(), learn=True).weak
    assert len(matrix.noise()) == 6


def test_same_seed_same_sets() -> None:
    labels = drawn_labels(100)
    first, again, other = (partial_labels(labels, 10, 0.5, generator=seeded(seed)) for seed in (3, 3, 4))
    assert torch.equal(first.weak.candidates, again.weak.candidates)
    assert not torch.equal(first.weak.candidates, other.weak.candidates)
