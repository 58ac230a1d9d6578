"""Feasibility in closed form: against all labelings written down, packed, and honest about what it left undecided."""

from itertools import product

import pytest
import torch
from torch import Tensor

from glws.automata import Automaton
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Constraints,
    MultiInstance,
    PairSimilarity,
    PresentClasses,
    Proportions,
    Together,
    Unlabeled,
    UnlabeledClasses,
    _narrowing,
)
from glws.kinds._narrowing import by_counts


def random_masks(shape: tuple[int, ...], share: float, seed: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def enumerated(allowed: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, bool]:
    """The classes that labelings with counts in these ranges have, and whether there is one."""
    left, possible = torch.zeros_like(allowed), False
    for labels in product(*(row.nonzero()[:, 0].tolist() for row in allowed)):
        counts = torch.bincount(torch.tensor(labels, dtype=torch.int64), minlength=allowed.shape[1])
        if bool(((low <= counts) & (counts <= high)).all()):
            possible = True
            left[range(len(labels)), list(labels)] = True
    return left, possible


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_ranges_of_counts_leave_what_all_labelings_written_down_leave(classes: int) -> None:
    generator, lengths = torch.Generator().manual_seed(classes), torch.tensor([4, 0, 3, 1, 5] * 20)
    low = torch.randint(-1, 3, (100, classes), generator=generator)
    high = low + torch.randint(0, 4, (100, classes), generator=generator)
    allowed = random_masks((int(lengths.sum()), classes), 0.6, classes)
    found = by_counts(allowed, lengths, torch.arange(classes), low, high)
    assert bool(found.decided.all())
    members = lengths.tolist()
    for group, (own, left) in enumerate(zip(allowed.split(members), found.allowed.split(members), strict=True)):
        wanted, possible = enumerated(own, low[group], high[group])
        assert bool(found.possible[group]) == possible
        assert torch.equal(left, wanted)


def test_counts_of_many_classes_never_lose_a_labeling_and_are_exact_for_labels_and_gaps() -> None:
    classes, lengths = 8, torch.tensor([3, 4, 2] * 15)
    generator = torch.Generator().manual_seed(0)
    low = torch.randint(0, 4, (45, classes), generator=generator) // 3
    high = low + torch.randint(0, 3, (45, classes), generator=generator)
    for number, is_simple in enumerate((True, False)):
        allowed = random_masks((int(lengths.sum()), classes), 0.4, number)
        if is_simple:
            label = torch.randint(0, classes, (len(allowed),), generator=generator)
            allowed = torch.nn.functional.one_hot(label, classes).bool() | random_masks((len(allowed), 1), 0.5, 3)
        found = by_counts(allowed, lengths, torch.arange(classes), low, high)
        members = lengths.tolist()
        for group, (own, left) in enumerate(zip(allowed.split(members), found.allowed.split(members), strict=True)):
            wanted, possible = enumerated(own, low[group], high[group])
            assert bool(found.possible[group]) or not possible
            assert not possible or bool((left | ~wanted).all())
            if bool(found.decided[group]):
                assert bool(found.possible[group]) == possible


@pytest.mark.parametrize(
    ("weak", "length"),
    [
        (Unlabeled.of([0.4, 0.77, 0.0, 1.0, 0.5]), 4),
        (UnlabeledClasses.of([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]), 4),
    ],
    ids=["one class", "every class"],
)
def test_expected_counts_are_feasible_where_inference_finds_a_tilt(weak: AbstractSupervision, length: int) -> None:
    for seed in range(10):
        allowed = random_masks((len(weak), length, weak.num_classes), 0.7, seed)
        allowed[..., 0] |= ~allowed.any(2)
        impossible = weak.infer(torch.where(allowed, 0.0, -torch.inf).double()).impossible
        found = weak.narrowed(allowed.flatten(0, 1), torch.full((len(weak),), length))
        assert torch.equal(found.possible, ~impossible)


def test_a_long_group_beside_many_short_ones_is_asked_about_without_padding() -> None:
    lengths = torch.tensor([50_000, *[10] * 5000])
    counts = torch.tensor([[20_000, 29_000, 1000], *[[3, 3, 4]] * 4999, [3, 3, 5]])
    assert ClassCounts.of(counts).possible(lengths).tolist() == [True] * 5000 + [False]
    assert not bool(Proportions.of([50_001, *[11] * 5000]).possible(lengths).any())
    assert bool(PresentClasses.of([[1, -1, 0]]).possible(torch.tensor([100_000])).all())


def test_what_does_not_fit_the_budget_is_undecided_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    weak = Constraints.of([Automaton(1, 2, [(0, 0, 0)], final=[0]), "count(1) == 2"], 2)
    allowed, lengths = torch.tensor([[False, True]] * 2 + [[True, False]] * 3), torch.tensor([2, 3])
    assert weak.narrowed(allowed, lengths).possible.tolist() == [False, False]
    monkeypatch.setattr(_narrowing, "MOST_ARCS", 3)
    found = weak.narrowed(allowed, lengths)
    assert (found.possible.tolist(), found.decided.tolist()) == ([False, True], [True, False])
    monkeypatch.setattr(_narrowing, "MOST_STATES", 1)
    assert Together.of(Proportions.of([2]), Constraints.of(["y[0] == 1"], 2)).possible(torch.tensor([3])).all()


def test_parts_together_are_decided_part_by_part_where_their_product_is_too_large() -> None:
    weak = Together.of(ClassCounts.of([[700, 700, 600]] * 2), MultiInstance.of([1, 0], num_classes=3))
    found = weak.feasible(torch.tensor([2000, 2000]))
    assert found.possible.tolist() == [True, False]


def test_equal_weak_labels_of_equal_groups_are_asked_about_once() -> None:
    first, index = PairSimilarity.of([1, 0, 1, 1]).distinct(torch.tensor([2, 2, 2, 3]))
    assert (first.tolist(), index.tolist()) == ([1, 0, 3], [1, 0, 1, 2])
    first, index = Constraints.of(["any(0)", "any(1)", "any(0)"], 2).distinct(torch.tensor([2, 2, 2]))
    assert (first.tolist(), index.tolist()) == ([0, 1], [0, 1, 0])
    weak = Together.of(Proportions.of([1, 1, 1]), MultiInstance.of([1, 0, 1]))
    assert len(weak.distinct(torch.tensor([2, 2, 2]))[0]) == 2


def test_a_prior_of_one_is_feasible_and_takes_every_instance_that_has_a_choice() -> None:
    answer = Unlabeled.of([1.0, 0.5]).infer(
        torch.tensor([[[0.8, 0.2]] * 3, [[1.0, 0.0], [0.3, 0.7], [0.0, 0.0]]]).log(), [3, 2]
    )
    torch.testing.assert_close(answer.marginals[0, :, 1], torch.ones(3))
    torch.testing.assert_close(answer.marginals[1, :2, 1], torch.tensor([0.0, 1.0]))
