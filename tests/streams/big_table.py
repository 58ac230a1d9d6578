"""A table of a few hundred rows in every format and order, which streams read in small pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, feather, parquet

ROWS, PIECE = 420, 50
FORMATS = ["t.parquet", "t.csv", "t.arrow", "t.h5"]
ABOUT: dict[str, Any] = {
    "features": "f*",
    "id": "patient",
    "classes": ["benign", "malignant"],
    "group": "bag",
    "kind": "proportions",
    "weak": {"count": "n"},
}


def columns(order: str, with_words: bool = False) -> dict[str, Any]:
    """Groups of one to twelve rows, together or anywhere; with a column of words and one of gaps if asked."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 13, ROWS)
    bags = np.repeat(np.arange(ROWS), sizes)[:ROWS]
    features = rng.normal(size=(ROWS, 3)).astype(np.float32)
    truth = features[:, 0] > features[:, 1] - 0.3
    counts = np.bincount(bags, truth).astype(np.int64)
    places = rng.permutation(ROWS) if order == "shuffled" else np.arange(ROWS)
    names = np.array([f"b{(7 * bag) % 500}" for bag in bags])  # neither sorted nor in an order
    found: dict[str, Any] = {
        "bag": names[places],
        "n": counts[bags][places],
        "patient": rng.permutation(10_000)[:ROWS],
        **{f"f{number}": column for number, column in enumerate(features[places].T)},
    }
    if with_words:
        found["f3"] = rng.choice(["red", "green", "blue"], ROWS)
        found["f4"] = np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS))
    return found


def write(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The columns in the format of the path's name; described."""
    table = pyarrow.table({name: pyarrow.array(column, from_pandas=True) for name, column in content.items()})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=37)  # groups span row groups
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        feather.write_feather(table, path, chunksize=41)
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, column in content.items():
                file[name] = column.astype(object) if column.dtype.kind == "U" else column
    return {**ABOUT, "data": str(path)}


def described(folder: Path, about: dict[str, Any]) -> Path:
    """The description as a file (JSON is YAML)."""
    path = folder / "t.yaml"
    path.write_text(json.dumps(about))
    return path


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a table of pyarrow in the order of the file, numbers apart from their last digits."""
    names = sorted(table.column_names)
    kept = [[_rounded(value) for value in table[name].to_pylist()] for name in names]
    return sorted(zip(*kept, strict=True), key=lambda row: (row[names.index("row")], row))


def _rounded(value: Any) -> Any:
    return round(value, 4) + 0.0 if isinstance(value, float) else value
