"""The tokens of a constraint text, and messages for characters outside the language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from glws.automata._pointing import MAX_LENGTH, TextError

MAX_DIGITS = 30

_WORD = re.compile(
    r"""(?P<space>\s+)
      | (?P<keyword>base\b\s*=(?!=))
      | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>"[^"]*"|'[^']*')
      | (?P<refused>&&?|\|\|?|:=|\*\*|//|=(?!=)|!(?!=)|[~^≤≥≠"'])
      | (?P<mark>->|==|!=|<=|>=|[<>()\[\]{},:+*/%-])""",
    re.VERBOSE,
)

_INSTEAD = {
    "=": "write == to compare",
    ":=": "assignment is not part of the language; write == to compare",
    "&": "write 'and' instead of '&'",
    "&&": "write 'and' instead of '&&'",
    "|": "write 'or' instead of '|'",
    "||": "write 'or' instead of '||'",
    "!": "write 'not' instead of '!'",
    "~": "write 'not' instead of '~'",
    "≤": "write <= instead of '≤'",
    "≥": "write >= instead of '≥'",
    "≠": "write != instead of '≠'",
    '"': "this quote is never closed",
    "'": "this quote is never closed",
}


class Token(NamedTuple):
    """A token of the text: its type is number, name, keyword, quoted, mark or end."""

    type: str
    text: str
    column: int

    @property
    def shown(self) -> str:
        """The token as error messages show it."""
        return "the end of the text" if self.type == "end" else repr(self.text) if self.type != "quoted" else self.text


def tokens(text: str) -> list[Token]:
    """The tokens of the text, and an end token."""
    if len(text) > MAX_LENGTH:
        raise TextError(f"the text has {len(text):,} characters; at most {MAX_LENGTH:,} are read", text, MAX_LENGTH)
    return [*_words(text), Token("end", "", len(text.rstrip()))]


def _words(text: str) -> Iterator[Token]:
    column = 0
    while column < len(text):
        found = _WORD.match(text, column)
        if found is None:
            raise TextError(f"{text[column]!r} is not part of the language; leave it out", text, column)
        token = Token(str(found.lastgroup), found.group(), column)
        _check(token, text)
        if token.type != "space":
            yield token
        column = found.end()


def _check(token: Token, text: str) -> None:
    if token.type == "refused":
        message = _INSTEAD.get(token.text, f"{token.text!r} is not part of the language; counts take + - * / and %")
        raise TextError(message, text, token.column)
    if token.type == "number" and len(token.text) > MAX_DIGITS:
        message = f"a number of {len(token.text)} digits; at most {MAX_DIGITS} are read"
        raise TextError(message, text, token.column)
