"""Replace the marked parts of a document that a program writes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from glws.errors import DataError


def start(name: str) -> str:
    """The line before the part."""
    return f"<!-- {name}: written by python -m benchmarks -->"


def end(name: str) -> str:
    """The line after it."""
    return f"<!-- end of {name} -->"


def rewritten(document: str, parts: Mapping[str, str]) -> str:
    """The document with these parts replaced; a part that it does not mark raises DataError."""
    for name, content in parts.items():
        pattern = re.compile(f"({re.escape(start(name))}\n).*?({re.escape(end(name))})", re.DOTALL)
        if not pattern.search(document):
            raise DataError(f"the document has no part {name!r}; mark it with {start(name)} and {end(name)}")
        document = pattern.sub(lambda found, content=content: f"{found[1]}\n{content}\n\n{found[2]}", document)  # type: ignore[misc]
    return document
