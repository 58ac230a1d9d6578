"""Notes on published numbers that are wrong, contradictory or incompletely described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from reproduction.files import Value, concerns, entries


@dataclass(frozen=True)
class Note:
    """A remark on a published number.

    kind: "print": printed numbers contradict each other or are impossible; "text": the text contradicts the tables, the
    code, or itself; "unsaid": the paper does not say; "code": the released code differs from the text, and may or may
    not have produced the tables. methods: those that the note concerns; none: all of the cell.
    """

    kind: Literal["print", "text", "unsaid", "code"]
    text: str
    methods: tuple[str, ...] = ()


def notes(setting: str, dataset: str, configuration: Mapping[str, Value]) -> tuple[Note, ...]:
    """The remarks on a cell.

    >>> for note in notes("proportions", "cifar10", {"num_classes": 2, "mean_size": 10}):
    ...     if note.kind == "print":
    ...         print(note.text)
    The three numbers are those of 10 classes in the main text, repeated; the binary ones were never printed.
    """
    found = [entry for entry in _entries() if concerns(entry, setting, dataset, configuration)]
    return tuple(Note(entry["kind"], entry["text"], tuple(entry.get("methods", ()))) for entry in found)


@cache
def _entries() -> list[dict[str, Any]]:
    return entries("notes")
