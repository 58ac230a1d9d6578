"""`identify` on tasks of rsbench (NeurIPS 2024), whose reasoning shortcuts are counted, and what it says in words."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch

import glws
from glws.automata import Automaton
from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Constraints,
    Labels,
    NoisyLabels,
    PairComparison,
    PairSimilarity,
    PositiveConfidence,
    PresentClasses,
    Proportions,
    SimilarityConfidence,
    SoftLabels,
    Together,
    Triplets,
    Unlabeled,
    UnlabeledClasses,
)
from glws.selection import Identifiability, _search, identify, names_are_identified

Rule = Callable[[int, int], int]
Pairs = Sequence[tuple[int, int]]
EVERY = {digits: list(product(range(digits), repeat=2)) for digits in (2, 4, 5, 6, 10)}
HALF = [(0, 0), (0, 1), (2, 3), (2, 4)]
EVEN_ODD = [(0, 6), (2, 8), (4, 6), (4, 8), (1, 5), (3, 7), (1, 9), (3, 9)]


def add(left: int, right: int) -> int:
    return left + right


def parity(left: int, right: int) -> int:
    return (left + right) % 2


def task(rule: Rule, pairs: Pairs, digits: int) -> tuple[WeakDataset, list[int]]:
    """Pairs of digits of which the rule's result is known, and their true labels."""
    machines = {}
    for result in {rule(*pair) for pair in pairs}:
        arcs = [(0, first, first + 2) for first in range(digits)]
        arcs += [(a + 2, b, 1) for a, b in product(range(digits), repeat=2) if rule(a, b) == result]
        machines[result] = Automaton(digits + 2, digits, arcs, final=[1])
    weak = Constraints.of([machines[rule(*pair)] for pair in pairs], digits)
    data = WeakDataset(torch.zeros(2 * len(pairs), 1), torch.arange(2 * len(pairs)).view(-1, 2), weak)
    return data, [digit for pair in pairs for digit in pair]


def shortcuts(rule: Rule, pairs: Pairs, digits: int) -> int:
    """How many maps of all digits but the identity give every pair its result: by backtracking over digits."""
    used = sorted({digit for pair in pairs for digit in pair})

    def count(image: dict[int, int]) -> int:
        if any(rule(image[a], image[b]) != rule(a, b) for a, b in pairs if a in image and b in image):
            return 0
        if len(image) == len(used):
            return 1
        return sum(count({**image, used[len(image)]: name}) for name in range(digits))

    return count({}) - 1


@pytest.mark.parametrize(
    ("rule", "pairs", "digits", "number"),
    [
        (add, EVERY[10], 10, 0),
        (add, EVERY[5], 5, 0),
        (parity, EVERY[2], 2, 1),
        (parity, EVERY[4], 4, 31),
        (parity, EVERY[6], 6, 1457),
        (parity, EVERY[10], 10, 2 * 5**10 - 1),
        (add, HALF, 5, 2),
        (add, HALF, 10, 5),
        (add, EVEN_ODD, 10, 35),
    ],
    ids=["add", "add 5", "xor", "parity 4", "parity 6", "parity", "half", "half of ten", "even and odd"],
)
def test_shortcuts_of_the_addition_tasks_are_counted(rule: Rule, pairs: Pairs, digits: int, number: int) -> None:
    """All pairs occur, or the pairs of MNAdd-Half and MNAdd-EvenOdd alone: then the true labels matter."""
    data, labels = task(rule, pairs, digits)
    if number < 10_000:
        assert shortcuts(rule, pairs, digits) == number
        assert identify(data, labels).num_shortcuts == number
    if pairs == EVERY[digits]:
        assert identify(data).num_shortcuts == number


def test_what_may_be_true_is_more_than_what_is() -> None:
    """Without the labels every pair of a sum may occur: then only few maps keep all sums of MNAdd-EvenOdd."""
    data, labels = task(add, EVEN_ODD, 10)
    assert identify(data).is_identified
    found = identify(data, labels)
    assert found.settled_by is not None
    assert len(found.settled_by) == 2
    assert {digit % 2 for digit in found.settled_by} == {0, 1}
    some = [label if place < 4 else -1 for place, label in enumerate(labels)]
    assert identify(data, some).is_identified
    weak = [data.weak[0], Labels.of(list(found.settled_by), 10)]
    both = WeakDataset(torch.zeros(18, 1), [data.groups[0], [[16], [17]]], weak)
    assert identify(both, [*labels, *found.settled_by]).is_identified


def pairs_of(weak: AbstractSupervision) -> WeakDataset:
    return WeakDataset(torch.zeros(2 * len(weak), 1), torch.arange(2 * len(weak)).view(-1, 2), weak)


def singles(weak: AbstractSupervision) -> WeakDataset:
    return WeakDataset(torch.zeros(len(weak), 1), torch.arange(len(weak))[:, None], weak)


def bags(weak: AbstractSupervision, size: int) -> WeakDataset:
    return WeakDataset(torch.zeros(size * len(weak), 1), torch.arange(size * len(weak)).view(-1, size), weak)


def test_an_exchange_is_said_and_what_settles_it() -> None:
    found = glws.identify(pairs_of(PairSimilarity.of([1, 0])))
    assert found.describe(["cat", "dog"]) == [
        "'cat' and 'dog' can be exchanged",
        "one labeled instance of either settles it",
    ]
    assert found.witness is not None
    assert found.witness.describe(["cat", "dog"]) == (
        "PairSimilarity, group 1: ('cat', 'dog') may as well be ('dog', 'cat')"
    )
    (finding,) = found.findings(["cat", "dog"], [["first", "second"]])
    assert (finding.level, finding.check) == ("warning", "identifiability")
    assert finding.message == (
        "the weak labels do not identify the classes: 'cat' and 'dog' can be exchanged; one labeled instance of either "
        "settles it; for example PairSimilarity, group second: ('cat', 'dog') may as well be ('dog', 'cat')"
    )
    weak = [PairSimilarity.of([1, 0], 2), Labels.of([1], 2)]
    labeled = WeakDataset(torch.zeros(4, 1), [[[0, 1], [2, 3]], [[0]]], weak)
    said = identify(labeled)
    assert said.describe() == ["identified: no other class map satisfies the weak labels as well as the truth"]
    assert list(said.findings(["cat", "dog"])) == []


def test_many_classes_are_said_in_few_words() -> None:
    found = identify(pairs_of(PairSimilarity.of([1, 0], 10)))
    assert found.describe() == [
        "'0', '1', '2', '3', '4' and 5 more can be exchanged in any order",
        "labeled instances of '0', '1', '2', '3', '4' and 4 more settle it, one of each",
    ]
    assert found.num_shortcuts == 3628800 - 1
    same = identify(pairs_of(PairSimilarity.of([1, 1], 10)))
    assert same.num_shortcuts == 10**10 - 1
    assert "everything may be called '0', '1', '2', '3', '4' or 5 more" in same.describe()


def test_mergers_are_said_one_sentence_for_classes_with_the_same_choice() -> None:
    found = identify(bags(Proportions.of([1, 2, 0], counted=[1, 3], num_classes=4), 3))
    assert found.describe(list("abcd")) == [
        "'a' and 'c' can be exchanged",
        "'b' and 'd' can be exchanged",
        "each of 'a' and 'c' may be called 'a' or 'c'",
        "each of 'b' and 'd' may be called 'b' or 'd'",
        "labeled instances of 'a', 'b', 'c' and 'd' settle it, one of each",
    ]
    ordered = identify(pairs_of(PairComparison.of([0, 0], 3, ties="paper")))
    assert ordered.describe() == [
        "everything may be called '0', '1' or '2'",
        "'0' may be called '1'",
        "'1' may be called '0' or '2'",
        "'2' may be called '1'",
        "labeled instances of '0', '1' and '2' settle it, one of each",
    ]
    assert identify(pairs_of(PairComparison.of([0, 0], 3))).is_identified
    rows = Labels.of([0, 1, 2, 3, 4, 5], 12)
    chosen = [[int(label in (row, row + 6)) for label in range(12)] for row in range(6)]
    many = identify(singles(SoftLabels.of(chosen)))
    assert many.describe()[6:11] == [
        "each of '0' and '6' may be called '0' or '6'",
        "each of '1' and '7' may be called '1' or '7'",
        "each of '2' and '8' may be called '2' or '8'",
        "each of '3' and '9' may be called '3' or '9'",
        "other classes may be merged as well",
    ]
    assert identify(singles(rows)).never == tuple(range(6, 12))


def test_maps_that_are_no_exchange_and_no_merger_are_said_at_once() -> None:
    """A cycle: what is called one further is as good."""
    turned = [f"y[0] == {label} and y[1] == {(label + 1) % 3}" for label in range(3)]
    found = identify(pairs_of(Constraints.of([" or ".join(f"({one})" for one in turned)], 3)))
    assert found.num_shortcuts == 2
    assert found.describe()[0] in (
        "'0' may be called '1', '1' '2', '2' '0', all at once",
        "'0' may be called '2', '1' '0', '2' '1', all at once",
    )
    assert found.describe()[1:] == ["one labeled instance of '0' settles it"]


def test_names_are_known_when_some_group_tells_all_classes_apart_however_late() -> None:
    def last(sentence: str) -> WeakDataset:
        sentences = [*["y[0] == y[1]"] * 49, sentence]
        return WeakDataset(torch.zeros(2, 1), [[0, 1]] * 50, Constraints.of(sentences, 3), check=False)

    assert not names_are_identified(last("y[0] != y[1]"))
    assert not names_are_identified(last("y[0] == 2"))
    assert names_are_identified(last("y[0] == 2 and y[1] == 0"))
    groups = [torch.tensor([0, 1])] * 3000 + [torch.arange(8000)]
    assert names_are_identified(WeakDataset(torch.zeros(8000, 1), groups, Proportions.of([1] * 3001), check=False))


@pytest.mark.parametrize(
    ("weak", "size", "is_identified"),
    [
        (Unlabeled.of([0.3, 0.3]), 10, True),
        (Unlabeled.of([0.5, 0.5]), 10, False),
        (Unlabeled.of([0.5, 0.4]), 10, True),
        (UnlabeledClasses.of([[0.5, 0.3, 0.2]]), 10, True),
        (UnlabeledClasses.of([[0.4, 0.4, 0.2]]), 10, False),
        (SoftLabels.of([[0.5, 0.3, 0.2]], reading="target"), 1, True),
        (SoftLabels.of([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]], reading="target"), 1, False),
        (PositiveConfidence.of([0.3], reading="target"), 1, True),
        (PositiveConfidence.of([0.3]), 1, False),
        (PositiveConfidence.of([0.3, 0.8]), 1, True),
        (SimilarityConfidence.of([0.3], 3, reading="target"), 2, False),
        (NoisyLabels.symmetric([0, 1, 2], 3, 0.4), 1, True),
        (NoisyLabels.symmetric([0, 1], 3, 0.4), 1, False),
    ],
)
def test_expected_shares_and_scores_identify_what_they_tell_apart(
    weak: AbstractSupervision, size: int, is_identified: bool
) -> None:
    assert identify(bags(weak, size)).is_identified == is_identified


def test_classes_that_may_be_present_do_not_count_in_groups_without_room_for_them() -> None:
    present, unknown = PresentClasses.of([[1, 1, -1, 0]]), Labels.of([-1], 4)
    tight = WeakDataset(torch.zeros(3, 1), [[[0, 1]], [[2]]], [present, unknown])
    roomy = WeakDataset(torch.zeros(4, 1), [[[0, 1, 2]], [[3]]], [present, unknown])
    assert (2, 3) in identify(tight).merged
    assert (2, 3) not in identify(roomy).merged
    assert (2, 1) in identify(roomy).merged


def test_evidence_about_single_instances_counts() -> None:
    pairs, weak = torch.tensor([[0, 1], [2, 3]]), PairSimilarity.of([1, 0])
    flat, tilted = torch.zeros(4, 2), torch.tensor([[0.0, -1.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert not identify(WeakDataset(torch.zeros(4, 1), pairs, weak, flat)).is_identified
    assert identify(WeakDataset(torch.zeros(4, 1), pairs, weak, tilted)).is_identified


def test_long_groups_cost_no_automata_and_large_ones_no_padding() -> None:
    """R30: a bag of 50,000 beside 5,000 of 10, class counts in groups of 2,000, a text about 300 instances."""
    sizes = torch.tensor([0, 50_000, *[10] * 5000]).cumsum(0)
    groups = glws.data.Groups(sizes, torch.arange(100_000))
    beside = Proportions.of([20_000, *[1, 2, 3, 4, 5] * 1000])
    assert identify(WeakDataset(torch.zeros(100_000, 1), groups, beside)).is_identified
    assert identify(bags(ClassCounts.of([[1000, 700, 300], [500, 900, 600]]), 2000)).is_identified
    found = identify(bags(Constraints.of(["count(1) == 7", "y[0] == y[-1]"], 3), 300))
    assert found.exchangeable == ((0, 2),)


def two_paths() -> Automaton:
    """Weights that are sums over paths, for which only permutations are decided in long groups."""
    arcs = [(0, 0, 0, -0.1), (0, 1, 0, -0.1), (0, 2, 0, -0.3), (1, 0, 1, -0.2), (1, 1, 1, -0.2), (1, 2, 1, -0.1)]
    return Automaton(2, 3, arcs, {0: 0.0, 1: 0.0}, [0, 1], sum_paths=True)


def test_what_is_not_decided_is_said_to_be_so() -> None:
    found = identify(bags(Constraints.of([two_paths()], 3), 40))
    assert found.exchangeable == ((0, 1),)
    assert found.num_shortcuts is None
    assert found.settled_by is None
    apart = identify(bags(Together.of(Constraints.of([two_paths()], 3), Constraints.of(["any(1)"], 3)), 40))
    assert apart.is_identified is None
    assert apart.describe() == ["whether any class maps satisfy the weak labels was not decided"]
    (note,) = apart.findings(list("abc"))
    assert (note.level, note.message) == ("note", "whether any class maps satisfy the weak labels was not decided")
    assert Identifiability(200, None) == identify(singles(Labels.of([1], 200)))


def test_a_search_that_is_stopped_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_search, "MOST_CHECKS", -60)
    found = identify(pairs_of(PairComparison.of([0], 7)))
    assert found.is_identified is None
    stopped = identify(pairs_of(PairSimilarity.of([1, 0], 7)))
    assert stopped.is_identified is False
    assert stopped.exchangeable == (tuple(range(7)),)
    assert stopped.settled_by is None


def test_a_hundred_classes_are_decided_and_classes_that_never_occur_do_not_count() -> None:
    assert identify(singles(Labels.of(list(range(100)), 100))).is_identified
    assert names_are_identified(singles(Labels.of([0, 1], 5)))
    triplets = WeakDataset(torch.zeros(3, 1), [[0, 1, 2]], Triplets.of([1], num_classes=30))
    assert identify(triplets).exchangeable == (tuple(range(30)),)


def test_labels_that_cannot_be_are_refused() -> None:
    data = pairs_of(PairSimilarity.of([1, 0]))
    with pytest.raises(DataError, match=r"labels are one for each of the 4 instances, found shape \[3\]"):
        identify(data, [0, 1, 0])
    with pytest.raises(DataError, match=r"labels: instance 2 has 2, not one of 0..1 or -1"):
        identify(data, [0, 1, 2, -1])
