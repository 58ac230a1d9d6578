"""Numbers, settings and names as a reader wants to see them."""

from __future__ import annotations

import json
import math
import numbers
import os
from collections.abc import Mapping, Sequence

import numpy as np

from glws.errors import DataError

NOT_GIVEN = "—"
SPACE = "\u00a0"  # does not break


def decimal(value: float) -> str:
    """Four digits, a real minus sign, and words for values that are not finite.

    >>> decimal(-12.34567), decimal(0.5), decimal(float("-inf")), decimal(float("nan"))
    ('−12.35', '0.5', '−∞', 'not a number')
    """
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}").replace("-", "−")


def percent(value: float) -> str:
    """A share in percent, with one digit after the point.

    >>> percent(0.9731).replace(SPACE, " ")
    '97.3 %'
    """
    return f"{100 * value:.1f}{SPACE}%" if math.isfinite(value) else decimal(value)


def compact(count: float) -> str:
    """A count in at most four characters.

    >>> [compact(count) for count in (0, 999, 1250, 45_000, 2_000_000)]
    ['0', '999', '1.2k', '45k', '2M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return (f"{count / size:.1f}".removesuffix(".0") if count < 10 * size else f"{count / size:.0f}") + letter
    return f"{count:.4g}" if float(count).is_integer() else f"{count:.2g}"


def in_words(key: str) -> str:
    """The name of a column for people: `test_accuracy` is "test accuracy"."""
    return key.replace("_", " ").strip() or key


def is_number(value: object) -> bool:
    """Whether it is a real number (True and False are not)."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def shown(value: object) -> str:
    """A score or a logged value: numbers short, anything else as text."""
    return decimal(float(value)) if is_number(value) else setting_text(value, "the scores")  # type: ignore[arg-type]


def flattened(config: Mapping[str, object], where: str = "config") -> dict[str, str]:
    """The settings as lines `name.of.part: value`, sorted by name.

    >>> flattened({"model": {"name": "mlp", "hidden": [128, 64]}, "epochs": 20})
    {'epochs': '20', 'model.hidden': '[128, 64]', 'model.name': 'mlp'}
    """
    lines: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            lines |= {f"{key}.{inner}": text for inner, text in flattened(value, f"{where}.{key}").items()}
        else:
            lines[str(key)] = setting_text(value, f"{where}.{key}")
    return dict(sorted(lines.items()))


def setting_text(value: object, where: str) -> str:
    """One setting as text; what has no lasting text of its own (an object, a function) raises `DataError`."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value) if isinstance(value, os.PathLike) else value
    return json.dumps(_plain(value, where), ensure_ascii=False)


def _plain(value: object, where: str) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_plain(inner, where) for inner in value]
    raise DataError(f"{where}: a report shows plain values, found {type(value).__name__}; give its text instead")
