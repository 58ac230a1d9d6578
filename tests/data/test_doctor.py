"""The doctor finds what is planted, and nothing in healthy data."""

import torch

from glws.data.dataset import WeakDataset
from glws.data._distinct import Distinct
from glws.data.doctor import Finding, examine, names_are_known
from glws.supervision import Constraints, Labels, PairComparison, PairSimilarity, PartialLabels, Proportions, Unlabeled

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
    assert "exactly 5 of class malignant in a group of 3 instances (group 1)" in finding.message


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
    assert "6 instances of 9 in no group: nothing is known about them" in findings["unused instances"].message
    assert "1 group of one instance" in findings["single instances"].message


def test_classes_without_room_are_mentioned() -> None:
    masks = [[1, 1, 0], [0, 1, 0]]
    finding = found(WeakDataset(torch.zeros(2, 1), [[0], [1]], PartialLabels.of(masks)), ["a", "b", "c"])
    assert "no instance can be of class 'c': the weak labels exclude it everywhere" in finding["classes never possible"].message


def test_classes_that_nothing_speaks_for_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(3, 1), [[0], [1], [2]], Labels.of([0, 1, -1], 3))
    findings = found(data, ["a", "b", "c"])
    assert "no weak label makes class 'c' more likely anywhere" in findings["classes never mentioned"].message
    pairs = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([1], 3))
    assert "classes never mentioned" not in found(pairs, ["a", "b", "c"])


def test_a_prior_that_contradicts_the_counts_is_mentioned() -> None:
    groups = [[list(range(10))], [list(range(10, 20))]]
    data = WeakDataset(torch.zeros(20, 1), groups, [Proportions.of([1]), Unlabeled.of([0.7])])
    finding = found(data, BINARY)["contradicting rates"]
    assert "Proportions states 90% of class 'benign'" in finding.message
    assert "Unlabeled 30%" in finding.message
    agreeing = WeakDataset(torch.zeros(20, 1), groups, [Proportions.of([7]), Unlabeled.of([0.7])])
    assert "contradicting rates" not in found(agreeing, BINARY)


def test_labels_known_only_up_to_their_names_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], PairSimilarity.of([1, 0], 2))
    assert "do not identify which of the classes 'benign' and 'malignant' is which" in found(data, BINARY)["exchangeable classes"].message
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
    assert "which of the classes '0', '1' and '2' is which" in found(data, list("0123"))["exchangeable classes"].message
    pairs = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairSimilarity.of([True], num_classes=5))
    assert [finding.check for finding in examine(pairs, list("abcde"))].count("exchangeable classes") == 1


def test_groups_are_asked_about_in_pieces_that_fit_however_long_one_of_them_is() -> None:
    sizes = torch.tensor([*range(2, 1002), 800_000, 800_000])
    data = Distinct.of(Proportions.of([*[1] * 1000, 1, 2]), sizes)
    assert [len(piece.lengths) for piece in data.pieces()] == [20, 40, 80, 160, 320, 380, 1, 1]
    groups = [torch.tensor([0, 1])] * 3000 + [torch.arange(8000)]
    assert names_are_known(WeakDataset(torch.zeros(8000, 1), groups, Proportions.of([1] * 3001), check=False))


def test_a_constant_classifier_that_satisfies_everything_is_mentioned() -> None:
    pairs = [[0, 1], [2, 3]]
    literal = WeakDataset(torch.zeros(4, 1), pairs, PairComparison.of([0, 0], 2, ties="paper"))
    finding = found(literal, BINARY)["constant classifier"]
    assert "predicting 'benign' or 'malignant' for every instance satisfies" in finding.message
    ours = WeakDataset(torch.zeros(4, 1), pairs, PairComparison.of([0, 0], 2))
    assert "constant classifier" not in found(ours, BINARY)


def test_errors_come_before_warnings_and_notes() -> None:
    data = WeakDataset(torch.zeros(9, 1), [[0, 1], [], [2]], Proportions.of([5, 0, 1]), check=False)
    levels = [finding.level for finding in examine(data, BINARY)]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert levels[0] == "error"
