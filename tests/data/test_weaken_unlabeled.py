"""Positive-unlabeled, unlabeled-unlabeled and similar-dissimilar-unlabeled data: every number of the specification."""

import math
import time

import pytest
import torch

from glws.data.weaken import (
    matched_numbers,
    positive_unlabeled,
    sdu_counts,
    similar_dissimilar_unlabeled,
    unlabeled_groups,
    unlabeled_unlabeled,
)
from glws.errors import DataError

SIZES = {"mnist": (30_596, 60_000), "fashion": (18_000, 60_000), "cifar": (20_000, 50_000), "stl": (2000, 5000)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labels_of(name: str) -> torch.Tensor:
    positives, number = SIZES[name]
    return (torch.randperm(number, generator=seeded(99)) < positives).long()


@pytest.mark.parametrize(
    ("name", "labeled", "positives", "negatives"),
    [
        ("mnist", 100, 30496, 29308),
        ("mnist", 500, 30096, 28923),
        ("mnist", 1000, 29596, 28443),
        ("fashion", 100, 17900, 41767),
        ("fashion", 500, 17500, 40833),
        ("fashion", 1000, 17000, 39667),
        ("cifar", 500, 19500, 29250),
        ("cifar", 1000, 19000, 28500),
        ("cifar", 2000, 18000, 27000),
        ("cifar", 4000, 16000, 24000),
        ("stl", 500, 1500, 2250),
        ("stl", 1000, 1000, 1500),
    ],
)
def test_matched_sets_have_the_sizes_of_the_specification(
    name: str, labeled: int, positives: int, negatives: int
) -> None:
    labels = labels_of(name)
    record = positive_unlabeled(labels, labeled, generator=seeded())
    assert record.statistics["unlabeled_positives"] == positives
    assert record.statistics["unlabeled_negatives"] == negatives
    known, unlabeled = (groups.indices for groups in record.groups)
    assert len(torch.unique(torch.cat([known, unlabeled]))) == labeled + positives + negatives
    assert (labels[known] == 1).all()
    assert (record.weak[0].labels == 1).all()
    assert record.weak[1].prior[0].item() == pytest.approx(SIZES[name][0] / SIZES[name][1], abs=1e-4)


@pytest.mark.parametrize(("labeled", "prior"), [(500, 0.39394), (1000, 0.38776), (2000, 0.375)])
def test_the_rest_has_its_own_prior(labeled: int, prior: float) -> None:
    record = positive_unlabeled(labels_of("cifar"), labeled, rule="rest", generator=seeded())
    assert record.weak[1].prior[0].item() == pytest.approx(prior, abs=1e-5)
    assert len(record.groups[1].indices) == 50_000 - labeled


def test_censored_set_holds_everything() -> None:
    record = positive_unlabeled(labels_of("stl"), 500, rule="all", generator=seeded())
    assert len(torch.unique(record.groups[1].indices)) == 5000
    assert record.statistics["prior"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("name", "prior", "share"), [("cifar", 0.4, 0.16), ("fashion", 0.3, 0.092), ("mnist", 0.509933, 0.259)]
)
def test_released_sampler_misses_its_prior(name: str, prior: float, share: float) -> None:
    found = positive_unlabeled(labels_of(name), 500, rule="released", generator=seeded())
    assert found.statistics["unlabeled_share"] == pytest.approx(share, abs=0.006)
    assert found.weak[1].prior[0].item() == pytest.approx(prior, abs=1e-5)
    if name == "cifar":
        assert found.statistics["unlabeled_distinct"] == pytest.approx(34_700, abs=400)


def test_matched_numbers_go_both_ways() -> None:
    assert matched_numbers(19_500, 30_000, 0.4) == (19_500, 29_250)
    assert matched_numbers(100, 90, 0.1) == (10, 90)
    assert matched_numbers(7, 5, 1.0) == (7, 0)
    assert matched_numbers(7, 5, 0.0) == (0, 5)
    assert matched_numbers(0, 5, 0.5) == (0, 0)
    skewed = positive_unlabeled(labels_of("stl"), 500, prior=0.1, generator=seeded()).statistics
    assert (skewed["unlabeled_positives"], skewed["unlabeled_negatives"]) == (333, 3000)


def test_extra_instances_join_with_an_assumed_prior() -> None:
    record = positive_unlabeled(labels_of("stl"), 2000, num_extra=1000, generator=seeded())
    assert sorted(record.groups[1].indices.tolist()) == list(range(5000, 6000))
    assert record.weak[1].prior[0].item() == pytest.approx(0.4)
    assert record.statistics["extra"] == 1000
    with pytest.raises(DataError, match=r"all 2000 positives are labeled: none is left for the prior 0\.4"):
        positive_unlabeled(labels_of("stl"), 2000, generator=seeded())


@pytest.mark.parametrize(
    ("number", "keywords", "message"),
    [
        (3, {}, "3 positives are needed without replacement, but there are only 2"),
        (0, {}, "num_positives must be at least 1"),
        (1, {"rule": "some"}, "rule must be one of matched, rest, all, released, found 'some'"),
        (1, {"rule": "rest", "prior": 0.3}, 'rule "rest" takes all instances; leave out prior'),
        (1, {"group_size": 0}, "group_size must be at least 1"),
        (1, {"count": "dataset"}, "count must be one of"),
    ],
)
def test_what_cannot_be_had_is_named(number: int, keywords: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        positive_unlabeled([0, 1, 1, 0, 0], number, generator=seeded(), **keywords)


def test_groups_are_equal_parts_and_new_ones_can_be_drawn() -> None:
    members = torch.arange(1000, 1150)
    groups, weak = unlabeled_groups(members, 0.3, group_size=64, generator=seeded(1))
    again, _ = unlabeled_groups(members, 0.3, group_size=64, generator=seeded(2))
    assert groups.lengths.tolist() == [50, 50, 50]
    assert torch.equal(groups.indices.sort().values, members)
    assert not torch.equal(groups.indices, again.indices)
    _, sampled = unlabeled_groups(members, 0.3, count="hypergeometric", generator=seeded())
    assert sampled.population.tolist() == [150] * 3
    assert len(weak) == 3


@pytest.mark.parametrize(("first", "second"), [(0.4, 0.6), (0.8, 0.2)])
def test_two_sets_have_exact_counts_and_no_common_instance(first: float, second: float) -> None:
    labels = labels_of("cifar")
    record = unlabeled_unlabeled(labels, (25_000, 25_000), (first, second), generator=seeded())
    assert record.statistics["first_positives"] == 25_000 * first
    assert record.statistics["second_positives"] == 25_000 * second
    sets = [groups.indices for groups in record.groups]
    assert not torch.isin(sets[0], sets[1]).any()
    assert [weak.prior[0].item() for weak in record.weak] == pytest.approx([first, second])


def test_two_sets_without_replacement_while_instances_last() -> None:
    record = unlabeled_unlabeled(labels_of("cifar"), (10_000, 10_000), (0.4, 0.6), generator=seeded())
    assert record.statistics["first_distinct"] == record.statistics["second_distinct"] == 10_000
    with pytest.raises(DataError, match="25000 positives are needed without replacement, but there are only 20000"):
        unlabeled_unlabeled(labels_of("cifar"), (25_000, 25_000), (0.8, 0.2), replacement="never", generator=seeded())


def test_released_rule_of_two_sets_repeats_instances() -> None:
    record = unlabeled_unlabeled(
        labels_of("cifar"), (25_000, 25_000), (0.8, 0.2), replacement="always", generator=seeded()
    )
    assert record.statistics["first_distinct"] == pytest.approx(17_300, abs=200)
    sets = [groups.indices for groups in record.groups]
    assert not torch.isin(sets[0], sets[1]).any()


def test_two_sets_that_are_alike_tell_nothing() -> None:
    with pytest.raises(DataError, match="two sets with the same share of positives do not identify the classes"):
        unlabeled_unlabeled([0, 1] * 20, (10, 20), (0.4, 0.4), generator=seeded())
    with pytest.raises(DataError, match="prior must be within 0 and 1"):
        unlabeled_unlabeled([0, 1] * 20, (10, 20), (1.4, 0.4), generator=seeded())


@pytest.mark.parametrize(
    ("similar", "dissimilar", "prior", "counts"),
    [
        (5000, 5000, 0.4, (400, 900, 2400)),
        (10_000, 0, 0.4, (800, 1800, 0)),
        (0, 10_000, 0.4, (0, 0, 4800)),
        (5000, 5000, 0.7, (1224, 225, 2100)),
        (10_000, 10_000, 0.7, (2449, 450, 4200)),
        (1000, 1000, 0.4, (80, 180, 480)),
        (2000, 2000, 0.4, (160, 360, 960)),
    ],
)
def test_released_pairs_are_those_of_the_specification(
    similar: int, dissimilar: int, prior: float, counts: tuple[int, int, int]
) -> None:
    assert sdu_counts(similar, dissimilar, prior, "released") == counts


@pytest.mark.parametrize("prior", [0.4, 0.7])
def test_pairs_and_unlabeled_are_exact_and_apart(prior: float) -> None:
    labels = labels_of("cifar")
    record = similar_dissimilar_unlabeled(labels, 1000, 500, 4001, prior, generator=seeded())
    both = math.floor(1000 * prior**2 / (prior**2 + (1 - prior) ** 2) + 0.5)
    pairs, unlabeled = record.groups[0].indices.view(-1, 2), record.groups[1].indices
    first, second = labels[pairs].unbind(1)
    assert int((first & second).sum()) == both == record.statistics["positive_pairs"]
    assert int((first != second).sum()) == 500
    assert torch.equal(record.weak[0].same, first == second)
    assert int(labels[unlabeled].sum()) == math.floor(4001 * prior + 0.5)
    assert not torch.isin(unlabeled, pairs).any()
    assert first[first != second].double().mean() == pytest.approx(0.5, abs=0.1)


def test_pairs_with_prior_one_half_are_refused() -> None:
    with pytest.raises(DataError, match=r"at prior 0\.5 the classes are not identifiable"):
        similar_dissimilar_unlabeled([0, 1] * 50, 5, 5, 10, 0.5, generator=seeded())
    with pytest.raises(DataError, match="there must be some pairs"):
        similar_dissimilar_unlabeled([0, 1] * 50, 0, 0, 10, 0.4, generator=seeded())
    with pytest.raises(DataError, match="negatives left over are needed, but there are none"):
        similar_dissimilar_unlabeled([0] * 12 + [1] * 90, 0, 12, 10, 0.4, generator=seeded())


def test_large_sets_are_quick_and_the_same_for_a_seed() -> None:
    labels = labels_of("cifar")
    began = time.perf_counter()
    first = positive_unlabeled(labels, 1000, generator=seeded(7))
    unlabeled_unlabeled(labels, (25_000, 25_000), (0.8, 0.2), generator=seeded(7))
    similar_dissimilar_unlabeled(labels, 5000, 5000, 20_000, 0.4, generator=seeded(7))
    assert time.perf_counter() - began < 3.0
    again = positive_unlabeled(labels, 1000, generator=seeded(7))
    assert torch.equal(first.groups[1].indices, again.groups[1].indices)
    first.dataset(torch.zeros(len(labels), 1))
