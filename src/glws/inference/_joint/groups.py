"""The groups of a batch with only the classes that occur, the most frequent first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.inference._joint.limits import TABLE_ENTRIES
from glws.inference._padding import padding_mask

Answer = tuple[Float[Tensor, "groups"], Float[Tensor, "groups instances classes"]]


ENGINES = ("joint counts", "pruned counts", "corrected tilt", "tilt")
"""How a group was answered: exactly, or by an approximation."""


class Estimate(NamedTuple):
    """An answer, an estimate of its error, and the engine that computed it."""

    log_likelihood: Float[Tensor, "groups"]
    marginals: Float[Tensor, "groups instances columns"]
    error: Float[Tensor, "groups"]
    """Largest error of a posterior of the group; 0 if exact, inf without an answer."""
    engine: Int[Tensor, "groups"]
    """Index into ENGINES."""

    @classmethod
    def unanswered(cls, groups: Groups) -> Estimate:
        """An estimate without answers yet."""
        log_likelihood = groups.potentials.new_full((len(groups.lengths),), -torch.inf)
        error = torch.full_like(log_likelihood, torch.inf)
        return cls(log_likelihood, torch.zeros_like(groups.potentials), error, torch.zeros_like(groups.lengths))

    @classmethod
    def exact(cls, answer: Answer) -> Estimate:
        """An estimate with error 0."""
        return cls(*answer, torch.zeros_like(answer[0]), torch.zeros_like(answer[0], dtype=torch.int64))

    def put(self, chosen: Int[Tensor, "chosen"], other: Estimate) -> None:
        """Copy the answers of another estimate for some of the groups."""
        for mine, theirs in zip(self, other, strict=True):
            mine[chosen] = theirs

    def select(self, chosen: Int[Tensor, "chosen"]) -> Estimate:
        """The estimates of some of the groups."""
        return Estimate(*(part[chosen] for part in self))


class Groups(NamedTuple):
    """Some groups, each with its own classes as columns."""

    potentials: Float[Tensor, "groups instances columns"]
    """log-potentials in float64; -inf in columns whose count is 0."""
    counts: Int[Tensor, "groups columns"]
    """The count of every column, from the largest to the smallest: used columns come first."""
    lengths: Int[Tensor, "groups"]

    @property
    def is_real(self) -> Bool[Tensor, "groups instances"]:
        """The padding mask."""
        return padding_mask(self.potentials, self.lengths)

    def select(self, chosen: Int[Tensor, "chosen"]) -> Groups:
        """Some of the groups."""
        return Groups(*(part[chosen] for part in self))


def gather_columns(
    potentials: Float[Tensor, "groups instances classes"],
    counts: Int[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
) -> tuple[Groups, Int[Tensor, "groups columns"]]:
    """The groups with the classes that occur as columns, and the class of each column."""
    num_columns = max(int((counts > 0).sum(1).max()), 1)
    classes = torch.argsort(counts, dim=1, descending=True, stable=True)[:, :num_columns]
    chosen = counts.gather(1, classes)
    columns = potentials.double().gather(2, classes[:, None].expand(-1, potentials.shape[1], -1))
    return Groups(torch.where((chosen > 0)[:, None], columns, -torch.inf), chosen, lengths), classes


def scatter_columns(
    marginals: Float[Tensor, "groups instances columns"], classes: Int[Tensor, "groups columns"], num_classes: int
) -> Float[Tensor, "groups instances classes"]:
    """Marginals by class from marginals by column; 0 for classes that do not occur."""
    places = classes[:, None].expand(-1, marginals.shape[1], -1)
    return marginals.new_zeros(*marginals.shape[:2], num_classes).scatter_(2, places, marginals)


def shares(
    potentials: Float[Tensor, "groups instances columns"], is_real: Bool[Tensor, "groups instances"]
) -> tuple[Float[Tensor, "groups instances"], Float[Tensor, "groups instances columns"]]:
    """log Σ_k exp φ_j(k) of every instance, and the shares of the classes in it; both 0 in padding."""
    log_sums = torch.logsumexp(potentials, 2)
    log_shares = potentials - torch.where(log_sums == -torch.inf, 0.0, log_sums)[:, :, None]
    return torch.where(is_real, log_sums, 0.0), torch.where(is_real[:, :, None], log_shares.exp(), 0.0)


def batches_by_size(sizes: Int[Tensor, "groups"], per_state: int) -> Iterator[Int[Tensor, "chosen"]]:
    """Batches of groups whose tables differ at most twofold in size and together stay within TABLE_ENTRIES."""
    magnitude = torch.log2(sizes.double()).ceil().long()
    for power in sorted(set(magnitude.tolist())):
        at_once = max(TABLE_ENTRIES // (per_state << power), 1)
        yield from (magnitude == power).nonzero()[:, 0].split(at_once)
