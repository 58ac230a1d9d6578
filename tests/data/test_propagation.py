"""Contradictions between kinds on the same instances, against all labelings written down."""

from itertools import product

import numpy as np
import pytest
import torch

from glws.data import Groups, WeakDataset, _propagation, examine
from glws.data._propagation import Constraint, decide
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    ConfidenceDifference,
    Constraints,
    Labels,
    MultiInstance,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PresentClasses,
    Proportions,
    Together,
    Triplets,
    Unlabeled,
)

SIZE = 6


def random_kinds(rng: np.random.Generator, classes: int) -> list[tuple[Groups, AbstractSupervision]]:
    """Two to four kinds of weak labels in groups of their own; most of what they say comes from one labeling."""
    truth = rng.integers(0, classes, SIZE)

    def groups(number: int, size: int | None = None) -> list[list[int]]:
        sizes = rng.integers(1, 5, number) if size is None else [size] * number
        return [rng.choice(SIZE, length, replace=False).tolist() for length in sizes]

    def counts(members: list[list[int]]) -> np.ndarray:
        found = np.array([np.bincount(truth[group], minlength=classes) for group in members])
        wrong = rng.integers(0, len(found))
        if rng.random() < 0.4:
            found[wrong] = np.roll(found[wrong], 1)
        return found

    def noisy(values: np.ndarray, most: int, rate: float = 0.2) -> np.ndarray:
        return np.where(rng.random(len(values)) < rate, rng.integers(0, most, len(values)), values)

    def labels(members: list[list[int]]) -> AbstractSupervision:
        return Labels.of(noisy(truth[[group[0] for group in members]], classes), classes)

    def similar(members: list[list[int]]) -> AbstractSupervision:
        same = np.array([truth[a] == truth[b] for a, b in members])
        return PairSimilarity.of(noisy(same, 2, 0.1).astype(bool), classes)

    def candidates(members: list[list[int]]) -> AbstractSupervision:
        masks = rng.random((len(members), classes)) < 0.6
        masks[np.arange(len(members)), noisy(truth[[group[0] for group in members]], classes)] = True
        return PartialLabels.of(masks)

    def texts(members: list[list[int]]) -> AbstractSupervision:
        wanted = [f"count({truth[group[0]]}) >= 1 and y[0] != {rng.integers(0, classes)}" for group in members]
        return Constraints.of(wanted, classes)

    def together(members: list[list[int]]) -> AbstractSupervision:
        found = counts(members)
        several = Proportions.between(found[:, 0] - 1, found[:, 0], 0, classes)
        return Together.of(several, MultiInstance.of((found[:, 1] > 0).astype(int), 1, classes))

    choices = [
        (groups(3, 1), labels),
        (groups(3, 1), candidates),
        (groups(5, 2), similar),
        (groups(3, 2), lambda members: PairComparison.of(rng.integers(0, 2, len(members)), classes)),
        (groups(3, 3), lambda members: Triplets.of(rng.integers(1, 3, len(members)), classes)),
        (groups(3), lambda members: Proportions.of(counts(members)[:, 1], 1, classes)),
        (groups(3), lambda members: ClassCounts.of(counts(members))),
        (groups(3), lambda members: MultiInstance.of((counts(members)[:, 0] > 0).astype(int), 0, classes)),
        (groups(3), lambda members: PresentClasses.of((counts(members) > 0).astype(int))),
        (groups(3), lambda members: Unlabeled.of(rng.random(len(members)), "hard", 1, classes)),
        (groups(2), texts),
        (groups(3), together),
    ]
    if classes == 2:
        choices.append((groups(3, 2), lambda members: ConfidenceDifference.of(rng.integers(-1, 2, len(members)))))
    chosen = rng.choice(len(choices), rng.integers(2, 5), replace=False)
    return [(Groups.of(choices[number][0]), choices[number][1](choices[number][0])) for number in chosen]


def satisfied(
    kinds: list[tuple[Groups, AbstractSupervision]], labeling: tuple[int, ...], chosen: list[set[int]]
) -> bool:
    return all(
        weak.log_weight(group, [labeling[number] for number in groups[group].indices.tolist()]) > -torch.inf
        for (groups, weak), those in zip(kinds, chosen, strict=True)
        for group in sorted(those)
    )


@pytest.mark.parametrize("seed", range(120))
def test_the_verdict_on_random_mixtures_is_that_of_all_labelings_written_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = 2 + seed % 2
    kinds = random_kinds(rng, classes)
    feasible = [weak.possible(groups.lengths) for groups, weak in kinds]
    alone = [
        [
            any(
                weak.log_weight(group, list(labels)) > -torch.inf
                for labels in product(range(classes), repeat=int(groups.lengths[group]))
            )
            for group in range(len(groups))
        ]
        for groups, weak in kinds
    ]
    assert [mask.tolist() for mask in feasible] == alone
    verdict = decide(
        [Constraint(groups, weak, mask) for (groups, weak), mask in zip(kinds, feasible, strict=True)], SIZE, classes
    )
    chosen = [set(mask.nonzero()[:, 0].tolist()) for mask in feasible]
    labelings = [y for y in product(range(classes), repeat=SIZE) if satisfied(kinds, y, chosen)]
    assert any(bool(mask.any()) for mask in verdict.contradictory) == (not labelings)
    assert not any(bool(mask.any()) for mask in verdict.undecided)
    for labeling in labelings:
        assert bool(verdict.allowed[torch.arange(SIZE), torch.tensor(labeling)].all())


def cycle(length: int, classes: int = 2) -> WeakDataset:
    """Instances in a circle, each of another class than the next."""
    pairs = [[number, (number + 1) % length] for number in range(length)]
    return WeakDataset(torch.zeros(length, 1), pairs, PairSimilarity.of([False] * length, classes))


def checks(data: WeakDataset) -> list[str]:
    return [finding.check for finding in examine(data, [str(number) for number in range(data.weak[0].num_classes)])]


def test_a_circle_of_odd_length_cannot_have_two_classes_by_turns() -> None:
    assert "contradictions" in checks(cycle(51))
    assert "contradictions" not in checks(cycle(50))
    assert "contradictions" not in checks(cycle(51, classes=3))


def test_what_the_search_leaves_open_is_a_note_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_propagation, "MOST_STEPS", 0)
    findings = {finding.check: finding for finding in examine(cycle(51), ["a", "b"])}
    assert "contradictions" not in findings
    assert findings["undecided groups"].level == "note"
    assert findings["undecided groups"].message == (
        "PairSimilarity: not decided whether some labeling satisfies 51 groups together with the groups that share "
        "instances with them: the search was stopped (groups 0, 1, 2, 3, 4 and 46 more)"
    )


def test_a_chain_longer_than_propagation_goes_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_propagation, "MOST_ROUNDS", 5)
    pairs = [[number, number + 1] for number in range(39)]
    weak = [PairSimilarity.of([True] * 39), Labels.of([0, 1], 2)]
    data = WeakDataset(torch.zeros(40, 1), [pairs, [[0], [39]]], weak)
    assert "undecided groups" in checks(data)
    monkeypatch.setattr(_propagation, "MOST_ROUNDS", 50)
    assert "contradictions" in checks(data)
