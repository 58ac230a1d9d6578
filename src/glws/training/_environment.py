"""The environment of a run: versions, the commit of the user's code, the command line, the time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

from glws._version import __version__
from glws.training._checksummed import Json

PACKAGES = ("torch", "numpy", "scipy", "numba")
GIT_SECONDS = 5


def environment(command: Sequence[str] | None = None) -> dict[str, Json]:
    """Versions of packages, git commit of the current folder (None outside of git), and the command line.

    >>> sorted(environment(["glws", "train"]))
    ['command', 'git', 'versions']
    """
    versions: dict[str, Json] = {"glws": __version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in PACKAGES}
    return {"versions": versions, "git": git_state(), "command": list(sys.argv if command is None else command)}


def git_state() -> Json:
    """The commit of the current folder and whether tracked files differ from it, or None without git."""
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "is_dirty": bool(changes)}


def now() -> str:
    """The time, to the second, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _git(*arguments: str) -> str | None:
    """The output of git, without locks or other programs; None if it fails."""
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, env=environment, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return process.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
