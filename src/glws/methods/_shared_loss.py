"""The EM loss of groups that several processes own: every mean is over the groups of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from glws._objective import EMLoss, Reduction
from glws.methods._step import Step


class Term(NamedTuple):
    """One term of a loss: its weight, its mean over the items of this process, and how many these are."""

    weight: float
    mean: Float[Tensor, ""]
    items: Tensor


def em_terms(answer: EMLoss, weight: float, unsupervised: float, supervised: float, reduction: Reduction) -> list[Term]:
    """The two terms of the EM loss, with the numbers of instances and groups that they are means over."""
    groups = (~answer.posterior.impossible).sum()
    instances = groups if reduction == "group" else (answer.posterior.marginals.sum(-1) > 0).sum()
    terms = (unsupervised, answer.unsupervised, instances), (supervised, answer.supervised, groups)
    return [Term(weight * own, mean, count) for own, mean, count in terms if own]


def shared_loss(step: Step, terms: Sequence[Term], answers: Sequence[EMLoss], seen: Tensor) -> Float[Tensor, ""]:
    """The part of the loss that the groups of this process contribute: Σ weight · mean · items / items of all.

    The parts of all processes add up to the loss of the whole batch, as do their gradients. One exchange of a few
    numbers tells the counts, and what is logged. `seen` are logits, whose predicted classes are counted.
    """
    assert step.everyone is not None
    predicted = functional.one_hot(seen.detach().argmax(1), seen.shape[1]).sum(0)
    columns = [*(number for term in terms for number in (term.mean * term.items, term.items)), *_logged(answers)]
    table = step.everyone(torch.cat([torch.stack([each.detach().double() for each in columns]), predicted.double()]))
    totals = table.sum(0)
    counts = totals[1 : 2 * len(terms) : 2].clamp_min(1)
    means = totals[: 2 * len(terms) : 2] / counts
    step.note("loss", sum(term.weight * mean for term, mean in zip(terms, means.unbind(), strict=True)))
    _note(step, table[:, 2 * len(terms) :], answers)
    step.predicted = totals[len(columns) :]
    parts = [term.weight * term.mean * (term.items / all_of_them).to(term.mean)
             for term, all_of_them in zip(terms, counts.unbind(), strict=True)]  # fmt: skip
    return torch.stack(parts).sum()


def _logged(answers: Sequence[EMLoss]) -> list[Tensor]:
    """Entropy, mass and error of the posteriors, impossible groups; for each kind its likelihood and its groups."""
    posteriors = [answer.posterior for answer in answers]
    zero = answers[0].supervised.detach().new_zeros(())
    entropy = sum((torch.special.entr(each.marginals).sum() for each in posteriors), zero)
    mass = sum((each.marginals.sum() for each in posteriors), zero)
    errors = [each.error.max() for each in posteriors if each.error is not None and each.error.numel()]
    impossible = sum((each.impossible.sum() for each in posteriors), zero)
    pairs = [(answer.supervised, (~answer.posterior.impossible).sum()) for answer in answers]
    likelihoods = [number for mean, count in pairs for number in (mean * count, count)]
    return [entropy, mass, torch.stack(errors).max() if errors else zero, impossible, *likelihoods]


def _note(step: Step, table: Float[Tensor, "processes numbers"], answers: Sequence[EMLoss]) -> None:
    """Log what one process would."""
    entropy, mass, _, impossible, *likelihoods = table[:, : 4 + 2 * len(answers)].sum(0).unbind()
    step.note("entropy", entropy / mass.clamp_min(1))
    of_kinds = zip(likelihoods[::2], likelihoods[1::2], strict=True)
    step.note("negative_log_likelihood", sum(total / count.clamp_min(1) for total, count in of_kinds))
    step.note("impossible_groups", impossible)
    if any(answer.posterior.error is not None for answer in answers):
        step.note("approximation_error", table[:, 2].max())
