"""Samples of labelings with given counts of every class.

Exact, backwards through the recursion over count vectors, up to STATE_BUDGET of them; for two classes by the samples of
a single count. In larger groups the instances of a part A are sampled independently under the multi-class tilt, and the
sample is accepted with probability P(N_B = n - N_A) / max P(N_B), N_B the counts of the other instances: exact, except
for the saddle-point approximation of P, with errors that fall as 1 / counts. The rest is the same problem again.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.inference._counts import Exactly, count_sample
from glws.inference._draws import draws
from glws.inference._joint.arithmetic import LOGS
from glws.inference._joint.groups import Groups, batches_by_size, gather_columns
from glws.inference._joint.layers import forward_table, lattice, num_states
from glws.inference._joint.limits import STATE_BUDGET
from glws.inference._joint.saddle import log_mass
from glws.inference._joint.tilting import tilted

Places = Int[Tensor, "n groups instances"]
Generator = torch.Generator | None


def sample_given_counts(
    potentials: Float[Tensor, "groups instances classes"],
    counts: Int[Tensor, "groups classes"],
    lengths: Int[Tensor, "groups"],
    num_samples: int,
    generator: Generator = None,
) -> Places:
    """Samples of labels; undefined in padding and in groups whose counts do not sum to the length.

    >>> sample_given_counts(torch.zeros(1, 3, 3), torch.tensor([[1, 0, 2]]), torch.tensor([3]), 1).sort().values
    tensor([[[0, 2, 2]]])
    """
    possible = (counts >= 0).all(1) & (counts.sum(1) == lengths)
    kept = torch.where(possible[:, None], counts, 0)
    groups, classes = gather_columns(potentials, kept, torch.where(possible, lengths, 0))
    columns = lengths.new_zeros(num_samples, *potentials.shape[:2])
    is_two = (groups.counts > 0).sum(1) <= 2
    is_small = ~is_two & (torch.log1p(groups.counts.double()).sum(1).exp() < STATE_BUDGET + 0.5)
    for is_chosen, draw in ((is_two, _two), (is_small, _exact), (~is_two & ~is_small, _large)):
        chosen = is_chosen.nonzero()[:, 0]
        if len(chosen):
            columns[:, chosen] = draw(groups.select(chosen), num_samples, generator)
    return (
        classes[:, None]
        .expand(-1, columns.shape[2], -1)
        .expand(num_samples, -1, -1, -1)
        .gather(3, columns[..., None])[..., 0]
    )


def _two(groups: Groups, num_samples: int, generator: Generator) -> Places:
    """Sample groups of two classes: one is counted, the other is not."""
    pair = torch.nn.functional.pad(groups.potentials, (0, 1), value=-torch.inf)[:, :, :2]
    weights = Exactly(groups.counts[:, 0])
    is_first = count_sample(pair[:, :, 1], pair[:, :, 0], groups.lengths, weights, num_samples, generator)
    return (~is_first).long()


def _exact(groups: Groups, num_samples: int, generator: Generator) -> Places:
    """Sample groups with tables of similar size side by side."""
    columns = groups.lengths.new_zeros(num_samples, *groups.potentials.shape[:2])
    for chosen in batches_by_size(num_states(groups.counts), groups.counts.shape[1] * num_samples):
        columns[:, chosen] = _sample_small(groups.select(chosen), num_samples, generator)
    return columns


def _sample_small(groups: Groups, num_samples: int, generator: Generator) -> Places:
    """Sample from all counts back to none: the last label is k in proportion to forward(c - e_k) w_j(k)."""
    steps = groups.potentials.shape[1]
    states = lattice(groups.counts, steps + 1)
    table = forward_table(groups.potentials, states, LOGS).expand(num_samples, -1, -1)
    columns = groups.lengths.new_zeros(num_samples, *groups.potentials.shape[:2])
    state = (states.sizes - 1).expand(num_samples, -1)
    for j in reversed(range(steps)):
        digits = state[:, :, None] // states.strides % (groups.counts + 1)
        before = torch.where(digits > 0, state[:, :, None] - states.strides, states.nowhere)
        scores = torch.where(digits > 0, table.gather(2, before) + groups.potentials[:, j], -torch.inf)
        column = draws(scores.softmax(2).nan_to_num(0.0), 1, generator)[0]
        is_real = j < groups.lengths
        columns[:, :, j] = torch.where(is_real, column, 0)
        state = torch.where(is_real, before.gather(2, column[:, :, None])[:, :, 0], state)
    return columns


def _large(groups: Groups, num_samples: int, generator: Generator) -> Places:
    """Sample one group after the other, all of its samples side by side."""
    columns = groups.lengths.new_zeros(num_samples, *groups.potentials.shape[:2])
    for group, length in enumerate(groups.lengths.tolist()):
        rows = [part[group].expand(num_samples, *part[group].shape) for part in groups]
        columns[:, group, :length] = _peeled(Groups(rows[0][:, :length], rows[1], rows[2]), generator)
    return columns


def _peeled(rows: Groups, generator: Generator) -> Int[Tensor, "rows instances"]:
    """Sample one part after the other, until the rest can be sampled exactly."""
    columns = torch.zeros_like(rows.potentials[:, :, 0], dtype=torch.int64)
    left = torch.arange(columns.shape[1], device=columns.device).expand(len(columns), -1)
    while bool((torch.log1p(rows.counts.double()).sum(1).exp() > STATE_BUDGET + 0.5).any()):
        shares = tilted(rows).marginals
        order = shares.amax(2).argsort(dim=1)
        is_part = torch.arange(order.shape[1], device=order.device) % shares.shape[2] == shares.shape[2] - 1
        part, rest = order[:, is_part], order[:, ~is_part]
        labels, counts = _accepted(_rows_of(shares, part), _rows_of(shares, rest), rows.counts, generator)
        columns.scatter_(1, left.gather(1, part), labels)
        left = left.gather(1, rest)
        allowed = torch.where((counts > 0)[:, None], _rows_of(rows.potentials, rest), -torch.inf)
        rows = Groups(allowed, counts, counts.sum(1))
    return columns.scatter_(1, left, _exact(rows, 1, generator)[0])


def _rows_of(values: Float[Tensor, "rows instances columns"], places: Int[Tensor, "rows chosen"]) -> Tensor:
    return values.gather(1, places[:, :, None].expand(-1, -1, values.shape[2]))


def _accepted(
    part: Float[Tensor, "rows some columns"],
    rest: Float[Tensor, "rows others columns"],
    counts: Int[Tensor, "rows columns"],
    generator: Generator,
) -> tuple[Int[Tensor, "rows some"], Int[Tensor, "rows columns"]]:
    """Samples of a part, accepted in proportion to the rest's probability, and the counts of the rest."""
    labels, left = counts.new_zeros(part.shape[:2]), counts.clone()
    top = log_mass(rest, rest.sum(1))
    waiting = torch.arange(len(part), device=part.device)
    while len(waiting):
        tried = draws(part[waiting], 1, generator)[0]
        others = counts[waiting] - torch.nn.functional.one_hot(tried, part.shape[2]).sum(1)
        log_share = _log_prob(rest[waiting], others) - top[waiting]
        uniform = torch.rand(len(waiting), dtype=part.dtype, device=part.device, generator=generator)
        is_kept = uniform.log() < log_share
        labels[waiting[is_kept]], left[waiting[is_kept]] = tried[is_kept], others[is_kept]
        waiting = waiting[~is_kept]
    return labels, left


def _log_prob(shares: Float[Tensor, "rows instances columns"], counts: Int[Tensor, "rows columns"]) -> Tensor:
    """log P(N = counts) for independent labels, by the saddle point; -inf for negative counts."""
    wanted = counts.clamp_min(0)
    logs = torch.where((wanted > 0)[:, None], shares.log(), -torch.inf)
    point = tilted(Groups(logs, wanted, wanted.sum(1)))
    is_possible = (counts >= 0).all(1) & (point.error < 0.5)
    return torch.where(is_possible, point.dual + log_mass(point.marginals, wanted), -torch.inf)
