"""Parts of messages: what may have been meant, an error of another library in one line, numbers with their nouns."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 30


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None if none is like it.

    >>> nearest("Proportion", ["proportions", "labels"]), nearest("zebra", ["proportions", "labels"])
    ('proportions', None)
    """
    names = list(known)
    written = str(name)
    for each in (written, written.lower().replace("-", "_")):
        if found := get_close_matches(each, names, n=1):
            return found[0]
    return None


def hint(name: object, known: Iterable[str], form: str = "{!r}", otherwise: str = "there is") -> str:
    """The end of a message about an unknown name: the nearest that is known, or the known ones.

    >>> hint("acuracy", ["accuracy", "loss"]), hint("speed", ["accuracy", "loss"], otherwise="known are")
    ("did you mean 'accuracy'?", 'known are accuracy, loss')
    """
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {form.format(near)}?"
    listed = ", ".join(names[:MOST_LISTED]) + (", ..." if len(names) > MOST_LISTED else "")
    return f"{otherwise} {listed}" if names else "there are none"


def one_line(error: BaseException, most: int = 200) -> str:
    r"""The text of an error in one line, cut short; its type if it has no text.

    >>> one_line(ValueError("first\n  second")), one_line(KeyError())
    ('first second', 'KeyError')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


def counted(number: int, noun: str) -> str:
    """A number and a noun in the right form.

    >>> counted(1, "group"), counted(1200, "group")
    ('1 group', '1,200 groups')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
