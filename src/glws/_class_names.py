"""Classes by what people call them: by name, or by number where the names are words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glws._messages import hint


@dataclass(frozen=True)
class ClassNames:
    """The classes of a table, found by name, or by number where the names are words."""

    names: tuple[str, ...]

    def number(self, value: Any) -> int:
        """The number of the class that a cell means, or -1."""
        name = _as_name(value)
        if name in self.names:
            return self.names.index(name)
        if any(_is_whole(known) for known in self.names) or not _is_whole(name):
            return -1
        return int(name) if 0 <= int(name) < len(self.names) else -1

    def complaint(self, value: Any) -> str:
        """What to say about a cell that means no class."""
        return f"no class is called {shown(value)}; {hint(_as_name(value), self.names, '{}', 'there are')}"


def _as_name(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _is_whole(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit() and len(name) < 10


def shown(value: Any) -> str:
    """A cell as it stands in a message, cut short."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
