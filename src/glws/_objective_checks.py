"""A check that predictions are log-probabilities, and a warning for impossible groups."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glws.errors import DataError
from glws.inference import Posterior, check_log_probs, may_read_values, place_of

TOLERANCE = {torch.float16: 5e-2, torch.bfloat16: 5e-2}
"""Tolerance of |log Σ_k p(k)| by dtype: rounding of a log-softmax; 1e-3 for other types."""

_WARNED: set[tuple[str, int]] = set()


def normalized_log_probs(logits: Tensor) -> Tensor:
    """The log-softmax over the classes; invalid input is returned unchanged, for `infer` to refuse."""
    check_log_probs(logits, is_packed=logits.ndim == 2)
    return logits.log_softmax(-1)


def check_normalized(views: Mapping[str, Tensor], lengths: Tensor | Sequence[int] | None) -> None:
    """Raise `DataError` if predictions of an instance do not sum to 1 over the classes.

    Padding, instances without a possible class (-inf for every class), NaN and +inf are left for `infer`.

    >>> check_normalized({"log_probs": torch.tensor([[[0.3, 0.7]]])}, None)
    Traceback (most recent call last):
    ...
    glws.errors.DataError: log_probs look like probabilities (they sum to 1 over the classes): pass log_probs.log()
    """
    for name, view in views.items():
        check_log_probs(view, name, is_packed=lengths is not None)
        if may_read_values(view):
            _check_view(name, view.detach(), lengths)


def _check_view(name: str, view: Tensor, lengths: Tensor | Sequence[int] | None) -> None:
    totals = view.logsumexp(-1)
    wrong = totals.abs() > TOLERANCE.get(view.dtype, 1e-3)
    if not bool(wrong.any()):
        return
    wrong &= totals.isfinite() & _real(totals, lengths)
    if not bool(wrong.any()):
        return
    place = wrong.nonzero()[0].tolist()
    row, where = view[tuple(place)].double(), place_of(place, lengths)
    if bool((row >= 0).all()) and abs(float(row.sum()) - 1) <= TOLERANCE.get(view.dtype, 1e-3):
        raise DataError(f"{name} look like probabilities (they sum to 1 over the classes): pass {name}.log()")
    found = f"exp({name}) of {where} sums to {float(row.logsumexp(0).exp()):.3g}, not 1"
    looks = f"{name} look like logits ({found})" if bool((row > 0).any()) else found
    raise DataError(f"{looks}: pass log_softmax(-1) of the logits, or the logits with normalized=False")


def _real(totals: Tensor, lengths: Tensor | Sequence[int] | None) -> Tensor:
    """The padding mask [groups, instances]; all True if `lengths` do not fit, which `infer` refuses."""
    sizes = None if lengths is None else torch.as_tensor(lengths, device=totals.device)
    if totals.ndim == 1 or sizes is None or sizes.shape != totals.shape[:1]:
        return torch.ones_like(totals, dtype=torch.bool)
    return torch.arange(totals.shape[1], device=totals.device) < sizes[:, None]


def warn_impossible(posterior: Posterior) -> None:
    """Warn of impossible groups, once for each line outside this package that led here."""
    if not may_read_values(posterior.log_likelihood) or not posterior.num_impossible:
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "glws":
        level, frame = level + 1, frame.f_back
    place = (frame.f_code.co_filename, frame.f_lineno)
    if place in _WARNED:
        return
    _WARNED.add(place)
    warnings.warn(
        f"{posterior.num_impossible} of {len(posterior.impossible)} groups are impossible under the predictions and "
        "left out of the loss: check that their weak labels fit their sizes (weak.check), and that no probability is 0",
        stacklevel=level,
    )
