"""Pairs of instances with a class prior: ordered pairs, and similar or dissimilar pairs."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data._groups import Groups
from glws.data.weaken._pools import (
    Pool,
    Pools,
    Replacement,
    binary_pools,
    checked_number,
    checked_prior,
    distinct,
    down,
    integers,
    nearest,
    shuffled,
)
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import Numbers, PairComparison, PairSimilarity, Ties

ComparisonRule = Literal["swap", "discard"]
"""How ordered pairs are drawn: two instances put in order, or pairs kept only if they are in order."""
SimilarityRule = Literal["exact", "released"]


class PairCounts(NamedTuple):
    """Numbers of pairs of two positives, of two negatives, of one each."""

    positive: int
    negative: int
    mixed: int


def pair_comparison(
    labels: Numbers,
    num_pairs: int,
    prior: float,
    *,
    generator: torch.Generator,
    rule: ComparisonRule = "swap",
    ties: Ties = "half",
    replacement: Replacement = "auto",
) -> Weakened:
    """Ordered pairs, the first at least as positive as the second, from instances with this class prior.

    `rule="swap"` (the GLWS paper): two instances are drawn and sorted. Of n pairs round(n π²) are of two
    positives, round(n (1-π)²) of two negatives, the rest is mixed. `rule="discard"` (the original comparison paper): a
    pair in the wrong order is rejected, so mixed pairs are half as frequent: with D = 1 - π(1-π),
    ⌊n π²/D⌋ positive, ⌊n π(1-π)/D⌋ mixed, the rest negative. Risk estimators for one rule are biased on the
    other. `ties` goes to `PairComparison`; its default weights are those of "swap".

    >>> record = pair_comparison([0, 1] * 50, 20, 0.5, generator=torch.Generator().manual_seed(0))
    >>> [int(record.statistics[name]) for name in ("positive_pairs", "negative_pairs", "mixed_pairs")]
    [5, 5, 10]
    """
    true, pools = binary_pools(labels)
    counts = comparison_counts(num_pairs, prior, rule)
    pairs = shuffled(draw_pairs(pools, counts, replacement, generator), generator)
    statistics = pair_statistics(true, pairs, counts)
    return Weakened(Groups.of(pairs), PairComparison.of(torch.zeros(len(pairs)), ties=ties), statistics)


def pair_similarity(
    labels: Numbers,
    num_pairs: int,
    prior: float,
    *,
    generator: torch.Generator,
    rule: SimilarityRule = "exact",
    replacement: Replacement = "auto",
) -> Weakened:
    """Pairs, and whether their labels are the same, from instances with this class prior.

    `rule="exact"`: of n pairs round(n π²) are of two positives, round(n (1-π)²) of two negatives, the rest is mixed, in
    random order. `rule="released"`: like the released code, which counts similar *instances* but dissimilar *pairs*, so
    that there are half as many similar pairs as the prior implies, fewer pairs than requested, and the positive of a
    mixed pair always comes first.

    >>> record = pair_similarity([0, 1] * 50, 20, 0.4, generator=torch.Generator().manual_seed(0))
    >>> int(record.weak.same.sum()), record.statistics["mixed_pairs"]
    (10, 10.0)
    """
    true, pools = binary_pools(labels)
    counts = similarity_counts(num_pairs, prior, rule)
    pairs = draw_pairs(pools, counts, replacement, generator)
    if rule == "exact":
        pairs = either_order(pairs, generator)
    pairs = shuffled(pairs, generator)
    same = true[pairs[:, 0]] == true[pairs[:, 1]]
    return Weakened(Groups.of(pairs), PairSimilarity.of(same), pair_statistics(true, pairs, counts))


def comparison_counts(num_pairs: int, prior: float, rule: ComparisonRule = "swap") -> PairCounts:
    """Numbers of pairs of each sort among `num_pairs` ordered pairs.

    >>> comparison_counts(20_000, 0.8, "discard")
    PairCounts(positive=15238, negative=953, mixed=3809)
    """
    if rule not in ("swap", "discard"):
        raise DataError(f"rule must be one of swap, discard, found {rule!r}")
    if rule == "swap":
        return similarity_counts(num_pairs, prior)
    checked_number(num_pairs, "num_pairs")
    kept = 1 - checked_prior(prior) * (1 - prior)
    positive, mixed = down(num_pairs * prior**2 / kept), down(num_pairs * prior * (1 - prior) / kept)
    return PairCounts(positive, num_pairs - positive - mixed, mixed)


def similarity_counts(num_pairs: int, prior: float, rule: SimilarityRule = "exact") -> PairCounts:
    """Numbers of pairs of each sort among `num_pairs` pairs of independent draws.

    >>> similarity_counts(25_000, 0.4, "released")
    PairCounts(positive=2000, negative=4500, mixed=12000)
    """
    checked_number(num_pairs, "num_pairs")
    checked_prior(prior)
    if rule == "released":  # truncated as in the released code, with floating point errors
        return PairCounts(
            int(num_pairs * prior**2) // 2,
            int(num_pairs * (1 - prior) ** 2) // 2,
            int(num_pairs * 2 * prior * (1 - prior)),
        )
    if rule != "exact":
        raise DataError(f"rule must be one of exact, released, found {rule!r}")
    positive, negative = nearest(num_pairs * prior**2), nearest(num_pairs * (1 - prior) ** 2)
    return PairCounts(positive, negative, num_pairs - positive - negative)


def draw_pairs(
    pools: Pools, counts: PairCounts, replacement: Replacement, generator: torch.Generator
) -> Int[Tensor, "pairs 2"]:
    """Pairs of two positives, then of two negatives, then mixed ones with the positive first."""
    positive, first = _same_and_single(pools.positives, counts.positive, counts.mixed, replacement, generator)
    negative, second = _same_and_single(pools.negatives, counts.negative, counts.mixed, replacement, generator)
    return torch.cat([positive, negative, torch.stack([first, second], 1)])


def either_order(pairs: Int[Tensor, "pairs 2"], generator: torch.Generator) -> Int[Tensor, "pairs 2"]:
    """The pairs, each reversed with probability 1/2."""
    turned = torch.rand(len(pairs), 1, generator=generator) < 0.5
    return torch.where(turned, pairs.flip(1), pairs)


def pair_statistics(
    true: Int[Tensor, "instances"], pairs: Int[Tensor, "pairs 2"], requested: PairCounts
) -> dict[str, float]:
    """Statistics of the pairs, whose numbers must be the requested ones."""
    labels = true[pairs]
    total = labels.sum(1)
    counts = PairCounts(*(int((total == sort).sum()) for sort in (2, 0, 1)))
    assert counts == requested, f"requested {requested}, drew {counts}"
    return {
        "pairs": float(len(pairs)),
        "positive_pairs": float(counts.positive),
        "negative_pairs": float(counts.negative),
        "mixed_pairs": float(counts.mixed),
        "similar_share": 1 - counts.mixed / max(len(pairs), 1),
        "positive_share": float(labels.double().mean()) if len(pairs) else 0.0,
        "positive_share_first": float(labels[:, 0].double().mean()) if len(pairs) else 0.0,
        "positive_share_second": float(labels[:, 1].double().mean()) if len(pairs) else 0.0,
    }


def _same_and_single(
    pool: Pool, num_same: int, num_single: int, replacement: Replacement, generator: torch.Generator
) -> tuple[Int[Tensor, "same 2"], Int[Tensor, "single"]]:
    """Pairs of two different members, and single members: all distinct if there are enough."""
    if num_same and len(pool) < 2:
        raise DataError(f"{num_same} pairs of two {pool.name} are needed, but there are only {len(pool)}")
    needed = 2 * num_same + num_single
    if distinct(pool, needed, replacement):
        members = shuffled(pool.members, generator)[:needed]
        return members[: 2 * num_same].view(-1, 2), members[2 * num_same :]
    first = integers(len(pool), num_same, generator)
    other = (first + 1 + integers(len(pool) - 1, num_same, generator)) % len(pool)
    return pool.members[torch.stack([first, other], 1)], pool.members[integers(len(pool), num_single, generator)]
