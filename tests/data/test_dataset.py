"""Groups and WeakDataset: however groups are told, batches gather every distinct instance once."""

from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import random_log_probs

import glws
from glws import batch_loss, em_loss
from glws.data import Groups, WeakDataset
from glws.data._batch import added_by_number, added_where_chosen
from glws.errors import DataError
from glws.kinds import Labels, PairSimilarity, Proportions


def members(groups: Groups) -> list[list[int]]:
    return [groups.indices[a:b].tolist() for a, b in zip(groups.offsets[:-1], groups.offsets[1:], strict=True)]


def test_groups_are_the_same_however_they_are_told() -> None:
    assert members(Groups.of([[3, 1], [], [2]])) == [[3, 1], [], [2]]
    assert members(Groups.of(torch.tensor([[0, 1], [2, 3]]))) == [[0, 1], [2, 3]]
    assert members(Groups.of(np.array([[0, 1], [2, 3]]))) == [[0, 1], [2, 3]]
    assert members(Groups.from_ids(["b", "a", "b", "a", "c"])) == [[1, 3], [0, 2], [4]]
    assert members(Groups.from_ids(np.array([7, 7, 2]))) == [[2], [0, 1]]
    assert members(Groups.singles(3)) == [[0], [1], [2]]
    assert members(Groups.of([])) == []


def test_some_groups_can_be_chosen_in_any_order() -> None:
    groups = Groups.of([[3, 1], [], [2, 5, 4], [0]])
    assert members(groups[[2, 1, 0]]) == [[2, 5, 4], [], [3, 1]]
    assert members(groups[3]) == [[0]]
    assert members(groups[torch.tensor([True, False, False, True])]) == [[3, 1], [0]]
    table, lengths = groups.padded(torch.tensor([0, 2]))
    assert table[0, :2].tolist() == [3, 1]
    assert table[1].tolist() == [2, 5, 4]
    assert lengths.tolist() == [2, 3]


def three_kinds() -> WeakDataset:
    x = torch.arange(12.0).view(12, 1)
    weak = [Proportions.of([1, 0, 2]), PairSimilarity.of([1, 0], 2), Labels.of([0, 1, -1], 2)]
    groups = [[[0, 1, 2], [3, 4], [5, 6, 7, 8]], [[0, 5], [9, 10]], [[1], [11], [0]]]
    return WeakDataset(x, groups, weak)


def test_a_batch_gathers_each_distinct_instance_once() -> None:
    data = three_kinds()
    batch = data.batch([torch.tensor([2, 0]), torch.tensor([0]), torch.tensor([2, 1])])
    assert batch.numbers.tolist() == [0, 1, 2, 5, 6, 7, 8, 11]
    assert batch.instances[:, 0].tolist() == [0, 1, 2, 5, 6, 7, 8, 11]
    first, second, third = batch.parts
    assert batch.numbers[first.rows[0]].tolist() == [5, 6, 7, 8]
    assert batch.numbers[first.rows[1, :3]].tolist() == [0, 1, 2]
    assert batch.numbers[second.rows[0]].tolist() == [0, 5]
    assert third.lengths.tolist() == [1, 1]
    assert first.weak.low.tolist() == [2, 1]


def test_the_loss_of_a_batch_is_the_sum_over_kinds() -> None:
    data = three_kinds()
    batch = next(data.batches(1))
    log_probs = random_log_probs(0, 1, 12, 2)[0]
    expected = sum(em_loss(part.gather(log_probs), part.weak, part.lengths).loss for part in batch.parts)
    assert torch.allclose(batch_loss(batch, log_probs), expected)
    weighted = batch_loss(batch, log_probs, weights=[1.0, 0.0, 0.0])
    only_counts = em_loss(batch.parts[0].gather(log_probs), data.weak[0], batch.parts[0].lengths).loss
    assert torch.allclose(weighted, only_counts)


def test_an_epoch_visits_every_group_once_in_a_reproducible_order() -> None:
    data = three_kinds()
    seen: list[list[int]] = [[], [], []]
    for batch in data.batches(2, torch.Generator().manual_seed(1)):
        for kind, part in enumerate(batch.parts):
            seen[kind] += part.groups.tolist()
    assert [sorted(groups) for groups in seen] == [[0, 1, 2], [0, 1], [0, 1, 2]]
    again = [
        part.groups.tolist() for batch in data.batches(2, torch.Generator().manual_seed(1)) for part in batch.parts
    ]
    assert again == [
        part.groups.tolist() for b in data.batches(2, torch.Generator().manual_seed(1)) for part in b.parts
    ]


class Squares(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """A torch Dataset whose labels must not be looked at."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(number**2)]), number


def test_instances_may_be_an_array_or_a_torch_dataset() -> None:
    for instances in (np.arange(5.0)[:, None] ** 2, Squares()):
        data = WeakDataset(instances, [[0, 4], [2]], Proportions.of([1, 1]))
        assert next(data.batches(1)).instances[:, 0].tolist() == [0, 4, 16]
    assert len(data) == 2


def test_evidence_about_instances_counts_in_every_group() -> None:
    evidence = random_log_probs(3, 1, 12, 2)[0]
    data = WeakDataset(
        torch.zeros(12, 1), [[[0, 1, 2]], [[1, 5]]], [Proportions.of([1]), PairSimilarity.of([1], 2)], evidence
    )
    batch, log_probs = next(data.batches(1)), random_log_probs(4, 1, 4, 2)[0]
    expected = sum(
        em_loss(part.gather(log_probs), part.weak, part.lengths, evidence=part.gather(evidence[batch.numbers])).loss
        for part in batch.parts
    )
    assert torch.allclose(batch_loss(batch, log_probs), expected)
    without = WeakDataset(torch.zeros(12, 1), data.groups, data.weak)
    assert not torch.allclose(batch_loss(batch, log_probs), batch_loss(next(without.batches(1)), log_probs))
    with pytest.raises(DataError, match="there are 12 instances but 3 rows of evidence"):
        WeakDataset(torch.zeros(12, 1), data.groups, data.weak, evidence[:3])


def test_instances_may_be_a_folder_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(3):
        image.new("RGB", (8, 8), (40 * number, 0, 0)).save(tmp_path / f"{number}.png")
    data = WeakDataset(tmp_path, [[0, 2], [1]], Proportions.of([1, 0]))
    batch = next(data.batches(1))
    assert batch.instances.shape == (3, 3, 224, 224)
    assert batch.instances[:, 0, 5, 5].tolist() == [0, 40, 80]
    with pytest.raises(DataError, match="there are no images in this folder"):
        WeakDataset(tmp_path / "nowhere", [[0]], Proportions.of([1]))


def test_mistakes_name_the_group() -> None:
    x = torch.zeros(4, 1)
    with pytest.raises(DataError, match=r"group 1: instance 7 must be in 0\.\.3"):
        WeakDataset(x, [[0], [1, 7]], Proportions.of([1, 1]))
    with pytest.raises(DataError, match="group 1: exactly 3 of class 1 cannot hold in a group of 2 instances"):
        WeakDataset(x, [[0], [1, 2]], Proportions.of([1, 3]))
    with pytest.raises(DataError, match="Proportions: there are 1 groups but 2 weak labels"):
        WeakDataset(x, [[0]], Proportions.of([1, 1]))
    with pytest.raises(DataError, match="there are 2 kinds of weak labels but 1 lists of groups"):
        WeakDataset(x, [[[0]]], [Proportions.of([1]), Proportions.of([1])])
    with pytest.raises(DataError, match="instances must be a tensor, an array or a torch Dataset, found int"):
        WeakDataset(3, [[0]], Proportions.of([1]))
    with pytest.raises(DataError, match=r"groups as an array are \[groups, instances\], found shape \[3\]"):
        Groups.of(torch.tensor([1, 2, 3]))
    assert glws.errors.DataError is DataError


def test_samples_of_one_population_are_dealt_out_anew_and_nothing_else() -> None:
    from glws.kinds import Unlabeled

    groups = [[[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]], [[0, 9], [1, 8]]]
    weak = [Unlabeled.of([0.2, 0.7, 0.2, 0.7]), Proportions.of([1, 1])]
    data = WeakDataset(torch.arange(10.0)[:, None], groups, weak)
    dealt = data.regrouped(torch.Generator().manual_seed(3))
    members = [dealt.groups[0][[number]].indices.tolist() for number in range(4)]
    assert [len(part) for part in members] == [3, 2, 3, 2]
    assert sorted(members[0] + members[2]) == [0, 1, 2, 5, 6, 7]
    assert sorted(members[1] + members[3]) == [3, 4, 8, 9]
    assert members[0] != [0, 1, 2]
    assert dealt.groups[1].indices.tolist() == [0, 9, 1, 8]
    again = data.regrouped(torch.Generator().manual_seed(3))
    assert again.groups[0].indices.tolist() == dealt.groups[0].indices.tolist()


def test_gradients_of_rows_are_added_up_either_way() -> None:
    generator = torch.Generator().manual_seed(0)
    values, places = torch.randn(40, 3, generator=generator), torch.randint(7, (40,), generator=generator)
    torch.testing.assert_close(added_where_chosen(values, places, 9), added_by_number(values, places, 9))


def test_choosing_groups_copies_members_and_not_a_table_as_wide_as_the_longest_group() -> None:
    lengths = [300_000, *[1] * 30_000]
    groups = Groups(torch.tensor([0, *lengths]).cumsum(0), torch.arange(330_000))
    chosen = groups[torch.arange(30_001).flip(0)]
    assert torch.equal(chosen.lengths, groups.lengths.flip(0))
    assert chosen.indices[:3].tolist() == [329_999, 329_998, 329_997]
    assert torch.equal(chosen.indices[30_000:], torch.arange(300_000))
    assert groups[[]].lengths.tolist() == []
