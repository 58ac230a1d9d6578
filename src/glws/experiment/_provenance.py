"""Which data a run has read: their hashes, kept in the run, and what is said when the data have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from glws.data import DataHash
from glws.errors import RunError
from glws.experiment._config import DataConfig
from glws.training import RunFolder

DATA = "data"
"""The fact of `run.json`, and the event of `times.jsonl`, that holds the hashes."""
NAMES = {"table": "data", "test": "test data"}
Hashes = Mapping[str, DataHash]
"""Of the table that a job learns from ("table") and of the one that it is tested on ("test"), where there are any."""
OnRead = Callable[[str, DataHash], None]
"""Called with the path of a description and the hash of its table as soon as that has been read."""


def as_facts(hashes: Hashes) -> dict[str, Any]:
    """Plain values, for `run.json` and `times.jsonl`."""
    return {role: found.as_dict() for role, found in hashes.items()}


def stored_hashes(run: RunFolder) -> dict[str, DataHash]:
    """The hashes of the data that a run has read last; empty if it was begun by a version that kept none."""
    history = _history(run)
    return history[-1] if history else {}


def _history(run: RunFolder) -> list[dict[str, DataHash]]:
    """The hashes of the data at the beginning, and of those that a resumed run found instead."""
    facts = [run.facts.get(DATA), *run.noted(DATA)]
    return [_hashes(known) for known in facts if isinstance(known, Mapping)]


def _hashes(facts: Mapping[str, Any]) -> dict[str, DataHash]:
    found = {role: DataHash.read(facts.get(role)) for role in NAMES}
    return {role: known for role, known in found.items() if known is not None}


def keep_hashes(run: RunFolder, hashes: Hashes) -> None:
    """Notes the hashes of the data in the run, unless they are those that it has."""
    if hashes != stored_hashes(run):
        run.note(DATA, as_facts(hashes))


def described_hashes(run: RunFolder) -> dict[str, str]:
    """A line for each table that the run has read, for its report."""
    lines: dict[str, list[str]] = {}
    for hashes in _history(run):
        for role, known in hashes.items():
            line = f"sha256 {known.sha256[:16]} of {known.rows:,} rows"
            found = lines.setdefault(NAMES[role], [])
            if found[-1:] != [line]:
                found.append(line)
    return {name: ", then ".join(found) for name, found in lines.items()}


def changes(run: RunFolder, config: DataConfig, path: str, found: DataHash) -> str:
    """How a table differs from what the run has read from the same path, in words; empty if it does not."""
    known = stored_hashes(run)
    roles = [role for role in known if _is_same(getattr(config, role), path)]
    return known[roles[0]].changes(found) if roles else ""


def _is_same(path: str | None, other: str) -> bool:
    return path is not None and Path(path).resolve() == Path(other).resolve()


def refusing(run: RunFolder, config: DataConfig) -> OnRead:
    """Raises `RunError` for data that have changed."""

    def refuse(path: str, found: DataHash) -> None:
        what = changes(run, config, path, found)
        if what:
            hint = "restore the data, or continue with the data as it is now by --changed-data"
            raise RunError(f"{path}: the data has changed since {run.path} was begun ({what}); {hint}")

    return refuse


def warning(run: RunFolder, config: DataConfig, consequence: str, report: Callable[[str], None]) -> OnRead:
    """Reports data that have changed in a line, which says what comes of it."""

    def warn(path: str, found: DataHash) -> None:
        what = changes(run, config, path, found)
        if what:
            report(f"{path}: the data has changed since {run.path} was trained on it ({what}); {consequence}")

    return warn
