"""The doctor finds what is planted, and nothing in healthy data."""

import torch

from glws.data.dataset import WeakDataset
from glws.data.doctor import CHECKS, Finding, _parts, approximate_answers, examine, names_are_known
from glws.supervision import (
    ClassCounts,
    Constraints,
    Labels,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    Proportions,
    Unlabeled,
)

BINARY = ["benign", "malignant"]


def found(data: WeakDataset, classes: list[str]) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(data, classes)}


def test_healthy_data_has_no_findings() -> None:
    groups = [[[0, 1, 2], [3, 4, 5]], [[0], [3]]]
    data = WeakDataset(torch.zeros(6, 1), groups, [Proportions.of([1, 2]), Labels.of([1, 0], 2)])
    assert examine(data, BINARY) == []


def test_infeasible_groups_are_named() -> None:
    data = WeakDataset(torch.zeros(5, 1), [[0, 1], [2, 3, 4]], Proportions.of([1, 5]), check=False)
    finding = found(data, BINARY)["infeasible groups"]
    assert finding.level == "error"
    assert finding.groups == (1,)
    assert "group 1: exactly 5 of class malignant cannot hold in a group of 3 instances" in finding.message


def test_contradictions_on_shared_instances_are_found_through_several_groups() -> None:
    """0 and 1 are the same, 1 and 2 are the same, yet 0 is malignant and 2 is not."""
    weak = [PairSimilarity.of([1, 1], 2), Labels.of([1, 0], 2)]
    data = WeakDataset(torch.zeros(3, 1), [[[0, 1], [1, 2]], [[0], [2]]], weak)
    finding = found(data, BINARY)["contradictions"]
    assert finding.level == "error"
    assert "cannot hold together with what other groups say about the same instances" in finding.message


def test_counts_that_labels_rule_out_are_contradictions() -> None:
    weak = [Proportions.of([3]), Labels.of([0], 2)]
    assert "contradictions" in found(WeakDataset(torch.zeros(3, 1), [[[0, 1, 2]], [[1]]], weak), BINARY)


def test_empty_groups_and_unused_instances_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(9, 1), [[0, 1], [], [2]], Proportions.of([1, 0, 1]))
    findings = found(data, BINARY)
    assert findings["empty groups"].groups == (1,)
    assert "nothing is known about 6 instances of 9" in findings["unused instances"].message
    assert "1 group of one instance" in findings["single instances"].message


def test_classes_without_room_are_mentioned() -> None:
    masks = [[1, 1, 0], [0, 1, 0]]
    finding = found(WeakDataset(torch.zeros(2, 1), [[0], [1]], PartialLabels.of(masks)), ["a", "b", "c"])
    assert "no weak label leaves room for class 'c'" in finding["classes never possible"].message


def test_classes_that_nothing_speaks_for_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(3, 1), [[0], [1], [2]], Labels.of([0, 1, -1], 3))
    findings = found(data, ["a", "b", "c"])
    assert "no weak label ever makes class 'c' more likely" in findings["classes never mentioned"].message
    pairs = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([1], 3))
    assert "classes never mentioned" not in found(pairs, ["a", "b", "c"])


def test_a_prior_that_contradicts_the_counts_is_mentioned() -> None:
    groups = [[list(range(10))], [list(range(10, 20))]]
    data = WeakDataset(torch.zeros(20, 1), groups, [Proportions.of([1]), Unlabeled.of([0.7])])
    finding = found(data, BINARY)["contradicting rates"]
    assert "Proportions implies 90% of class 'benign'" in finding.message
    assert "Unlabeled 30%" in finding.message
    agreeing = WeakDataset(torch.zeros(20, 1), groups, [Proportions.of([7]), Unlabeled.of([0.7])])
    assert "contradicting rates" not in found(agreeing, BINARY)


def test_labels_known_only_up_to_their_names_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of([1, 0], 2))
    assert "'benign' and 'malignant' can be exchanged" in found(data, BINARY)["exchangeable classes"].message
    settled = [PairSimilarity.of([1, 0], 2), Labels.of([1], 2)]
    with_one_label = WeakDataset(torch.zeros(4, 1), [[[0, 1], [2, 3]], [[0]]], settled)
    assert "exchangeable classes" not in found(with_one_label, BINARY)


def test_names_are_known_when_some_group_tells_all_classes_apart_however_late() -> None:
    def last(sentence: str) -> WeakDataset:
        sentences = [*["y[0] == y[1]"] * 49, sentence]
        return WeakDataset(torch.zeros(2, 1), [[0, 1]] * 50, Constraints.of(sentences, 3), check=False)

    assert not names_are_known(last("y[0] != y[1]"))
    assert not names_are_known(last("y[0] == 2"))
    assert names_are_known(last("y[0] == 2 and y[1] == 0"))


def test_classes_that_can_all_be_exchanged_are_mentioned_at_once() -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], Constraints.of(["count(3) == 1"], 4), check=False)
    assert "'0', '1' and '2' can be exchanged" in found(data, list("0123"))["exchangeable classes"].message
    pairs = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([True], num_classes=5))
    assert [finding.check for finding in examine(pairs, list("abcde"))].count("exchangeable classes") == 1


def test_groups_are_asked_about_in_pieces_that_fit_however_long_one_of_them_is() -> None:
    size = 800_000
    groups = [torch.tensor([0, 1])] * 3000 + [torch.arange(size)] * 2
    data = WeakDataset(torch.zeros(size, 1), groups, Proportions.of([1] * 3002), check=False)
    (part,) = _parts(data)
    assert [len(piece.groups) for piece in part.pieces()] == [20, 40, 80, 160, 320, 640, 1280, 460, 1, 1]
    assert part.some_from(2999, 2).group_names == [2999]
    assert names_are_known(data)  # of pairs one is positive, of the last all but one are not


def test_a_constant_classifier_that_satisfies_everything_is_mentioned() -> None:
    pairs = [[0, 1], [2, 3]]
    literal = WeakDataset(torch.zeros(4, 1), pairs, PairComparison.of([0, 0], 2, ties="paper"))
    finding = found(literal, BINARY)["constant classifier"]
    assert "predicting 'benign' or 'malignant' everywhere" in finding.message
    ours = WeakDataset(torch.zeros(4, 1), pairs, PairComparison.of([0, 0], 2))
    assert "constant classifier" not in found(ours, BINARY)


def test_errors_come_before_warnings_and_notes() -> None:
    data = WeakDataset(torch.zeros(9, 1), [[0, 1], [], [2]], Proportions.of([5, 0, 1]), check=False)
    levels = [finding.level for finding in examine(data, BINARY)]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert levels[0] == "error"


def test_groups_too_large_for_exact_posteriors_are_mentioned() -> None:
    groups = [list(range(150)), list(range(9))]
    counts = ClassCounts.of([[30, 30, 30, 30, 30], [3, 2, 2, 1, 1]])
    data = WeakDataset(torch.zeros(150, 1), groups, counts)
    assert approximate_answers in CHECKS
    (finding,) = approximate_answers(_parts(data), 150, "abcde")
    assert (finding.level, finding.groups) == ("note", (0,))
    assert finding.message.startswith(
        "ClassCounts: the posteriors of large groups are approximate: those of group 0 may be off by 0.00"
    )
    assert finding.message.endswith("(estimate, at random predictions); those of smaller groups are exact")
    small = WeakDataset(torch.zeros(150, 1), groups[1:], counts[[1]])
    assert "approximate posteriors" not in found(small, list("abcde"))
