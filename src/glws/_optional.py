"""Packages that only some readers need: loaded when used, and asked for by name when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from glws.errors import DataError


def needed(module: str, package: str, purpose: str) -> Any:
    """The module, or a `DataError` that says what to install and what for.

    >>> needed("json", "nothing", "reading JSON").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(f"{purpose} needs the package {package}: pip install {package}") from error
