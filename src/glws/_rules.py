"""Rules for the fields of a configuration: the allowed values, in words and as a test."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Literal, Union, get_args, get_origin

from glws._messages import hint
from glws.errors import ConfigError

Rule = tuple[str, Callable[[Any], bool]]
"""The allowed values, in words and as a test."""


def whole(least: int) -> Rule:
    """An integer of at least `least`."""
    return f"an integer >= {least}", lambda value: _is_int(value) and value >= least


def real(least: float, *, above: bool = False, below: float | None = None) -> Rule:
    """A finite number of at least `least` (or above it), and below a limit if there is one."""
    words = f"a number {'>' if above else '>='} {least:g}" + ("" if below is None else f" and < {below:g}")
    return (
        words,
        lambda value: (
            _is_number(value) and (value > least if above else value >= least) and (below is None or value < below)
        ),
    )


def one_of(*names: str) -> Rule:
    """One of these words."""
    return f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names


def switch() -> Rule:
    """true or false."""
    return "true or false", lambda value: isinstance(value, bool)


def text() -> Rule:
    """Any text that is not empty."""
    return "a text", lambda value: isinstance(value, str) and bool(value)


def several(rule: Rule) -> Rule:
    """A list of values that each follow the rule."""
    return (
        f"a list of values, each {rule[0]}",
        lambda value: isinstance(value, list | tuple) and all(rule[1](item) for item in value),
    )


def pair(rule: Rule) -> Rule:
    """Two values that each follow the rule."""
    return (
        f"two values, each {rule[0]}",
        lambda value: isinstance(value, list | tuple) and len(value) == 2 and all(rule[1](item) for item in value),
    )


def parts_of_one() -> Rule:
    """Positive numbers that sum to 1."""
    _, are_positive = several(real(0, above=True))
    return (
        "a list of numbers > 0 that add up to 1",
        lambda value: are_positive(value) and abs(sum(value) - 1) <= 1e-6,
    )


def either(first: Rule, second: Rule) -> Rule:
    """A value that follows one of two rules."""
    return f"{first[0]}, or {second[0]}", lambda value: first[1](value) or second[1](value)


def nothing_or(rule: Rule) -> Rule:
    """A value that follows the rule, or null."""
    return f"{rule[0]}, or null", lambda value: value is None or rule[1](value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == value and abs(value) != float("inf")


def checked(default: Any, rule: Rule) -> Any:
    """A field of a configuration: its default, and its rule."""
    return field(default=default, metadata={"rule": rule})


def check(config: Any, section: str) -> None:
    """Raise `ConfigError` for the first field whose value breaks its rule."""
    for item in fields(config):
        words, holds = item.metadata["rule"]
        value = getattr(config, item.name)
        if not holds(value):
            raise ConfigError(f"`{section}.{item.name}` must be {words}. Got {value!r}.")


def rule_of(annotation: Any) -> Rule:
    """The rule that a type implies, for options of functions and classes without rules of their own.

    >>> rule_of(Literal["a", "b"] | None)[0]
    'one of a, b, or null'
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        rules = [rule_of(each) for each in inner if each is not type(None)]
        rule = rules[0]
        for other in rules[1:]:
            rule = either(rule, other)
        return nothing_or(rule) if type(None) in inner else rule
    if origin is Literal:
        return one_of(*inner)
    if origin in (tuple, list):
        return several(rule_of(inner[0]))
    known: dict[Any, Rule] = {bool: switch(), int: whole_number(), float: number(), str: text()}
    return known.get(annotation, ("a value", lambda value: True))


def whole_number() -> Rule:
    """Any integer."""
    return "an integer", _is_int


def number() -> Rule:
    """Any finite number."""
    return "a number", _is_number


def options() -> Rule:
    """A mapping from names to values."""
    return "names and values", lambda value: isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def view_name() -> Rule:
    """The name of a view, or of another sample of one."""
    pattern = re.compile(r"plain|(weak|strong)(_[1-9]\d*)?")
    return (
        "plain, weak or strong, or another draw such as weak_2",
        lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None,
    )


def check_name(what: str, name: str, known: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for an unknown name, with the nearest known one."""
    if name not in known:
        raise ConfigError(f"no {what} is called {name!r}; {hint(name, known)}")


def check_keys(found: Mapping[str, Any], known: Mapping[str, Any] | list[str], section: str) -> None:
    """Raise `ConfigError` for an unknown key, with the nearest known one."""
    for key in found:
        if key not in known:
            where = f"{section}." if section else ""
            raise ConfigError(f"no such key `{where}{key}`; {hint(key, known, f'`{where}{{}}`')}")
