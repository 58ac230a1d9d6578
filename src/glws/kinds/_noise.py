"""Noise: a weak label may be wrong. The maths that the kinds share, and how its parameters are learned.

EM learns the parameters of the noise with the model. From the posterior, a kind counts how often it expects each kind
of mistake to have happened; those counts add up over batches and over processes; and the new parameters are shares of
them, in closed form. A parameter about which nothing was seen stays as it is. A rate that starts at 0 or 1 stays there,
as EM keeps what it is certain of: start learning from a guess in between.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from glws.inference import Posterior
from glws.kinds._abstract import AbstractSupervision

Noisy = TypeVar("Noisy", bound="LearnsNoise")


class LearnsNoise(AbstractSupervision):
    """A kind whose noise can be learned."""

    def expected_counts(self, posterior: Posterior) -> Tensor:
        """How often each mistake is expected to have happened in these groups; add them up over batches."""
        return self.to(posterior.marginals.device).counts_here(posterior)

    @abstractmethod
    def counts_here(self, posterior: Posterior) -> Tensor:
        """The expected counts, when the weak labels are on the device of the posterior."""

    @abstractmethod
    def relearned(self: Noisy, counts: Tensor) -> Noisy:
        """The same weak labels with the noise that makes these counts most likely."""

    def m_step(self: Noisy, posterior: Posterior) -> Noisy:
        """The same weak labels with the noise that the posterior of all of them suggests: one step of EM."""
        return self.relearned(self.expected_counts(posterior))


def log_rates(flip: Float[Tensor, "2"]) -> Float[Tensor, "2 2"]:
    """log P(report | truth) as [truth, report], when a truth t is reported wrongly with probability flip[t].

    >>> log_rates(torch.tensor([0.1, 0.3])).exp()
    tensor([[0.9000, 0.1000],
            [0.3000, 0.7000]])
    """
    wrong, right = flip.double().log(), (-flip.double()).log1p()
    return torch.stack([torch.stack([right[0], wrong[0]]), torch.stack([wrong[1], right[1]])]).to(flip.dtype)


def log_report(report: Bool[Tensor, "*shape"], flip: Float[Tensor, "2"]) -> Float[Tensor, "*shape 2"]:
    """log P(report | truth) for truth 0 and truth 1."""
    return log_rates(flip).T[report.long()]


def report_probability(report: bool, truth: bool, flip: Float[Tensor, "2"]) -> float:
    """P(report | truth) in plain numbers, for the definitions."""
    wrong = float(flip[int(truth)])
    return 1 - wrong if report == truth else wrong


def report_counts(
    report: Bool[Tensor, "groups"], truth: Float[Tensor, "groups"], possible: Float[Tensor, "groups"]
) -> Float[Tensor, "2 2"]:
    """Expected counts [truth, report], where `truth` is the posterior probability that the truth is 1."""
    both = torch.stack([possible - truth, truth])
    return torch.stack([(both * ~report).sum(1), (both * report).sum(1)], 1)


def learned_flip(counts: Float[Tensor, "2 2"], before: Float[Tensor, "2"]) -> Float[Tensor, "2"]:
    """Each truth's share of wrong reports."""
    return share(torch.stack([counts[0, 1], counts[1, 0]]), counts.sum(1), before)


def share(part: Tensor, whole: Tensor, otherwise: Tensor) -> Tensor:
    """part / whole, and `otherwise` where the whole is nothing, on the device of `otherwise`."""
    return torch.where(whole > 0, part / torch.where(whole > 0, whole, 1.0), otherwise.to(part)).to(otherwise)


def likelihood_share(other: AbstractSupervision, posterior: Posterior, log_factor: Tensor | float) -> Tensor:
    """exp(log_factor) Z' / Z for each group, with Z' the likelihood of other weak labels under the same predictions.

    Where the other weak labels are one of the ways in which the observed ones came about, this is the posterior
    probability of that way. 0 in impossible groups.
    """
    log_other = other.infer(posterior.potentials, posterior.lengths).log_likelihood.double() + log_factor
    return _ratio(log_other, posterior.log_likelihood)


def absence(kind: AbstractSupervision, posterior: Posterior, counted: Bool[Tensor, "#groups classes"]) -> Tensor:
    """P(no label is among the counted classes | x, w) for each group; 0 in impossible groups."""
    without = torch.where(counted[:, None].to(posterior.potentials.device), -torch.inf, posterior.potentials)
    return _ratio(kind.infer(without, posterior.lengths).log_likelihood.double(), posterior.log_likelihood)


def possible_groups(posterior: Posterior) -> Float[Tensor, "groups"]:
    """1 for each group that has a posterior, 0 for an impossible one, which says nothing about the noise."""
    return (~posterior.impossible).double()


def changed(kind: Noisy, **values: Any) -> Noisy:
    """The same kind with some of its fields replaced."""
    return replace(kind, **values)  # type: ignore[type-var]  # kinds are dataclasses


def _ratio(log_part: Tensor, log_whole: Tensor) -> Tensor:
    whole = log_whole.detach().double()
    return torch.where(whole > -torch.inf, (log_part - whole).exp().clamp_max(1.0), 0.0)
