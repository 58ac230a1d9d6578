"""What the columns of a table mean: the short YAML that a person writes beside their data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glws._files import read_bytes
from glws._messages import hint, one_line
from glws._optional import needed
from glws.data.tables._schema import checked_types
from glws.errors import DataError, FileError

TOP_KEYS = ("data", "slides", "separator", "decimal", "features", "columns", "id", "classes", "label", "blocks")
BLOCK_KEYS = ("kind", "group", "weak", "missing", "options")
IMAGE_KEYS = ("image", "size")
MAX_BYTES, MAX_DEPTH, MAX_DIGITS = 1 << 20, 20, 100

Columns = str | float | tuple[str, ...]
"""Where a value comes from: a column, a number that holds for all groups, or a column for each class."""


@dataclass(frozen=True)
class BlockDescription:
    """One kind of weak label in a table: its groups (each row by itself when `group` is None) and its columns.

    Votes may be in a file of their own, `votes_file`, of which `votes_hash` is the SHA-256 once it is read; the column
    `item` of the table then has the names of the items.
    """

    kind: str
    weak: Mapping[str, Columns]
    group: str | None = None
    skips_missing: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    votes_file: Path | None = None
    votes_hash: str = ""

    @property
    def columns(self) -> list[str]:
        """Every column the block needs."""
        names = [self.group] if self.group else []
        for source in self.weak.values():
            names += [source] if isinstance(source, str) else list(source) if isinstance(source, tuple) else []
        return names


@dataclass(frozen=True)
class Description:
    """A described table, before its data is read."""

    data: Path
    features: tuple[str, ...]
    classes: tuple[str, ...]
    blocks: tuple[BlockDescription, ...]
    label: str | None = None
    image: str | None = None
    image_size: int = 224
    separator: str | None = None
    decimal: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    slides: Path | None = None


def read_description(source: str | os.PathLike[str] | Mapping[str, Any]) -> Description:
    """Reads a description from a YAML file, or from a mapping with the same keys.

    Paths in it are relative to the file's folder. A key that is not known, or not right, is a `DataError` with the
    nearest one that is.

    >>> about = read_description({"data": "bags.csv", "features": "f*", "classes": ["benign", "malignant"],
    ...                           "group": "bag", "kind": "proportions", "weak": {"count": "n_malignant"}})
    >>> about.blocks[0].columns
    ['bag', 'n_malignant']
    """
    if isinstance(source, Mapping):
        return _described(source, Path())
    path = Path(source)
    content = read_yaml(path)
    try:
        if not isinstance(content, dict):
            raise DataError(f"expected keys such as data, features and classes, found {type(content).__name__}")
        return _described(content, path.parent)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def plain_description(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """A description as plain values that JSON holds; `read_description` reads them too."""
    content = source if isinstance(source, Mapping) else read_yaml(Path(source))
    if not isinstance(content, Mapping):
        raise DataError(f"{source}: expected keys such as data, features and classes, found {type(content).__name__}")
    found: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return found


def read_yaml(path: Path) -> Any:
    """The content of a YAML file of plain values: no tags, no aliases, no keys given twice, nothing deep or long.

    It must be a file: a pipe or a device, which might never end, is not opened.
    """
    yaml = needed("yaml", "PyYAML", "reading a description of data")
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8")
        _check_events(yaml, text)
        return _value(yaml, text)
    except FileError as error:
        raise DataError(str(error)) from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not text in UTF-8 ({error.reason})") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{path}: not readable as YAML: {one_line(error)}") from error


def _value(yaml: Any, text: str) -> Any:
    """What a text says, composed once: what is checked is what is used."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        _check_nodes(yaml, node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _check_events(yaml: Any, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise DataError(f"line {line}: tags (!) and aliases (*) are not allowed")
        if depth > MAX_DEPTH:
            raise DataError(f"line {line}: nested more than {MAX_DEPTH} deep")


def _check_nodes(yaml: Any, node: Any) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if str(key.value) in seen:
                raise DataError(f"line {key.start_mark.line + 1}: {key.value} is given twice")
            seen.add(str(key.value))
            _check_nodes(yaml, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_nodes(yaml, item)
    elif isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") and len(node.value) > MAX_DIGITS:
        raise DataError(f"line {node.start_mark.line + 1}: a number of {len(node.value):,} digits")


def _described(content: Mapping[str, Any], folder: Path) -> Description:
    check_known(content, (*TOP_KEYS, *BLOCK_KEYS), "key")
    content = _with_slides(content)
    for key in ("data", "features", "classes"):
        if key not in content:
            raise DataError(f"the key {key} is missing")
    features, image, size = ((), None, 224) if "slides" in content else _features(content["features"])
    return Description(
        data=folder / _text(content, "data"),
        features=features,
        classes=_classes(content["classes"]),
        blocks=tuple(_placed(block, folder) for block in _blocks(content)),
        label=_text(content, "label") if "label" in content else None,
        image=image,
        image_size=size,
        separator=_character(content, "separator"),
        decimal=_character(content, "decimal"),
        columns=_types(content.get("columns") or {}),
        ids=_ids(content.get("id") or ()),
        slides=folder / _text(content, "slides") if "slides" in content else None,
    )


def _with_slides(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description of slides with what goes without saying: their features, and that labels are of whole slides."""
    if "slides" not in content:
        return content
    for key in ("features", "columns", "id", "label", "blocks"):
        if key in content:
            raise DataError(f"{key} has no meaning for slides: their files have the features, and labels are of slides")
    if "data" not in content:
        if "weak" in content:
            raise DataError("the key data is missing: the table with the labels of the slides")
        return {**content, "data": content["slides"], "features": "features"}
    return {"kind": "multi_instance", **content, "features": "features"}


def _features(value: Any) -> tuple[tuple[str, ...], str | None, int]:
    if isinstance(value, Mapping):
        check_known(value, IMAGE_KEYS, "key of features")
        size = value.get("size", 224)
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 4096:
            raise DataError(f"features: size must be an integer from 1 to 4096, found {size!r}")
        return (), _text(value, "image"), size
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise DataError('features must be column names, a pattern such as "f*", or {image: column}')
    return tuple(names), None, 224


def _classes(value: Any) -> tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000:
        return tuple(str(number) for number in range(value))
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise DataError(f"classes must be their names or their number, found {value!r}")
    names = tuple(_class_name(item) for item in value)
    if len(set(names)) < len(names):
        raise DataError(f"classes: {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return names


def _class_name(item: Any) -> str:
    if isinstance(item, bool):  # YAML reads bare yes, no, on and off as truth values
        raise DataError(
            f'classes: put quotes around names that YAML reads as true or false (found {item}): "yes", "no"'
        )
    return str(item).strip()


def _blocks(content: Mapping[str, Any]) -> tuple[BlockDescription, ...]:
    own = [key for key in BLOCK_KEYS if key in content]
    if "blocks" not in content:
        return (_block(content),) if "kind" in content or "weak" in content else ()
    if own:
        raise DataError(f"{own[0]} belongs inside blocks when there are blocks")
    if not isinstance(content["blocks"], Sequence) or isinstance(content["blocks"], str):
        raise DataError("blocks must be a list, each with kind, group and weak")
    return tuple(_numbered_block(number, item) for number, item in enumerate(content["blocks"], start=1))


def _numbered_block(number: int, item: Any) -> BlockDescription:
    try:
        if not isinstance(item, Mapping):
            raise DataError(f"expected kind, group and weak, found {item!r}")
        check_known(item, BLOCK_KEYS, "key")
        return _block(item)
    except DataError as error:
        raise DataError(f"block {number}: {error}") from None


def _block(content: Mapping[str, Any]) -> BlockDescription:
    missing = content.get("missing", "error")
    if missing not in ("error", "skip"):
        raise DataError(f"missing must be error or skip, found {missing!r}")
    weak, options = content.get("weak") or {}, content.get("options") or {}
    for key, value in (("weak", weak), ("options", options)):
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise DataError(f"{key} must be names with values, such as {{count: n_positive}}, found {value!r}")
    sources = {name: _columns(name, value) for name, value in weak.items()}
    group = _text(content, "group") if content.get("group") is not None else None
    found = BlockDescription(_text(content, "kind"), sources, group, missing == "skip", dict(options))
    return _with_votes_file(found) if found.kind == "votes" and "item" in sources else found


def _with_votes_file(about: BlockDescription) -> BlockDescription:
    """A block of which `votes` is the file of a long table, and `item` the column with the names of its items."""
    votes, item = about.weak.get("votes"), about.weak["item"]
    if set(about.weak) != {"votes", "item"} or not isinstance(votes, str) or not isinstance(item, str):
        raise DataError("weak: with item, votes is the file of a long table: {votes: answers.csv, item: column}")
    if about.group is not None:
        raise DataError("votes are on single rows: leave out group")
    return replace(about, weak={"item": item}, votes_file=Path(votes))


def _placed(about: BlockDescription, folder: Path) -> BlockDescription:
    """The block with the path of its file of votes from the folder of the description."""
    return about if about.votes_file is None else replace(about, votes_file=folder / about.votes_file)


def _columns(name: str, value: Any) -> Columns:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value if isinstance(value, str) else float(value)
    if isinstance(value, Sequence) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise DataError(f"weak: {name} must be a column, a list with a column for each class, or a number, found {value!r}")


def _character(content: Mapping[str, Any], key: str) -> str | None:
    if key not in content:
        return None
    value = _text(content, key, strip=False)
    if len(value) != 1:
        raise DataError(f"{key} must be one character, found {value!r}")
    return value


def _types(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise DataError(f"columns must be names with types, such as {{zip: category}}, found {value!r}")
    return checked_types(value)


def _ids(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"id must be a column, or a list of columns, found {value!r}")
    return tuple(names)


def _text(content: Mapping[str, Any], key: str, strip: bool = True) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value or (strip and not value.strip()):
        raise DataError(f"{key} must be a text, found {value!r}" if key in content else f"the key {key} is missing")
    return value


def check_known(names: Mapping[str, Any] | Sequence[str], known: Sequence[str], what: str) -> None:
    """Raises `DataError` for the first name that is not known, with the nearest one that is."""
    for name in names:
        if name not in known:
            raise DataError(f"there is no {what} {str(name)[:60]!r}; {hint(name, known, '{}', 'known are')}")
