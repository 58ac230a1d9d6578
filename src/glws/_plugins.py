"""Kinds, methods, networks and data sets by name: built in, installed, or a class that the user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple, TypeVar

from glws._messages import hint, nearest, one_line
from glws.errors import ConfigError, DataError, GlwsError

Plugin = TypeVar("Plugin")


class Group(NamedTuple):
    """A group of entry points: what one plug-in is called in messages, and the error for a wrong one."""

    noun: str
    error: type[GlwsError]


GROUPS = {
    "glws.kinds": Group("kind of weak label", DataError),
    "glws.methods": Group("method", ConfigError),
    "glws.models": Group("network", DataError),
    "glws.sources": Group("data set", DataError),
}
"""The groups of entry points that are searched."""
OWN_CODE = "code of your own is package.module:Class, with --allow-code"


def find(group: str, name: str, builtin: Mapping[str, Plugin], allow_code: bool = False) -> Plugin:
    """The plug-in of this name: a built-in one, else an installed one, else `package.module:Class`.

    An installed package declares its plug-ins as entry points of the group, such as `glws.kinds`; to install it is to
    allow it. A class that is named by its path is imported with `allow_code` only. Whatever cannot be found is one
    error with the nearest name that can.

    >>> find("glws.models", "mpl", {"mlp": 1, "linear": 2})
    Traceback (most recent call last):
    ...
    glws.errors.DataError: no network is called 'mpl'; did you mean 'mlp'?
    """
    noun, error = GROUPS[group]
    if not isinstance(name, str):
        raise error(f"a {noun} is chosen by its name, found {name!r}")
    if name in builtin:
        return builtin[name]
    installed = {point.name: point.load for point in entry_points(group=group)}
    if name in installed:
        found: Plugin = _loaded(name, noun, error, installed[name])
        return found
    if ":" not in name:
        known = [*builtin, *installed]
        more = "" if nearest(name, known) else f"; {OWN_CODE}"
        raise error(f"no {noun} is called {name!r}; {hint(name, known)}{more}")
    if not allow_code:
        raise error(
            f"the {noun} {name!r} is code that is not glws's own; to run it, say --allow-code "
            "(in Python: allow_code=True)"
        )
    found = _loaded(name, noun, error, lambda: _imported(name))
    return found


def names(group: str, builtin: Mapping[str, Any]) -> list[str]:
    """The names of all plug-ins of a group, built in and installed."""
    return list(dict.fromkeys([*builtin, *(point.name for point in entry_points(group=group))]))


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _loaded(name: str, noun: str, error: type[GlwsError], load: Callable[[], Any]) -> Any:
    """What is imported; whatever goes wrong in code that is not ours is one line."""
    try:
        return load()
    except Exception as reason:
        what = f"{type(reason).__name__}: {one_line(reason)}"
        raise error(f"the {noun} {name!r} cannot be imported: {what}") from reason
