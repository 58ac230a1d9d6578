"""Rewrite the marked tables of a page."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "tables.md"


def rewrite(page: Path, name: str, text: str) -> None:
    """Put the text between `<!-- NAME: written by examples/NAME.py -->` and `<!-- end of NAME -->`."""
    start, end = f"<!-- {name}: written by examples/{name}.py -->", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    document = page.read_text()
    if not pattern.search(document):
        raise SystemExit(f"{page} has no part {name!r}; mark it with {start} and {end}")
    page.write_text(pattern.sub(lambda _: f"{start}\n\n{text}\n{end}", document))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"
