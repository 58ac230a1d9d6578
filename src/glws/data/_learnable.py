"""Data that nothing can be learned from, where that is certain: said before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from glws.data._groups import Groups
from glws.data._pieces import pieces
from glws.errors import DataError
from glws.inference import real_instances
from glws.kinds import AbstractSupervision


def check_learnable(
    groups: Sequence[Groups],
    weak: Sequence[AbstractSupervision],
    classes: Sequence[object] | None = None,
    needs_all: bool = False,
) -> None:
    """Raises `DataError` for a kind without groups, and where every weak label rules out all classes but one.

    Only groups that say something count: nothing is known of an instance without a label (-1), or with all classes as
    candidates. With `needs_all`, one class that is ruled out everywhere is enough. `classes` are the names for the
    message; without them they go by number.

    >>> from glws.kinds import Labels
    >>> check_learnable([Groups.singles(3)], [Labels.of([1, 1, -1], 2)])
    Traceback (most recent call last):
    glws.errors.DataError: every weak label rules out class 0; add labels of it, or unlabeled data with a class prior
    """
    for kind, members in zip(weak, groups, strict=True):
        if not len(members):
            raise DataError(f"{type(kind).__name__}: there is no group of this kind; add some, or leave the kind out")
    possible, is_anything_known = torch.zeros(weak[0].num_classes, dtype=torch.bool), False
    for kind, members in zip(weak, groups, strict=True):
        for piece in pieces(kind, members):
            allowed = _allowed(*piece)
            is_anything_known |= bool(len(allowed))
            possible |= allowed.any(0)
            if int(possible.sum()) >= (len(possible) if needs_all else 2):
                return
    if not is_anything_known:
        raise DataError("nothing is known of any row: every weak label allows everything")
    missing = (~possible).nonzero()[:, 0].tolist()
    names = ", ".join(str(number if classes is None else classes[number]) for number in missing)
    remedy = "add labels of it, or unlabeled data with a class prior"
    raise DataError(f"every weak label rules out class {names}; {remedy}")


def _allowed(weak: AbstractSupervision, groups: Groups) -> Bool[Tensor, "groups classes"]:
    """Which classes an instance of a group may have, for those of the groups that say something.

    What says nothing is equally likely whatever is predicted: at random, and one class for all instances.
    """
    lengths = groups.lengths
    shape = (len(groups), max(int(lengths.max()), 1), weak.num_classes)
    random = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    answer = weak.infer((random / random.sum(2, keepdim=True)).log(), lengths)
    one_class = torch.eye(weak.num_classes, dtype=torch.float64).log()
    constant = torch.stack([weak.infer(one.expand(shape), lengths).log_likelihood for one in one_class])
    says_something = ~torch.isclose(constant, answer.log_likelihood, rtol=0, atol=1e-9).all(0)
    is_real = real_instances(answer.marginals, lengths)
    return ((answer.marginals > 0) & is_real[:, :, None]).any(1)[says_something]
