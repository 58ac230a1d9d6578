"""Minimal automata of texts on disk, so that what took long to compile is compiled once.

One SQLite file of at most `MAX_BYTES` in the folder that `GLWS_CACHE` names (empty: no cache), else in `~/.cache/glws`.
An entry is found by the SHA-256 of the text, of what it depends on, and of the sources
of this package; it begins with the SHA-256 of its content, and one that does not agree counts as missing. Whatever
else is wrong with the file, the automaton is compiled as if there were none: a damaged file is removed, a locked or
forbidden one is left alone. Nothing that is read is executed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from glws.automata._tables import NEVER, Table, dense

MAX_BYTES, MAX_ENTRY = 64 << 20, 8 << 20
WORTHWHILE = 0.02
"""Seconds of compiling from which on an automaton is stored."""
PATIENCE = 0.2
"""Seconds to wait for another process."""
_DIGEST = 32

Answer = TypeVar("Answer")


def digest(*parts: object) -> bytes:
    """The key of something that depends on these parts and on the sources."""
    return hashlib.sha256(f"{_sources()} {parts!r}".encode()).digest()


@cache
def _sources() -> str:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def find(key: bytes) -> Table | None:
    """The language with this key, if it is stored and intact."""
    path = _path()
    if path is None or key not in _keys(path):
        return None
    rows = _ask(path, lambda found: found.execute("SELECT content FROM automata WHERE key = ?", (key,)).fetchall())
    return _unpacked(rows[0][0], key) if rows else None


def keep(key: bytes, table: Table) -> None:
    """Store a minimal language; the oldest entries make room for it."""
    path, content = _path(), _packed(table, key)
    if path is None or len(content) > MAX_ENTRY:
        return

    def store(found: sqlite3.Connection) -> None:
        found.execute("CREATE TABLE IF NOT EXISTS automata (key BLOB PRIMARY KEY, size INTEGER, content BLOB)")
        found.execute("INSERT OR REPLACE INTO automata VALUES (?, ?, ?)", (key, len(content), content))
        newer = "SELECT rowid, SUM(size) OVER (ORDER BY rowid DESC) AS total FROM automata"
        found.execute(f"DELETE FROM automata WHERE rowid IN (SELECT rowid FROM ({newer}) WHERE total > {MAX_BYTES})")
        found.commit()
        _keys(path).add(key)

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    _ask(path, store)


def _path() -> Path | None:
    folder = os.environ.get("GLWS_CACHE", str(Path.home() / ".cache" / "glws"))
    return Path(folder) / "automata.sqlite" if folder else None


@cache
def _keys(path: Path) -> set[bytes]:
    """The keys that were stored when this process first asked, and its own."""
    found = _ask(path, lambda found: found.execute("SELECT key FROM automata").fetchall()) if path.is_file() else None
    return {key for (key,) in found or ()}


def _ask(path: Path, question: Callable[[sqlite3.Connection], Answer]) -> Answer | None:
    """The answer of the database, None if there is none; a file that is no database is removed."""
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            return question(connection)
    except (sqlite3.OperationalError, OSError):  # locked, forbidden, a full disk
        return None
    except sqlite3.DatabaseError:
        with suppress(OSError):
            path.unlink()
        return None


def _packed(table: Table, key: bytes) -> bytes:
    """The digest, three sizes, and the arrays of a deterministic language that starts in state 0."""
    sizes = (table.num_states, table.num_symbols, len(table.sources))
    numbers = np.concatenate([sizes, table.sources, table.symbols, table.targets]).astype("<i4")
    content = numbers.tobytes() + (table.log_final > NEVER).tobytes()
    return hashlib.sha256(key + content).digest() + content


def _unpacked(stored: bytes, key: bytes) -> Table | None:
    content = stored[_DIGEST:]
    if hashlib.sha256(key + content).digest() != stored[:_DIGEST]:
        return None
    states, symbols, arcs = np.frombuffer(content, "<i4", 3).tolist()
    sources, labels, targets = np.frombuffer(content, "<i4", 3 * arcs, 12).astype(np.int64).reshape(3, arcs)
    log_final = np.where(np.frombuffer(content, np.bool_, states, 12 + 12 * arcs), 0.0, NEVER)
    return Table(states, symbols, sources, labels, targets, np.zeros(arcs), dense({0: 0.0}, states), log_final)
