"""The command line. Each command is a function in a module of its own, listed once in `COMMANDS`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from glws._version import __version__
from glws.cli._data import data
from glws.cli._doctor import doctor
from glws.cli._ecological import ecological
from glws.cli._explain import explain
from glws.cli._failures import UsageError as UsageError
from glws.cli._failures import report_failure
from glws.cli._labels import label, predict
from glws.cli._methods import methods
from glws.cli._report import report
from glws.cli._train import train
from glws.cli._votes import votes

COMMANDS: list[tuple[str, Callable[..., Any]]] = [
    ("train", train),
    ("predict", predict),
    ("label", label),
    ("report", report),
    ("explain", explain),
    ("doctor", doctor),
    ("votes", votes),
    ("ecological", ecological),
    ("data", data),
    ("methods", methods),
]
"""The commands of `glws`, by name."""

LOOK: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""How every application of typer looks."""


def main() -> None:
    """The entry point of `glws`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command of `glws` and return its exit status."""
    return run_application(application(), arguments, "glws")


def run_application(app: typer.Typer, arguments: Sequence[str], name: str) -> int:
    """Run a command and return its exit status: 0, 2 for a mistake of the user, 70 for one of ours."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark
    try:
        status = app(list(arguments), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:  # the border of the program: everything ends as one line and a status
        return report_failure(error)
    return status if isinstance(status, int) else 0


def application() -> typer.Typer:
    """The commands, as typer wants them."""
    app = typer.Typer(
        **LOOK,
        epilog="To begin: glws train. With data of your own: glws doctor data.yaml, glws train --data data.yaml, "
        "glws label runs/data-1 --out labels.parquet.",
    )
    app.callback(invoke_without_command=True)(_glws)
    for name, function in COMMANDS:
        app.command(name)(function)
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"glws {__version__}")
        raise typer.Exit


def _glws(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Train classifiers from any weak supervision."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
