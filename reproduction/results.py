"""Our runs of the paper's cells: one JSON line each, sorted by name, validated when read.

The schema of `runs.jsonl` is in the README of this package.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

from glws._aliases import current_name, silent, with_current_names
from glws._files import write_text
from glws.errors import DataError

WORDS = ("setting", "dataset", "cell", "method", "device")
SHARES = ("accuracy", "balanced_accuracy", "matched_accuracy", "best_on_test")
WHOLE = ("seed", "epochs")
RUN = ("setting", "dataset", "cell", "method", "options", "seed", "epochs", "chosen")
"""The fields that identify a run."""
RUNS = "runs.jsonl"
"""The file of all runs, inside the folder of results."""
LIKELIHOOD, TEMPERED, HELD_OUT = "held_out_log_likelihood", "held_out_tempered", "held_out_groups"
ACCURACY, BALANCED, ERROR = "held_out_accuracy", "held_out_balanced_accuracy", "held_out_accuracy_error"
MAY_BE_NONE = (TEMPERED, ACCURACY, BALANCED, ERROR)
DEFAULTS: dict[str, Any] = {
    **{"options": {}, "device": "", "curve": [], "chosen": None, HELD_OUT: None},
    **dict.fromkeys(MAY_BE_NONE),
}
"""Fields that may be missing."""
RUNTIME = "runtime.json"
"""The times of `python -m reproduction runtime`, next to the runs."""
REMEDY = "remove the line, and run it again"


class Run(TypedDict):
    """Cell, method, seed, changed options and epochs of a run."""

    setting: str
    dataset: str
    cell: str
    method: str
    options: dict[str, Any]
    seed: int
    epochs: int


class Record(Run):
    """One run with its test scores.

    accuracy, balanced_accuracy, matched_accuracy: of the last epoch, between 0 and 1, as `glws.evaluation.Scores` has
    them. best_on_test: the best epoch by the metric of the setting, which only a comparison with the paper needs.
    options: those that differ from the plan of the cell; empty for a plain run. device: the name of the device.
    seconds: of training; after a kill, only since then. curve: the test metric after each epoch. chosen: the plan of
    the cell at the time of the run (`reproduction.plans.chosen_options`), None if not recorded.
    """

    accuracy: float
    balanced_accuracy: float
    matched_accuracy: float
    best_on_test: float
    seconds: float
    device: str
    curve: list[float]
    chosen: dict[str, Any] | None


class Choice(Run):
    """A run for model selection: the mean of log p(w | x) over held-out groups.

    It does not use the test set. held_out_tempered: the same with logits times the best factor, which is fairer to
    predictions that are right but overconfident; None if not recorded. held_out_groups: the number of groups of
    held-out instances; None if a tenth of the groups was held out. held_out_accuracy and the next two: estimates of the
    accuracy on single instances from these groups (`glws.training._evaluate`), None if not possible or not recorded.
    chosen: the plan of the cell at the time of the run, None if not recorded.
    """

    held_out_log_likelihood: float
    held_out_tempered: float | None
    held_out_accuracy: float | None
    held_out_balanced_accuracy: float | None
    held_out_accuracy_error: float | None
    held_out_groups: int | None
    chosen: dict[str, Any] | None


def read_choices(folder: str | os.PathLike[str]) -> list[Choice]:
    """The runs for model selection, by name."""
    found = (line for line in _lines(Path(folder)) if LIKELIHOOD in line.content)
    return [cast(Choice, line.checked(Choice.__annotations__)) for line in found]


def read_results(folder: str | os.PathLike[str]) -> list[Record]:
    """The runs with test scores in a folder of results, by name.

    A line that is no JSON, lacks a field, holds an impossible value, or repeats a run is a `DataError` that names file
    and line; further fields are left out. A folder without `runs.jsonl` has no runs; a missing folder is an error.

    >>> import tempfile
    >>> read_results(tempfile.mkdtemp())
    []
    """
    found: dict[str, Line] = {}
    records = []
    for line in _lines(Path(folder)):
        if LIKELIHOOD in line.content:
            continue
        record = cast(Record, line.checked(Record.__annotations__))
        key = json.dumps([record[name] for name in RUN], sort_keys=True)  # type: ignore[literal-required]
        if key in found:
            raise DataError(f"{line.where}: line {found[key].number} holds the same run; remove one of them")
        found[key] = line
        records.append(record)
    return records


def find_run(folder: Path, name: str) -> dict[str, Any] | None:
    """The run of this name as it was stored, None if there is none."""
    return next((line.content for line in _lines(folder) if line.content.get("name") == name), None)


def run_names(folder: Path) -> set[str]:
    """The names of all stored runs."""
    return {str(line.content.get("name")) for line in _lines(folder)} if folder.is_dir() else set()


def store_run(folder: Path, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Add a run, or replace the one of this name; return it as it was stored.

    Processes that store at the same time wait for each other.
    """
    with _locked(folder):
        runs = {str(line.content.get("name")): line.content for line in _lines(folder)}
        runs[name] = {"name": name, **result}
        write_text(folder / RUNS, "".join(json.dumps(runs[key]) + "\n" for key in sorted(runs)))
        return runs[name]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{RUNS}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Line:
    """A line of the file, and its position."""

    path: Path
    number: int
    content: dict[str, Any]

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}, line {self.number}"

    def checked(self, names: Collection[str]) -> dict[str, Any]:
        """The fields of these names, validated."""
        content = {**DEFAULTS, **self.content}
        for name in names:
            reason = _mistake(name, content)
            if reason:
                raise DataError(f"{self.where}: {reason}; {REMEDY}")
        return {name: content[name] for name in names}


def _lines(folder: Path) -> list[Line]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder of results; give the one that the runs were written to")
    path = folder / RUNS
    if not path.exists():
        return []
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from None
    return [_line(path, number, text) for number, text in enumerate(texts, 1) if text]


def _line(path: Path, number: int, text: str) -> Line:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: it is no JSON: {first_line(error)}; {REMEDY}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}, line {number}: expected a JSON object, found {type(content).__name__}; {REMEDY}")
    return Line(path, number, _with_current_options(content))


def _with_current_options(content: dict[str, Any]) -> dict[str, Any]:
    """A run with the names that options have now, in its own name as well.

    >>> _with_current_options({"name": "a-train.epochs=2-seed0", "options": {"train.epochs": 2}})
    {'name': 'a-training.epochs=2-seed0', 'options': {'training.epochs': 2}}
    """
    found, name = dict(content), content.get("name")
    for field in ("options", "chosen"):
        if isinstance(found.get(field), dict):
            found[field] = with_current_names(found[field], report=silent)
    if isinstance(name, str):
        found["name"] = "-".join(current_name(part) for part in name.split("-"))
    return found


def _mistake(name: str, content: Mapping[str, Any]) -> str:
    """The error in a field; empty if it is valid."""
    if name not in content:
        return f"the field {name!r} is missing"
    wanted, is_right = _rule(name)
    return "" if is_right(content[name]) else f"{name!r} must be {wanted}, found {content[name]!r}"


def _rule(name: str) -> tuple[str, Callable[[Any], bool]]:
    """The requirement for a field, in words and as a test."""
    if name in WORDS:
        return "a word", lambda found: isinstance(found, str)
    if name in WHOLE:
        return "a whole number of at least 0", lambda found: type(found) is int and found >= 0
    if name in SHARES:
        return "a number from 0 to 1", _is_share
    if name in MAY_BE_NONE:
        return "a number, or nothing", lambda found: found is None or _is_finite(found)
    if name == HELD_OUT:
        return (
            "a whole number of at least 1, or nothing",
            lambda found: found is None or (type(found) is int and found > 0),
        )
    if name == LIKELIHOOD:
        return "a number", _is_finite
    if name == "options":
        return "an object of options", lambda found: isinstance(found, dict)
    if name == "chosen":
        return "an object of options, or nothing", lambda found: found is None or isinstance(found, dict)
    if name == "curve":
        return "a list of numbers from 0 to 1", lambda found: isinstance(found, list) and all(map(_is_share, found))
    return "a number of at least 0", lambda found: type(found) in (int, float) and 0 <= found < math.inf


def _is_finite(found: Any) -> bool:
    return type(found) in (int, float) and math.isfinite(found)


def _is_share(found: Any) -> bool:
    return type(found) in (int, float) and 0 <= found <= 1


def first_line(error: Exception) -> str:
    """The first line of the message of an error, or its name."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
