"""Unlabeled sets with a known class prior, combined with positives, another such set, or pairs."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data._groups import Groups
from glws.data.weaken._pairs import PairCounts, SimilarityRule, draw_pairs, either_order, similarity_counts
from glws.data.weaken._pools import (
    Pool,
    Pools,
    Replacement,
    binary_pools,
    checked_number,
    checked_prior,
    distinct,
    draw,
    integers,
    nearest,
    shuffled,
)
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import Count, Labels, Numbers, PairSimilarity, Unlabeled

UnlabeledRule = Literal["matched", "rest", "all", "released"]
RULES = ("matched", "rest", "all", "released")


def positive_unlabeled(
    labels: Numbers,
    num_positives: int,
    *,
    generator: torch.Generator,
    prior: float | None = None,
    rule: UnlabeledRule = "matched",
    group_size: int = 64,
    count: Count = "expected",
    num_extra: int = 0,
) -> Weakened:
    """Some labeled positives, and unlabeled groups with the prior of their set: `Labels` and `Unlabeled`.

    `rule` determines which instances are unlabeled, and which prior they get:

    "matched" (default): as many as possible with the share `prior` (default: that of all the labels) of positives,
        none of them labeled: all remaining positives with round(rem (1-π)/π) negatives, or, if these are too few,
        all negatives with the corresponding positives.
    "rest": all instances that are not labeled; the prior is their share (πN - n)/(N - n).
    "all": all instances, including the labeled ones (censoring); the prior is the share of all.
    "released": the draw of the released sampler. The "positives" of the unlabeled part are instances of any class,
        drawn with replacement from the first ones, so that about π² of the set is positive, while the prior is π.

    `num_extra` further instances, numbered after the labels, join the unlabeled set; their prior is only assumed.
    Groups are random parts of the set of at most `group_size`; `unlabeled_groups` draws new ones, for each epoch say.

    >>> record = positive_unlabeled([0, 1] * 50, 10, group_size=40, generator=torch.Generator().manual_seed(0))
    >>> record.statistics["unlabeled_positives"], record.statistics["unlabeled_negatives"]
    (40.0, 40.0)
    """
    true, pools = binary_pools(labels)
    positives = draw(pools.positives, checked_number(num_positives, "num_positives"), "never", generator)
    target = pools.share if prior is None else checked_prior(prior)
    if rule not in RULES:
        raise DataError(f"rule must be one of {', '.join(RULES)}, found {rule!r}")
    if rule in ("rest", "all") and prior is not None:
        raise DataError(f'rule "{rule}" takes all instances; leave out prior')
    members = _unlabeled_members(true, pools, positives, target, rule, generator)
    share = float(true[members].double().mean()) if len(members) else target
    stated_prior = target if rule == "released" or num_extra else share
    everyone = torch.cat([members, len(true) + torch.arange(num_extra)])
    if not len(everyone):
        raise DataError(f"all {len(pools.positives)} positives are labeled: none is left for the prior {target:g}")
    groups, weak = unlabeled_groups(everyone, stated_prior, group_size=group_size, count=count, generator=generator)
    statistics = {
        "labeled_positives": float(len(positives)),
        **_set_statistics(true, members, "unlabeled"),
        "extra": float(num_extra),
        "prior": stated_prior,
    }
    labeled = Labels.of(torch.ones_like(positives), 2)
    return Weakened((Groups.of(positives[:, None]), groups), (labeled, weak), statistics)


def unlabeled_unlabeled(
    labels: Numbers,
    sizes: tuple[int, int],
    priors: tuple[float, float],
    *,
    generator: torch.Generator,
    group_size: int = 64,
    count: Count = "expected",
    replacement: Replacement = "auto",
) -> Weakened:
    """Two disjoint unlabeled sets with different shares of positives, exactly round(n θ) in each.

    Without replacement if there are enough instances. If not ("auto"), the positives are first divided among the
    sets in proportion to their needs, and then drawn with replacement; the negatives likewise. "always" is
    the released rule: the first set with replacement from all, the second from those that the first did not draw.

    >>> draw = dict(generator=torch.Generator().manual_seed(0))
    >>> record = unlabeled_unlabeled([0, 1] * 50, (20, 30), (0.8, 0.2), **draw)
    >>> [weak.prior[0].item() for weak in record.weak]
    [0.8, 0.2]
    """
    true, pools = binary_pools(labels)
    if nearest(sizes[0] * priors[0]) * sizes[1] == nearest(sizes[1] * priors[1]) * sizes[0]:
        raise DataError(f"two sets with the same share of positives do not identify the classes, found priors {priors}")
    num_positives = [nearest(checked_number(n, "sizes") * checked_prior(p)) for n, p in zip(sizes, priors, strict=True)]
    positives = _two_sets(pools.positives, (num_positives[0], num_positives[1]), replacement, generator)
    others = (sizes[0] - num_positives[0], sizes[1] - num_positives[1])
    negatives = _two_sets(pools.negatives, others, replacement, generator)
    members = [torch.cat(both) for both in zip(positives, negatives, strict=True)]
    statistics: dict[str, float] = {}
    parts = []
    for name, chosen, number in zip(("first", "second"), members, num_positives, strict=True):
        assert int(true[chosen].sum()) == number
        share = number / len(chosen)
        statistics |= _set_statistics(true, chosen, name)
        parts.append(unlabeled_groups(chosen, share, group_size=group_size, count=count, generator=generator))
    return Weakened((parts[0][0], parts[1][0]), (parts[0][1], parts[1][1]), statistics)


def similar_dissimilar_unlabeled(
    labels: Numbers,
    num_similar: int,
    num_dissimilar: int,
    num_unlabeled: int,
    prior: float,
    *,
    generator: torch.Generator,
    rule: SimilarityRule = "exact",
    group_size: int = 64,
    count: Count = "expected",
    replacement: Replacement = "auto",
) -> Weakened:
    """Similar or dissimilar pairs, and unlabeled instances with a class prior: `PairSimilarity` and `Unlabeled`.

    `rule="exact"`: round(n_S π² / (π² + (1-π)²)) of the similar pairs are of two positives, the others of two
    negatives; the two of a dissimilar pair are in random order. Of the unlabeled instances round(n_U π) are positive,
    and none is in a pair. `rule="released"` thins the pairs as the released code does (see `similarity_counts`): with
    π = 0.4, 5000 + 5000 pairs become 1300 similar and 2400 dissimilar ones, the positive first in each of the latter.

    At prior 1/2 the classes are not identifiable: an error.

    >>> draw = dict(generator=torch.Generator().manual_seed(0))
    >>> record = similar_dissimilar_unlabeled([0, 1] * 50, 10, 10, 20, 0.4, **draw)
    >>> [int(record.statistics[name]) for name in ("positive_pairs", "negative_pairs", "mixed_pairs")]
    [3, 7, 10]
    """
    true, pools = binary_pools(labels)
    if checked_prior(prior) == 0.5:
        raise DataError("at prior 0.5 the classes are not identifiable; use another prior")
    counts = sdu_counts(num_similar, num_dissimilar, prior, rule)
    pairs = draw_pairs(pools, counts, replacement, generator)
    if rule == "exact":
        pairs = either_order(pairs, generator)
    pairs = shuffled(pairs, generator)
    num_positives = nearest(checked_number(num_unlabeled, "num_unlabeled") * prior)
    left = pools.without(pairs.flatten())
    members = torch.cat(
        [
            draw(left.positives, num_positives, replacement, generator),
            draw(left.negatives, num_unlabeled - num_positives, replacement, generator),
        ]
    )
    share = num_positives / num_unlabeled
    groups, weak = unlabeled_groups(members, share, group_size=group_size, count=count, generator=generator)
    same = true[pairs[:, 0]] == true[pairs[:, 1]]
    statistics = {
        "positive_pairs": float(counts.positive),
        "negative_pairs": float(counts.negative),
        "mixed_pairs": float(counts.mixed),
        **_set_statistics(true, members, "unlabeled"),
    }
    return Weakened((Groups.of(pairs), groups), (PairSimilarity.of(same), weak), statistics)


def sdu_counts(num_similar: int, num_dissimilar: int, prior: float, rule: SimilarityRule = "exact") -> PairCounts:
    """Numbers of pairs of each sort among these numbers of similar and dissimilar ones.

    >>> sdu_counts(5000, 5000, 0.7, "released")
    PairCounts(positive=1224, negative=225, mixed=2100)
    """
    if min(num_similar, num_dissimilar) < 0 or num_similar + num_dissimilar == 0:
        raise DataError(f"there must be some pairs, found {num_similar} similar and {num_dissimilar} dissimilar ones")
    if rule == "released":
        similar = similarity_counts(max(num_similar, 1), prior, rule)
        mixed = similarity_counts(num_dissimilar, prior, rule).mixed if num_dissimilar else 0
        return similar._replace(mixed=mixed) if num_similar else PairCounts(0, 0, mixed)
    if rule != "exact":
        raise DataError(f"rule must be one of exact, released, found {rule!r}")
    positive = nearest(num_similar * prior**2 / (prior**2 + (1 - prior) ** 2))
    return PairCounts(positive, num_similar - positive, num_dissimilar)


def unlabeled_groups(
    members: Int[Tensor, "members"],
    prior: float,
    *,
    generator: torch.Generator,
    group_size: int = 64,
    count: Count = "expected",
) -> tuple[Groups, Unlabeled]:
    """The members in random groups of at most `group_size`, of nearly equal size, all with one prior.

    The prior is that of the whole set, so new groups may be drawn at any time. `count="hypergeometric"` uses the
    members as the population. `count="dataset"` needs predictions: use `Unlabeled.dataset`.

    >>> groups, weak = unlabeled_groups(torch.arange(10), 0.3, group_size=4, generator=torch.Generator())
    >>> groups.lengths.tolist(), weak.prior.tolist()
    ([4, 3, 3], [0.3, 0.3, 0.3])
    """
    num_groups = -(-len(members) // checked_number(group_size, "group_size"))
    parts = shuffled(members, generator).tensor_split(num_groups)
    sizes = torch.tensor([0, *(len(part) for part in parts)])
    priors = [prior] * num_groups
    if count == "hypergeometric":
        weak = Unlabeled.hypergeometric(priors, [len(members)] * num_groups)
    else:
        weak = Unlabeled.of(priors, count, generator=generator)
    return Groups(sizes.cumsum(0), torch.cat(parts)), weak


def _unlabeled_members(
    true: Int[Tensor, "instances"],
    pools: Pools,
    labeled: Int[Tensor, "labeled"],
    prior: float,
    rule: UnlabeledRule,
    generator: torch.Generator,
) -> Int[Tensor, "members"]:
    everyone = torch.arange(len(true))
    if rule == "all":
        return everyone
    if rule == "rest":
        return everyone[~torch.isin(everyone, labeled)]
    left = pools.without(labeled)
    if rule == "released":
        return _released_members(left, len(true) - len(labeled), prior, generator)
    positives, negatives = matched_numbers(len(left.positives), len(left.negatives), prior)
    return torch.cat(
        [
            draw(left.positives, positives, "never", generator),
            draw(left.negatives, negatives, "never", generator),
        ]
    )


def matched_numbers(positives: int, negatives: int, prior: float) -> tuple[int, int]:
    """The most positives and negatives with this share of positives, out of those available.

    >>> matched_numbers(19_500, 30_000, 0.4)
    (19500, 29250)
    >>> matched_numbers(100, 90, 0.1)
    (10, 90)
    """
    if prior * negatives >= (1 - prior) * positives:
        return positives, (nearest(positives * (1 - prior) / prior) if positives else 0)
    return nearest(negatives * prior / (1 - prior)), negatives


def _released_members(left: Pools, number: int, prior: float, generator: torch.Generator) -> Int[Tensor, "members"]:
    """Places among the remaining positives, used as numbers of instances, like the released code."""
    positives = int(number * prior)
    places = integers(len(left.positives), positives, generator)
    return torch.cat([places, draw(left.negatives, number - positives, "auto", generator)])


def _two_sets(
    pool: Pool, numbers: tuple[int, int], replacement: Replacement, generator: torch.Generator
) -> tuple[Int[Tensor, "first"], Int[Tensor, "second"]]:
    """Members for two sets without a common one."""
    if replacement == "always":
        first = draw(pool, numbers[0], "always", generator)
        return first, draw(pool.without(first), numbers[1], "always", generator)
    order = shuffled(pool.members, generator)
    if distinct(pool, sum(numbers), replacement):
        return order[: numbers[0]], order[numbers[0] : sum(numbers)]
    cut = nearest(len(order) * numbers[0] / sum(numbers))
    shares = (Pool(order[:cut], f"{pool.name} of the first set"), Pool(order[cut:], f"{pool.name} of the second set"))
    return draw(shares[0], numbers[0], "auto", generator), draw(shares[1], numbers[1], "auto", generator)


def _set_statistics(true: Int[Tensor, "instances"], members: Int[Tensor, "members"], name: str) -> dict[str, float]:
    positives = int(true[members].sum())
    return {
        f"{name}_positives": float(positives),
        f"{name}_negatives": float(len(members) - positives),
        f"{name}_distinct": float(len(torch.unique(members))),
        f"{name}_share": positives / max(len(members), 1),
    }
