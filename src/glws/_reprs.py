"""Short reprs of objects that hold arrays, and small tables in HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

MOST_ITEMS, MOST_LETTERS = 4, 60
"""Lists with more items are counted, and longer texts are cut."""


def short_repr(value: Any) -> str:
    """The class and its fields, arrays by type and shape; the `__repr__` of records that hold arrays.

    >>> from typing import NamedTuple
    >>> class Found(NamedTuple):
    ...     scores: torch.Tensor
    ...     names: list[str]
    ...     best: float
    >>> short_repr(Found(torch.zeros(1000, 3), ["a"] * 1000, 0.1234567))
    'Found(scores=float32 [1000, 3], names=1,000 items, best=0.123457)'
    """
    shown = getattr(type(value), "__dataclass_fields__", None)
    names = value._fields if shown is None else [name for name, field in shown.items() if field.repr]
    inside = ", ".join(f"{name}={_shown(getattr(value, name))}" for name in names if not _is_empty(value, name))
    return f"{type(value).__name__}({inside})"


def _is_empty(value: Any, name: str) -> bool:
    """Fields without anything in them say nothing."""
    found = getattr(value, name, None)
    return found is None or (isinstance(found, tuple | list | Mapping | str) and not len(found))


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype") and len(value.shape):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str | Path):
        text = str(value)
        return repr(text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}...")
    if isinstance(value, Mapping):
        return f"{{{', '.join(map(str, value))}}}" if len(value) <= MOST_ITEMS else f"{len(value):,} entries"
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return f"[{', '.join(map(_shown, value))}]" if len(value) <= MOST_ITEMS else f"{len(value):,} items"
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= 2 * MOST_LETTERS and "\n" not in text else type(value).__name__


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table under a title, everything escaped.

    >>> html_table("2 < 3", ["a"], [["<b>"]])
    '<div><b>2 &lt; 3</b><table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table></div>'
    """
    lines = [_row(header, "th")] if header else []
    lines += [_row(row, "td") for row in rows]
    return f"<div><b>{escape(title)}</b><table>{''.join(lines)}</table></div>"


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def short_number(value: object) -> str:
    """A number with four digits, anything else as text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
