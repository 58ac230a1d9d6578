"""Parse a constraint text to a tree: an operator-precedence parser that knows the classes.

condition   := condition "if" condition "else" condition | condition "->" condition | condition "or" condition
             | condition "and" condition | "not" condition | "(" condition ")" | "True" | "False"
             | term (("==" | "!=" | "<" | "<=" | ">" | ">=") term)+ | term ["not"] "in" set
             | ("any" | "all" | "none" | "majority") "(" classes ")" | "regex" "(" quoted ")"
             | ("sorted" | "alldifferent") "(" series ")" | time
term        := number | "count" "(" classes ")" | "length" | term ("+" | "-" | "*" | "/" | "%") term | "-" term
             | ("sum" | "parity") "(" series ")" | "number" "(" series ["," "base" "=" integer] ")"
             | ("max" | "min") "(" series ")" | class | name "[" integer "]" | series   (series: only inside functions)
series      := name | name "[" [integer] ":" [integer] [":" [integer]] "]"        (the name is y or a table of values)
time        := ("next" | "previous" | "always" | "eventually" | "historically" | "once") "(" moment ")"
             | ("until" | "since") "(" moment "," moment ")"
moment      := condition about y | classes | time | "first" | "last"
classes     := class | set | condition about y
set         := "{" term ("," term)* "}" | "[" term ("," term)* "]"
class       := number | name | quoted name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from glws.automata._language.meaning import (
    NEEDS_LENGTH,
    Meaning,
    Members,
    Placed,
    Predicate,
    Remainder,
    Series,
    Value,
    guess,
    is_judged,
)
from glws.automata._language.tokens import Token, tokens
from glws.automata._language.tree import (
    COMPARISONS,
    WHOLE,
    And,
    Choice,
    ClassLabel,
    Constant,
    Distinct,
    Every,
    Extreme,
    Formula,
    Judged,
    Linear,
    Member,
    Not,
    Or,
    Ordered,
    Pattern,
    Position,
    Quantified,
    Temporal,
    Weights,
    labels,
    nodes,
)
from glws.automata._pointing import TextError

MAX_NESTING = 100

TIMES = {"always": 1, "eventually": 1, "historically": 1, "next": 1, "once": 1, "previous": 1, "since": 2, "until": 2}
"""The operators of time, and how many conditions each takes."""
COUNTS = ("count", "majority")
TOTALS = ("number", "parity", "sum")
SERIES = ("alldifferent", "max", "min", "sorted")
FUNCTIONS = tuple(sorted([*TIMES, *COUNTS, *TOTALS, *SERIES, "all", "any", "none", "regex"]))
_CONDITIONAL, _IMPLICATION, _OR, _AND, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(1, 9)
_LEVELS = {"if": _CONDITIONAL, "->": _IMPLICATION, "or": _OR, "and": _AND, "not": _COMPARISON, "in": _COMPARISON}
_LEVELS |= dict.fromkeys(COMPARISONS, _COMPARISON)
_LEVELS |= {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
RESERVED = {*_LEVELS, *FUNCTIONS, "else", "first", "last", "length", "not", "y", "True", "False"}
"""Words that no table of values can be called by."""


def parse(
    text: str, classes: int | Sequence[str], length: int | None, values: Mapping[str, Weights] | None = None
) -> Formula:
    """The formula of the text; with a length, `length` and negative indices become numbers."""
    return _Parser(Meaning(text, classes, length, values or {})).parse()


class _Parser:
    """Reads from `self.place` on; every method returns the value it has read."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.tokens = tokens(meaning.text)
        self.place = 0
        self.nesting = 0
        self.in_function = False
        self.in_time = False

    def parse(self) -> Formula:
        if self._token.type == "end":
            raise self._error("the text is empty; write True for no constraint at all", 0)
        column = self._token.column
        formula = self.meaning.formula(self._expression(), column)
        if self._token.type != "end":
            raise self._unexpected_after()
        return formula

    # Operators, by precedence

    def _expression(self, level: int = _CONDITIONAL) -> Value:
        """An operand and all following operators that bind at least as strongly as `level`."""
        column = self._token.column
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self._error(f"nested more than {MAX_NESTING} deep; simplify the text", column)
        value = self._operand()
        while self._level() >= level:
            value = self._combined(value, column)
        self.nesting -= 1
        return value

    def _level(self) -> int:
        return 0 if self._token.type == "quoted" else _LEVELS.get(self._token.text, 0)

    def _combined(self, value: Value, column: int) -> Value:
        level = self._level()
        if level == _CONDITIONAL:
            return self._choice(value, column)
        if level == _IMPLICATION:
            return self._implied(value, column)
        if level in (_OR, _AND):
            return self._joined(value, column)
        return self._chain(value, column) if level == _COMPARISON else self._arithmetic(value, column)

    def _choice(self, value: Value, column: int) -> Formula:
        then = self._formula(value, column)
        self._advance()
        condition = self._condition(_IMPLICATION)
        if self._token.text != "else":
            raise self._error(f"expected 'else' to go with 'if', found {self._token.shown}", self._token.column)
        self._advance()
        return Choice(condition, then, self._condition(_CONDITIONAL), column)

    def _implied(self, value: Value, column: int) -> Formula:
        condition = self._formula(value, column)
        self._advance()
        return Or((Not(condition, column), self._condition(_IMPLICATION)), column)

    def _joined(self, value: Value, column: int) -> Formula:
        word, level = self._token.text, self._level()
        parts = [self._formula(value, column)]
        while self._token.text == word:
            self._advance()
            parts.append(self._condition(level + 1))
        return And(tuple(parts), column) if word == "and" else Or(tuple(parts), column)

    def _chain(self, left: Value, column: int) -> Formula:
        links: list[Formula] = []
        start = column
        while self._level() == _COMPARISON:
            operator, place = self._comparison(), self._token.column
            right = self._expression(_SUM)
            links.append(self.meaning.link((left, column), operator, (right, place)))
            left, column = right, place
        return links[0] if len(links) == 1 else And(tuple(links), start)

    def _comparison(self) -> str:
        word = self._advance().text
        if word != "not":
            return word
        if self._token.text != "in":
            raise self._error(f"expected 'in' after 'not' here, found {self._token.shown}", self._token.column)
        self._advance()
        return "not in"

    def _arithmetic(self, value: Value, column: int) -> Linear | Remainder:
        level, sign = self._level(), self._advance()
        left, place = self.meaning.number(value, column), self._token.column
        right = self.meaning.number(self._expression(level + 1), place)
        if sign.text in "+-":
            return left.plus(right.times(1 if sign.text == "+" else -1))
        if sign.text == "/":
            return left.times(1 / self._divisor(right, place))
        if sign.text == "%":
            return self._remainder(left, self._divisor(right, place), place)
        if left.is_constant or right.is_constant:
            return right.times(left.constant) if left.is_constant else left.times(right.constant)
        raise self._error("counts cannot be multiplied with each other; multiply by a number", sign.column)

    def _divisor(self, value: Linear, column: int) -> Fraction:
        if not value.is_constant:
            raise self._error(f"a divisor must be a number; dividing by 'length' {NEEDS_LENGTH}", column)
        if not value.constant:
            raise self._error("division by zero", column)
        return Fraction(value.constant)

    def _remainder(self, number: Linear, modulus: Fraction, column: int) -> Linear | Remainder:
        if modulus < 0:
            raise self._error("the number after % is above 0", column)
        return self.meaning.plain(number.constant % modulus) if number.is_constant else Remainder(number, modulus)

    def _condition(self, level: int = _CONDITIONAL) -> Formula:
        column = self._token.column
        return self._formula(self._expression(level), column)

    def _formula(self, value: Value, column: int) -> Formula:
        """The value as a condition; about one time, a class or a set is the condition that y is in it.

        So is a part of class names inside functions.
        """
        if (self.in_time and not isinstance(value, Formula)) or (self.in_function and isinstance(value, Predicate)):
            return Member(Every(), self.meaning.classes(value, column), column)
        return self.meaning.formula(value, column)

    # Operands

    def _operand(self) -> Value:
        token = self._advance()
        if token.type == "number":
            return self.meaning.plain(int(token.text) if token.text.isdecimal() else Fraction(token.text))
        if token.type == "quoted":
            return self.meaning.named(token.text[1:-1], token.column)
        if token.type == "name":
            return self._word(token)
        if token.text in ("+", "-"):
            sign, column = Fraction(1 if token.text == "+" else -1), self._token.column
            return self.meaning.number(self._expression(_SIGN), column).times(sign)
        if token.text == "(":
            value = self._expression()
            self._close(token, ")")
            return value
        if token.text in ("{", "["):
            return self._set(token)
        raise self._error(f"expected a count, a label, a class or a number, found {token.shown}", token.column)

    def _word(self, token: Token) -> Value:
        if self._token.text == "(" and token.text not in _LEVELS:
            return self._call(token)
        if token.text == "not":
            return Not(self._condition(_COMPARISON), token.column)
        if token.text in ("True", "False"):
            return Constant(token.text == "True", token.column)
        if self.in_time and token.text in ("first", "last"):
            word = "previous" if token.text == "first" else "next"
            return Not(Temporal(word, (Constant(True),), token.column), token.column)
        if token.text == "length":
            one = Linear(0, ((WHOLE, (1,) * self.meaning.num_classes),))
            return one if self.meaning.length is None else self.meaning.plain(self.meaning.length)
        if token.text == "y" or token.text in self.meaning.values:
            return self._series(token)
        if token.text in self.meaning.parts and self._token.text == "[":
            label, column = self._series(token), token.column
            assert isinstance(label, Every | Position | ClassLabel)
            return Member(label, self.meaning.classes(self.meaning.named(token.text, column), column), column)
        if token.text in _LEVELS or token.text == "else":
            raise self._error(f"expected a count, a label, a class or a number before {token.shown}", token.column)
        return self.meaning.named(token.text, token.column)

    def _series(self, token: Token) -> Value:
        """y or a table of values: as it is, at an index, or a slice of it."""
        name, weights = token.text, self.meaning.values.get(token.text)
        every = Every()
        if self._token.text == "[":
            bracket, column = self._advance(), self._token.column
            ends = self._indices(name)
            self._close(bracket, "]")
            if len(ends) == 1:
                label = self._label(ends[0] or 0)
                return label if weights is None else self.meaning.worth(label, weights, token.column)
            every = self.meaning.slice(ends[0], ends[1], ends[2] if len(ends) > 2 else None, column)
            if not self.in_function:
                raise self._error(f"a slice of {name} stands inside a function, as in sum({name}[0:3])", token.column)
        elif not self.in_function:
            inside = "any(...) or all(...)" if weights is None else f"a function, as in sum({name})"
            raise self._error(f"{name} alone stands for each label inside {inside}; write {name}[0]", token.column)
        return every if weights is None else Series(every, weights)

    def _indices(self, name: str) -> list[int | None]:
        """The index, or the two or three ends of a slice."""
        ends = [None if self._token.text == ":" else self._integer(name)]
        while self._token.text == ":" and len(ends) < 3:
            self._advance()
            ends.append(None if self._token.text in (":", "]") else self._integer(name))
        return ends

    def _integer(self, name: str) -> int:
        column = self._token.column
        value = self.meaning.number(self._expression(), column)
        if not value.is_constant or value.constant.denominator != 1:
            raise self._error(f"the index of {name}[...] must be an integer; the first label is {name}[0]", column)
        return int(value.constant)

    def _label(self, index: int) -> Position | ClassLabel:
        if self.meaning.length is None or index >= 0:
            return Position(index)
        return Position(index + self.meaning.length) if index + self.meaning.length >= 0 else ClassLabel(None)

    def _set(self, bracket: Token) -> Members:
        elements = [self._element()]
        while self._token.text == ",":
            self._advance()
            elements.append(self._element())
        self._close(bracket, "}" if bracket.text == "{" else "]")
        return Members(tuple(elements))

    def _element(self) -> Placed:
        column = self._token.column
        return self._expression(), column

    # Functions

    def _call(self, token: Token) -> Value:
        if token.text not in FUNCTIONS:
            hint = guess(token.text, (*FUNCTIONS, "length"))
            message = f"there is no function {token.text!r}{hint}; there are {', '.join(FUNCTIONS)}"
            raise self._error(message, token.column)
        bracket = self._advance()
        if token.text == "regex":
            return self._regex(bracket)
        if token.text in TIMES:
            return self._temporal(token, bracket)
        was_in, self.in_function = self.in_function, True
        value, column = self._element()
        base = self._base() if token.text == "number" else None
        self.in_function = was_in
        if self._token.text == ",":
            raise self._error(f"several classes are written as a set: {token.text}({{1, 2}})", self._token.column)
        self._close(bracket, ")")
        if token.text in COUNTS:
            return self._counted(token, value, column)
        if token.text in TOTALS:
            return self._total(token, value, base, column)
        return self._ordered(token, value, column) if token.text in SERIES else self._quantified(token, value, column)

    def _base(self) -> int | None:
        if self._token.text != ",":
            return None
        self._advance()
        word, place = self._advance(), self._token.column
        if word.type != "keyword":
            raise self._error("only a base can follow here, as in number(y[0:3], base=2)", word.column)
        value = self.meaning.number(self._expression(), place)
        if not value.is_constant or value.constant.denominator != 1 or value.constant < 2:
            raise self._error("a base is an integer above 1", place)
        return int(value.constant)

    def _total(self, token: Token, value: Value, base: int | None, column: int) -> Linear | Remainder:
        if token.text == "number":
            return self.meaning.written(value, base, column)
        total = self.meaning.total(value, token.text, column)
        return total if token.text == "sum" else self._remainder(total, Fraction(2), column)

    def _ordered(self, token: Token, value: Value, column: int) -> Value:
        every = self.meaning.labels(value, token.text, column)
        if token.text == "sorted":
            return Ordered(every.span, every.backward, token.column)
        if token.text == "alldifferent":
            return Distinct(every.span, token.column)
        return Extreme(every.span, token.text == "max")

    def _temporal(self, token: Token, bracket: Token) -> Temporal:
        before, self.in_function, self.in_time = (self.in_function, self.in_time), True, True
        parts = [self._moment(token)]
        while self._token.text == "," and len(parts) < TIMES[token.text]:
            self._advance()
            parts.append(self._moment(token))
        self.in_function, self.in_time = before
        if len(parts) < TIMES[token.text] or self._token.text == ",":
            many = "two conditions" if TIMES[token.text] == 2 else "one condition"
            raise self._error(f"{token.text} takes {many}; sets are written {{1, 2}}", self._token.column)
        self._close(bracket, ")")
        return Temporal(token.text, tuple(parts), token.column)

    def _moment(self, token: Token) -> Formula:
        """A condition about the label y at one time."""
        body = self._condition()
        for node in nodes(body):
            if not isinstance(node, Judged | Temporal):
                message = f"inside {token.text}(...) only y, classes and other times can be spoken of"
                raise self._error(message, node.column)
        if any(not isinstance(label, ClassLabel) and label != Every() for label in labels(body)):
            raise self._error(f"inside {token.text}(...) y is the label at one time; write y alone", body.column)
        return body

    def _regex(self, bracket: Token) -> Pattern:
        quoted = self._advance()
        if quoted.type != "quoted":
            raise self._error('regex takes a pattern in quotes, like regex("0*1+0*")', quoted.column)
        self._close(bracket, ")")
        return Pattern(quoted.text[1:-1], quoted.column + 1)

    def _counted(self, token: Token, value: Value, column: int) -> Linear | Formula:
        classes = self.meaning.classes(value, column)
        span = self.meaning.span(value, token.text, column) if isinstance(value, Formula) else WHOLE
        weights = tuple(int(number in classes) for number in range(self.meaning.num_classes))
        count = self.meaning.plain(0).plus(Linear(0, ((span, weights),)))
        if token.text == "count":
            return count
        if self.meaning.length is None:
            raise self._error(f"majority {NEEDS_LENGTH}", token.column)
        half = self.meaning.plain(Fraction(len(span.within(self.meaning.length)), 2))
        return self.meaning.counting(count, ">", half, token.column)

    def _quantified(self, token: Token, value: Value, column: int) -> Formula:
        body = value if isinstance(value, Formula) else Member(Every(), self.meaning.classes(value, column), column)
        wrong = [node for node in nodes(body) if not isinstance(node, Judged)] or [body][: not is_judged(body)]
        if wrong:
            raise self._error(f"inside {token.text}(...) only labels and classes can be compared", wrong[0].column)
        span = self.meaning.span(body, token.text, column)
        if token.text == "none":
            return Not(Quantified(False, body, span, token.column), token.column)
        return Quantified(token.text == "all", body, span, token.column)

    # Tokens and errors

    @property
    def _token(self) -> Token:
        return self.tokens[self.place]

    def _advance(self) -> Token:
        token = self._token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def _close(self, opening: Token, closing: str) -> None:
        if self._token.type == "end":
            raise self._error(f"this '{opening.text}' is never closed", opening.column)
        if self._token.text != closing:
            raise self._error(f"expected an operator or {closing!r}, found {self._token.shown}", self._token.column)
        self._advance()

    def _unexpected_after(self) -> TextError:
        token = self._token
        if token.text in (")", "]", "}"):
            return self._error(f"this {token.shown} closes nothing", token.column)
        return self._error(f"expected an operator such as 'and' or the end, found {token.shown}", token.column)

    def _error(self, message: str, column: int) -> TextError:
        return self.meaning.error(message, column)
