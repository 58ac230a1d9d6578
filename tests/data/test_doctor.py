"""The doctor finds what is planted, and nothing in healthy data."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.data import Finding, Groups, WeakDataset, examine
from glws.data._distinct import Distinct
from glws.data._doctor import CHECKS, _parts, approximate_answers
from glws.inference import Automata
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Labels,
    PairSimilarity,
    PartialLabels,
    Proportions,
    Unlabeled,
    UnlabeledClasses,
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
    assert "exactly 5 of class malignant cannot hold in a group of 3 instances (group 1)" in finding.message


def test_contradictions_on_shared_instances_are_found_through_several_groups() -> None:
    """0 and 1 are the same, 1 and 2 are the same, yet 0 is malignant and 2 is not."""
    weak = [PairSimilarity.of([1, 1], 2), Labels.of([1, 0], 2)]
    data = WeakDataset(torch.zeros(3, 1), [[[0, 1], [1, 2]], [[0], [2]]], weak)
    finding = found(data, BINARY)["contradictions"]
    assert finding.level == "error"
    assert "cannot hold together with other groups of the same instances" in finding.message


def test_counts_that_labels_rule_out_are_contradictions() -> None:
    weak = [Proportions.of([3]), Labels.of([0], 2)]
    assert "contradictions" in found(WeakDataset(torch.zeros(3, 1), [[[0, 1, 2]], [[1]]], weak), BINARY)


def test_empty_groups_and_unused_instances_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(9, 1), [[0, 1], [], [2]], Proportions.of([1, 0, 1]))
    findings = found(data, BINARY)
    assert findings["empty groups"].groups == (1,)
    assert "6 of 9 instances in no group: training does not use them" in findings["unused instances"].message
    assert "1 group of one instance" in findings["single instances"].message


def test_classes_without_room_are_mentioned() -> None:
    masks = [[1, 1, 0], [0, 1, 0]]
    finding = found(WeakDataset(torch.zeros(2, 1), [[0], [1]], PartialLabels.of(masks)), ["a", "b", "c"])
    assert "no instance can be of class 'c', by its weak labels" in finding["classes never possible"].message


def test_classes_that_nothing_speaks_for_are_mentioned() -> None:
    data = WeakDataset(torch.zeros(3, 1), [[0], [1], [2]], Labels.of([0, 1, -1], 3))
    findings = found(data, ["a", "b", "c"])
    assert "no weak label makes class 'c' more likely for any instance" in findings["classes never mentioned"].message
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


def test_groups_are_asked_about_in_pieces_that_fit_however_long_one_of_them_is() -> None:
    sizes = torch.tensor([*range(2, 1002), 800_000, 800_000])
    data = Distinct.of(Proportions.of([*[1] * 1000, 1, 2]), sizes)
    assert [len(piece.lengths) for piece in data.pieces()] == [20, 40, 80, 160, 320, 380, 1, 1]


def in_bags(size: int, weak: AbstractSupervision) -> WeakDataset:
    return WeakDataset(
        torch.zeros(size * len(weak), 1), torch.arange(size * len(weak)).view(-1, size), weak, check=False
    )


@pytest.mark.parametrize(
    ("weak", "shares"),
    [
        (Proportions.of([3] * 4), "0.7 of 'benign' and 0.3 of 'malignant'"),
        (Proportions.of([5] * 4), "0.5 of 'benign' and 0.5 of 'malignant'"),
        (ClassCounts.of([[8, 2]] * 4), "0.8 of 'benign' and 0.2 of 'malignant'"),
        (Unlabeled.of([0.1] * 4), "0.9 of 'benign' and 0.1 of 'malignant'"),
        (UnlabeledClasses.of([[0.9, 0.1]] * 4), "0.9 of 'benign' and 0.1 of 'malignant'"),
    ],
    ids=["shares", "halves", "class counts", "priors", "class priors"],
)
def test_groups_with_the_same_shares_are_mentioned_whatever_the_share(weak: AbstractSupervision, shares: str) -> None:
    finding = found(in_bags(10, weak), BINARY)["equal shares"]
    assert finding.message == (
        f"the 4 groups all have the same class shares ({shares}): counts that do not differ between groups do not "
        "identify the classes; add groups with other shares, or a few true labels"
    )
    alone = found(in_bags(10, weak[:1]), BINARY)["equal shares"]
    assert alone.message.startswith(f"there is only one group, with class shares ({shares})")


def test_shares_that_differ_or_labels_beside_them_identify_the_classes() -> None:
    assert "equal shares" not in found(in_bags(10, Proportions.of([3, 4, 3])), BINARY)
    assert "equal shares" not in found(in_bags(10, Unlabeled.of([0.3, 0.32])), BINARY)
    sizes = WeakDataset(
        torch.zeros(30, 1), [list(range(10)), list(range(10, 19)), list(range(19, 30))], Proportions.of([3, 3, 3])
    )
    assert "equal shares" in found(sizes, BINARY)
    groups = [[list(range(10))], [[number] for number in range(10, 13)]]
    positive = WeakDataset(torch.zeros(13, 1), groups, [Unlabeled.of([0.3]), Labels.of([1, 1, 1], 2)])
    assert examine(positive, BINARY) == []


def test_the_same_sentence_about_many_groups_is_said_once_with_their_number() -> None:
    message = found(in_bags(4, Proportions.of([5] * 40 + [6] + [1, 2] * 5)), BINARY)["infeasible groups"].message
    assert message == (
        "Proportions: no labeling satisfies 41 groups: "
        "exactly 5 of class malignant cannot hold in a group of 4 instances (groups 0, 1, 2, 3, 4 and 35 more); "
        "exactly 6 of class malignant cannot hold in a group of 4 instances (group 40)"
    )
    many = WeakDataset(torch.zeros(40, 1), torch.arange(40)[:, None], Labels.of(list(range(20)) * 2, 40))
    said = found(many, [f"c{number}" for number in range(40)])["classes never possible"].message
    assert said == "no instance can be of class 'c20', 'c21', 'c22', 'c23', 'c24' or 15 more, by its weak labels"


@dataclass(frozen=True, eq=False)
class Alternating(AbstractSupervision):
    """A kind of somebody else: the classes come by turns, beginning with this one."""

    first: Tensor
    num_classes = 2

    def form(self, lengths: Tensor) -> Automata:
        turns = [Automaton(2, 2, [(0, 0, 1), (1, 1, 0)], start=first, final=[0, 1]) for first in self.first.tolist()]
        return Automata.of(turns, len(turns))

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        first = int(self.first[group])
        return 0.0 if list(labels) == [(first + place) % 2 for place in range(len(labels))] else -torch.inf


def test_a_kind_of_somebody_else_is_examined_by_its_automata() -> None:
    groups = [[[0, 1, 2], [3, 4, 5]], [[1], [4]]]
    for labels, is_contradicted in (([1, 0], False), ([1, 1], True)):
        data = WeakDataset(torch.zeros(6, 1), groups, [Alternating(torch.tensor([0, 1])), Labels.of(labels, 2)])
        finding = found(data, BINARY).get("contradictions")
        assert (finding is not None) == is_contradicted
    assert finding is not None
    assert "1 group cannot hold together with other groups of the same instances" in finding.message
    assert finding.groups == (1,)


def test_large_groups_are_examined_without_automata_or_padding() -> None:
    """Three class counts in groups of 2,000, and one bag of 50,000 beside 5,000 of 10."""
    counts = torch.tensor([[1000, 700, 300], [500, 900, 600], [100, 200, 1700]])
    findings = examine(in_bags(2000, ClassCounts.of(counts)), ["a", "b", "c"])
    assert [finding.check for finding in findings] == ["approximate posteriors"]
    counts[1, 0] += 1
    assert "infeasible groups" in found(in_bags(2000, ClassCounts.of(counts)), ["a", "b", "c"])
    sizes = torch.tensor([0, 50_000, *[10] * 5000]).cumsum(0)
    beside = Proportions.of([20_000, *[1, 2, 3, 4, 5] * 1000])
    data = WeakDataset(torch.zeros(100_000, 1), Groups(sizes, torch.arange(100_000)), beside)
    assert examine(data, BINARY) == []
    some = torch.arange(0, 100_000, 7)
    labels = Labels.of(torch.ones(len(some), dtype=torch.int64), 2)
    contradicted = WeakDataset(data.instances, [data.groups[0], some[:, None]], [beside, labels])
    labeled = torch.bincount(torch.bucketize(some, sizes[1:], right=True), minlength=5001)
    too_many = (labeled > beside.low).nonzero()[:, 0].tolist()
    assert found(contradicted, BINARY)["contradictions"].groups == tuple(too_many)


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
