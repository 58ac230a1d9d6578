"""Processes that own groups: their parts of the loss add up to that of the whole batch, whatever the shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from kinds.test_every_kind import KINDS
from torch import Tensor

from glws.data import Groups, WeakDataset
from glws.kinds import Labels, Proportions, Unlabeled
from glws.methods import GLWS, Progress, Step
from glws.methods._step import step_of
from glws.training import World
from glws.training._ownership import SEVERAL, Ownership, assigned, loaded_by

NOTED = ("loss", "entropy", "negative_log_likelihood", "impossible_groups", "approximation_error")


def some_logits(rows: int, classes: int) -> Tensor:
    found = torch.randn(rows, classes, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    return found.requires_grad_()


def step_on(data: WeakDataset, chosen: Sequence[Tensor], logits: Tensor, epoch: int, **others: object) -> Step:
    batch = data.batch(chosen)
    views = {"strong": logits[batch.numbers]}
    return step_of(batch, views, progress=Progress(0, 10, epoch, 5), **others)


def alone(method: GLWS, data: WeakDataset, logits: Tensor, epoch: int) -> tuple[Tensor, Step]:
    step = step_on(data, [torch.arange(len(groups)) for groups in data.groups], logits, epoch)
    return method.loss(step), step


def together(
    method: GLWS, data: WeakDataset, logits: Tensor, epoch: int, shares: list[list[Tensor]]
) -> tuple[Tensor, list[Step]]:
    """Processes after one another: each says its numbers first, and then computes its part with those of all."""
    said: list[Tensor] = []

    def say(own: Tensor) -> Tensor:
        said.append(own.detach())
        return own[None]

    for chosen in shares:
        method.loss(step_on(data, chosen, logits.detach(), epoch, everyone=say))
    known: Callable[[Tensor], Tensor] = lambda own: torch.stack(said)  # noqa: E731
    steps = [step_on(data, chosen, logits, epoch, everyone=known) for chosen in shares]
    return torch.stack([method.loss(step) for step in steps]).sum(), steps


def check(method: GLWS, data: WeakDataset, size: int, epoch: int = 3) -> None:
    logits = some_logits(len(data.instances), data.weak[0].num_classes)
    expected, one = alone(method, data, logits, epoch)
    (gradient,) = torch.autograd.grad(expected, logits)
    owners = [torch.arange(len(groups)).square() % (size + 1) for groups in data.groups]  # uneven; some own nothing
    shares = [[(owner == rank).nonzero()[:, 0] for owner in owners] for rank in range(size + 1)]
    found, steps = together(method, data, logits, epoch, shares)
    assert (found - expected).abs() <= 1e-12
    assert (torch.autograd.grad(found, logits)[0] - gradient).abs().max() <= 1e-12
    for step in steps:
        assert (step.notes["loss"] - expected).abs() <= 1e-12
        assert step.notes.keys() - {"loss"} == one.notes.keys()
        for name in one.notes:
            assert (step.notes[name] - one.notes[name]).abs() <= 1e-7, name


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_in_two_and_three_processes_equals_one(name: str) -> None:
    weak, lengths = KINDS[name]
    total = sum(lengths)
    groups = Groups(torch.tensor([0, *lengths]).cumsum(0), torch.arange(total) % max(total - 1, 1))  # one is shared
    data = WeakDataset(torch.zeros(total, 1), groups, weak)
    method = GLWS(supervised=0.5)
    check(method, data, 1)
    check(method, data, 2)


@pytest.mark.parametrize("reduction", ["instance", "group"])
@pytest.mark.parametrize("unsupervised", [0.0, 1.0])
def test_impossible_groups_are_left_out_of_the_mean_of_all(reduction: str, unsupervised: float) -> None:
    bags = torch.arange(12).view(4, 3)
    data = WeakDataset(torch.zeros(12, 1), [bags, [[0]]], [Proportions.of([3, 1, 0, 2]), Labels.of([0], 2)])
    logits = some_logits(12, 2).detach()
    logits[0] = torch.tensor([0.0, -torch.inf])  # not three of three, and class 0
    method = GLWS(supervised=1.0, unsupervised=unsupervised, reduction=reduction)  # type: ignore[arg-type]
    expected, _ = alone(method, data, logits, 3)
    shares = [[torch.tensor([0]), torch.tensor([0])], [torch.tensor([1, 2, 3]), torch.tensor([], dtype=torch.int64)]]
    found, steps = together(method, data, logits, 3, shares)
    assert (found - expected).abs() <= 1e-12
    assert [float(step.notes["impossible_groups"]) for step in steps] == [1.0, 1.0]


def test_weights_and_initial_posteriors_count_as_in_one_process() -> None:
    data = WeakDataset(
        torch.zeros(9, 1), [[[0, 1, 2], [3]], [[4, 5], [6, 7, 8]]], [Proportions.of([1, 1]), Unlabeled.of([0.3, 0.3])]
    )
    for epoch in (0, 4):
        check(GLWS(start_epochs=2, weights=(0.3, 2.0)), data, 2, epoch)


def test_groups_are_assigned_by_their_instances() -> None:
    lengths = torch.randint(1, 40, (64,), generator=torch.Generator().manual_seed(0))
    for size in (2, 3, 8):
        (owner,) = assigned([lengths], size)
        loads = torch.bincount(owner, lengths.double(), minlength=size)
        assert loads.max() <= 1.1 * loads.mean()


def test_of_several_kinds_the_second_begins_where_the_first_ended() -> None:
    owners = assigned([torch.ones(3), torch.ones(3)], 2)
    assert sorted(torch.cat(owners).tolist()) == [0, 0, 0, 1, 1, 1]


def test_where_one_group_is_most_of_a_step_rows_are_divided() -> None:
    data = WeakDataset(torch.zeros(42, 1), [[[*range(40)], [40], [41]]], [Proportions.of([1, 1, 1])])
    for rank in range(2):
        assert Ownership(World(rank, 2)).own(data, [torch.arange(3)]) is None
    own = [Ownership(World(rank, 2)).own(data, [torch.tensor([2, 1])]) for rank in range(2)]
    assert own == [[torch.tensor([2])], [torch.tensor([1])]]


def test_a_group_belongs_to_the_process_that_has_loaded_it() -> None:
    groups = Groups.of([[0, 1], [4, 2], [3, 1], [4]])
    assert loaded_by(groups, torch.tensor([2, 2, 5])).tolist() == [0, 2, SEVERAL, 2]
    data = WeakDataset(torch.zeros(5, 1), groups, Proportions.of([1, 1, 1, 1]))
    ownership = Ownership(World(2, 3, bounds=(0, 2, 2, 5)))
    own = ownership.own(data, [torch.tensor([3, 0, 1])])
    assert own is not None
    assert own[0].tolist() == [3, 1]
    assert ownership.own(data, [torch.tensor([2, 3])]) is None  # one of them was loaded by two processes
