"""Parse a constraint text to a tree: an operator-precedence parser that knows the classes.

condition   := condition "if" condition "else" condition | condition "or" condition | condition "and" condition
             | "not" condition | "(" condition ")" | "True" | "False"
             | term (("==" | "!=" | "<" | "<=" | ">" | ">=") term)+ | term ["not"] "in" set
             | ("any" | "all" | "none") "(" classes ")" | "majority" "(" classes ")" | "regex" "(" quoted ")"
term        := number | "count" "(" classes ")" | "length" | term ("+" | "-" | "*" | "/") term | "-" term
             | class | "y" "[" integer "]" | "y"                                      (the last inside any, all, none)
classes     := class | set | condition about y
set         := "{" term ("," term)* "}" | "[" term ("," term)* "]"
class       := number | name | quoted name
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from glws.automata._language.meaning import NEEDS_LENGTH, Meaning, Members, Placed, Value, nearest
from glws.automata._language.tokens import Token, tokens
from glws.automata._language.tree import (
    COMPARISONS,
    And,
    Choice,
    ClassLabel,
    Constant,
    Counting,
    Every,
    Formula,
    Label,
    Linear,
    Member,
    Not,
    Or,
    Pattern,
    Position,
    Quantified,
    nodes,
)
from glws.automata._pointing import TextError

MAX_NESTING = 100

FUNCTIONS = ("all", "any", "count", "majority", "none", "regex")
_CONDITIONAL, _OR, _AND, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(1, 8)
_LEVELS = {"if": _CONDITIONAL, "or": _OR, "and": _AND, "not": _COMPARISON, "in": _COMPARISON}
_LEVELS |= dict.fromkeys(COMPARISONS, _COMPARISON)
_LEVELS |= {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}


def parse(text: str, classes: int | Sequence[str], length: int | None) -> Formula:
    """The formula of the text; with a length, `length` and negative indices become numbers."""
    return _Parser(text, classes, length).parse()


class _Parser:
    """Reads from `self.place` on; every method returns the value it has read."""

    def __init__(self, text: str, classes: int | Sequence[str], length: int | None) -> None:
        self.meaning = Meaning(text, classes, length)
        self.tokens = tokens(text)
        self.place = 0
        self.nesting = 0
        self.in_function = False

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
        if level in (_OR, _AND):
            return self._joined(value, column)
        return self._chain(value, column) if level == _COMPARISON else self._arithmetic(value, column)

    def _choice(self, value: Value, column: int) -> Formula:
        then = self.meaning.formula(value, column)
        self._advance()
        condition = self._condition(_OR)
        if self._token.text != "else":
            raise self._error(f"expected 'else' to go with 'if', found {self._token.shown}", self._token.column)
        self._advance()
        return Choice(condition, then, self._condition(_CONDITIONAL), column)

    def _joined(self, value: Value, column: int) -> Formula:
        word, level = self._token.text, self._level()
        parts = [self.meaning.formula(value, column)]
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

    def _arithmetic(self, value: Value, column: int) -> Linear:
        level, sign = self._level(), self._advance()
        left, place = self.meaning.number(value, column), self._token.column
        right = self.meaning.number(self._expression(level + 1), place)
        if sign.text in "+-":
            return left.plus(right.times(Fraction(1 if sign.text == "+" else -1)))
        if sign.text == "/":
            return left.times(1 / self._divisor(right, place))
        if left.is_constant or right.is_constant:
            return right.times(left.constant) if left.is_constant else left.times(right.constant)
        raise self._error("counts cannot be multiplied with each other; multiply by a number", sign.column)

    def _divisor(self, value: Linear, column: int) -> Fraction:
        if not value.is_constant:
            raise self._error(f"a divisor must be a number; dividing by 'length' {NEEDS_LENGTH}", column)
        if not value.constant:
            raise self._error("division by zero", column)
        return value.constant

    def _condition(self, level: int) -> Formula:
        column = self._token.column
        return self.meaning.formula(self._expression(level), column)

    # Operands

    def _operand(self) -> Value:
        token = self._advance()
        if token.type == "number":
            return self.meaning.plain(Fraction(token.text))
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
        if token.text == "length":
            one = Linear(Fraction(0), (Fraction(1),) * self.meaning.num_classes)
            return one if self.meaning.length is None else self.meaning.plain(Fraction(self.meaning.length))
        if token.text == "y":
            return self._label(token)
        if token.text in _LEVELS or token.text == "else":
            raise self._error(f"expected a count, a label, a class or a number before {token.shown}", token.column)
        return self.meaning.named(token.text, token.column)

    def _label(self, token: Token) -> Label:
        if self._token.text != "[":
            if self.in_function:
                return Every()
            raise self._error("y alone stands for each label inside any(...) or all(...); write y[0]", token.column)
        bracket = self._advance()
        column = self._token.column
        value = self.meaning.number(self._expression(), column)
        self._close(bracket, "]")
        if not value.is_constant or value.constant.denominator != 1:
            raise self._error("the index of y[...] must be an integer; the first label is y[0]", column)
        index = int(value.constant)
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
            hint = nearest(token.text, (*FUNCTIONS, "length"))
            message = f"there is no function {token.text!r}{hint}; there are {', '.join(FUNCTIONS)}"
            raise self._error(message, token.column)
        bracket = self._advance()
        if token.text == "regex":
            return self._regex(bracket)
        was_in, self.in_function = self.in_function, True
        value, column = self._element()
        self.in_function = was_in
        if self._token.text == ",":
            raise self._error(f"several classes are written as a set: {token.text}({{1, 2}})", self._token.column)
        self._close(bracket, ")")
        if token.text in ("count", "majority"):
            return self._counted(token, self.meaning.classes(value, column))
        return self._quantified(token, value, column)

    def _regex(self, bracket: Token) -> Pattern:
        quoted = self._advance()
        if quoted.type != "quoted":
            raise self._error('regex takes a pattern in quotes, like regex("0*1+0*")', quoted.column)
        self._close(bracket, ")")
        return Pattern(quoted.text[1:-1], quoted.column + 1)

    def _counted(self, token: Token, classes: frozenset[int]) -> Linear | Formula:
        count = Linear(Fraction(0), tuple(Fraction(number in classes) for number in range(self.meaning.num_classes)))
        if token.text == "count":
            return count
        if self.meaning.length is None:
            raise self._error(f"majority {NEEDS_LENGTH}", token.column)
        return self.meaning.counting(count, ">", self.meaning.plain(Fraction(self.meaning.length, 2)), token.column)

    def _quantified(self, token: Token, value: Value, column: int) -> Formula:
        body = value if isinstance(value, Formula) else Member(Every(), self.meaning.classes(value, column), column)
        for node in nodes(body):
            if isinstance(node, Counting | Pattern | Quantified):
                raise self._error(f"inside {token.text}(...) only labels and classes can be compared", node.column)
        if token.text == "none":
            return Not(Quantified(False, body, token.column), token.column)
        return Quantified(token.text == "all", body, token.column)

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
