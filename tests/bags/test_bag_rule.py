"""What bags are, from predictions for their instances: against enumeration, and recalibrated."""

from itertools import product

import pytest
import torch
from torch import Tensor

from glws.errors import DataError
from glws.evaluation import BagCalibration, bag_scores
from glws.kinds import BagRule, MultiInstance, PresentClasses

LENGTHS = torch.tensor([3, 1, 2])


def predictions(classes: int, seed: int = 0) -> Tensor:
    return torch.randn(3, 3, classes, generator=torch.Generator().manual_seed(seed)).double().mul(2).log_softmax(-1)


def enumerated(log_probs: Tensor, length: int, counted: set[int]) -> tuple[float, float]:
    """P(none) and P(some) as sums over all labelings."""
    sums = [0.0, 0.0]
    for labels in product(range(log_probs.shape[1]), repeat=length):
        weight = float(sum(log_probs[place, label] for place, label in enumerate(labels)).exp())
        sums[not counted.isdisjoint(labels)] += weight
    return sums[0], sums[1]


@pytest.mark.parametrize(("counted", "classes"), [([1], 2), ([0], 2), ([0, 2], 4)])
def test_log_odds_are_those_of_all_labelings(counted: list[int], classes: int) -> None:
    weak, log_probs = MultiInstance.of([1, 0, None], counted, classes), predictions(classes)
    found = weak.bag_rule().log_odds(log_probs, LENGTHS)
    for group, length in enumerate(LENGTHS.tolist()):
        none, some = enumerated(log_probs[group], length, set(counted))
        assert float(found[group, 0]) == pytest.approx(torch.tensor(some / none).log().item(), abs=1e-5)


def test_present_classes_are_one_question_each() -> None:
    weak, log_probs = PresentClasses.of([[1, 0, 1], [0, 0, 1], [1, 1, -1]]), predictions(3, 1)
    found = weak.bag_rule().log_odds(log_probs, LENGTHS).sigmoid()
    for group, number in product(range(3), range(3)):
        some = enumerated(log_probs[group], int(LENGTHS[group]), {number})[1]
        assert float(found[group, number]) == pytest.approx(some, abs=1e-6)
    assert torch.equal(weak.bag_marks(), weak.present)


def test_bags_sampled_by_their_label_have_the_odds_of_such_bags() -> None:
    weak = MultiInstance.of([1, 0, 1, 0], share=0.1)
    log_probs, lengths = predictions(2)[[0, 1, 2, 0]], torch.tensor([3, 1, 2, 3])
    found = weak.bag_rule().log_odds(log_probs, lengths)[:, 0]
    as_one, as_zero = (MultiInstance.of([mark] * 4).infer(log_probs, lengths) for mark in (1, 0))
    taken = [0.5 / (1 - 0.9**n) / (0.5 / 0.9**n) for n in lengths.tolist()]
    wanted = as_one.log_likelihood - as_zero.log_likelihood + torch.tensor(taken).double().log()
    assert torch.allclose(found, wanted.to(found), atol=1e-6)


def test_an_empty_bag_is_negative_and_extreme_predictions_stay_ranked() -> None:
    rule = BagRule(((1,),), 2)
    assert float(rule.log_odds(predictions(2)[:1], torch.tensor([0]))) == -torch.inf
    logits = torch.tensor([[[200.0, 0.0]], [[300.0, 0.0]], [[0.0, 300.0]]]).double()
    assert rule.log_odds(logits.log_softmax(-1), torch.ones(3).long())[:, 0].tolist() == [-200.0, -300.0, 300.0]


def test_a_stored_rule_is_read_again_and_a_damaged_one_is_one_line() -> None:
    rule = BagRule(((1,), (0, 2)), 3, 0.25, (0.4, 0.6))
    assert BagRule.from_dict(rule.as_dict()) == rule
    for damaged in ({}, {**rule.as_dict(), "sets": [[7]]}, {**rule.as_dict(), "reported": [1]}):
        with pytest.raises(DataError, match="the stored rule for bags"):
            BagRule.from_dict(damaged)


def test_recalibration_makes_overconfident_bags_honest() -> None:
    drawn = torch.Generator().manual_seed(0)
    truth = torch.randn(4000, generator=drawn).double()
    marks = (torch.rand(4000, generator=drawn) < truth.sigmoid()).long()
    sure = (20 * truth).sinh()[:, None]
    found = BagCalibration.fitted(sure[:2000], marks[:2000, None])
    assert found is not None
    assert found.slope == pytest.approx(0.05, abs=0.01)  # undoes the factor 20 inside sinh
    before, after = (bag_scores(odds[2000:], marks[2000:, None]) for odds in (sure, found(sure)))
    assert after.calibration_error < 0.05 < 0.2 < before.calibration_error
    assert torch.equal(found(sure).argsort(dim=0), sure.argsort(dim=0))


def test_too_few_bags_or_a_useless_ranking_give_no_calibration() -> None:
    marks = torch.tensor([1] * 7 + [0] * 20)
    assert BagCalibration.fitted(torch.arange(27.0), marks) is None
    wrong = torch.tensor([3.0] * 20 + [-3.0] * 20)
    assert BagCalibration.fitted(wrong, torch.tensor([0] * 20 + [1] * 20)) is None


def test_bags_without_a_label_are_left_out_of_scores() -> None:
    assert bag_scores(torch.zeros(3, 1), torch.full((3, 1), -1)) is None
    found = bag_scores(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([[1], [-1], [0]]))
    assert found is not None
    assert found.accuracy == 1.0
