"""`glws doctor`: what is wrong, contradictory or unlearnable in weakly labeled data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glws.cli._paths import AllowCode, check_description

if TYPE_CHECKING:
    from glws.data import Finding
    from glws.data.tables import Table, WeakBlock

FOUND_ERRORS = 1
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def doctor(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The YAML file that describes the data.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Check weak labels for infeasible groups, contradictions and unidentifiable classes; exit 1 on errors."""
    check_description(data)
    from glws.data import Finding, column_remarks, examine, training_sets
    from glws.data.tables import read_description, read_table
    from glws.selection import identify, resolve_priors

    table = read_table(data, allow_code=allow_code)
    names = [block.group_names.tolist() for block in table.blocks]
    dataset = resolve_priors(table.dataset(check=False))
    findings = examine(dataset, table.classes, names)
    if not any(finding.level == "error" for finding in findings):
        sets = training_sets(dataset).data
        findings += identify(sets).findings(table.classes, names if sets is dataset else None)
    findings += [Finding("warning", "columns", line) for line in column_remarks(table, read_description(data))]
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _print(data, table, findings, allow_code)
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(FOUND_ERRORS)


def _print(path: Path, table: Table, findings: list[Finding], allow_code: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"{table.path}: {len(table):,} instances, {_inputs(table)}, classes {', '.join(table.classes)}"))
    for line in () if table.schema is None else table.schema.lines():
        console.print(Text(line))
    for block in table.blocks:
        console.print(Text(f"  {block.kind}: {_sizes(block)}"))
    if table.labels is not None:
        console.print(f"  true labels for {int((table.labels >= 0).sum()):,} of them, used for evaluation only")
    for finding in findings:
        console.print(Text(f"{finding.level}: ", STYLES[finding.level]), Text(finding.message), sep="")
    if not findings:
        console.print("no problems found")
    if table.blocks and not any(finding.level == "error" for finding in findings):
        console.print(Text(f"next: glws train --data {path}{' --allow-code' if allow_code else ''}"))


def _sizes(block: WeakBlock) -> str:
    """How many groups there are, and of how many instances."""
    groups = f"{len(block):,} group" + "s" * (len(block) != 1)
    low, high = int(block.lengths.min()), int(block.lengths.max())
    return (
        f"{groups} of {low:,} instance{'s' * (low != 1)}"
        if low == high
        else f"{groups} of {low:,} to {high:,} instances"
    )


def _inputs(table: Table) -> str:
    return f"{len(table.feature_names):,} features" if table.feature_names else "images"
