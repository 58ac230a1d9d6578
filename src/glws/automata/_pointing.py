"""Errors in a text: what is wrong, the text, and a caret under the place."""

from __future__ import annotations

from glws.errors import ConstraintError

MAX_LENGTH = 9_999
"""Longer texts and patterns are refused."""
SHOWN = 100
"""The number of characters of a long text that are shown around the caret."""


class TextError(ConstraintError):
    """An error in a text: what is wrong, the text, a caret under the place.

    >>> print(TextError("write == to compare", "count(1) = 3", 9))
    write == to compare
    count(1) = 3
             ^
    """

    def __init__(self, message: str, text: str, column: int) -> None:
        super().__init__(message, text, column)
        self.message = message
        self.text = text
        self.column = column

    def __str__(self) -> str:
        shown, caret = _window(self.text, self.column)
        return f"{self.message}\n{shown}\n{' ' * caret}^"


def _window(text: str, column: int) -> tuple[str, int]:
    """The part of the text around the column, on one line, and the column within it."""
    start = max(0, min(column - SHOWN // 2, len(text) - SHOWN))
    piece = "".join(" " if c.isspace() else c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    before = "..." if start else ""
    after = "..." if start + SHOWN < len(text) else ""
    return before + piece[start : start + SHOWN] + after, len(before) + column - start
