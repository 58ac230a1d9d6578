"""The files of this package: published numbers as CSV, notes and plans as YAML, runs as JSON lines, pages."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

Value = int | float | str


def text_of(name: str) -> str:
    """The text of a file among the tables."""
    return (files("reproduction") / "tables" / name).read_text(encoding="utf-8")


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table, by column name.

    >>> rows("partial_labels")[0]["glws"]
    '94.31±0.09'
    """
    return list(csv.DictReader(text_of(f"{name}.csv").splitlines()))


def entries(name: str) -> list[dict[str, Any]]:
    """The entries of a YAML file.

    >>> entries("notes")[0]["kind"]
    'code'
    """
    import yaml

    found: list[dict[str, Any]] = yaml.safe_load(text_of(f"{name}.yaml"))
    return found


def value(text: str) -> Value:
    """A whole number, a number or a word.

    >>> value("250"), value("0.4"), value("lenet5")
    (250, 0.4, 'lenet5')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def concerns(entry: Mapping[str, Any], setting: str, dataset: str, configuration: Mapping[str, Value]) -> bool:
    """Whether an entry concerns a cell; fields that it leaves out match all cells.

    >>> concerns({"settings": ["proportions"], "where": {"mean_size": [50]}}, "proportions", "mnist", {"mean_size": 10})
    False
    """
    where: Mapping[str, Collection[Value | None]] = entry.get("where", {})
    return (
        setting in entry.get("settings", [setting])
        and dataset in entry.get("datasets", [dataset])
        and all(configuration.get(name) in wanted for name, wanted in where.items())
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; none if there is no such file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def put_between(page: Path, start: str, end: str, table: str) -> None:
    """Put a table between the marks of a page."""
    document = page.read_text(encoding="utf-8")
    made = f"{start}\n\n{table}\n{end}"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    page.write_text(pattern.sub(lambda _: made, document), encoding="utf-8")
