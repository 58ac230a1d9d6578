"""Dates and times from texts, as seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
MICROSECONDS = 1e6


def seconds_of(words: Sequence[str], date_format: str = "") -> Seconds | None:
    """Seconds since 1970 in UTC of texts in ISO 8601 or another format; None if one of them is no date.

    >>> seconds_of(["1970-01-02", "1970-01-01 00:00:30"]).tolist(), seconds_of(["1970-01-01T01:00:01+01:00"]).tolist()
    ([86400.0, 30.0], [1.0])
    >>> seconds_of(["3.1.1970"], "%d.%m.%Y").tolist(), seconds_of(["Monday"])
    ([172800.0], None)
    """
    import pyarrow
    from pyarrow import compute

    texts = pyarrow.array(list(words), pyarrow.string())
    if not len(texts):
        return np.empty(0)
    try:
        found = compute.strptime(texts, format=date_format, unit="us") if date_format else _from_iso(texts)
    except pyarrow.ArrowInvalid:
        return None
    return np.asarray(found.cast(pyarrow.int64())) / MICROSECONDS


def _from_iso(texts: Any) -> Any:
    """Timestamps in UTC; times without a zone are taken as they are, and digits beyond microseconds are dropped."""
    import pyarrow
    from pyarrow import compute

    short = compute.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    try:
        return short.cast(pyarrow.timestamp("us"))
    except pyarrow.ArrowInvalid:
        return short.cast(pyarrow.timestamp("us", "UTC"))


def described_range(seconds: Seconds) -> str:
    """The first and the last date.

    >>> described_range(np.array([172800.0, 0.0]))
    '1970-01-01 to 1970-01-03'
    """
    first, last = (np.datetime64(int(second), "s").astype("datetime64[D]") for second in (seconds.min(), seconds.max()))
    return f"{first} to {last}"
