"""`glws explain RUN --group ID`: one group of a finished run, its instances, and what decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glws._files import write_text
from glws._messages import counted
from glws.cli._failures import UsageError
from glws.cli._paths import check_description

if TYPE_CHECKING:
    from rich.table import Table

    from glws.experiment import GroupAnswer

MOST_ROWS = 20


def explain_group(run: Path, group: str, data: Path | None, out: Path | None, allow_code: bool) -> None:
    """Prints a group of a run, and draws it into an SVG file if one is wanted."""
    if not run.is_dir():
        raise UsageError(f"{run}: there is no such run folder; --group ID explains a group of a run")
    if out is not None and out.suffix.lower() != ".svg":
        raise UsageError(f"--out must end in .svg for a group, found {str(out)!r}")
    if data is not None:
        check_description(data)
    from glws.experiment import FinishedRun

    answer = FinishedRun.open(run, allow_code).explain(group, data, allow_code, _warn)
    if out is not None:
        write_text(out, _drawing(answer))
    _print(answer, out)


def _warn(line: str) -> None:
    typer.echo(f"glws: warning: {line}", err=True)


def _facts(answer: GroupAnswer) -> list[str]:
    lines = [
        f"weak label: {answer.weak} ({counted(len(answer.before), 'instance')})",
        f"log-likelihood of the weak label: {answer.log_likelihood:.4g} (0 is perfect)",
    ]
    if answer.bag_probability is not None:
        yes = " or ".join(answer.classes[number] for number in answer.watched)
        lines.insert(1, f"prediction: {answer.bag_label}, p({yes}) = {answer.bag_probability:.3f}")
    elif answer.bag_label is not None:
        lines.insert(1, f"prediction: {answer.bag_label or 'none of the classes'}")
    return lines


def _drawing(answer: GroupAnswer) -> str:
    from glws.report import bag_svg, drawn_map

    order = answer.order[:MOST_ROWS]
    names = [answer.name(int(place)) for place in order]
    image = None if answer.coords is None else drawn_map(answer.coords, answer.after)
    return bag_svg(f"group {answer.group}", _facts(answer), names, answer.before[order], answer.after[order], image)


def _print(answer: GroupAnswer, out: Path | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    for line in (f"group {answer.group}", *_facts(answer)):
        console.print(Text(line), soft_wrap=True)
    console.print(_table(answer))
    hidden = len(answer.order) - MOST_ROWS
    if hidden > 0:
        console.print(Text(f"{counted(hidden, 'more instance')}, of less weight"))
    if out is not None:
        console.print(Text(f"wrote {out}"), soft_wrap=True)


def _table(answer: GroupAnswer) -> Table:
    """The instances that decide most, with prediction, posterior, and what the group would be without each."""
    from rich.table import Table
    from rich.text import Text

    yes = " or ".join(answer.classes[number] for number in answer.watched)
    table = Table(title="instances, the most decisive first", title_justify="left", title_style="dim")
    heads = [f"p({yes})", "posterior"]
    heads += ["bag without it"] if answer.without is not None else []
    heads += ["attention"] if answer.attention is not None else []
    table.add_column(Text("instance"), no_wrap=True)
    for head in heads:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for place in answer.order[:MOST_ROWS].tolist():
        cells = [answer.before[place], answer.after[place]]
        cells += [answer.without[place]] if answer.without is not None else []
        cells += [answer.attention[place]] if answer.attention is not None else []
        table.add_row(Text(answer.name(place)), *(f"{float(cell):.3f}" for cell in cells))
    return table
