"""Old names of settings, and what each is called now: both are understood wherever settings are read.

A configuration, `key=value`, an option of `python -m reproduction` and an argument of `WeakClassifier` with an old name
work, and a line says the new one. Stored runs load without a word: there is nothing in them to change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from glws.errors import ConfigError

ALIASES = {
    "data.standardise": "data.standardize",
    "WeakClassifier.standardise": "WeakClassifier.standardize",
    "train.": "training.",
}
"""Old names and new ones; a name that ends in a dot stands for all that begin so."""

Report = Callable[[str], None]
"""Called with each line for the user."""
Init = TypeVar("Init", bound=Callable[..., None])


def deprecated(line: str) -> None:
    """The usual report: a `DeprecationWarning`."""
    warnings.warn(line, DeprecationWarning, stacklevel=2)


def silent(line: str) -> None:
    """Reports nothing."""


def current_name(name: str, report: Report = silent) -> str:
    """What a setting is called now.

    >>> current_name("data.standardise"), current_name("train.epochs"), current_name("data.table")
    ('data.standardize', 'training.epochs', 'data.table')
    """
    section, dot, rest = name.partition(".")
    found = ALIASES.get(name) or ALIASES.get(section + dot, section + dot) + rest
    if found != name:
        report(f"`{name}` is now called `{found}`; the old name will be removed, see CONTRIBUTING.md")
    return found


def with_current_names(given: Mapping[str, Any], section: str = "", report: Report = deprecated) -> dict[str, Any]:
    """The values by their current names; one that is given by both of its names is a `ConfigError`.

    `section` is what the names lack at their beginning, such as "data".

    >>> with_current_names({"standardise": False, "held_out": 0.2}, "data", silent)
    {'standardize': False, 'held_out': 0.2}
    """
    start = f"{section}." if section else ""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = current_name(f"{start}{key}", report).removeprefix(start) if isinstance(key, str) else key
        if name in found or (name != key and name in given):
            raise ConfigError(f"`{start}{name}` is given twice, also by an old name; leave the old one out")
        found[name] = value
    return found


def takes_old_names(init: Init) -> Init:
    """A constructor that understands old names of its arguments, those of the class it belongs to."""
    owner = init.__qualname__.split(".")[0]

    @wraps(init)
    def constructor(self: Any, *positional: Any, **named: Any) -> None:
        init(self, *positional, **with_current_names(named, owner))

    return cast(Init, constructor)
