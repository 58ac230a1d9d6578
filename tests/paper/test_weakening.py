"""The weak data of the cells: counted again from what was drawn, they have the sizes and priors of the tables."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from glws.data import Groups
from glws.data.weaken import Weakened
from glws.errors import DataError
from reproduction import DATASETS, Cell, cell, cells
from reproduction.weakening import sets_singly

pytestmark = pytest.mark.slow

SCORED = ("similarity_confidence", "confidence_difference", "positive_confidence")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@cache
def source_labels(dataset: str, number: int | None = None) -> Tensor:
    """As many of every class, in mixed order; as many instances as the data set has, if not said otherwise."""
    known = DATASETS[dataset]
    each = (number or known.num_train) // known.num_classes
    return torch.arange(known.num_classes).repeat(each)[torch.randperm(each * known.num_classes, generator=seeded(7))]


def drawn(one: Cell, number: int | None = None, **options: Any) -> tuple[Weakened, Tensor]:
    """A record of the cell, and the true labels of the task."""
    labels = source_labels(one.dataset, number)
    true = one.task_labels(labels)
    if one.setting in SCORED:
        options["scores"] = 0.02 + 0.96 * true.double()
    return one.weakened(labels, seeded(), **options), true


def groups_of(record: Weakened) -> tuple[Groups, ...]:
    return record.groups if isinstance(record.groups, tuple) else (record.groups,)


def size_moments(mean: float, std: float) -> tuple[float, float]:
    """Mean and standard deviation of max(2, trunc(N(mean, std)))."""
    sizes = torch.arange(2, 200, dtype=torch.float64)
    chance = torch.special.ndtr((sizes + 1 - mean) / std).diff(prepend=torch.zeros(1))
    first = float((sizes * chance).sum())
    return first, float(((sizes - first) ** 2 * chance).sum()) ** 0.5


def counts_of(groups: Groups, true: Tensor, num_classes: int) -> Tensor:
    """How often each class occurs in each group, one instance at a time."""
    counts = torch.zeros(len(groups), num_classes)
    group = torch.arange(len(groups)).repeat_interleave(groups.lengths)
    return counts.index_put_((group, true[groups.indices]), torch.tensor(1.0), accumulate=True)


def test_candidate_sets_have_the_ratio() -> None:
    for one in cells("partial_labels"):
        record, true = drawn(one, 2000)
        mask, ratio = record.weak.candidates, one.configuration["ratio"]
        wrong = mask.sum() - mask.gather(1, true[:, None]).sum()
        draws = len(true) * (DATASETS[one.dataset].num_classes - 1)
        assert mask.shape == (len(true), DATASETS[one.dataset].num_classes), one
        # five standard deviations of a share
        assert float(wrong) / draws == pytest.approx(ratio, abs=5 * (ratio * (1 - ratio) / draws) ** 0.5), one


@pytest.mark.parametrize("setting", ["multi_instance", "proportions"])
def test_bags_have_their_number_and_sizes(setting: str) -> None:
    for one in cells(setting):
        record, _ = drawn(one)
        (groups,) = groups_of(record)
        known, lengths = one.configuration, groups.lengths.double()
        mean, std = size_moments(known["mean_size"], known["std_size"])
        assert len(groups) == len(record.weak) == known["num_bags"], one
        assert float(lengths.mean()) == pytest.approx(mean, abs=5 * std / len(groups) ** 0.5), one
        assert float(lengths.std()) == pytest.approx(std, rel=5 / len(groups) ** 0.5), one


@pytest.mark.parametrize("dataset", ["mnist", "stl10"])
def test_bags_say_what_is_in_them(dataset: str) -> None:
    for one in cells("multi_instance", dataset):
        record, true = drawn(one)
        present = counts_of(groups_of(record)[0], true, one.num_classes) > 0
        if one.num_classes == 2:
            assert torch.equal(record.weak.present.bool(), present[:, 1]), one
            assert int(present[:, 1].sum()) == one.configuration["num_bags"] // 2, one
        else:
            assert torch.equal(record.weak.present, present), one
    for one in cells("proportions", dataset):
        record, true = drawn(one)
        counts = counts_of(groups_of(record)[0], true, one.num_classes).long()
        found = record.weak.low if one.num_classes == 2 else record.weak.counts
        assert torch.equal(found.long(), counts[:, 1] if one.num_classes == 2 else counts), one


@pytest.mark.parametrize("setting", ["pair_comparison", "pair_similarity"])
def test_pairs_have_their_number_and_prior(setting: str) -> None:
    for one in cells(setting):
        record, true = drawn(one)
        pairs = true[groups_of(record)[0].indices.view(-1, 2)]
        prior, total = one.configuration["prior"], one.configuration["num_pairs"]
        expected = [total * prior**2, total * (1 - prior) ** 2, total * 2 * prior * (1 - prior)]
        assert [int((pairs.sum(1) == number).sum()) for number in (2, 0, 1)] == [round(n) for n in expected], one
        if setting == "pair_comparison":
            assert bool((pairs[:, 0] >= pairs[:, 1]).all()), one
        else:
            assert torch.equal(record.weak.same.bool(), pairs[:, 0] == pairs[:, 1]), one


@pytest.mark.parametrize("setting", ["similarity_confidence", "confidence_difference"])
def test_pairs_with_confidence_have_their_number_and_prior(setting: str) -> None:
    for one in cells(setting):
        record, true = drawn(one)
        (groups,) = groups_of(record)
        known = one.configuration
        assert len(groups) == known["num_pairs"], one
        assert int(true[groups.indices].sum()) == round(2 * known["num_pairs"] * known["prior"]), one


def test_half_of_the_instances_with_confidence_are_positive() -> None:
    for one in cells("positive_confidence"):
        record, true = drawn(one)
        (groups,) = groups_of(record)
        assert len(groups) == one.configuration["num_instances"], one
        assert int(true[groups.indices].sum()) == one.configuration["num_instances"] // 2, one
        assert len(torch.unique(groups.indices)) == len(groups), one


def test_labeled_positives_and_the_prior_of_the_rest() -> None:
    for one in cells("positive_unlabeled"):
        record, true = drawn(one)
        labeled, unlabeled = groups_of(record)
        inside = unlabeled.indices[unlabeled.indices < len(true)]
        assert len(labeled) == int(true[labeled.indices].sum()) == one.configuration["num_positives"], one
        assert not torch.isin(inside, labeled.indices).any(), one
        assert len(unlabeled.indices) - len(inside) == (100_000 if one.dataset == "stl10" else 0), one
        if len(inside):
            assert float(true[inside].double().mean()) == pytest.approx(one.configuration["prior"], abs=1e-3), one
        assert int(unlabeled.lengths.max()) == (32 if one.dataset == "stl10" else 64), one


@pytest.mark.parametrize(
    ("dataset", "positives", "unlabeled"),
    [
        ("fashion_mnist", 100, (17_900, 41_767)),
        ("fashion_mnist", 1000, (17_000, 39_667)),
        ("cifar10", 500, (19_500, 29_250)),
        ("cifar10", 2000, (18_000, 27_000)),
        ("cifar100", 4000, (16_000, 24_000)),
        ("stl10", 1000, (1000, 1500)),
        ("stl10", 2000, (0, 0)),
    ],
)
def test_unlabeled_sets_have_the_sizes_of_the_specification(
    dataset: str, positives: int, unlabeled: tuple[int, int]
) -> None:
    record, _ = drawn(cell("positive_unlabeled", dataset, f"positives={positives}"))
    found = record.statistics["unlabeled_positives"], record.statistics["unlabeled_negatives"]
    assert found == unlabeled


def test_prior_of_digits_is_that_of_the_labels_and_not_the_rounded_one() -> None:
    labels = torch.cat([torch.zeros(30_596), torch.full((29_404,), 7)]).long()
    record = cell("positive_unlabeled", "mnist", "positives=100").weakened(labels, seeded())
    assert record.statistics["unlabeled_positives"] == 30_496
    assert record.statistics["unlabeled_negatives"] == pytest.approx(29_308, abs=1)


def test_two_unlabeled_sets_have_their_sizes_and_priors() -> None:
    for one in cells("unlabeled_unlabeled"):
        record, true = drawn(one)
        known = one.configuration
        for groups, prior in zip(groups_of(record), ("prior_first", "prior_second"), strict=True):
            assert len(groups.indices) == known["num_each"], one
            assert int(true[groups.indices].sum()) == round(known["num_each"] * known[prior]), one


def test_two_unlabeled_sets_taken_singly_are_noisy_labels_with_the_shares_of_the_sets() -> None:
    one = cell("unlabeled_unlabeled", "mnist", "size=10000,priors=0.4-0.6")
    labels = source_labels("mnist", 1000)
    record = sets_singly(one.weakened(labels, seeded(), sizes=(300, 100), priors=(0.2, 0.9)))
    true, observed = one.task_labels(labels)[record.groups.indices], record.weak.observed
    assert observed.tolist() == [0] * 300 + [1] * 100
    for label in (0, 1):
        share = (observed[true == label] == 1).double().mean()
        assert float(record.weak.transition[label, 1]) == pytest.approx(float(share))
    with pytest.raises(DataError, match="only two unlabeled sets"):
        sets_singly(cell("pair_similarity", "mnist", "prior=0.4").weakened(labels, seeded(), num_pairs=10))


def test_similar_dissimilar_and_unlabeled_have_their_sizes_and_priors() -> None:
    for one in cells("similar_dissimilar_unlabeled"):
        record, true = drawn(one)
        both, unlabeled = groups_of(record)
        pairs, known, prior = true[both.indices.view(-1, 2)], one.configuration, one.configuration["prior"]
        same = pairs[:, 0] == pairs[:, 1]
        positive = known["num_similar"] * prior**2 / (prior**2 + (1 - prior) ** 2)
        assert (int(same.sum()), int((~same).sum())) == (known["num_similar"], known["num_dissimilar"]), one
        assert int((pairs.sum(1) == 2).sum()) == round(positive), one
        assert len(unlabeled.indices) == known["num_unlabeled"], one
        assert int(true[unlabeled.indices].sum()) == round(known["num_unlabeled"] * prior), one
        assert not torch.isin(unlabeled.indices, both.indices).any(), one


def test_same_seed_draws_the_same_and_another_does_not() -> None:
    one, labels = cell("pair_similarity", "cifar10", "prior=0.4"), source_labels("cifar10", 1000)
    first, again, other = (one.weakened(labels, seeded(seed)).groups.indices for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_options_replace_what_the_paper_says() -> None:
    one = cell("unlabeled_unlabeled", "mnist", "size=10000,priors=0.4-0.6")
    record = one.weakened(source_labels("mnist", 1000), seeded(), sizes=(50, 30), priors=(0.8, 0.1), group_size=10)
    assert [len(groups.indices) for groups in groups_of(record)] == [50, 30]
    assert [float(weak.prior[0]) for weak in record.weak] == pytest.approx([0.8, 0.1])


def test_pairs_that_would_use_up_a_class_are_drawn_with_replacement() -> None:
    one, labels = cell("similar_dissimilar_unlabeled", "stl10", "similar=0,dissimilar=2000"), source_labels("stl10")
    few = one.weakened(labels, seeded(), num_dissimilar=1000).groups[0].indices
    many = one.weakened(labels, seeded()).groups[0].indices
    assert len(torch.unique(few)) == len(few)  # 1000 of the 2000 positives
    assert len(torch.unique(many)) < len(many)  # all of them would leave none to be unlabeled


def released(one: Cell) -> Weakened:
    return one.weakened(source_labels(one.dataset), seeded(), **one.released)


@pytest.mark.parametrize(
    ("setting", "dataset", "name", "counts"),
    [
        ("pair_similarity", "cifar10", "prior=0.4", (2000, 4500, 12_000)),
        ("similar_dissimilar_unlabeled", "cifar10", "similar=5000,dissimilar=5000", (400, 900, 2400)),
        ("similar_dissimilar_unlabeled", "mnist", "similar=5000,dissimilar=5000", (1224, 225, 2100)),
        ("similar_dissimilar_unlabeled", "stl10", "similar=0,dissimilar=2000", (0, 0, 960)),
    ],
)
def test_released_samplers_draw_the_numbers_of_the_specification(
    setting: str, dataset: str, name: str, counts: tuple[int, int, int]
) -> None:
    found = released(cell(setting, dataset, name)).statistics
    assert tuple(found[f"{sort}_pairs"] for sort in ("positive", "negative", "mixed")) == counts


@pytest.mark.parametrize(
    ("setting", "dataset", "name", "number", "options"),
    [
        ("multi_instance", "mnist", "classes=2,mean=10", 500, {"redraw": "bag", "num_bags": 500}),
        ("multi_instance", "mnist", "classes=2,mean=50", 250, {"redraw": "bag"}),
        ("multi_instance", "cifar10", "classes=2,mean=20", 1250, {"redraw": "bag", "num_bags": 1250}),
        ("multi_instance", "cifar10", "classes=10,mean=20", 2500, {}),
        ("proportions", "mnist", "classes=2,mean=10", 1000, {"redraw": "bag", "reject_empty": True}),
        ("proportions", "mnist", "classes=10,mean=20", 500, {"std": 10}),
        ("proportions", "stl10", "classes=2,mean=5", 1000, {"redraw": "bag", "reject_empty": True, "num_bags": 1000}),
    ],
)
def test_released_bags_are_those_of_the_configurations(
    setting: str, dataset: str, name: str, number: int, options: dict[str, Any]
) -> None:
    one = cell(setting, dataset, name)
    assert one.released == options
    assert len(released(one).groups) == number


def test_released_unlabeled_data_hold_prior_squared_positives() -> None:
    record = released(cell("positive_unlabeled", "cifar10", "positives=1000"))
    assert record.statistics["unlabeled_share"] == pytest.approx(0.16, abs=0.01)


def test_released_class_splits_are_used() -> None:
    one = cell("similar_dissimilar_unlabeled", "fashion_mnist", "similar=5000,dissimilar=5000")
    assert one.released["positive"] == (0, 1, 2, 3, 4)
    assert one.task_labels([0, 5, 9]).tolist() == [0, 1, 1]
    assert one.task_labels([0, 5, 9], one.released["positive"]).tolist() == [1, 0, 0]
    pairs = released(one).groups[0].indices
    share = one.task_labels(source_labels("fashion_mnist"), (0, 1, 2, 3, 4))[pairs].double().mean()
    assert float(share) == pytest.approx((2 * 1224 + 2100) / (2 * 3549))


@pytest.mark.parametrize("dataset", ["stl10", "fashion_mnist"])
def test_released_options_are_accepted(dataset: str) -> None:
    labels = source_labels(dataset)
    for one in cells(dataset=dataset):
        true = one.task_labels(labels, one.released.get("positive"))
        options = {"scores": 0.02 + 0.96 * true.double()} if one.setting in SCORED else {}
        assert len(groups_of(one.weakened(labels, seeded(), **one.released, **options))[0]), one


@pytest.mark.parametrize("setting", SCORED)
def test_confidences_must_be_given(setting: str) -> None:
    with pytest.raises(DataError, match=f"^{setting} needs scores: P\\(positive\\) of every instance, from a model$"):
        cells(setting)[0].weakened(source_labels("mnist", 100), seeded())


def test_confidences_are_refused_where_nothing_uses_them() -> None:
    with pytest.raises(DataError, match=r"^pair_similarity takes no scores; leave them out$"):
        cells("pair_similarity")[0].weakened([0, 9], seeded(), scores=[0.5, 0.5])


def test_unknown_option_gets_the_nearest() -> None:
    with pytest.raises(DataError, match=r"option of pair_similarity is called 'num_pair'; did you mean num_pairs\?$"):
        cells("pair_similarity")[0].weakened([0, 9], seeded(), num_pair=3)


def test_positive_classes_cannot_be_chosen_where_there_are_none() -> None:
    with pytest.raises(DataError, match=r"^Cell\(partial_labels, mnist, ratio=0\.1\) tells all classes apart"):
        cells("partial_labels")[0].weakened([0, 9], seeded(), positive=[9])


def test_labels_must_be_classes_of_the_data_set() -> None:
    with pytest.raises(DataError, match="10"):
        cells("pair_similarity", "mnist")[0].weakened([0, 10], seeded())
