"""What is said about constraint texts that cannot be read, in full; and texts meant to hurt."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Sequence

import pytest

from glws.automata import Automaton, constraint, exactly
from glws.automata._language.parser import MAX_NESTING
from glws.errors import ConstraintError

FUNCTIONS = (
    "there are all, alldifferent, always, any, count, eventually, historically, majority, max, min, next, none, "
    "number, once, parity, previous, regex, since, sorted, sum, until"
)

# Mistakes: the message, and the column of the caret.

MISTAKES = [
    ("", "the text is empty; write True for no constraint at all", 0),
    ("   ", "the text is empty; write True for no constraint at all", 0),
    ("count(1) = 3", "write == to compare", 9),
    ("(x := 3)", "assignment is not part of the language; write == to compare", 3),
    ("any(0) & any(1)", "write 'and' instead of '&'", 7),
    ("any(0) && any(1)", "write 'and' instead of '&&'", 7),
    ("any(0) | any(1)", "write 'or' instead of '|'", 7),
    ("any(0) || any(1)", "write 'or' instead of '||'", 7),
    ("!any(0)", "write 'not' instead of '!'", 0),
    ("~any(0)", "write 'not' instead of '~'", 0),
    ("count(1) ≤ 3", "write <= instead of '≤'", 9),
    ("count(1) ≥ 3", "write >= instead of '≥'", 9),
    ("count(1) ≠ 3", "write != instead of '≠'", 9),
    ("count(1) ** 2 == 4", "'**' is not part of the language; counts take + - * / and %", 9),
    ("count(1) // 2 == 4", "'//' is not part of the language; counts take + - * / and %", 9),
    ('count("cat) == 1', "this quote is never closed", 6),
    ("any(1);", "';' is not part of the language; leave it out", 6),
    ("any(1)\0", "'\\x00' is not part of the language; leave it out", 6),
    ("count(1) == " + "9" * 31, "a number of 31 digits; at most 30 are read", 12),
    ("(any(1)", "this '(' is never closed", 0),
    ("any(1", "this '(' is never closed", 3),
    ("any(y == y[0", "this '[' is never closed", 10),
    ("y[0 == 1", "expected a count or a number, found a condition", 2),
    ("y[0] in {0, 1", "this '{' is never closed", 8),
    ("any(1))", "this ')' closes nothing", 6),
    ("any(1)] == 1", "this ']' closes nothing", 6),
    ("any(1) any(2)", "expected an operator such as 'and' or the end, found 'any'", 7),
    ("(any(1) any(2))", "expected an operator or ')', found 'any'", 8),
    ("any(1) and", "expected a count, a label, a class or a number, found the end of the text", 10),
    ("count(1) == ", "expected a count, a label, a class or a number, found the end of the text", 11),
    ("count() == 1", "expected a count, a label, a class or a number, found ')'", 6),
    ("or any(1)", "expected a count, a label, a class or a number before 'or'", 0),
    ("any(1) if any(2)", "expected 'else' to go with 'if', found the end of the text", 16),
    ("y[0] not 1", "expected 'in' after 'not' here, found '1'", 9),
    ("count(1)", "expected a condition; compare this with something, as in count(1) == 2", 0),
    ("any(1) and 2", "expected a condition; compare this with something, as in count(1) == 2", 11),
    ("not y[0]", "expected a condition; compare this with something, as in count(1) == 2", 4),
    ("1 if any(1) else any(0)", "expected a condition; compare this with something, as in count(1) == 2", 0),
    ("any(1) == True", "a condition cannot be compared; combine it with and, or, not", 0),
    ("{0, 1} == y[0]", "a set is only allowed after 'in'", 0),
    ("y[0] in 1", "expected a set after 'in', like {0, 4}", 8),
    ("any(1) + 1 == 2", "expected a count or a number, found a condition", 0),
    ("1 + max(y) == 2", "expected a count or a number, found a label", 4),
    ("any(1 + y == 2)", "expected a count or a number, found labels one by one", 8),
    ("-{1} == 2", "expected a count or a number, found a set", 1),
    ("any(1) in {1}", "a condition cannot be compared; combine it with and, or, not", 0),
    ("y == 1", "y alone stands for each label inside any(...) or all(...); write y[0]", 0),
    ("y[0.5] == 1", "the index of y[...] must be an integer; the first label is y[0]", 2),
    ("y[count(1)] == 1", "the index of y[...] must be an integer; the first label is y[0]", 2),
    ("y[cat] == 1", "there is no class 'cat'; the classes are numbered 0..2", 2),
    ("any(7)", "class 7 is out of range: the classes are numbered 0..2", 4),
    ("y[0] == -1", "class -1 is out of range: the classes are numbered 0..2", 8),
    ("y[0] in {0, 3}", "class 3 is out of range: the classes are numbered 0..2", 12),
    ("count(1.5) == 1", "a class must be a whole number, found 1.5", 6),
    ("y[0] in {count(1)}", "expected a class, found a count; a class can only be compared with a class", 9),
    ("count(1) > max(y)", "expected a count or a number, found a label", 11),
    ("count(y) == 1", "expected a class, a set of classes, or a condition about y", 6),
    ("count(y == y[0]) == 1", "expected a class, a set of classes, or a condition about y", 6),
    ("count(any(1)) == 1", "expected a class, a set of classes, or a condition about y", 6),
    ("any(1, 2)", "several classes are written as a set: any({1, 2})", 5),
    ("any(y == 1 or count(1) == 2)", "inside any(...) only labels and classes can be compared", 14),
    ("all(any(1))", "inside all(...) only labels and classes can be compared", 4),
    ("none(regex('0'))", "inside none(...) only labels and classes can be compared", 12),
    ("regex(0)", 'regex takes a pattern in quotes, like regex("0*1+0*")', 6),
    ("any(1) and regex('0(1')", "this '(' is never closed", 19),
    ("cuont(1) == 1", f"there is no function 'cuont' (did you mean 'count'?); {FUNCTIONS}", 0),
    ("len(y) > 3", f"there is no function 'len' (did you mean 'length'?); {FUNCTIONS}", 0),
    ("open(1)", f"there is no function 'open'; {FUNCTIONS}", 0),
    # Slices, sums and numbers
    ("y[] == 1", "expected a count, a label, a class or a number, found ']'", 2),
    ("y[0:2] == 1", "a slice of y stands inside a function, as in sum(y[0:3])", 0),
    ("sum(y[::0]) == 1", "the step of a slice is not 0", 6),
    ("sum(y[-2:]) == 1", "a slice that counts from the end needs the length of the group: give length=", 6),
    ("sum(y[4::-2]) == 1", "a slice that counts from the end needs the length of the group: give length=", 6),
    ("sum(y[0.5:]) == 1", "the index of y[...] must be an integer; the first label is y[0]", 6),
    ("sum(y[1:2:3:4]) == 1", "expected an operator or ']', found ':'", 11),
    ("sum(1) == 1", "sum takes y, a table of values, or a slice of these, as in sum(y[0:3])", 4),
    ("parity(any(1)) == 1", "parity takes y, a table of values, or a slice of these, as in parity(y[0:3])", 7),
    ("sum(y[0:2], y) == 1", "several classes are written as a set: sum({1, 2})", 10),
    ("sum(y)", "expected a condition; compare this with something, as in count(1) == 2", 0),
    ("number(y) == 1", "a number up to the end of the group needs the length of the group: give length=", 7),
    ("number(y[2::2]) == 1", "a number up to the end of the group needs the length of the group: give length=", 7),
    ("number(y[0:2], 3) == 1", "only a base can follow here, as in number(y[0:3], base=2)", 15),
    ("number(y[0:2], base=1) == 1", "a base is an integer above 1", 20),
    ("number(y[0:1001]) == 1", "a number of 1,001 digits; at most 1,000 are read", 7),
    ("sum(y) % 0 == 1", "division by zero", 9),
    ("sum(y) % -2 == 1", "the number after % is above 0", 9),
    (
        "sum(y) % count(1) == 1",
        "a divisor must be a number; dividing by 'length' needs the length of the group: give length=",
        9,
    ),
    ("sum(y) % 3 + 1 == 1", "a remainder can only be compared with a number, as in sum(y) % 3 == 0", 0),
    ("count(1) == sum(y) % 3", "a remainder can only be compared with a number, as in sum(y) % 3 == 0", 0),
    (
        "y[-1] + y[0] == 1",
        "computing with a label that is counted from the end needs the length of the group: give length=",
        0,
    ),
    (
        "sum(y) == length",
        "comparing counts with each other or with a share of 'length' needs the length of the group: give length=",
        0,
    ),
    ("sorted(1)", "sorted takes y or a slice of it, as in sorted(y[0:3])", 7),
    ("max(any(1)) == 1", "max takes y or a slice of it, as in max(y[0:3])", 4),
    ("any(y[0:2] == y[1:3])", "all slices inside one any(...) must be the same", 4),
    ("any(y == max(y))", "inside any(...) only labels and classes can be compared", 4),
    # Time
    ("always(1, 2)", "always takes one condition; sets are written {1, 2}", 8),
    ("until(1)", "until takes two conditions; sets are written {1, 2}", 7),
    ("until(1, 2, 0)", "until takes two conditions; sets are written {1, 2}", 10),
    ("always(count(1) == 2 or 1)", "inside always(...) only y, classes and other times can be spoken of", 7),
    ("once(y[0] == 1)", "inside once(...) y is the label at one time; write y alone", 5),
    ("next(y[0:2] == 1)", "inside next(...) y is the label at one time; write y alone", 5),
    ("always(7)", "class 7 is out of range: the classes are numbered 0..2", 7),
    ("last -> any(1)", "there is no class 'last'; the classes are numbered 0..2", 0),
    (
        "next(" * 12 + "1" + ")" * 12,
        "more than 12 operators that look ahead are too many for one formula; split it",
        0,
    ),
    ("lenght > 3", "there is no class 'lenght' (did you mean 'length'?); the classes are numbered 0..2", 0),
    ("count(1) * count(2) == 4", "counts cannot be multiplied with each other; multiply by a number", 9),
    ("count(1) / 0 == 4", "division by zero", 11),
    (
        "count(1) / length > 0.5",
        "a divisor must be a number; dividing by 'length' needs the length of the group: give length=",
        11,
    ),
    ("any(0) or majority(1)", "majority needs the length of the group: give length=", 10),
    (
        "count(1) >= 0.3 * length",
        "comparing counts with each other or with a share of 'length' needs the length of the group: give length=",
        0,
    ),
    (
        "any(0) and count(1) > count(0)",
        "comparing counts with each other or with a share of 'length' needs the length of the group: give length=",
        11,
    ),
]


@pytest.mark.parametrize(("text", "message", "column"), MISTAKES, ids=[repr(text) for text, _, _ in MISTAKES])
def test_mistake_is_pointed_at(text: str, message: str, column: int) -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint(text, 3)
    shown = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert str(caught.value) == f"{message}\n{shown}\n{' ' * column}^"


NAMING_MISTAKES = [
    (["cat", "dog"], "count(cot) == 1", "there is no class 'cot' (did you mean 'cat'?); the classes are cat, dog", 6),
    (["cat", "dog"], "any('mouse')", "there is no class 'mouse'; the classes are cat, dog", 4),
    (
        ["3", "7"],
        "any(7)",
        'class 7 is out of range: the classes are numbered 0..1; write "7" for the class of that name',
        4,
    ),
    (
        [f"class{i}" for i in range(20)],
        "any(clas19)",
        "there is no class 'clas19' (did you mean 'class19'?); the classes are numbered 0..19 and have names",
        4,
    ),
]


@pytest.mark.parametrize(("classes", "text", "message", "column"), NAMING_MISTAKES)
def test_wrong_name_gets_the_nearest_one(classes: list[str], text: str, message: str, column: int) -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint(text, classes)
    assert str(caught.value) == f"{message}\n{text}\n{' ' * column}^"


def test_newlines_are_spaces_in_the_error_too() -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint("any(0) and\n any(7)", 2)
    assert str(caught.value).splitlines()[1:] == ["any(0) and  any(7)", " " * 16 + "^"]


def test_caret_counts_characters_not_bytes() -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint("any(猫) and any(7)", ["猫", "犬"])
    assert str(caught.value).splitlines()[1:] == ["any(猫) and any(7)", " " * 15 + "^"]


def test_long_text_is_shown_around_the_caret() -> None:
    text = "any(0) and " * 100 + "any(7)" + " or any(1)" * 100
    with pytest.raises(ConstraintError) as caught:
        constraint(text, 2)
    _, shown, caret = str(caught.value).splitlines()
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert len(shown) == 106
    assert shown[caret.index("^")] == "7"


def test_error_can_travel_between_processes() -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint("any(7)", 2)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("classes", "length", "message"),
    [
        (0, None, "there must be at least one class, found classes=0"),
        ([], None, "class names must be distinct and at least one; found []"),
        (["a", "a"], None, "class names must be distinct and at least one; found ['a', 'a']"),
        ("ab", None, "classes must be a number or a list of names, found the text 'ab'"),
        (2, -1, "length must be at least 0, found length=-1"),
    ],
)
def test_wrong_arguments_are_named(classes: int | Sequence[str], length: int | None, message: str) -> None:
    with pytest.raises(ConstraintError, match=f"^{re.escape(message)}$"):
        constraint("True", classes, length)


# Texts meant to hurt

HOSTILE = [
    ("x" * 10_000, "the text has 10,000 characters; at most 9,999 are read"),
    ("(" * 500 + "any(1)" + ")" * 500, "nested more than 100 deep; simplify the text"),
    ("not " * 500 + "any(1)", "nested more than 100 deep; simplify the text"),
    ("-" * 500 + "1 == 1", "nested more than 100 deep; simplify the text"),
    ("any(" * 500, "nested more than 100 deep; simplify the text"),
    ("y[" * 500, "nested more than 100 deep; simplify the text"),
    ("{" * 500, "nested more than 100 deep; simplify the text"),
    ("any(1) if any(1) else " * 400, "nested more than 100 deep; simplify the text"),
    ("__import__('os').system('true')", "'.' is not part of the language; leave it out"),
    ("__import__('os')", "there is no function '__import__'"),
    ("eval('1')", "there is no function 'eval'"),
    ("y.__class__ == 1", "'.' is not part of the language; leave it out"),
    ("lambda: 1", "there is no class 'lambda'"),
    ("number(y[0:1000000000]) == 1", "a number of 1,000,000,000 digits; at most 1,000 are read"),
    ("once(" + "previous(" * 14 + "1" + ")" * 15, "more than 14 operators that look back are too many for one formula"),
    (
        "eventually(last and " + "previous(" * 13 + "1" + ")" * 14 + " and count(1) == 20",
        "this needs more than 100,000",
    ),
    ("sum(y[0:1000000000]) == 1", "this needs more than 100,000 states; simplify it"),
    ("sum(y[::99991]) + sum(y[::99989]) == 1", "this needs more than 100,000 states; simplify it"),
    ("sum(y) % 1000000000 == 1", "this needs more than 100,000 states; simplify it"),
    ("f'{1}' == 1", "there is no class 'f'"),
    ("[y for y in y] == 1", "y alone stands for each label"),
    ("(y := 1) == 1", "assignment is not part of the language"),
    ("count(1) == 1000000000", "this needs more than 100,000 states; simplify it"),
    ("count(1) == 1000000 * 1000000", "this needs more than 100,000 states; simplify it"),
    ("0.000001 * count(1) == 1", "this needs more than 100,000 states; simplify it"),
    ("y[1000000000] == 1", "this needs more than 100,000 states; simplify it"),
    ("y[-40] == 1", "this needs more than 100,000 states; simplify it"),
    ("regex('0{1,100000000}')", "this needs more than 100,000 states; simplify it"),
    ("regex('" + "(" * 500 + "')", "parentheses are nested more than 50 deep"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "message"), HOSTILE, ids=[text[:30] for text, _ in HOSTILE])
def test_hostile_text_is_refused_quickly(text: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises(ConstraintError) as caught:
        constraint(text, 2)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 3
    assert time.process_time() - began < 5  # well under one second on a quiet core


def test_states_in_the_message_follow_the_budget() -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint("any(0) and count(1) == 50", 2, max_states=20)
    assert str(caught.value) == (
        "this needs more than 20 states; simplify it, give length= if it counts from the end, "
        "or raise max_states\nany(0) and count(1) == 50\n" + " " * 11 + "^"
    )
    assert constraint("count(1) == 50", 2, max_states=60) == exactly(50)


def test_long_but_harmless_texts_are_read() -> None:
    assert constraint(" or ".join(["any(1)"] * 990), 2) == constraint("any(1)", 2)
    assert constraint("1 + " * 2_400 + "count(1) == 2401", 2) == exactly(1)


def read_or_refused(text: str, classes: int | Sequence[str]) -> tuple[Automaton | None, list[str]]:
    """The automaton of a text, or the lines of the error."""
    try:
        return constraint(text, classes), []
    except ConstraintError as error:
        return None, str(error).split("\n")


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [
        ("(", "any(1)", ")"),
        ("not ", "any(1)", ""),
        ("any(0) and (", "any(1)", ")"),
        ("any(1) if any(0) else ", "any(1)", ""),
        ("any(1) if (", "any(0)", ") else any(1)"),
        ("any(0) or (not any(1) if any(2) else any(1) and (", "any(0)", "))"),
        ("any(0) or any(1) and 0 < 1 + 1 * (", "1", ")"),
    ],
)
def test_deepest_text_that_is_read_overflows_nothing(opening: str, inner: str, closing: str) -> None:
    for depth in (1, 14, 19, 24, 32, 48, MAX_NESTING - 2, MAX_NESTING):
        automaton, lines = read_or_refused(opening * depth + inner + closing * depth, 3)
        assert automaton is not None or lines[0].startswith(("nested more than", "expected a count", "expected a cond"))
