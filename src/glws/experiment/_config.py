"""`ExperimentConfig`: the options of an experiment, read from YAML and from `key=value`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from glws._aliases import Report, current_name, deprecated, silent, with_current_names
from glws._rules import check, check_keys, checked, nothing_or, one_of, options, real, several, switch, text, whole
from glws.data import read_yaml
from glws.errors import ConfigError, DataError
from glws.methods import Recipe, build_method
from glws.training import TrainingConfig


@dataclass(frozen=True)
class DataConfig:
    """What to learn from: a described table, or a published source that is weakened first.

    `table` is the YAML file that describes the table; `source` the name of a data set, `setting` how it is weakened and
    `options` the sizes of that. `positive` are the positive classes of settings of two classes. `held_out` is the share
    of the groups that are held out; they give the scores that need no labels. `test` describes a table with
    true labels to test on; without it a source is tested on its test part, a table on the labeled instances of the
    groups that are held out. `folder` is where sources lie. `views` names the augmentation, "auto" that of the source.
    """

    table: str | None = checked(None, nothing_or(text()))
    source: str | None = checked("digits", nothing_or(text()))
    setting: str = checked("class_proportions", text())
    options: Mapping[str, Any] = field(default_factory=dict, metadata={"rule": options()})
    positive: tuple[int, ...] | None = checked(None, nothing_or(several(whole(0))))
    held_out: float = checked(0.1, real(0, below=1))
    test: str | None = checked(None, nothing_or(text()))
    folder: str | None = checked(None, nothing_or(text()))
    views: str = checked("auto", text())
    standardize: bool = checked(True, switch())

    def __post_init__(self) -> None:
        check(self, "data")


@dataclass(frozen=True)
class NamedConfig:
    """Something by its name, with options of its own beside it."""

    name: str = checked("auto", text())
    options: Mapping[str, Any] = field(default_factory=dict, metadata={"rule": options()})


@dataclass(frozen=True)
class MethodConfig(NamedConfig):
    """A method by its name, with its options; `recipe="published"` trains as its authors did, where that is known.

    The recipe gives the training, and the network "mlp", what the configuration does not say.
    """

    recipe: Literal["published"] | None = checked(None, nothing_or(one_of("published")))

    def published(self, allow_code: bool = False) -> Recipe | None:
        """What the authors chose, if it is asked for; a `ConfigError` where it is not known."""
        if self.recipe is None:
            return None
        found = build_method(self.name, self.options, allow_code).recipe()
        if found is None:
            raise ConfigError(f"`method.recipe`: no published recipe is known for {self.name}; leave it out")
        return found


@dataclass(frozen=True)
class ExperimentConfig:
    """An experiment: its data, network, method and training. What is not given has a default."""

    data: DataConfig = field(default_factory=DataConfig)
    model: NamedConfig = field(default_factory=NamedConfig)
    method: MethodConfig = field(default_factory=lambda: MethodConfig("glws"))
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def as_dict(self) -> dict[str, Any]:
        """Plain values in the layout of the file; `config_of` reads them back."""
        model, method = ({"name": part.name, **_plain(part.options)} for part in (self.model, self.method))
        if self.method.recipe is not None:
            method["recipe"] = self.method.recipe
        sections = {"data": _plain(asdict(self.data)), "model": model, "method": method}
        return {**sections, "training": _plain(asdict(self.training))}


Named = TypeVar("Named", bound=NamedConfig)

EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")


def read_config(
    path: Path | None, overrides: Sequence[str] = (), allow_code: bool = False, report: Report = deprecated
) -> ExperimentConfig:
    """The configuration of a YAML file, or the default one, changed by texts such as "training.epochs=5".

    `report` gets a line for each name that is an old one.

    >>> read_config(None, ["training.epochs=5", "model.name=mlp", "model.hidden=[32]"]).model.options
    {'hidden': [32]}
    """
    content = {} if path is None else read_yaml(path)
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: expected sections such as data and training, found {type(content).__name__}")
    try:
        config = config_of(_overridden(_current(content, report), overrides, report), allow_code)
    except (ConfigError, DataError) as error:
        raise ConfigError(f"{path}: {error}" if path is not None and not overrides else str(error)) from None
    return config if path is None else _beside(config, path.parent)


def config_of(content: Mapping[str, Any], allow_code: bool = False) -> ExperimentConfig:
    """From nested plain values; a key that is not known is a `ConfigError` with the nearest one that is.

    Old names are read as what they are now, as stored runs have them.
    """
    content = _current(content, silent)
    check_keys(content, [item.name for item in fields(ExperimentConfig)], "")
    for name, section in content.items():
        if not isinstance(section, Mapping):
            raise ConfigError(f"`{name}` must be a section of names and values. Got {section!r}.")
    content = _with_numbers(content)
    method = _named(MethodConfig, content, "method", "glws")
    return ExperimentConfig(
        data=_section(DataConfig, content, "data"),
        model=_named(NamedConfig, content, "model", "auto"),
        method=method,
        training=_section(TrainingConfig, _with_published(content, method.published(allow_code)), "training"),
    )


def _current(content: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The sections with the names that their keys have now."""
    return {
        name: with_current_names(section, name, report) if isinstance(section, Mapping) else section
        for name, section in content.items()
    }


def _with_published(content: Mapping[str, Any], recipe: Recipe | None) -> Mapping[str, Any]:
    """The training of a recipe under what the configuration says."""
    return content if recipe is None else {**content, "training": {**recipe.training, **content.get("training", {})}}


def _with_numbers(value: Any) -> Any:
    """1e-3 as the number it is meant to be: to YAML it is a text, for lack of a dot."""
    if isinstance(value, Mapping):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _section(kind: Any, content: Mapping[str, Any], name: str) -> Any:
    found = dict(content.get(name, {}))
    check_keys(found, [item.name for item in fields(kind)], name)
    if name == "data" and found.get("table") is not None and found.get("source") is None:
        found["source"] = None
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in found.items()})


def _named(kind: type[Named], content: Mapping[str, Any], section: str, usual: str) -> Named:
    found = dict(content.get(section, {}))
    own = {item.name: found.pop(item.name) for item in fields(kind) if item.name != "options" and item.name in found}
    config = kind(**{"name": usual, **own, "options": found})
    check(config, section)
    return config


def _overridden(content: Mapping[str, Any], overrides: Sequence[str], report: Report) -> dict[str, Any]:
    result = {key: dict(value) if isinstance(value, Mapping) else value for key, value in content.items()}
    for override in overrides:
        key, sign, value = override.partition("=")
        section, _, name = current_name(key, report).partition(".")
        if not sign or not name:
            raise ConfigError(f"expected section.key=value, such as training.epochs=5. Got {override!r}.")
        check_keys({section: None}, [item.name for item in fields(ExperimentConfig)], "")
        inside = result.setdefault(section, {})
        if not isinstance(inside, dict):
            raise ConfigError(f"`{section}` must be a section of names and values. Got {inside!r}.")
        _put(inside, name, _value(value, override))
    return result


def _put(inside: dict[str, Any], name: str, value: Any) -> None:
    """At a place such as options.num_bags."""
    first, _, rest = name.partition(".")
    if not rest:
        inside[first] = value
        return
    below = dict(inside.get(first) or {})
    _put(below, rest, value)
    inside[first] = below


def _value(written: str, override: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(written)
    except (yaml.YAMLError, ValueError):  # the latter for a date that no calendar has
        raise ConfigError(f"the value of {override!r} cannot be read; quote it") from None


def _beside(config: ExperimentConfig, folder: Path) -> ExperimentConfig:
    """Paths of a file are relative to its folder."""
    found = {name: getattr(config.data, name) for name in ("table", "test", "folder")}
    moved: dict[str, Any] = {name: str(folder / value) for name, value in found.items() if value is not None}
    return replace(config, data=replace(config.data, **moved))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
