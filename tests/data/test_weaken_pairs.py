"""Pairs with a class prior: every count of the specification, order, pools."""

import pytest
import torch

from glws.data.weaken import comparison_counts, pair_comparison, pair_similarity, similarity_counts
from glws.errors import DataError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labels_of(number: int = 50_000, share: float = 0.4) -> torch.Tensor:
    return (torch.randperm(number, generator=seeded(99)) < round(number * share)).long()


@pytest.mark.parametrize(
    ("prior", "rule", "counts"),
    [
        (0.5, "swap", (5000, 5000, 10000)),
        (0.8, "swap", (12800, 800, 6400)),
        (0.2, "swap", (800, 12800, 6400)),
        (0.5, "discard", (6666, 6668, 6666)),
        (0.8, "discard", (15238, 953, 3809)),
        (0.2, "discard", (952, 15239, 3809)),
    ],
)
def test_compared_pairs_are_those_of_the_specification(prior: float, rule: str, counts: tuple[int, int, int]) -> None:
    assert comparison_counts(20_000, prior, rule) == counts
    found = pair_comparison(labels_of(), 20_000, prior, rule=rule, generator=seeded()).statistics
    assert (found["positive_pairs"], found["negative_pairs"], found["mixed_pairs"]) == counts


@pytest.mark.parametrize(
    ("number", "prior", "rule", "counts"),
    [
        (25_000, 0.4, "exact", (4000, 9000, 12000)),
        (25_000, 0.4, "released", (2000, 4500, 12000)),
        (5000, 0.4, "released", (400, 900, 2400)),
        (10_000, 0.4, "released", (800, 1800, 4800)),
        (5000, 0.7, "released", (1224, 225, 2100)),
        (10_000, 0.7, "released", (2449, 450, 4200)),
        (1, 0.5, "exact", (0, 0, 1)),
        (3, 1.0, "exact", (3, 0, 0)),
        (3, 0.0, "exact", (0, 3, 0)),
    ],
)
def test_similar_pairs_are_those_of_the_specification(number: int, prior: float, rule: str, counts: object) -> None:
    assert similarity_counts(number, prior, rule) == counts


def test_released_rule_makes_too_few_similar_pairs() -> None:
    exact, released = (
        pair_similarity(labels_of(), 25_000, 0.4, rule=rule, generator=seeded()).statistics
        for rule in ("exact", "released")
    )
    assert exact["similar_share"] == pytest.approx(0.52)
    assert released["similar_share"] == pytest.approx(0.3514, abs=1e-4)
    assert released["pairs"] == 18_500


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.8])
def test_positions_have_the_marginals_of_each_rule(prior: float) -> None:
    other = 1 - prior
    swap, discard = (
        pair_comparison(labels_of(), 20_000, prior, rule=rule, generator=seeded()).statistics
        for rule in ("swap", "discard")
    )
    kept = 1 - prior * other
    assert swap["positive_share_first"] == pytest.approx(1 - other**2, abs=1e-4)
    assert swap["positive_share_second"] == pytest.approx(prior**2, abs=1e-4)
    assert discard["positive_share_first"] == pytest.approx(prior / kept, abs=2e-4)
    assert discard["positive_share_second"] == pytest.approx(prior**2 / kept, abs=2e-4)


def test_the_first_of_compared_pairs_is_never_less_positive() -> None:
    labels = labels_of(2000)
    record = pair_comparison(labels, 500, 0.3, generator=seeded())
    first, second = labels[record.groups.indices.view(-1, 2)].unbind(1)
    assert (first >= second).all()
    assert (record.weak.winner == 0).all()


def test_the_place_in_a_similarity_pair_says_nothing() -> None:
    labels = labels_of()
    exact = pair_similarity(labels, 10_000, 0.4, generator=seeded())
    first, second = labels[exact.groups.indices.view(-1, 2)].unbind(1)
    assert torch.equal(exact.weak.same, first == second)
    assert first[first != second].double().mean() == pytest.approx(0.5, abs=0.03)
    released = pair_similarity(labels, 10_000, 0.4, rule="released", generator=seeded())
    first, second = labels[released.groups.indices.view(-1, 2)].unbind(1)
    assert (first[first != second] == 1).all()


def test_instances_are_used_once_while_they_last() -> None:
    labels = labels_of(1000)
    few = pair_similarity(labels, 200, 0.4, generator=seeded()).groups.indices
    assert len(torch.unique(few)) == 400
    with pytest.raises(DataError, match="1600 positives are needed without replacement, but there are only 400"):
        pair_similarity(labels, 2000, 0.4, replacement="never", generator=seeded())
    many = pair_similarity(labels, 2000, 0.4, generator=seeded()).groups.indices.view(-1, 2)
    assert (many[:, 0] != many[:, 1]).all()  # no pair of an instance with itself
    always = pair_similarity(labels, 200, 0.4, replacement="always", generator=seeded()).groups.indices
    assert len(torch.unique(always)) < 400


@pytest.mark.parametrize(
    ("labels", "prior", "keywords", "message"),
    [
        ([0, 0, 1], 0.9, {}, "16 pairs of two positives are needed, but there are only 1"),
        ([0, 0, 0], 0.1, {}, "4 positives are needed, but there are none"),
        ([0, 1], 1.2, {}, "prior must be within 0 and 1, found 1.2"),
        ([0, 1] * 9, 0.5, {"rule": "other"}, "rule must be one of exact, released, found 'other'"),
        ([0, 1] * 9, 0.5, {"replacement": "twice"}, "replacement must be one of auto, never, always, found 'twice'"),
    ],
)
def test_what_cannot_be_had_is_named(labels: list[int], prior: float, keywords: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        pair_similarity(labels, 20, prior, generator=seeded(), **keywords)


def test_wrong_comparisons_are_named() -> None:
    with pytest.raises(DataError, match="rule must be one of swap, discard, found 'exact'"):
        pair_comparison([0, 1] * 9, 4, 0.5, rule="exact", generator=seeded())
    with pytest.raises(DataError, match="num_pairs must be at least 1, found 0"):
        pair_comparison([0, 1] * 9, 0, 0.5, generator=seeded())


def test_same_seed_same_pairs() -> None:
    labels = labels_of(1000)
    first, again, other = (pair_comparison(labels, 100, 0.5, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.groups.indices, again.groups.indices)
    assert not torch.equal(first.groups.indices, other.groups.indices)
