"""Pages, command line, messages and docstrings avoid the phrases of docs/banned_phrases.txt.

`tests/english_allowed.txt` lists where a phrase still occurs in the package. It can only get shorter: an entry that no
longer occurs fails the test. `python tests/test_english.py` removes such entries; with `--add`, for a merge, it also
adds new ones.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glws.cli import COMMANDS, application

ROOT = Path(__file__).parent.parent
PHRASES = ROOT / "docs" / "banned_phrases.txt"
ALLOWED = Path(__file__).parent / "english_allowed.txt"
MAY_REMAIN = ("src/glws/", "glws ", "docs/extending.md", "docs/programs.md")  # what others still rewrite
FOLDERS = ["src/glws", "reproduction", "benchmarks", "examples"]


def parse_phrases(text: str) -> dict[str, str]:
    """What to write instead of each phrase."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {phrase: instead for phrase, instead in (line.split(" | ") for line in lines)}


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    phrases = [phrase for phrase in parse_phrases(PHRASES.read_text()) if not phrase.startswith("=")]
    return {phrase: pattern(phrase) for phrase in phrases}


@cache
def banned_names() -> frozenset[str]:
    return frozenset(phrase for phrase in parse_phrases(PHRASES.read_text()) if phrase.startswith("="))


def pattern(phrase: str) -> re.Pattern[str]:
    """Matches the phrase as whole words, over line breaks and in identifiers."""
    words = [re.escape(word).replace(r"\*", "[a-z]*") for word in phrase.split()]
    return re.compile("(?<![a-z])" + r"[\s_]+".join(words) + "(?![a-z])", re.IGNORECASE)


def found(text: str) -> set[str]:
    return {phrase for phrase, regex in patterns().items() if regex.search(text)}


def found_in_code(source: str) -> set[str]:
    """Banned phrases in strings and names of a Python file, and banned names."""
    names, strings = set(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            strings.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return found(" | ".join([*strings, *names])) | ({f"={name}" for name in names} & banned_names())


def help_text(command: str) -> str:
    """The help of a command, without the frames that the terminal gets."""
    result = CliRunner().invoke(application(), [command, "--help"], env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    return re.sub(r"[│─╭╮╰╯]", " ", result.output)


@cache
def occurrences() -> frozenset[tuple[str, str]]:
    """Where a banned phrase occurs: the file or command, and the phrase."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    code: list[Path] = []
    for folder in FOLDERS:
        pages += [path for ending in ("*.md", "*.yaml", "*.html") for path in (ROOT / folder).rglob(ending)]
        code += (ROOT / folder).rglob("*.py")
    texts = {path: found(path.read_text()) for path in pages} | {path: found_in_code(path.read_text()) for path in code}
    pairs = {(path.relative_to(ROOT).as_posix(), phrase) for path, phrases in texts.items() for phrase in phrases}
    helps = {(f"glws {name} --help", phrase) for name, _ in COMMANDS for phrase in found(help_text(name))}
    return frozenset(pairs | helps)


def allowed() -> set[tuple[str, str]]:
    lines = [line for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#")]
    return {(name, phrase) for name, phrase in (line.split(": ") for line in lines)}


def test_no_text_has_a_banned_phrase() -> None:
    instead = parse_phrases(PHRASES.read_text())
    new = [f"{name}: {phrase!r}, write {instead[phrase]!r}" for name, phrase in sorted(occurrences() - allowed())]
    assert not new, "\n".join(new)


def test_exceptions_that_no_longer_occur_are_removed() -> None:
    gone = sorted(f"{name}: {phrase}" for name, phrase in allowed() - occurrences())
    assert not gone, "run `python tests/test_english.py`; these no longer occur:\n" + "\n".join(gone)


def test_only_the_package_has_exceptions() -> None:
    assert all(name.startswith(MAY_REMAIN) for name, _ in allowed())


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Labelled rows\nrun\n  away here, through whose\neyes", {"through whose eyes"}),
        ("it runs\naway", {"runs away"}),
        ("def first_guess", {"first guess"}),
        ("a colourful heap", {"colour*", "heap"}),
        ("heaps", {"heaps"}),
        ("a cheap, repeated optimistic realistic color", set()),
    ],
)
def test_phrases_are_found_over_line_breaks_and_as_whole_words(text: str, phrases: set[str]) -> None:
    assert found(text) - {"labelled"} == phrases


def test_strings_names_and_formatted_messages_are_read() -> None:
    source = '"""A heap."""\ndef first_guess(colour, told):\n    return f"it goes {told}" " on with it, cut {1} off"\n'
    assert found_in_code(source) == {"heap", "first guess", "colour*", "=told"}
    assert found_in_code('f"{x} goes" " on with it"') == {"goes on with"}
    assert found_in_code('("it goes", "on with it", is_told)') == set()


def write_exceptions(may_grow: bool) -> None:
    """Remove the exceptions that no longer occur; add new ones only if the list may grow."""
    left = {pair for pair in occurrences() if pair[0].startswith(MAY_REMAIN)}
    kept = sorted(left if may_grow else left & allowed())
    head = "# Banned phrases that the package still has. `python tests/test_english.py` removes those that are gone.\n"
    print(f"{len(kept)} exceptions, {len(allowed())} before")
    ALLOWED.write_text(head + "".join(f"{name}: {phrase}\n" for name, phrase in kept))
    for name, phrase in sorted(occurrences() - set(kept)):
        print(f"rewrite {name}: {phrase}")


if __name__ == "__main__":
    write_exceptions("--add" in sys.argv)
