"""Batches of several steps made at once are those of each step by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from strategies import random_log_probs

from glws.data import BatchPart, Groups, WeakDataset
from glws.inference import infer
from glws.kinds import AbstractSupervision, Constraints, Labels, PairSimilarity, PresentClasses, Proportions
from glws.training._batches import Prepared
from glws.training._order import Order


def ragged(groups: int, instances: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(groups)
    sizes = torch.randint(0, 5, (groups,), generator=generator).tolist()
    return [torch.randperm(instances, generator=generator)[:size].tolist() for size in sizes]


def mixed() -> WeakDataset:
    """Groups that share instances, of three kinds, one of them much longer than the others."""
    tables = [[*ragged(9, 30), list(range(30))], [[i, i + 1] for i in range(10)], [[i] for i in range(12)]]
    counts = [min(len(group), 1) for group in tables[0]]
    weak = [Proportions.of(counts), PairSimilarity.of([1, 0] * 5, 2), Labels.of([0, 1, -1] * 4, 2)]
    return WeakDataset(torch.zeros(30, 1), tables, weak, evidence=torch.randn(30, 2))


def chosen_steps(data: WeakDataset) -> list[list[torch.Tensor]]:
    order = [torch.randperm(len(part), generator=torch.Generator().manual_seed(1)) for part in data.groups]
    return [list(step) for step in zip(*(numbers.tensor_split(4) for numbers in order), strict=True)]


def assert_same_part(one: BatchPart, other: BatchPart) -> None:
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.lengths, other.lengths)
    assert torch.equal(one.groups, other.groups)
    assert [one.weak.describe(g) for g in range(len(one.weak))] == [
        other.weak.describe(g) for g in range(len(one.weak))
    ]


def test_steps_made_together_equal_each_by_itself() -> None:
    data = mixed()
    steps = chosen_steps(data)
    for together, chosen in zip(data.numbered_steps(steps), steps, strict=True):
        alone = data.numbered(chosen)
        assert torch.equal(together.numbers, alone.numbers)
        assert torch.equal(together.evidence, alone.evidence)  # type: ignore[arg-type]
        for one, other in zip(together.parts, alone.parts, strict=True):
            assert_same_part(one, other)


KINDS = {
    "counts": Proportions.of([1, 0, 2, 1, 1, 2]),
    "sets": PresentClasses.of([[1, 1, 0], [1, 0, 1], [0, 1, 1]] * 2),
    "automata": Constraints.of(["count(0) >= 1", "count(1) == 2", "count(2) <= 1"] * 2, 3),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_form_of_a_step_answers_as_its_weak_labels_do(name: str) -> None:
    weak: AbstractSupervision = KINDS[name]
    lengths = [2, 3, 2, 4, 2, 3]
    ends = torch.tensor([0, *lengths]).cumsum(0).tolist()
    groups = [list(range(a, b)) for a, b in pairwise(ends)]
    data = WeakDataset(torch.zeros(16, 1), groups, weak)
    for batch in data.numbered_steps([[torch.tensor([4, 1])], [torch.tensor([0, 5, 3])], [torch.tensor([2])]]):
        (part,) = batch.parts
        log_probs = part.gather(random_log_probs(len(batch.numbers), 1, len(batch.numbers), weak.num_classes)[0])
        one, other = infer(log_probs, part.form, part.lengths), infer(log_probs, part.weak, part.lengths)
        assert torch.equal(one.log_likelihood, other.log_likelihood)
        assert torch.equal(one.marginals, other.marginals)


def test_rows_in_order_are_taken_as_they_are() -> None:
    data = WeakDataset(torch.zeros(8, 1), torch.arange(8).view(4, 2), Proportions.of([1, 1, 2, 0]))
    straight, turned = data.numbered_steps([[torch.tensor([1, 3])], [torch.tensor([3, 1])]])
    assert (straight.parts[0].are_in_order, turned.parts[0].are_in_order) == (True, False)
    values = torch.randn(4, 2)
    assert torch.equal(straight.parts[0].arranged(values), values.view(2, 2, 2))
    assert torch.equal(turned.parts[0].arranged(values), values.view(2, 2, 2).flip(0))
    twice = data.numbered_steps([[torch.tensor([1, 1])]])[0].parts[0]
    assert not twice.are_in_order


def test_a_step_has_the_same_batch_wherever_training_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glws.training._batches.STEPS", 3)
    data = WeakDataset(torch.zeros(20, 1), Groups.singles(20), Labels.of([0, 1] * 10, 2))
    order = Order.of(data, 2, 0)
    through = Prepared(order, data)
    whole = [through.batch(data, 1, step) for step in range(order.steps_per_epoch)]
    for step, batch in enumerate(whole):
        resumed = Prepared(order, data).batch(data, 1, step)
        assert torch.equal(resumed.numbers, batch.numbers)
        assert_same_part(resumed.parts[0], batch.parts[0])
        assert batch.parts[0].groups.tolist() == sorted(order.groups(1, step)[0].tolist())
