"""Files as commands write them: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from glws.cli.failures import UsageError


def write_text(path: Path, content: str) -> None:
    """Writes the file in one step, creating its folders; where that fails, nothing is left behind."""
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content)
    except OSError as error:
        for folder in missing:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _replace(path: Path, content: str) -> None:
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """What the user wants new files not to allow; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
