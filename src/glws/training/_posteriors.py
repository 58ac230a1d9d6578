"""Posteriors of groups given predictions; of instances with votes and other weak labels one for all of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from glws.data import WeakDataset, evidence_of, united
from glws.inference import Posterior, padding_mask, waiting_for_kernels

GROUPS_AT_ONCE = 2048
CELLS_AT_ONCE = 1 << 17
"""Groups answered together have at most so many places for instances, or padding at most doubles what they need."""


def united_posteriors(
    data: WeakDataset, log_probs: Callable[[Tensor], Tensor], only: Container[int] | None = None
) -> Iterator[tuple[int, Tensor, Tensor, Posterior]]:
    """`posteriors_of` given the weak labels of all kinds: votes are evidence in groups, and groups tell about votes.

    With q the posterior of an instance that is in d groups, each with the votes v on it as evidence, a vote is judged
    under p(y | x) Π_g q_g(y) / (p(y | x) p(v | y)): exact for one group. `only` are the kinds that are wanted.
    """
    whole = united(data)
    joint = _joint_log_probs(whole, log_probs)
    for place, weak in enumerate(data.weak):
        if only is not None and place not in only:
            continue
        alone = WeakDataset(data.instances, [data.groups[place]], [weak], check=False)
        if weak.is_evidence:
            own = evidence_of(data, place)
            answers = posteriors_of(alone, lambda numbers, own=own: (joint(numbers) - own[numbers]).log_softmax(-1))  # type: ignore[misc]
        else:
            alone.evidence = whole.evidence
            answers = posteriors_of(alone, log_probs)
        for _, groups, members, posterior in answers:
            yield place, groups, members, posterior


def _joint_log_probs(whole: WeakDataset, log_probs: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """log p(y, all weak labels | x) of instances up to a constant, from data whose votes are evidence."""
    assert whole.evidence is not None
    evidence, messages = whole.evidence, torch.zeros_like(whole.evidence)
    for _, _, members, posterior in posteriors_of(whole, log_probs):
        real = padding_mask(members, posterior.lengths) & ~posterior.impossible[:, None]
        rows = members[real]
        before = posterior.potentials[real].double()
        found = posterior.marginals[real].double().log() - before.log_softmax(-1)
        messages.index_add_(0, rows, torch.where(before > -torch.inf, found, 0.0))
    return lambda numbers: log_probs(numbers).double() + evidence[numbers] + messages[numbers]


def posteriors_of(
    data: WeakDataset, log_probs: Callable[[Tensor], Tensor]
) -> Iterator[tuple[int, Tensor, Tensor, Posterior]]:
    """The same from a function that gives the predictions for instance numbers, such as `Predictions`."""
    for kind, groups in enumerate(data.groups):
        for chosen in pieces(groups.lengths):
            yield kind, chosen, *_posterior(data, kind, chosen, log_probs)


@torch.no_grad()
@waiting_for_kernels()
def _posterior(
    data: WeakDataset, kind: int, chosen: Tensor, log_probs: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Posterior]:
    table, lengths = data.groups[kind].padded(chosen)
    evidence = None if data.evidence is None else data.evidence[table]
    return table, data.weak[kind][chosen].infer(log_probs(table), lengths, evidence)


def pieces(lengths: Int[Tensor, "groups"]) -> Iterator[Int[Tensor, "some"]]:
    """The numbers of groups that are answered together: in order, and large groups not beside many small ones.

    >>> [len(piece) for piece in pieces(torch.tensor([10] * 300 + [50_000] + [10] * 100))]
    [300, 2, 99]
    """
    first, longest, total = 0, 0, 0
    for group, length in enumerate(lengths.tolist()):
        longest, total, number = max(longest, length), total + length, group + 1 - first
        if number > 1 and (number > GROUPS_AT_ONCE or number * longest > max(CELLS_AT_ONCE, 2 * total)):
            yield torch.arange(first, group)
            first, longest, total = group, length, length
    if len(lengths):
        yield torch.arange(first, len(lengths))
