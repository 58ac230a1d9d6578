"""`UnlabeledClasses`: groups of which the shares of all classes are known, on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import Answer
from glws.inference._joint.groups import Groups
from glws.inference._joint.tilting import tilted
from glws.kinds._abstract import AbstractSupervision
from glws.kinds._arrays import Numbers, label_counts, refuse, shares, shown, true_labels
from glws.kinds._narrowing import Narrowed, by_counts
from glws.kinds._projections import MESSAGE, AbstractProjection
from glws.kinds._unlabeled import Unlabeled
from glws.kinds._wording import Names


@dataclass(frozen=True, eq=False)
class UnlabeledClasses(AbstractSupervision):
    """Groups (usually batches) of unlabeled instances, with the prior of every class, [groups, classes].

    What `Unlabeled` with `count="expected"` is for one class: the predictions are tilted together, one θ for each
    class, until their mean over the group is the prior. A projection: no automaton. `per_class()` takes each class
    against the rest instead.

    >>> weak = UnlabeledClasses.of([[0.5, 0.3, 0.2]])
    >>> even = torch.full((1, 4, 3), 1 / 3).log()
    >>> weak.infer(even).marginals[0, 0]
    tensor([0.5000, 0.3000, 0.2000])
    """

    noun: ClassVar[str] = "unlabeled group"
    is_multiclass: ClassVar[bool] = True

    prior: Float[Tensor, "groups classes"]

    @classmethod
    def of(cls, prior: Numbers) -> UnlabeledClasses:
        """From shares that sum to 1 in each group."""
        read = shares(prior, "prior", 2, "a row for each group, the share of each class")
        total = read.sum(1, keepdim=True)
        off = (total[:, 0] - 1).abs() > 1e-6  # room for float32 input
        refuse(off, lambda group: f"a prior sums to 1, found {shown(read[group])}")
        return cls(read / total)

    @classmethod
    def from_labels(cls, labels: Numbers, lengths: Numbers | None = None, num_classes: int = 2) -> UnlabeledClasses:
        """All groups with one prior: the shares of the classes in all these true labels together."""
        occurs = label_counts(true_labels(labels, lengths, num_classes), lengths, num_classes).double().sum(0)
        return cls.of((occurs / occurs.sum().clamp_min(1)).expand(len(torch.as_tensor(labels)), -1))

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """How many classes there are."""
        return self.prior.shape[1]

    def form(self, lengths: Int[Tensor, "groups"]) -> ExpectedShares:
        """The tilt."""
        return ExpectedShares(self.prior)

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        """Raises: there is none."""
        raise DataError(f"UnlabeledClasses {MESSAGE}")

    def exchangeable_sets(self) -> Int[Tensor, "groups"]:
        """Groups with the same prior are samples of one population."""
        population: Tensor = torch.unique(self.prior, dim=0, return_inverse=True)[1]
        return population

    def initial_posterior(self) -> Float[Tensor, "groups classes"]:
        """The prior."""
        return self.prior

    def describe(self, group: int, names: Names = None) -> str:
        """The prior."""
        return f"the class shares {shown(self.prior[group])}"

    def narrowed(self, allowed: Bool[Tensor, "members classes"], lengths: Int[Tensor, "groups"]) -> Narrowed:
        """By the expected counts."""
        expected = self.prior * lengths[:, None]
        return by_counts(allowed, lengths, torch.arange(self.num_classes), expected, expected)

    def stated_counts(self, lengths: Int[Tensor, "groups"]) -> tuple[Tensor, Tensor]:
        """The prior, times the number of members."""
        expected = self.prior * lengths[:, None]
        return expected, expected

    def per_class(self) -> Unlabeled:
        """Each class against the rest: groups x classes of them, class k of group g at g K + k."""
        return Unlabeled.of(self.prior.flatten())


@dataclass(frozen=True, eq=False)
class ExpectedShares(AbstractProjection):
    """Every class has its share of the group *in expectation*: `ExpectedCount` for all classes at once.

        q_j(k) ∝ φ_j(k) exp(θ_k),   with θ such that Σ_j q_j(k) = share(k) · n for every class

    log_likelihood = Σ_j log Σ_k φ_j(k) exp(θ_k) - n Σ_k θ_k share(k): minus the relative entropy between q and the
    predictions, if those are normalized. -inf where certain predictions leave no room, or so extreme ones that no θ is
    found.
    """

    shares: Float[Tensor, "groups classes"]

    def solve(self, potentials: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]) -> Answer:
        """The tilt of the joint counts, with expected counts that need not be whole."""
        wanted = torch.where((self.shares > 0)[:, None], potentials.double(), -torch.inf)
        point = tilted(Groups(wanted, self.shares * lengths[:, None], lengths))
        found = point.error <= 1e-6 * lengths.clamp_min(1)
        log_z = torch.where(found, point.dual, -torch.inf)
        marginals = torch.where(found[:, None, None], point.marginals, 0.0)
        return log_z.to(potentials.dtype), marginals.to(potentials.dtype)
