"""`glws methods`: every way to learn, and what each learns from."""

from __future__ import annotations

import typer


def methods() -> None:
    """List the methods: the weak labels each takes, and whether it needs the class prior."""
    from rich.console import Console
    from rich.table import Table

    from glws._plugins import names
    from glws.methods import METHODS, fixed_options, method_class

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    table = Table("name", "learns from", "prior", "what it is", box=None, pad_edge=False)
    for name in names("glws.methods", METHODS):
        kind = method_class(name)
        options = ", ".join(f"{option}={value}" for option, value in fixed_options(name).items())
        what = f"{kind.summary}; {options}" if options else kind.summary
        table.add_row(name, kind.takes, "needed" if kind.needs_prior else "", what)
    console.print(table)
    typer.echo("\nchoose one by: glws train --method NAME, or in the configuration under method.name")
