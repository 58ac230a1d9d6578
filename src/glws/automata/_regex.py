"""Regular expressions over class numbers, turned into automata by partial derivatives.

The rest of an expression after a label is again a regular expression (a partial derivative, after Antimirov), and there
are only finitely many of them: sets of them are the meta-states of `explore`. Repeats are never expanded, so that a
huge one costs nothing before the state budget stops it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glws.automata._automaton import Automaton
from glws.automata._explore import ALWAYS, NEVER, explore
from glws.automata._pointing import MAX_LENGTH, TextError
from glws.errors import ConstraintError

MAX_NESTING = 50
MAX_DIGITS = 18
MAX_WORK = 2_000_000
"""Limit on the number of remainders for one pattern: a few seconds."""


def from_regex(pattern: str, num_symbols: int = 2, classes: Sequence[str] | None = None) -> Automaton:
    """The labelings that match a regular expression as a whole, as a minimal automaton.

    A digit is the class of that number; `<12>` a larger number, `<cat>` a name of `classes` (whose number then replaces
    `num_symbols`). `.` is any class, `[012]`, `[0-3<cat>]` one of these, `[^0]` any but these. Then `* + ?`, `{m}`,
    `{m,}`, `{,n}`, `{m,n}`, `|` and parentheses, as usual. Spaces are ignored; an empty pattern, or an empty side
    of `|`, is the empty labeling.

    An invalid pattern raises `ConstraintError` with a caret at the place, an automaton larger than the state budget
    `StateBudgetError`.

    >>> ones_together = from_regex("0*1+0*")
    >>> ones_together.accepts([0, 1, 1, 0]), ones_together.accepts([1, 0, 1])
    (True, False)
    >>> from_regex("<dog>? <cat>{2,3}", classes=["cat", "dog"]).count(3)
    2
    """
    derivatives = _Derivatives(pattern)
    size = len(classes) if classes else num_symbols
    expression = _Reader(pattern, size, classes or (), derivatives).read()

    def follow(left: frozenset[_Expression]) -> Iterable[tuple[int, frozenset[_Expression], float]]:
        return ((symbol, after, ALWAYS) for symbol, after in derivatives.reached(left))

    def final(left: frozenset[_Expression]) -> float:
        return ALWAYS if any(expression.nullable for expression in left) else NEVER

    return Automaton.from_table(explore(size, {frozenset([expression]): ALWAYS}, follow, final)).minimize()


# Expressions. They are compared by identity, which is cheap; `_Derivatives` creates each of them only once.


@dataclass(frozen=True, eq=False)
class _Empty:
    """The empty labeling."""

    nullable: bool = True


@dataclass(frozen=True, eq=False)
class _OneOf:
    """One label of a set."""

    symbols: frozenset[int]
    nullable: bool = False


@dataclass(frozen=True, eq=False)
class _Either:
    options: tuple[_Expression, ...]
    nullable: bool


@dataclass(frozen=True, eq=False)
class _Then:
    first: _Expression
    rest: _Expression
    nullable: bool


@dataclass(frozen=True, eq=False)
class _Repeat:
    """`inner` at least `low` times and at most `high` (None: no limit)."""

    inner: _Expression
    low: int
    high: int | None
    nullable: bool


_Expression = _Empty | _OneOf | _Either | _Then | _Repeat
_EMPTY = _Empty()


class _Derivatives:
    """The derivatives of expressions, cached so that equal remainders are the same object."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._thens: dict[tuple[_Expression, _Expression], _Then] = {}
        self._repeats: dict[tuple[_Expression, int, int | None], _Repeat] = {}
        self._steps: dict[_Expression, list[tuple[int, _Expression]]] = {}
        self._work = 0

    def then(self, first: _Expression, rest: _Expression) -> _Expression:
        if first is _EMPTY:
            return rest
        if rest is _EMPTY:
            return first
        if (first, rest) not in self._thens:
            self._thens[first, rest] = _Then(first, rest, first.nullable and rest.nullable)
        return self._thens[first, rest]

    def repeat(self, inner: _Expression, low: int, high: int | None) -> _Expression:
        if high == 0 or inner is _EMPTY:
            return _EMPTY
        low = 0 if inner.nullable else max(low, 0)
        if (inner, low, high) not in self._repeats:
            self._repeats[inner, low, high] = _Repeat(inner, low, high, low == 0)
        return self._repeats[inner, low, high]

    def reached(self, expressions: frozenset[_Expression]) -> list[tuple[int, frozenset[_Expression]]]:
        """For each label that may come next, all remainders after it."""
        reached = defaultdict(set)
        for expression in expressions:
            if expression not in self._steps:
                steps = self.steps(expression)
                self._steps[expression] = [(symbol, after) for symbols, after in steps for symbol in symbols]
            self._count_work(len(self._steps[expression]))
            for symbol, after in self._steps[expression]:
                reached[symbol].add(after)
        return [(symbol, frozenset(after)) for symbol, after in sorted(reached.items())]

    def _count_work(self, steps: int) -> None:
        self._work += steps
        if self._work > MAX_WORK:
            raise TextError("the pattern has too many remainders and was stopped; simplify it", self.pattern, 0)

    def steps(self, expression: _Expression) -> list[tuple[frozenset[int], _Expression]]:
        """Pairs (labels that may come next, the remainder after one of them)."""
        if isinstance(expression, _OneOf):
            return [(expression.symbols, _EMPTY)]
        if isinstance(expression, _Either):
            return [step for option in expression.options for step in self.steps(option)]
        if isinstance(expression, _Repeat):
            high = None if expression.high is None else expression.high - 1
            again = self.repeat(expression.inner, expression.low - 1, high)
            return [(symbols, self.then(after, again)) for symbols, after in self.steps(expression.inner)]
        return self._steps_of_sequence(expression)

    def _steps_of_sequence(self, expression: _Expression) -> list[tuple[frozenset[int], _Expression]]:
        """The steps of the first part, and while that may be empty, those of the next."""
        found: list[tuple[frozenset[int], _Expression]] = []
        while isinstance(expression, _Then):
            rest = expression.rest
            found += [(symbols, self.then(after, rest)) for symbols, after in self.steps(expression.first)]
            if not expression.first.nullable:
                return found
            expression = rest
        return found if expression is _EMPTY else found + self.steps(expression)


# Parsing


_HINTS = {
    "^": "a pattern always covers the whole labeling, leave '^' out",
    "$": "a pattern always covers the whole labeling, leave '$' out",
    "\\": "there are no escapes; classes are digits, <numbers> or <names>",
    "*": "there is nothing to repeat before '*'",
    "+": "there is nothing to repeat before '+'",
    "?": "there is nothing to repeat before '?'",
    "{": "there is nothing to repeat before '{'",
    ")": "this ')' closes nothing",
}


class _Reader:
    """A recursive-descent parser; each method reads one construct from `self.place` on."""

    def __init__(self, pattern: str, num_symbols: int, classes: Sequence[str], derivatives: _Derivatives) -> None:
        if num_symbols < 1:
            raise ConstraintError(f"a pattern needs at least one class, found num_symbols={num_symbols}")
        self.pattern = pattern
        self.num_symbols = num_symbols
        self.classes = {name: number for number, name in enumerate(classes)}
        self.derivatives = derivatives
        self.place = 0
        self.nesting = 0

    def read(self) -> _Expression:
        if len(self.pattern) > MAX_LENGTH:
            raise self._error(f"the pattern has {len(self.pattern):,} characters; at most {MAX_LENGTH:,} are read", 0)
        expression = self._either()
        if self._next():
            raise self._unexpected()
        return expression

    def _either(self) -> _Expression:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        if len(options) == 1:
            return options[0]
        return _Either(tuple(options), any(option.nullable for option in options))

    def _sequence(self) -> _Expression:
        parts: list[_Expression] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated())
        expression: _Expression = _EMPTY
        for part in reversed(parts):
            expression = self.derivatives.then(part, expression)
        return expression

    def _repeated(self) -> _Expression:
        inner = self._one()
        if self._next() not in ("*", "+", "?", "{"):
            return inner
        low, high = self._bounds()
        if self._next() in ("*", "+", "?", "{"):
            raise self._error("two repeats in a row; put parentheses around the first", self.place)
        return self.derivatives.repeat(inner, low, high)

    def _bounds(self) -> tuple[int, int | None]:
        start = self.place
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        self._take("{")
        low = self._number()
        high = self._number() if self._take(",") else low
        if not self._take("}") or self.pattern[start : self.place].replace(" ", "") in ("{}", "{,}"):
            raise self._error("a repeat must be written {m}, {m,}, {,n} or {m,n}", start)
        if high is not None and (low or 0) > high:
            raise self._error(f"the repeat asks for at least {low} and at most {high}; write the smaller first", start)
        return low or 0, high

    def _number(self) -> int | None:
        self._next()
        start = self.place
        while self._digit(self._next()):
            self.place += 1
        digits = self.pattern[start : self.place].replace(" ", "")
        if len(digits) > MAX_DIGITS:
            raise self._error(f"a number of {len(digits)} digits; at most {MAX_DIGITS} are read", start)
        return int(digits) if digits else None

    def _one(self) -> _Expression:
        if self._take("("):
            return self._group(self.place - 1)
        if self._take("."):
            return _OneOf(frozenset(range(self.num_symbols)))
        if self._take("["):
            return self._set(self.place - 1)
        return _OneOf(frozenset([self._class()]))

    def _group(self, start: int) -> _Expression:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self._error(f"parentheses are nested more than {MAX_NESTING} deep", start)
        inner = self._either()
        if not self._take(")"):
            raise self._error("this '(' is never closed", start)
        self.nesting -= 1
        return inner

    def _set(self, start: int) -> _Expression:
        excluded = self._take("^")
        chosen: set[int] = set()
        while not self._take("]"):
            if not self._next():
                raise self._error("this '[' is never closed", start)
            chosen |= self._range()
        if not chosen and not excluded:
            raise self._error("an empty set matches no label; write . for any class", start)
        return _OneOf(frozenset(range(self.num_symbols)) - chosen if excluded else frozenset(chosen))

    def _range(self) -> set[int]:
        start = self.place
        first = self._class()
        last = self._class() if self._take("-") else first
        if last < first:
            raise self._error("the range runs backwards; write the smaller class first", start)
        return set(range(first, last + 1))

    def _class(self) -> int:
        sign, start = self._next(), self.place
        if self._digit(sign):
            self.place += 1
            return self._checked(sign, start)
        if sign != "<":
            raise self._unexpected()
        end = self.pattern.find(">", start)
        if end < 0:
            raise self._error("this '<' is never closed", start)
        self.place = end + 1
        name = self.pattern[start + 1 : end].strip()
        return self.classes[name] if name in self.classes else self._checked(name, start)

    def _checked(self, name: str, start: int) -> int:
        """The class of that number; raises if it does not exist."""
        if name.isascii() and name.isdigit() and len(name) <= MAX_DIGITS and int(name) < self.num_symbols:
            return int(name)
        available = f"0..{self.num_symbols - 1}" + "".join(f", <{other}>" for other in list(self.classes)[:10])
        raise self._error(f"there is no class {name!r}; the classes are {available}", start)

    # Characters

    @staticmethod
    def _digit(sign: str) -> bool:
        return sign.isascii() and sign.isdigit()

    def _next(self) -> str:
        """The next character that is not a space; empty at the end."""
        while self.pattern[self.place : self.place + 1].isspace():
            self.place += 1
        return self.pattern[self.place : self.place + 1]

    def _take(self, sign: str) -> bool:
        """Consume this character if it comes next."""
        found = self._next() == sign
        self.place += found
        return found

    def _unexpected(self) -> TextError:
        sign = self._next()
        if not sign:
            return self._error("the pattern ends where a class is expected", self.place)
        if sign.isalpha():
            return self._error("class names are written in angle brackets, like <cat>", self.place)
        return self._error(_HINTS.get(sign, f"{sign!r} is not allowed here; expected a class"), self.place)

    def _error(self, message: str, place: int) -> TextError:
        return TextError(message, self.pattern, place)
