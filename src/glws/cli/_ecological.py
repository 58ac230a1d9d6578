"""`glws ecological`: cells of tables of which only margins are known."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from glws.cli._failures import UsageError
from glws.cli._labels import FORMATS, write_columns


def ecological(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A text table with a line for each area.")],
    rows: Annotated[str, typer.Option(metavar="NAMES", help="The columns that count rows: white,black.")],
    columns: Annotated[str, typer.Option(metavar="NAMES", help="The columns that count columns: dem,rep,none.")],
    region: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column that names each area's region.")
    ] = None,
    area: Annotated[str | None, typer.Option(metavar="NAME", help="The column that names the area.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write each area's cells.")] = None,
    draws: Annotated[int, typer.Option(min=40, help="How many tables to sample.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampler.")] = 0,
) -> None:
    """Estimate the cells of tables from their margins, with 95 % intervals: who voted for whom."""
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    if out is not None and out.suffix not in FORMATS:
        raise UsageError(f"--out must end in {' or '.join(FORMATS)}, found {str(out)!r}")
    from glws.aggregates import ecological as estimate
    from glws.aggregates import read_margins

    row_names, column_names = ([name.strip() for name in names.split(",")] for names in (rows, columns))
    margins = read_margins(file, row_names, column_names, region, area)
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        found = estimate(
            margins.rows,
            margins.columns,
            margins.regions,
            row_names=row_names,
            column_names=column_names,
            draws=draws,
            seed=seed,
        )
    for warning in noticed:
        typer.echo(f"glws: warning: {warning.message}", err=True)
    typer.echo(f"{len(margins.areas):,} areas, {int(margins.rows.sum()):,} people: share of each column in each row")
    typer.echo(repr(found))
    if out is not None:
        write_columns(found.table(margins.areas), out)
