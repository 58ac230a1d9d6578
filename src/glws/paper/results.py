"""Our own runs of the paper's cells: one JSON file for each, read back with every mistake named."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from glws.errors import DataError

WORDS = ("setting", "dataset", "cell", "method", "device")
SHARES = ("accuracy", "balanced_accuracy", "matched_accuracy", "best_on_test")
WHOLE = ("seed", "epochs")
RUN = ("setting", "dataset", "cell", "method", "options", "seed", "epochs", "chosen")
"""What tells one run from another."""
CHOOSING = "choosing"
"""The folder of the runs that hold groups out, inside that of the results."""
LIKELIHOOD, TEMPERED, HELD_OUT = "held_out_log_likelihood", "held_out_tempered", "held_out_groups"
ACCURACY, BALANCED, ERROR = "held_out_accuracy", "held_out_balanced_accuracy", "held_out_accuracy_error"
MAY_BE_NONE = (TEMPERED, ACCURACY, BALANCED, ERROR)
DEFAULTS: dict[str, Any] = {
    **{"options": {}, "device": "", "curve": [], "chosen": None, HELD_OUT: None},
    **dict.fromkeys(MAY_BE_NONE),
}
"""Fields that may be missing."""
RUNTIME = "runtime.json"
"""A file that lies beside the runs and is none: the times of `glws paper runtime`."""
REMEDY = "run it again or remove the file"


class Run(TypedDict):
    """Which cell, which method, which seed; options other than planned, and how many epochs."""

    setting: str
    dataset: str
    cell: str
    method: str
    options: dict[str, Any]
    seed: int
    epochs: int


class Record(Run):
    """One run: which cell, which method, which seed, and how well it did on the test set.

    accuracy, balanced_accuracy, matched_accuracy: of the last epoch, between 0 and 1, as `glws.evaluation.Scores` has
    them. best_on_test: the best epoch by the metric of the setting, which only a comparison with the paper needs.
    options: those of the method that are not as planned for the cell; none for a plain run. device: what it ran on.
    seconds: of training, and of a run that was killed only of what was done since. curve: the metric of the setting on
    the test set after each epoch. chosen: what was planned for the cell when it was run
    (`glws.paper.plans.chosen_options`), None if that was not noted.
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
    """A run to choose by: how well it explains groups that were held out, as the mean of log p(w | x) over them.

    It has never met the test set. held_out_tempered is the same with logits times the factor that is best for it, None
    if that was not noted: predictions that are right but too sure are judged more fairly by it. held_out_groups: how
    many there were, of instances that were held out; None if groups were held out one by one, a tenth of them.
    held_out_accuracy and its like: that on single instances as these groups tell it (`glws.training.evaluate`), None
    where they do not or it was not noted. chosen: what was planned for the cell when it was run, None if that was not
    noted.
    """

    held_out_log_likelihood: float
    held_out_tempered: float | None
    held_out_accuracy: float | None
    held_out_balanced_accuracy: float | None
    held_out_accuracy_error: float | None
    held_out_groups: int | None
    chosen: dict[str, Any] | None


def read_choices(folder: str | os.PathLike[str]) -> list[Choice]:
    """The runs to choose by in a folder of results, in the order of their file names; none if there are none."""
    paths = sorted((Path(folder) / CHOOSING).glob("*.json"))
    return [cast(Choice, _read(path, Choice.__annotations__)) for path in paths]


def read_results(folder: str | os.PathLike[str]) -> list[Record]:
    """The runs in a folder, in the order of their file names; each `.json` file holds one, `runtime.json` apart.

    A file that is no JSON, lacks a field, holds what cannot be, or repeats the run of another file is a `DataError`
    with the name of the file; further fields are left out. An empty folder has no runs; one that is not there is an
    error.

    >>> import tempfile
    >>> read_results(tempfile.mkdtemp())
    []
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{place} is no folder of results; give the one that the runs were written to")
    found: dict[str, Path] = {}
    records = []
    for path in sorted(path for path in place.glob("*.json") if path.name != RUNTIME):
        record = read_result(path)
        key = json.dumps([record[name] for name in RUN], sort_keys=True)  # type: ignore[literal-required]
        if key in found:
            raise DataError(f"{path} and {found[key].name} hold the same run; remove one of them")
        found[key] = path
        records.append(record)
    return records


def read_result(path: str | os.PathLike[str]) -> Record:
    """The run in a file."""
    return cast(Record, _read(path, Record.__annotations__))


def _read(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, Any]:
    """The fields of these names in a file, each as it must be."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is no result of a run: {_first_line(error)}; {REMEDY}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold one JSON object, found {type(content).__name__}; {REMEDY}")
    content = {**DEFAULTS, **content}
    for name in names:
        reason = _mistake(name, content)
        if reason:
            raise DataError(f"{path}: {reason}; {REMEDY}")
    return {name: content[name] for name in names}


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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
