"""Constraints on groups in which some labels are given: they need no features and no prediction."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from glws import Automaton, batch_loss, em_loss, infer
from glws.data import WeakDataset
from glws.errors import DataError
from glws.inference import Automata, KnownLabels
from glws.kinds import Constraints, Labels, Together
from glws.testing import check_supervision

BASE = 3
ADDITION = Automaton.from_fold(
    (0, 0),
    lambda s, y: (s[0] + 1, s[1] + y) if s[0] < 2 else (0, s[1] // BASE) if y == s[1] % BASE else None,
    lambda s: s == (0, 0),
    BASE,
)


def sum_digits(total: int, columns: int) -> dict[int, int]:
    """The digits of the sum behind those of the two numbers, the lowest column first."""
    return {3 * column + 2: total // BASE**column % BASE for column in range(columns)}


def predictions(groups: int, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(groups, rows, BASE, generator=generator, dtype=torch.float64)).log_softmax(-1)


def test_addition_is_right_for_every_sum() -> None:
    totals = list(range(BASE**2))
    weak = Constraints.of([ADDITION] * len(totals), BASE, known=[sum_digits(total, 2) for total in totals])
    log_probs = predictions(1, 4).expand(len(totals), 4, BASE)
    found = weak.infer(log_probs).log_likelihood.exp()
    for total in totals:
        pairs = [y for y in product(range(BASE), repeat=4) if y[0] + y[1] + BASE * (y[2] + y[3]) == total]
        wanted = sum(torch.exp(sum(log_probs[0, j, k] for j, k in enumerate(y))) for y in pairs)  # type: ignore[arg-type]
        assert abs(float(found[total] - wanted)) < 1e-13
    check_supervision(weak[[0, 4, 8, 5]], [4] * 4)


def test_known_label_is_evidence_without_doubt() -> None:
    weak = Constraints.of([ADDITION] * 2, BASE, known=[sum_digits(7, 2), sum_digits(2, 2)])
    log_probs = predictions(2, 4)
    whole, evidence = torch.zeros(2, 6, BASE, dtype=torch.float64), torch.zeros(2, 6, BASE, dtype=torch.float64)
    whole[:, [0, 1, 3, 4]] = log_probs
    for group, total in enumerate((7, 2)):
        for place, label in sum_digits(total, 2).items():
            evidence[group, place] = torch.full((BASE,), -torch.inf).index_fill(0, torch.tensor(label), 0.0)
    expected, found = infer(whole, ADDITION, evidence=evidence), weak.infer(log_probs)
    torch.testing.assert_close(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-13)
    torch.testing.assert_close(found.marginals, expected.marginals[:, [0, 1, 3, 4]], rtol=0, atol=1e-13)
    assert torch.equal(found.mode(), expected.mode()[:, [0, 1, 3, 4]])


def test_groups_share_one_automaton_whatever_is_known_in_each() -> None:
    form = Constraints.of([ADDITION] * 3, BASE, known=[sum_digits(t, 2) for t in (1, 5, 7)]).form(torch.tensor([4] * 3))
    assert isinstance(form, KnownLabels)
    assert isinstance(form.form, Automata)
    assert form.form.automata == (ADDITION,)


def test_groups_of_which_all_is_known_have_the_weight_of_their_labels() -> None:
    weak = Constraints.of(["sum(y) == 2", "sum(y) == 2"], BASE, known=[{0: 1, 1: 1}, {0: 1}])
    answer = weak.infer(torch.zeros(2, 0, BASE), lengths=[0, 0])
    assert answer.log_likelihood.tolist() == [0.0, -torch.inf]
    assert answer.marginals.shape == (2, 0, BASE)


def test_padding_and_company_change_nothing() -> None:
    weak = Constraints.of(["sum(y) == 4", "sorted(y)", "y[1] != y[3]"], BASE, known=[{1: 1}, {4: 2, 0: 0}, {}])
    log_probs, lengths = predictions(3, 4), [2, 3, 4]
    padded = torch.cat([log_probs, torch.full((3, 2, BASE), torch.nan, dtype=torch.float64)], 1)
    together = weak.infer(padded, lengths)
    for group, length in enumerate(lengths):
        alone = weak[[group]].infer(log_probs[[group], :length])
        torch.testing.assert_close(together.marginals[group, :length], alone.marginals[0])
        torch.testing.assert_close(together.log_likelihood[group], alone.log_likelihood[0])
        assert not together.marginals[group, length:].any()


def test_data_sets_hold_only_the_instances_to_predict() -> None:
    weak = Constraints.of([ADDITION] * 2, BASE, known=[sum_digits(4, 1), sum_digits(7, 2)])
    data = WeakDataset(torch.eye(6), [[0, 1], [2, 3, 4, 5]], weak, check=False)
    with pytest.raises(DataError, match=r"^group 1: .* with 1 known label cannot hold in a group of 4 instances$"):
        WeakDataset(torch.eye(6), [[0, 1], [2, 3, 4, 5]], Constraints.of([ADDITION] * 2, BASE, known=[{2: 0}, {3: 1}]))
    weights = torch.zeros(6, BASE, requires_grad=True)
    batch = next(data.batches(1))
    batch_loss(batch, (batch.instances @ weights).log_softmax(-1)).backward()
    assert weights.grad is not None
    assert bool((weights.grad[2:].abs().sum(1) > 0).all())
    log_probs = predictions(2, 4)
    answer = em_loss(log_probs, weak, [2, 4], e_log_probs=predictions(2, 4, seed=1))
    assert bool(answer.loss.isfinite())


def test_numbers_are_learned_from_sums_with_known_digits() -> None:
    generator = random.Random(0)
    groups, known = [], []
    for _ in range(60):
        digits = [generator.randrange(BASE) for _ in range(6)]
        total = sum(BASE ** (place // 2) * digit for place, digit in enumerate(digits))
        groups.append(digits)
        known.append(sum_digits(total, 4) | {9: 0, 10: 0})
    weak = Constraints.of([ADDITION] * 60, BASE, known=known)
    rows = torch.tensor(groups)  # instances of a digit are alike: its number is its only feature
    weights = torch.zeros(BASE, BASE, requires_grad=True)
    optimizer = torch.optim.Adam([weights], 0.3)
    for _ in range(60):
        optimizer.zero_grad()
        em_loss(weights.log_softmax(-1)[rows], weak).loss.backward()
        optimizer.step()
    assert weights.argmax(1).tolist() == [0, 1, 2]


def test_constraints_with_known_labels_can_be_mixed_with_other_kinds() -> None:
    weak = Together.of(Constraints.of(["y[0] + y[1] == 3"], BASE, known=[{0: 1}]), Labels.of([2], BASE))
    check_supervision(weak, [1])


def test_names_and_descriptions() -> None:
    weak = Constraints.of(
        ["any(dog)", "any(dog)", ADDITION], ("cat", "dog", "bird"), known=[{0: "dog"}, {}, {2: 1, 5: 0}]
    )
    assert weak.known.tolist() == [[1, -1, -1, -1, -1, -1], [-1] * 6, [-1, -1, 1, -1, -1, 0]]
    assert weak.describe(0) == '"any(dog)" with 1 known label'
    assert weak.describe(1) == '"any(dog)"'
    assert weak.describe(2).endswith("with 2 known labels")


MISTAKES: list[tuple[Sequence[Mapping[int, int | str]], str]] = [
    ([{0: 1}], "there are 2 constraints but known labels of 1 groups"),
    ([{}, {-1: 1}], "group 1: the place of a known label is counted from 0, found -1"),
    ([{}, {2: 3}], "group 1: the known label of instance 2 is one of 0..2 or cat, dog, bird, found 3"),
    ([{0: "cow"}, {}], "group 0: the known label of instance 0 is one of 0..2 or cat, dog, bird, found 'cow'"),
]


@pytest.mark.parametrize(("known", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_wrong_known_labels_are_named(known: Sequence[Mapping[int, int | str]], message: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        Constraints.of(["True", "True"], ("cat", "dog", "bird"), known=known)


def test_known_label_beyond_the_group_is_named() -> None:
    message = r"^group 1: the label of instance 5 is known, but the group has 3 instances, known ones included$"
    with pytest.raises(DataError, match=message):
        Constraints.of(["True"] * 2, BASE, known=[{1: 0}, {5: 0}]).check([1, 2], BASE)
