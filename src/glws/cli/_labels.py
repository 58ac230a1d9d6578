"""`glws predict` and `glws label`: the predictions of a trained network, and the posteriors given weak labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glws.cli._failures import UsageError
from glws.cli._paths import AllowCode, check_description

FORMATS = (".parquet", ".csv")
SHOWN_CLASSES = 3

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Data = Annotated[
    Path | None, typer.Argument(metavar="DATA", help="The YAML that describes the data. Default: what it trained on.")
]
Out = Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .parquet or .csv.")]


def predict(run: Run, data: Data = None, out: Out = Path("predictions.parquet"), allow_code: AllowCode = False) -> None:
    """Predict the class of every instance. The data needs no weak labels."""
    _check(run, data, out)
    from glws.experiment import FinishedRun

    write_columns(FinishedRun.open(run, allow_code).predict(data, allow_code, _warn), out)


def label(run: Run, data: Data = None, out: Out = Path("labels.parquet"), allow_code: AllowCode = False) -> None:
    """Write the posterior label of every instance, given the network and the weak label of its group."""
    _check(run, data, out)
    from glws.experiment import FinishedRun

    columns = FinishedRun.open(run, allow_code).label(data, allow_code, _warn)
    write_columns(columns, out)
    unlabeled = int((columns["label"] == "").sum())
    if unlabeled:
        typer.echo(
            f"{unlabeled:,} of them without a label: the weak labels of their groups are impossible under the network"
        )


def _check(run: Path, data: Path | None, out: Path) -> None:
    if out.suffix not in FORMATS:
        raise UsageError(f"--out must end in {' or '.join(FORMATS)}, found {str(out)!r}")
    if out.is_dir():
        raise UsageError(f"--out {out}: it is a folder")
    if not run.is_dir():
        raise UsageError(f"{run}: there is no such run folder")
    if data is not None:
        check_description(data)


def _warn(line: str) -> None:
    typer.echo(f"glws: warning: {line}", err=True)


def write_columns(columns: dict[str, Any], out: Path) -> None:
    """Writes a table and says so."""
    import io

    import pyarrow
    from pyarrow import csv, parquet

    from glws._files import write_bytes

    table = pyarrow.table(columns)
    content = io.BytesIO()
    if out.suffix == ".parquet":
        parquet.write_table(table, content)
    else:
        csv.write_csv(table, content)
    write_bytes(out, content.getvalue())
    typer.echo(f"wrote {table.num_rows:,} rows to {out}: {_listed(list(columns))}")


def _listed(names: list[str]) -> str:
    """The columns, without the probabilities of all of very many classes."""
    classes = [name for name in names if name.startswith("p(")]
    others = [name for name in names if not name.startswith("p(")]
    shown = classes if len(classes) <= SHOWN_CLASSES else [*classes[: SHOWN_CLASSES - 1], "...", classes[-1]]
    return ", ".join([*others, *shown])
