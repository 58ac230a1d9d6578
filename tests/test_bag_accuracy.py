"""Accuracies that only bags tell, against those that the true labels of their instances tell."""

import pytest
import torch
from torch import Tensor

from glws.data import WeakDataset
from glws.errors import DataError
from glws.evaluation import BagAccuracy, accuracy_from_counts, accuracy_from_presence
from glws.kinds import ClassCounts, MultiInstance, PresentClasses, Proportions
from glws.training import Evaluation

CONFUSION = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.02, 0.08, 0.9]])
SHARES = torch.tensor([0.5, 0.3, 0.2])


def bags(number: int, size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """True and predicted classes, [bags, instances]."""
    drawn = torch.Generator().manual_seed(seed)
    true = torch.multinomial(SHARES, number * size, replacement=True, generator=drawn)
    predicted = torch.multinomial(CONFUSION[true], 1, generator=drawn)[:, 0]
    return true.view(number, size), predicted.view(number, size)


def counted(labels: Tensor, num_classes: int = 3) -> Tensor:
    return torch.nn.functional.one_hot(labels, num_classes).sum(1)


def recalls(true: Tensor, predicted: Tensor) -> Tensor:
    return torch.stack([(predicted[true == k] == k).double().mean() for k in range(3)])


def test_in_bags_of_one_counts_tell_the_accuracy_itself() -> None:
    true, predicted = bags(300, 1)
    found = accuracy_from_counts(counted(predicted), counted(true))
    assert found.accuracy == pytest.approx(float((true == predicted).double().mean()))
    assert found.balanced_accuracy == pytest.approx(float(recalls(true, predicted).mean()))


@pytest.mark.parametrize("size", [2, 10, 20])
def test_counts_tell_the_accuracy_to_within_their_error(size: int) -> None:
    far = []
    for seed in range(20):
        true, predicted = bags(400, size, seed)
        found = accuracy_from_counts(counted(predicted), counted(true))
        far.append((found.accuracy - float((true == predicted).double().mean())) / found.standard_error)
    spread = torch.tensor(far)
    assert abs(float(spread.mean())) < 0.6
    assert 0.4 < float(spread.std()) < 1.6


@pytest.mark.parametrize("size", [2, 3, 5])
def test_presence_tells_the_accuracy_to_within_its_error(size: int) -> None:
    far = []
    for seed in range(20):
        true, predicted = bags(1000, size, seed)
        found = accuracy_from_presence(counted(predicted), counted(true) > 0)
        far.append((found.accuracy - float((true == predicted).double().mean())) / found.standard_error)
        assert found.balanced_accuracy is None
    spread = torch.tensor(far)
    assert abs(float(spread.mean())) < 0.7
    assert 0.4 < float(spread.std()) < 1.6


def test_right_predictions_are_known_to_be_right() -> None:
    true, _ = bags(100, 5)
    for found in (
        accuracy_from_counts(counted(true), counted(true)),
        accuracy_from_presence(counted(true), counted(true) > 0),
    ):
        assert found.accuracy == pytest.approx(1.0)
        assert found.standard_error == pytest.approx(0.0, abs=1e-9)


def test_a_class_that_never_occurs_is_left_out_of_the_balance() -> None:
    true, predicted = bags(200, 4)
    wider = [torch.cat([counted(each), torch.zeros(200, 1, dtype=torch.int64)], 1) for each in (predicted, true)]
    assert accuracy_from_counts(*wider).balanced_accuracy == pytest.approx(
        accuracy_from_counts(counted(predicted), counted(true)).balanced_accuracy
    )


def test_what_cannot_be_told_is_one_line() -> None:
    true, predicted = bags(30, 4)
    with pytest.raises(DataError, match="class 1 is in every bag"):
        accuracy_from_presence(counted(predicted), torch.tensor([[False, True, False]]).expand(30, 3))
    with pytest.raises(DataError, match="at least 30 of them for 3 classes, found 5"):
        accuracy_from_counts(counted(predicted)[:5], counted(true)[:5])
    with pytest.raises(DataError, match="do not fit"):
        accuracy_from_counts(counted(predicted)[:9], counted(true))


def held_out(weak: object, predicted: Tensor, num_classes: int) -> BagAccuracy | None:
    """Of bags of three and two instances in turn, the classes of which are what they are predicted to be by."""
    lengths = torch.tensor([3, 2]).repeat(len(predicted) // 2)
    members = torch.arange(predicted.numel()).view_as(predicted)
    groups = [row[:length].tolist() for row, length in zip(members, lengths.tolist(), strict=True)]
    data = WeakDataset(predicted.flatten()[:, None].float(), groups, weak)  # type: ignore[arg-type]

    def predict(seen: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(seen[:, 0].long(), num_classes).double()

    return Evaluation.of(predict, held_out=data).accuracy_estimate


def test_kinds_that_tell_it_and_kinds_that_do_not() -> None:
    true, predicted = bags(400, 3, 5)
    lengths = torch.tensor([3, 2]).repeat(200)
    real = torch.arange(3) < lengths[:, None]
    accuracy = float((true == predicted)[real].double().mean())
    for weak in (
        ClassCounts.from_labels(true, lengths, num_classes=3),
        PresentClasses.from_labels(true, lengths, num_classes=3),
    ):
        found = held_out(weak, predicted, 3)
        assert found is not None
        assert abs(found.accuracy - accuracy) < 4 * found.standard_error
    two, seen = (true > 0).long(), (predicted > 0).long()
    for counted_class in (0, 1):
        found = held_out(Proportions.from_labels(two, lengths, counted=counted_class), seen, 2)
        assert found is not None
        assert abs(found.accuracy - float((two == seen)[real].double().mean())) < 4 * found.standard_error
    assert held_out(Proportions.around(torch.ones(400), 1), seen, 2) is None
    assert held_out(MultiInstance.from_labels(two, lengths), seen, 2) is None
