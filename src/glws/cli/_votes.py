"""`glws votes`: labels from votes alone, and how good each source is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from glws.cli._failures import UsageError
from glws.cli._labels import FORMATS, write_columns

if TYPE_CHECKING:
    from glws.data import VoteTable
    from glws.kinds import Aggregation

SHOWN_SOURCES = 20

Form = Literal["auto", "accuracy", "per_class", "matrix", "difficulty"]
Abstentions = Literal["auto", "ignored", "informative"]


def votes(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or parquet: a row for each vote, or a column for each source.")
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write labels: .parquet or .csv.")] = None,
    item: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of items.")] = None,
    annotator: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of annotators.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of labels.")] = None,
    classes: Annotated[str | None, typer.Option(metavar="NAMES", help="The classes, joined by commas.")] = None,
    form: Annotated[Form, typer.Option(help="The model of a source; auto: by held-out votes.")] = "auto",
    abstentions: Annotated[Abstentions, typer.Option(help="Whether an abstention says something.")] = "auto",
    temper: Annotated[bool, typer.Option("--temper", help="Count sources that repeat each other once.")] = False,
    ask: Annotated[int, typer.Option(help="How many items to ask about next are shown.")] = 5,
) -> None:
    """Aggregate the votes of annotators, rules or models: labels, and the quality of each source."""
    if out is not None and out.suffix not in FORMATS:
        raise UsageError(f"--out must end in {' or '.join(FORMATS)}, found {str(out)!r}")
    from glws.data import read_votes

    names = None if classes is None else [name.strip() for name in classes.split(",")]
    table = read_votes(file, item, annotator, label, names)
    found = table.votes.aggregate(form, abstentions=abstentions, temper=temper)
    _print(file, table, found, ask)
    if out is not None:
        write_columns(_columns(table, found), out)


def _columns(table: VoteTable, found: Aggregation) -> dict[str, Any]:
    names = np.array(table.classes, object)
    return {
        "item": table.items,
        "label": names[found.labels],
        **{f"p({name})": found.posterior[:, number] for number, name in enumerate(table.classes)},
        "votes": np.diff(table.votes.offsets.numpy()),
        "entropy": found.entropy,
        "information_gain": found.information_gain(),
    }


def _print(file: Path, table: VoteTable, found: Aggregation, ask: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console, number = Console(highlight=False, soft_wrap=True), len(table.votes.said)
    console.print(
        f"{file}: {number:,} votes of {len(found.sources):,} sources on {len(table.items):,} items, "
        f"{len(table.classes):,} classes", markup=False,
    )  # fmt: skip
    console.print(f"model of a source: {found.forms[0]}{_why(found)}", markup=False)
    shares = np.bincount(found.labels, minlength=len(table.classes)) / max(len(found.labels), 1)
    most = np.argsort(-shares, kind="stable")[:6]
    console.print("labels: " + ", ".join(f"{table.classes[k]} {shares[k]:.1%}" for k in most)
                  + f"; mean probability of a label {found.posterior.max(1).mean():.1%}", markup=False)  # fmt: skip
    if found.effective_sources is not None and found.clusters:
        console.print(f"effective number of sources: {found.effective_sources:.1f}", markup=False)
    console.print(_ranked(found))
    for line in found.warnings:
        console.print(Text("warning: ", "yellow"), Text(line), sep="")
    if ask:
        names = ", ".join(str(table.items[place]) for place in found.next_items(ask))
        console.print(f"ask about next: {names}", markup=False)


def _why(found: Aggregation) -> str:
    if not found.tried:
        return ""
    others = {each.form.name: each.held_out for each in reversed(found.tried)}
    listed = ", ".join(f"{name} {value:.3f}" for name, value in sorted(others.items(), key=lambda pair: -pair[1]))
    return f" (log-likelihood of a held-out vote: {listed})"


def _ranked(found: Aggregation) -> Any:
    """The sources, best first."""
    from rich.table import Table
    from rich.text import Text

    table = Table("source", "votes", "coverage", "accuracy", "95 % interval", "agreement")
    for column in table.columns[1:]:
        column.justify = "right"
    ranked = sorted((source for source in found.sources if source.votes), key=lambda source: -source.accuracy)
    shown = (
        ranked
        if len(ranked) <= SHOWN_SOURCES
        else [*ranked[: SHOWN_SOURCES // 2], None, *ranked[-SHOWN_SOURCES // 2 :]]
    )
    for source in shown:
        if source is None:
            table.add_row(f"... {len(ranked) - SHOWN_SOURCES:,} more", *[""] * 5)
            continue
        table.add_row(
            Text(source.name), f"{source.votes:,}", f"{source.coverage:.1%}", f"{source.accuracy:.1%}",
            f"{source.low:.1%} to {source.high:.1%}", f"{source.agreement:.1%}",
        )  # fmt: skip
    return table
