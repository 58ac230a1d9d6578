"""`glws data`: which data sets there are, and fetching them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from glws.cli._failures import UsageError


def data(
    action: Annotated[Literal["list", "get"], typer.Argument(help="list what there is, or get one.")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The data set to get, such as mnist.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="FOLDER", help="Where data is kept. Default: $GLWS_DATA, or ~/.cache/glws/data."
        ),
    ] = None,
) -> None:
    """List the data sets that glws knows, or download one (verified, atomic)."""
    from glws.data import data_folder, download

    if action == "list":
        _list(data_folder(folder))
        return
    if name is None:
        raise UsageError("which data set? say for example: glws data get mnist")
    typer.echo(f"{name} is in {download(name, folder)}")


def _list(folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from glws._plugins import names
    from glws.data import SOURCES, load
    from glws.data.sources import BUNDLED
    from glws.errors import DataError

    table = Table("data set", "state", title=f"data in {folder}", title_justify="left")
    for name in names("glws.sources", dict.fromkeys(SOURCES)):
        if name not in SOURCES:
            table.add_row(name, "comes with an installed package")
            continue
        if name in BUNDLED:
            table.add_row(name, "comes with scikit-learn")
            continue
        try:
            load(name, folder, verify=False)
            table.add_row(name, "there")
        except DataError:
            table.add_row(name, "not there")
    Console().print(table)
