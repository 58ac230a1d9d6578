"""A class prior as people give it: a number, a range, or "estimate"."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from glws.errors import DataError

Prior = float | Sequence[float] | str
"""A share strictly between 0 and 1, a range of it, or "estimate"."""
WRONG = 'prior must be a share between 0 and 1, a range [low, high], or "estimate"'


def checked_prior(prior: Any) -> tuple[float | None, tuple[float, float]]:
    """The number, None where it is to be estimated, and the limits of an estimate.

    >>> checked_prior(0.3), checked_prior([0.1, 0.2]), checked_prior("estimate")
    ((0.3, (0.0, 1.0)), (None, (0.1, 0.2)), (None, (0.0, 1.0)))
    """
    if isinstance(prior, str) and prior == "estimate":
        return None, (0.0, 1.0)
    if _is_number(prior):
        if not 0 < prior < 1:
            hint = "; divide percentages by 100" if 1 <= prior <= 100 else ""
            raise DataError(f"{WRONG}, found {prior!r}{hint}")
        return float(prior), (0.0, 1.0)
    if isinstance(prior, str) or not isinstance(prior, Sequence) or len(prior) != 2 or not all(map(_is_number, prior)):
        raise DataError(f"{WRONG}, found {prior!r}")
    low, high = float(prior[0]), float(prior[1])
    if not 0 <= low < high <= 1:
        raise DataError(f"{WRONG}, found the range {list(prior)!r}")
    return None, (low, high)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
