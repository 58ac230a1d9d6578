"""One posterior for each instance: votes on instances that other weak labels are about, too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glws.data._dataset import WeakDataset
from glws.data._groups import Groups
from glws.inference import TableWeights
from glws.kinds import AbstractSupervision


def is_shared(weak: Sequence[AbstractSupervision]) -> bool:
    """Whether votes and other kinds, or several sets of votes, may be about the same instances."""
    return len(weak) > 1 and any(one.is_evidence for one in weak)


def united(data: WeakDataset) -> WeakDataset:
    """The same weak labels, with votes on instances of other groups as evidence in these groups.

    With w the weak label of a group and v the votes on its instances, the group then answers for both:

        Z = p(w, v | x) = Σ_y p(w | y) Π_j p(v_j | y_j) p(y_j | x_j)

    and the posterior of each instance is given both. Votes on other instances stay as they are. Of several sets of
    votes on an instance the first keeps its group. Without votes (`is_evidence`) beside other kinds nothing changes.

    >>> from glws.kinds import Proportions, Votes
    >>> votes = Votes.of([[1, 1], [0, 1], [-1, 0]], 2)
    >>> data = WeakDataset(torch.zeros(3, 1), [[[0, 1]], Groups.singles(3)], [Proportions.of([1]), votes])
    >>> [len(groups) for groups in united(data).groups], united(data).evidence.softmax(1)[0]
    ([1, 1], tensor([0.1552, 0.8448], dtype=torch.float64))
    """
    if not is_shared(data.weak):
        return data
    groups: list[Groups] = list(data.groups)
    weak: list[AbstractSupervision] = list(data.weak)
    evidence = _none(data) if data.evidence is None else data.evidence.double().cpu().clone()
    is_covered = torch.zeros(len(data.instances), dtype=torch.bool)
    for members, one in zip(data.groups, data.weak, strict=True):
        if not one.is_evidence:
            is_covered[members.indices] = True
    for place, one in enumerate(data.weak):
        if one.is_evidence:
            rows = data.groups[place].indices
            moved, kept = (part.nonzero()[:, 0] for part in (is_covered[rows], ~is_covered[rows]))
            evidence.index_add_(0, rows[moved], _log_table(one[moved]).to(evidence))
            groups[place], weak[place] = data.groups[place][kept], one[kept]
            is_covered[rows] = True
    return WeakDataset(data.instances, groups, weak, evidence, check=False)


def evidence_of(data: WeakDataset, place: int) -> Tensor:
    """The evidence of the votes of one kind: log p(v | y), [instances, classes]; 0 without votes."""
    found = _none(data)
    return found.index_add_(0, data.groups[place].indices, _log_table(data.weak[place]).to(found))


def _log_table(weak: AbstractSupervision) -> Tensor:
    """log p(w | y) of single instances."""
    form = weak.form(torch.ones(len(weak), dtype=torch.int64))
    assert isinstance(form, TableWeights)
    return form.log_weights


def _none(data: WeakDataset) -> Tensor:
    return torch.zeros(len(data.instances), data.weak[0].num_classes, dtype=torch.float64)
