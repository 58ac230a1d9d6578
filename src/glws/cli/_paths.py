"""Files and folders that a command is given, looked at before anything is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glws.cli._failures import UsageError

DESCRIPTIONS = (".yaml", ".yml")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".npz", ".h5", ".hdf5", ".xlsx")


AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let names be code of your own, as package.module:Class.")
]


def check_description(path: Path) -> None:
    """Refuses a path that is no description of a table, with advice if it is the table itself."""
    if path.suffix.lower() in TABLES:
        raise UsageError(
            f"{path} is a table by itself; write a YAML file that names its columns (data, features, classes, group, "
            "kind, weak) and give that"
        )
    if path.is_dir():
        raise UsageError(f"{path} is a folder; expected the YAML file that describes the data")
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
