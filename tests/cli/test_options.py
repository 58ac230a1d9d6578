"""The commands and their options are a list that changes on purpose only."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
import typer

from glws.cli import COMMANDS as FUNCTIONS
from glws.cli import application, run

COMMANDS = {
    "train": "CONFIG --data --kind --method --model --out --resume --changed-data --dry-run --allow-code",
    "predict": "RUN DATA --out --engine --address --workers --allow-code",
    "label": "RUN DATA --out --engine --address --workers --allow-code",
    "report": "RUN --out",
    "explain": "TEXT --classes --length --probs --out --group --data --serve --allow-code",
    "doctor": "DATA --json --allow-code",
    "votes": "FILE --out --item --annotator --label --classes --form --abstentions --temper --ask",
    "ecological": "FILE --rows --columns --region --area --out --draws --seed",
    "data": "ACTION NAME --folder",
    "methods": "",
}


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(application())
    found: dict[str, Any] = group.commands
    return found


def written(parameter: Any) -> str:
    """An option by its long name, an argument in capitals."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else str(parameter.name).upper()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_are_these(name: str) -> None:
    found = [written(parameter) for parameter in commands()[name].params if parameter.name != "help"]
    arguments = {"CONFIG": "CONFIG", "RUNS": "RUN"}
    assert " ".join(arguments.get(word, word) for word in found) == COMMANDS[name]


def test_no_option_is_named_as_what_stands_for_its_value() -> None:
    """typer 0.27 made FOLDER into --FOLDER, so such an option says its name."""
    nameless = [
        f"glws {command} --{name}"
        for command, function in FUNCTIONS
        for name, hint in get_type_hints(function, include_extras=True).items()
        for given in getattr(hint, "__metadata__", ())
        if isinstance(given, typer.models.OptionInfo) and (given.metavar or "").lower() == name
        if not given.param_decls and not str(given.default).startswith("--")
    ]
    assert nameless == []


def test_there_are_no_other_commands() -> None:
    assert sorted(commands()) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert all(parameter.help for parameter in commands()[name].params)
    assert run([name, "--help"]) == 0
    assert "Usage: glws" in capsys.readouterr().out


def test_the_help_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "To begin: glws train" in said
    assert "glws doctor data.yaml" in said
