"""Sources that repeat each other: pairs that agree far more often than their confusion matrices explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glws.kinds._vote_arrays import PackedVotes
from glws.kinds._vote_fit import Fit
from glws.kinds._vote_model import Floats, SourceParameters

MOST_SOURCES, MOST_ITEMS = 2_000, 200_000
"""More sources are not compared; of more items a sample is."""
LEAST_Z, LEAST_EXCESS = 5.0, 0.1
"""A pair is dependent if it agrees more often than independent sources would by this many standard deviations, and by
this share of its common items."""
LEAST_COMMON = 20
AT_ONCE, MOST_ROUNDS = 0.8, 5
"""Pairs within this factor of the most dependent one are taken together; so many times."""


class Dependence(NamedTuple):
    """Clusters of dependent sources (their numbers), what each source is worth, and how many all are worth.

    A source is worth 1 / (1 + Σ_b ρ_ab), with ρ_ab the share of the room above expected agreement that a dependent pair
    fills: of n exact copies each is worth 1/n. `effective` is None if there are too many sources to compare.
    """

    clusters: tuple[tuple[int, ...], ...]
    worth: Floats
    effective: float | None


def dependence_of(votes: PackedVotes, found: Fit, refit: Callable[[PackedVotes], Fit]) -> Dependence:
    """Compares all pairs of sources, given the posterior of the items.

    Copies of a source shift the posterior towards it, and then the others look dependent. So the most dependent pairs
    are found first; the next ones by a `refit` in which these are weighted by what they are worth.
    """
    if votes.num_sources > MOST_SOURCES:
        return Dependence((), np.ones(votes.num_sources), None)
    share, worth = np.zeros((votes.num_sources, votes.num_sources)), np.ones(votes.num_sources)
    for _ in range(MOST_ROUNDS):
        more = np.where(share > 0, 0.0, _shares_of_room(votes, found))
        if not (more > 0).any():
            break
        share = np.where(more >= AT_ONCE * more.max(), np.maximum(more, share), share)
        worth = 1 / (1 + np.clip(share, 0, 1).sum(1))
        found = refit(votes._replace(weights=worth))
    has_votes = np.bincount(votes.speakers[votes.said], minlength=votes.num_sources) > 0
    return Dependence(_clusters(share), worth, float(worth[has_votes].sum()))


def _clusters(share: Floats) -> tuple[tuple[int, ...], ...]:
    from scipy.sparse.csgraph import connected_components

    number, names = connected_components(share > 0, directed=False)
    members = [tuple(np.flatnonzero(names == each).tolist()) for each in range(number)]
    return tuple(each for each in members if len(each) > 1)


def _shares_of_room(votes: PackedVotes, found: Fit) -> Floats:
    """Of each dependent pair of sources the share of the room above expected agreement that it fills, 0 of others.

    Over the items on which both vote; if abstentions are informative, over all items, where to say the same class at
    the same time is to agree.
    """
    posterior = found.posterior
    if votes.num_items > MOST_ITEMS:
        chosen = np.sort(np.random.default_rng(0).choice(votes.num_items, MOST_ITEMS, replace=False))
        votes, posterior = votes.sampled(chosen), posterior[chosen]
    observed, expected, variance, most = _agreement(votes, found.parameters, posterior)
    excess = observed - expected
    is_dependent = (excess > LEAST_Z * np.sqrt(variance)) & (excess > LEAST_EXCESS * most)
    share = np.where(is_dependent, excess / np.maximum(most - expected, 1e-12), 0.0)
    if found.parameters.rates is None:
        share = np.where(_always_agree(observed, most), 1.0, share)
    np.fill_diagonal(share, 0.0)
    return share


def _agreement(
    votes: PackedVotes, parameters: SourceParameters, posterior: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Of each pair of sources [sources, sources] the number of items where they agree, its expectation and variance
    if they err independently given the class, and the largest number possible."""
    from scipy.sparse import csr_array

    items, sources = votes.items, votes.speakers[votes.said]
    words = votes.meanings.argmax(1)[votes.said]
    shape, size = (votes.num_items, votes.num_sources), votes.num_sources
    observed, expected, variance, common = (np.zeros((size, size)) for _ in range(4))
    for word in np.unique(words):
        chosen = words == word
        said = csr_array((np.ones(int(chosen.sum())), (items[chosen], sources[chosen])), shape)
        observed += (said.T @ said).toarray()
    confusion = np.einsum("d,dskl->skl", parameters.shares, parameters.confusion)
    voted = csr_array((np.ones(len(items)), (items, sources)), shape)
    for y in range(posterior.shape[1]):
        both, alike = posterior[:, y].sum(), confusion[:, y]
        if parameters.rates is None:
            both = (voted.multiply(posterior[:, y, None]).tocsr().T @ voted).toarray()
        else:
            alike = alike * parameters.rates[:, y, None]
        chance = np.clip(alike @ alike.T, 0, 1)
        expected += both * chance
        variance += both * chance * (1 - chance)
        common += both
    if parameters.rates is not None:
        number = np.asarray(voted.sum(0)).ravel()
        common = np.minimum(number[:, None], number)
    return observed, expected, variance, common


def _always_agree(observed: Floats, common: Floats) -> NDArray[np.bool_]:
    """Pairs without a single difference, where neither agrees so well with the others."""
    other = ~np.eye(len(common), dtype=bool)
    everywhere = (observed * other).sum(1) / np.maximum((common * other).sum(1), 1.0)
    usual = np.maximum(everywhere[:, None], everywhere)
    rounding = 1e-6 * common
    found = (observed >= common - rounding) & (common >= LEAST_COMMON) & (usual < 0.95) & other
    return np.asarray(found)
