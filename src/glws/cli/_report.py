"""`glws report`: the page of a run, or of several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glws.cli._failures import UsageError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="The folder of a finished run, or several.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes. Default: report.html in the only run.")
    ] = None,
) -> None:
    """Write one self-contained page about a run, or a comparison of several."""
    if out is None and len(runs) > 1:
        raise UsageError("a comparison of several runs needs --out FILE.html")
    if out is not None and out.suffix != ".html":
        raise UsageError(f"--out must end in .html, found {str(out)!r}")
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out}: it is a folder")
    from glws._files import write_text
    from glws.experiment import FinishedRun
    from glws.report import page

    contents = [FinishedRun.open(folder).report() for folder in runs]
    path = out or runs[0] / "report.html"
    write_text(path, page(contents))
    typer.echo(f"wrote {path}")
