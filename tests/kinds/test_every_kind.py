"""Every kind, on data that is alike nowhere, against its own definition, enumeration and the trellis."""

import pytest
import torch
from torch import Tensor

from glws.inference import infer_two
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    ConfidenceDifference,
    Constraints,
    Labels,
    LearnsNoise,
    MultiInstance,
    NoisyCandidates,
    NoisyLabels,
    NoisyProportions,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PositiveConfidence,
    PositiveUnlabeled,
    PresentClasses,
    Proportions,
    SimilarDissimilarUnlabeled,
    SimilarityConfidence,
    SoftLabels,
    Sums,
    Together,
    Triplets,
    Unlabeled,
    UnlabeledClasses,
    UnlabeledUnlabeled,
    Votes,
)
from glws.testing import CHECKS, Case, check_supervision


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


TRANSITION = [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.0, 0.7]]
MASKS = [[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]]
MARKS = [[1, 0, 1], [0, 1, 0], [1, 1, 1], [-1, 0, 1], [0, -1, 0], [-1, -1, -1]]

KINDS: dict[str, tuple[AbstractSupervision, list[int]]] = {
    "labels": (Labels.of([2, -1, 0], 3), [1, 1, 1]),
    "partial labels": (PartialLabels.of(MASKS), [1] * 4),
    "partial labels with misses": (PartialLabels.of(MASKS, miss_rate=0.15), [1] * 4),
    "complementary labels": (PartialLabels.complementary([0, 2, 1], 3), [1] * 3),
    "noisy candidates": (NoisyCandidates.of(MASKS, numbers(4, 4)), [1] * 4),
    "noisy labels": (NoisyLabels.of([0, 1, 2], TRANSITION), [1] * 3),
    "soft labels": (SoftLabels.of(numbers(3, 4)), [1] * 3),
    "soft labels with a prior": (SoftLabels.of([[0.0, 0.4, 0.6]], prior=[0.5, 0.3, 0.2]), [1]),
    "positive confidence": (PositiveConfidence.of([0.9, 0.3, 1.0]), [1] * 3),
    "comparison": (PairComparison.of([0, 1, 0]), [2] * 3),
    "comparison, as in the paper": (PairComparison.of([0, 1], num_classes=3, ties="paper"), [2] * 2),
    "comparison of four classes, sometimes wrong": (PairComparison.of([1, 0], num_classes=4, flip=0.1), [2] * 2),
    "similarity": (PairSimilarity.of([True, False], num_classes=2), [2] * 2),
    "similarity of four classes": (PairSimilarity.of([True, False], num_classes=4), [2] * 2),
    "similarity, sometimes wrong": (PairSimilarity.of([1, 0], num_classes=3, flip=[0.1, 0.3]), [2] * 2),
    "similarity confidence": (SimilarityConfidence.of([0.3, 0.85, 0.0]), [2] * 3),
    "similarity confidence of three classes": (SimilarityConfidence.of([0.3, 1.0], 3, prior=0.36), [2] * 2),
    "confidence difference": (ConfidenceDifference.of([-0.6, 0.2, 0.0, 1.0, -1.0]), [2] * 5),
    "confidence difference, as in the code": (ConfidenceDifference.of([-0.6, 0.2], "code"), [2] * 2),
    "triplets": (Triplets.of([1, 2], num_classes=3), [3] * 2),
    "triplets, sometimes wrong": (Triplets.of([2, 1, 1], num_classes=2, flip=0.2), [3] * 3),
    "multi-instance": (MultiInstance.of([1, 0, 1, -1, 0]), [3, 4, 1, 2, 0]),
    "multi-instance of four classes": (MultiInstance.of([1, 0, 1], counted=[1, 3], num_classes=4), [3, 2, 1]),
    "multi-instance, sometimes wrong": (MultiInstance.of([1, 0, -1, 1], flip=[0.1, 0.25]), [3, 4, 2, 0]),
    "present classes": (PresentClasses.of(MARKS[:3]), [3, 1, 4]),
    "present classes, some not known": (PresentClasses.of(MARKS), [3, 1, 4, 2, 3, 2]),
    "present classes, sometimes wrong": (PresentClasses.of(MARKS, flip=[0.05, 0.2]), [3, 1, 2, 2, 3, 1]),
    "counts": (Proportions.of([2, 0, 3, 1]), [4, 3, 3, 2]),
    "counts of some of four classes": (Proportions.of([2, 1], counted=[0, 3], num_classes=4), [3, 1]),
    "ranges": (Proportions.between([1, 0, 2], [2, 0, 9], counted=2, num_classes=3), [4, 2, 3]),
    "counts within one": (Proportions.around([2, 0], within=1), [4, 3]),
    "noisy counts": (NoisyProportions.of([2, -1, 6], scale=0.8), [4, 2, 3]),
    "noisy totals": (NoisyProportions.of([1.6, -0.3], 1.5, "laplace", counted=[0, 1], num_classes=3), [3, 2]),
    "noisy counts of a privacy system": (NoisyProportions.of([2.4, -1.7], kernel="gaussian", scale=1.2), [4, 2]),
    "clipped counts": (NoisyProportions.of([0, 2.5, 4], epsilon=0.7, kernel="laplace", clip=[0, 4]), [4, 2, 3]),
    "whole counts, clipped": (NoisyProportions.of([0, 3, 1], epsilon=1.1, clip=[0, 3]), [4, 2, 3]),
    "rounded and clipped counts": (
        NoisyProportions.of([0, 2, 7], scale=0.9, kernel="gaussian", rounded=True, clip=[0, None]),
        [4, 2, 3],
    ),
    "class counts": (ClassCounts.of([[1, 0, 2], [0, 4, 0], [1, 1, 0]]), [3, 4, 2]),
    "class counts of four": (ClassCounts.of([[1, 1, 0, 1]]).solved_by("exact"), [3]),
    "unlabeled, hard": (Unlabeled.of([0.4, 0.7, 0.0], "hard"), [4, 3, 2]),
    "unlabeled, rounded down": (Unlabeled.of([0.4, 0.7, 1.0], "floor"), [4, 3, 2]),
    "unlabeled, rounded by chance": (
        Unlabeled.of([0.4, 0.7, 0.2], "stochastic", generator=torch.Generator().manual_seed(1)),
        [4, 3, 2],
    ),
    "unlabeled, binomial": (Unlabeled.of([0.4, 0.7, 0.0], "binomial", counted=[0, 2], num_classes=3), [4, 3, 2]),
    "unlabeled, hypergeometric": (Unlabeled.hypergeometric([0.4, 0.5], [10, 4]), [4, 3]),
    "unlabeled, of a data set": (Unlabeled.dataset([0.4, 0.5], [10, 20], [2.5, 9.0], [1.2, 3.0]), [4, 3]),
    "positives of a single training set": (PositiveUnlabeled.of([1, 0, 0, 1, 0], 0.55), [1] * 5),
    "positives, all of them labeled": (PositiveUnlabeled.of([1, 0, 0, 0], 0.25), [1] * 4),
    "positives of a case-control sample": (PositiveUnlabeled.of([1, 0, 0, 1], 0.3, "case_control"), [1] * 4),
    "two unlabeled sets": (UnlabeledUnlabeled.of([0, 1, 0, 1, 1], [0.8, 0.3]), [1] * 5),
    "pairs and unlabeled rows": (SimilarDissimilarUnlabeled.of([1, -1, 0, -1], 0.3), [2, 1, 2, 1]),
    "sums": (Sums.of([3, 0, 4, 0], values=3), [3, 2, 2, 0]),
    "sums of prices": (Sums.between([0.5, -1, 2.25], [3.5, 4, 9], [0.5, 2, 2.25, -0.5]), [3, 2, 4]),
    "noisy sums": (Sums.of([3.4, -1, 2], [1, 0, 2], scale=0.7), [4, 2, 1]),
    "constraints": (Constraints.of(["count(1) == 1", "y[0] != y[-1]"], 3), [3, 2]),
    "constraints with known labels": (
        Constraints.of(
            ["sum(y) == 3", "y[0] + y[2] == price[1]", "alldifferent(y)", "sum(y[::2]) == 2 * length - 5"],
            3,
            known=[{1: 1}, {2: 1, 0: 0}, {}, {3: 2, 0: 1}],
            values={"price": [1, 2, 4]},
        ),
        [3, 1, 2, 2],
    ),
    "votes": (Votes.of([[2, 0, -1], [-1, -1, -1], [1, 1, 0]], 3, [0.8, 0.3, 0.6]), [1] * 3),
    "votes with learned matrices": (Votes.of(numbers(20, 5) * 3 // 1, 3).learned("matrix")[:3], [1] * 3),
    "votes of items of different difficulty": (
        Votes.of(numbers(20, 5) * 3 // 1, 3).learned("difficulty")[:2],
        [1] * 2,
    ),
    "votes and informative abstentions": (
        Votes.of(numbers(20, 5) * 4 // 1 - 1, 3).learned("per_class", abstentions="informative")[:3],
        [1] * 3,
    ),
    "votes with scores": (
        Votes.of([[2, 0], [-1, 1]], 3).beside(Votes.of_scores([[[0, 1, 1]], [[0.1, 0.6, 0.3]]])),
        [1] * 2,
    ),
    "two tables together": (
        Together.of(
            PairSimilarity.of([1, 0], flip=0.1), PairComparison.of([0, 1]), ConfidenceDifference.of([0.3, -0.2])
        ),
        [2, 2],
    ),
    "labels and candidates together": (Together.of(Labels.of([-1, 1], 4), PartialLabels.of(MASKS[:2])), [1, 1]),
    "bags with a count and a text together": (
        Together.of(
            Proportions.between([1, 0, 1], [2, 1, 1], counted=2, num_classes=3),
            Constraints.of(["any(0)", "y[0] == y[1]", "y[0] == 2"], 3),
            MultiInstance.of([1, 1, 0], counted=1, num_classes=3, flip=0.2),
        ),
        [4, 3, 3],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_kind_passes_every_check(name: str) -> None:
    weak, lengths = KINDS[name]
    assert len(check_supervision(weak, lengths, seed=len(name))) == len(CHECKS)


PROJECTIONS: dict[str, tuple[AbstractSupervision, list[int]]] = {
    "soft targets": (SoftLabels.of(numbers(3, 4), reading="target"), [1] * 3),
    "positive confidence as a target": (PositiveConfidence.of([0.9, 0.3], reading="target"), [1] * 2),
    "similarity confidence as a target": (SimilarityConfidence.of([0.3, 0.9], 3, reading="target"), [2] * 2),
    "unlabeled, expected": (Unlabeled.of([0.4, 0.77, 0.1, 0.5]), [4, 3, 2, 1]),
    "unlabeled, expected, of four classes": (Unlabeled.of([0.4, 0.7], counted=[0, 3], num_classes=4), [4, 3]),
    "unlabeled, expected of every class": (
        UnlabeledClasses.of([[0.5, 0.3, 0.2], [0.0, 0.25, 0.75], [0.1, 0.1, 0.8]]),
        [4, 3, 2],
    ),
    "unlabeled, expected none and all": (Unlabeled.of([0.0, 1.0, 0.25]), [4, 3, 2]),
}

# A projection is no weight on labelings: nothing to compare with labelings one by one, and no automaton. That a certain
# prediction stays or is impossible does not hold either: its share need not be the one that is wanted.
NEEDS_LABELINGS = {
    "check_automaton_has_the_weights_of_the_definition",
    "check_answer_is_the_sum_over_labelings",
    "check_narrowed_classes_are_those_of_the_definition",
    "check_engines_agree",
    "check_certain_predictions_stay",
    "check_mode_and_samples_are_possible",
    "check_entropy_is_that_of_the_labelings",
}


# There its search goes to its last step; one try in `test_expected_shares_of_extreme_predictions_are_numbers` does.
SLOW_AT_EXTREMES = {"unlabeled, expected of every class"}


def projection_case(weak: AbstractSupervision, lengths: list[int]) -> Case:
    shape = (len(weak), max(lengths), weak.num_classes)
    return Case(weak, lengths, (4 * numbers(*shape, seed=3)).log_softmax(-1), seed=3)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_projection_passes_the_checks_that_apply(name: str) -> None:
    case = projection_case(*PROJECTIONS[name])
    applying = [check for check in CHECKS if check.__name__ not in NEEDS_LABELINGS]
    assert len(applying) == len(CHECKS) - len(NEEDS_LABELINGS)
    for check in applying:
        if name not in SLOW_AT_EXTREMES or check.__name__ != "check_extreme_predictions_give_no_nan":
            check(case)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_projection_says_that_it_has_no_automaton(name: str) -> None:
    weak, lengths = PROJECTIONS[name]
    with pytest.raises(ValueError, match="projection of the predictions"):
        weak.automaton(0, lengths[0])
    with pytest.raises(ValueError, match="projection of the predictions"):
        weak.log_weight(0, [0] * lengths[0])


@pytest.mark.parametrize("name", KINDS)
def test_groups_of_other_sizes_are_impossible_where_there_is_one_size(name: str) -> None:
    weak, lengths = KINDS[name]
    if weak.size is None:
        return
    wrong = lengths[0] + 1
    answer = weak.infer(torch.zeros(len(weak), wrong, weak.num_classes), [wrong] * len(weak))
    assert answer.num_impossible == len(weak)
    with pytest.raises(ValueError, match=f"group 0: .* cannot hold in a group of {wrong} instances"):
        weak.check([wrong] * len(weak), weak.num_classes)


@pytest.mark.parametrize("name", [*KINDS, *PROJECTIONS])
def test_no_groups_at_all_are_fine(name: str) -> None:
    weak, lengths = {**KINDS, **PROJECTIONS}[name]
    nobody = weak[[]]
    answer = nobody.infer(torch.zeros(0, max(lengths), weak.num_classes), [])
    nobody.check([], weak.num_classes)
    assert answer.marginals.shape[0] == 0
    if isinstance(nobody, LearnsNoise) and getattr(nobody, "clip", None) is None:
        assert len(nobody.m_step(answer)) == 0


@pytest.mark.parametrize("name", KINDS)
def test_quick_rule_agrees_with_inference(name: str) -> None:
    weak, lengths = KINDS[name]
    for shift in range(-4, 5):
        sizes = torch.tensor([max(length + shift, 0) for length in lengths])
        if bool((sizes > 5).any()):
            continue
        even = torch.zeros(len(weak), int(sizes.max()), weak.num_classes, dtype=torch.float64)
        impossible = weak.infer(even, sizes).impossible
        assert torch.equal(weak.possible(sizes), ~impossible), f"lengths {sizes.tolist()}"


@pytest.mark.parametrize("name", [*KINDS, *PROJECTIONS])
def test_two_views_answered_together_are_those_answered_one_by_one(name: str) -> None:
    weak, lengths = {**KINDS, **PROJECTIONS}[name]
    shape = (len(weak), max(lengths), weak.num_classes)
    views = [(3 * numbers(*shape, seed=seed)).log_softmax(-1).requires_grad_() for seed in (5, 6)]
    together = infer_two(views[0], views[1], weak, lengths)
    apart = [weak.infer(view, lengths) for view in views]
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one.log_likelihood, other.log_likelihood)
        torch.testing.assert_close(one.marginals, other.marginals)
    (gradient,) = torch.autograd.grad(together[0].log_likelihood[~together[0].impossible].sum(), views[0])
    if together[0].log_selection is None:
        torch.testing.assert_close(gradient, together[0].marginals)
    assert not together[1].log_likelihood.requires_grad
