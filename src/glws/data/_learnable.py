"""Errors before training for data from which nothing can be learned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from glws.data._groups import Groups
from glws.data._pieces import pieces
from glws.errors import DataError
from glws.inference import padding_mask
from glws.kinds import AbstractSupervision


def check_learnable(
    groups: Sequence[Groups],
    weak: Sequence[AbstractSupervision],
    classes: Sequence[object] | None = None,
    needs_all: bool = False,
) -> None:
    """Raise `DataError` for a kind without groups, or if every weak label excludes all classes but one.

    Only informative groups count, not instances without a label or with all classes as candidates. With
    `needs_all`, one class that is excluded everywhere is enough. `classes` are the names for the message, by default
    numbers.

    >>> from glws.kinds import Labels
    >>> check_learnable([Groups.singles(3)], [Labels.of([1, 1, None], 2)])
    Traceback (most recent call last):
    glws.errors.DataError: every weak label rules out class 0; add labels of it, or unlabeled data with a class prior
    """
    for kind, members in zip(weak, groups, strict=True):
        if not len(members):
            raise DataError(f"{type(kind).__name__} has no groups; add some, or leave the kind out")
    possible, is_informative = torch.zeros(weak[0].num_classes, dtype=torch.bool), False
    for kind, members in zip(weak, groups, strict=True):
        for piece in pieces(kind, members):
            allowed = _allowed(*piece)
            is_informative |= bool(len(allowed))
            possible |= allowed.any(0)
            if int(possible.sum()) >= (len(possible) if needs_all else 2):
                return
    if not is_informative:
        raise DataError("every weak label allows every class: there is nothing to learn from")
    missing = (~possible).nonzero()[:, 0].tolist()
    names = ", ".join(str(number if classes is None else classes[number]) for number in missing)
    remedy = "add labels of it, or unlabeled data with a class prior"
    raise DataError(f"every weak label rules out class {names}; {remedy}")


def _allowed(weak: AbstractSupervision, groups: Groups) -> Bool[Tensor, "groups classes"]:
    """The classes that instances of each informative group may have.

    An uninformative weak label is equally likely whatever is predicted: at random, and one class for all instances.
    """
    lengths = groups.lengths
    shape = (len(groups), max(int(lengths.max()), 1), weak.num_classes)
    random = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    answer = weak.infer((random / random.sum(2, keepdim=True)).log(), lengths)
    one_class = torch.eye(weak.num_classes, dtype=torch.float64).log()
    constant = torch.stack([weak.infer(one.expand(shape), lengths).log_likelihood for one in one_class])
    says_something = ~torch.isclose(constant, answer.log_likelihood, rtol=0, atol=1e-9).all(0)
    is_real = padding_mask(answer.marginals, lengths)
    return ((answer.marginals > 0) & is_real[:, :, None]).any(1)[says_something]
