"""Many classes, one against the rest: the reduction that the paper trains."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from glws.inference import log_sum_of_others


def one_against_rest(
    log_probs: Float[Tensor, "groups instances classes"],
) -> Float[Tensor, "groups_times_classes instances 2"]:
    """Predictions for the weak labels that `.per_class()` gives: group g and class k at place g K + k, class k as 1.

    >>> one_against_rest(torch.tensor([[[0.2, 0.3, 0.5]]]).log()).exp()[:, 0]
    tensor([[0.8000, 0.2000],
            [0.7000, 0.3000],
            [0.5000, 0.5000]])
    """
    both = torch.stack([log_sum_of_others(log_probs), log_probs], -1)
    return both.transpose(1, 2).flatten(0, 1)
