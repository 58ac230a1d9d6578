"""`glws predict` and `glws label`: the predictions of a trained network, and the posteriors given weak labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glws.cli._failures import UsageError
from glws.cli._paths import TABLES, AllowCode, check_description

if TYPE_CHECKING:
    from glws.experiment import FinishedRun, Question
    from glws.experiment._answering import Command, RunPieces
    from glws.experiment._finished_run import Source

FORMATS = (".parquet", ".csv")
SHOWN_CLASSES = 3

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
Data = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="The YAML that describes the data, or a table with the columns of the one it trained on. "
        "Default: what it trained on.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FILE|FOLDER",
        help="Where to write: .parquet or .csv, or a folder of parts, which goes on where it was interrupted.",
    ),
]


Engine = Annotated[
    Literal["here", "ray"],
    typer.Option(help="Where: in this process, or by the workers of a Ray cluster (needs --out FOLDER)."),
]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The Ray cluster. Default: one on this machine alone.")
]
Workers = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many workers. Default: the CPUs.")]


def predict(
    run: Run,
    data: Data = None,
    out: Out = Path("predictions.parquet"),
    engine: Engine = "here",
    address: Address = None,
    workers: Workers = None,
    allow_code: AllowCode = False,
) -> None:
    """Predict the class of every instance. The data needs no weak labels."""
    _answer("predict", run, data, out, _engine(engine, address, workers), allow_code)


def label(
    run: Run,
    data: Data = None,
    out: Out = Path("labels.parquet"),
    engine: Engine = "here",
    address: Address = None,
    workers: Workers = None,
    allow_code: AllowCode = False,
) -> None:
    """Write the posterior label of every instance, given the network and the weak label of its group."""
    question = _answer("label", run, data, out, _engine(engine, address, workers), allow_code)
    if question.notes.unlabeled:
        typer.echo(
            f"{question.notes.unlabeled:,} of them without a label: the weak labels of their groups are impossible "
            "under the network"
        )


def _engine(engine: str, address: str | None, workers: int | None) -> Callable[[], RunPieces | None]:
    """Who answers the pieces, once the other arguments have been looked at."""
    if engine == "here" and (address is not None or workers is not None):
        raise UsageError("--address and --workers are for --engine ray")

    def chosen() -> RunPieces | None:
        from glws.experiment import on_ray

        return on_ray(address, workers) if engine == "ray" else None

    return chosen


def _answer(
    command: Command,
    run: Path,
    data: Path | None,
    out: Path,
    engine: Callable[[], RunPieces | None],
    allow_code: bool,
) -> Question:
    _check(run, data, out)
    from glws.cli._rows_progress import watching_rows
    from glws.experiment import FinishedRun, Question

    opened = FinishedRun.open(run, allow_code)
    with watching_rows() as progress:
        question = Question(opened, command, _described(opened, data), out, _warn, progress)
        written = question.answer(engine())
    typer.echo(f"wrote {written.rows:,} rows to {out}: {_listed(list(written.columns))}")
    return question


def _described(run: FinishedRun, data: Path | None) -> Source:
    """The description of the data: a table is described as the one that the run was trained on."""
    if data is None or data.suffix.lower() not in TABLES:
        return data
    known = run.labeler().description
    if known is None:
        check_description(data)
    return {**(known or {}), "data": str(data.resolve())}


def _check(run: Path, data: Path | None, out: Path) -> None:
    if out.suffix not in ("", *FORMATS):
        raise UsageError(f"--out must end in {' or '.join(FORMATS)}, or be a folder, found {str(out)!r}")
    if out.suffix and out.is_dir():
        raise UsageError(f"--out {out}: it is a folder")
    if not run.is_dir():
        raise UsageError(f"{run}: there is no such run folder")
    if data is not None and data.suffix.lower() not in TABLES:
        check_description(data)
    if data is not None and not data.is_file():
        raise UsageError(f"{data}: there is no such file")


def _warn(line: str) -> None:
    typer.echo(f"glws: warning: {line}", err=True)


def write_columns(columns: dict[str, Any], out: Path) -> None:
    """Writes a table and says so."""
    import pyarrow

    from glws.experiment import write_answers

    rows, _ = write_answers(out, [pyarrow.table(columns)])
    typer.echo(f"wrote {rows:,} rows to {out}: {_listed(list(columns))}")


def _listed(names: list[str]) -> str:
    """The columns, without the probabilities of all of very many classes."""
    classes = [name for name in names if name.startswith("p(")]
    others = [name for name in names if not name.startswith("p(")]
    shown = classes if len(classes) <= SHOWN_CLASSES else [*classes[: SHOWN_CLASSES - 1], "...", classes[-1]]
    return ", ".join([*others, *shown])
