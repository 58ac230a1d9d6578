"""Our own runs of the paper's cells: one JSON file for each, read back with every mistake named."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from glws.errors import DataError

WORDS = ("setting", "dataset", "cell", "method")
SHARES = ("accuracy", "balanced_accuracy", "matched_accuracy", "best_on_test")
WHOLE = ("seed", "epochs")
REMEDY = "run it again or remove the file"


class Record(TypedDict):
    """One run: which cell, which method, which seed, and how well it did on the test set.

    accuracy, balanced_accuracy, matched_accuracy: of the last epoch, between 0 and 1, as `glws.evaluation.Scores` has
    them. best_on_test: the best epoch by the metric of the setting, which only a comparison with the paper needs.
    """

    setting: str
    dataset: str
    cell: str
    method: str
    seed: int
    accuracy: float
    balanced_accuracy: float
    matched_accuracy: float
    best_on_test: float
    seconds: float
    epochs: int


def read_results(folder: str | os.PathLike[str]) -> list[Record]:
    """The runs in a folder, in the order of their file names; each `.json` file holds one. Further fields are left out.

    A file that is no JSON, lacks a field, holds what cannot be, or repeats the run of another file is a `DataError`
    with the name of the file. An empty folder has no runs; a folder that is not there is an error.

    >>> import tempfile
    >>> read_results(tempfile.mkdtemp())
    []
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{place} is no folder of results; give the one that the runs were written to")
    found: dict[tuple[Any, ...], Path] = {}
    records = []
    for path in sorted(place.glob("*.json")):
        record = read_result(path)
        key = (*(record[name] for name in WORDS), record["seed"])  # type: ignore[literal-required]
        if key in found:
            raise DataError(f"{path} and {found[key].name} hold the same run; remove one of them")
        found[key] = path
        records.append(record)
    return records


def read_result(path: str | os.PathLike[str]) -> Record:
    """The run in a file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no result of a run: {_first_line(error)}; {REMEDY}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold one JSON object, found {type(content).__name__}; {REMEDY}")
    for name in Record.__annotations__:
        reason = _mistake(name, content)
        if reason:
            raise DataError(f"{path}: {reason}; {REMEDY}")
    return cast(Record, {name: content[name] for name in Record.__annotations__})


def _mistake(name: str, content: Mapping[str, Any]) -> str:
    """What is wrong with a field; nothing if it is right."""
    if name not in content:
        return f"the field {name!r} is missing"
    wanted, is_right = _rule(name)
    return "" if is_right(content[name]) else f"{name!r} must be {wanted}, found {content[name]!r}"


def _rule(name: str) -> tuple[str, Callable[[Any], bool]]:
    """What a field must be, in words and as a test."""
    if name in WORDS:
        return "a word", lambda found: isinstance(found, str)
    if name in WHOLE:
        return "a whole number of at least 0", lambda found: type(found) is int and found >= 0
    if name in SHARES:
        return "a number from 0 to 1", lambda found: type(found) in (int, float) and 0 <= found <= 1
    return "a number of at least 0", lambda found: type(found) in (int, float) and 0 <= found < math.inf


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
