"""Optional packages, imported on use, with an error that names a missing one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from glws.errors import DataError


def needed(module: str, package: str, purpose: str) -> Any:
    """The module, or a `DataError` with the package to install and its purpose.

    >>> needed("json", "nothing", "reading JSON").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(f"{purpose} needs the package {package}: pip install {package}") from error
