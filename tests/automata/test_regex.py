"""Regular expressions against Python's own, over all labelings; mistakes; patterns meant to hurt."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glws.automata import Automaton, anything, at_least, exactly, from_regex, nothing, state_budget, string
from glws.errors import ConstraintError, StateBudgetError

LONGEST = 6


def check_against_python(pattern: str, num_symbols: int) -> Automaton:
    automaton = from_regex(pattern, num_symbols)
    known = re.compile(pattern.replace(" ", ""))
    for length in range(LONGEST + 1):
        words = itertools.product(range(num_symbols), repeat=length)
        expected = [word for word in words if known.fullmatch("".join(map(str, word)))]
        assert list(automaton.labelings(length)) == expected
    assert automaton.is_deterministic
    assert automaton.minimize().num_states == automaton.num_states
    return automaton


PATTERNS = [
    "",
    "()",
    "0",
    "012",
    "0|1",
    "0|",
    "|0|12",
    "0*",
    "0+1?",
    "(01)*",
    "(0|12)+",
    "0{3}",
    "0{2,}",
    "0{2,4}",
    "0{0}",
    "(01|2){1,2}",
    "(0?){3}",
    "(0*)*",
    "((0*)+)?",
    "(0?1?){2,3}",
    "0*1+0*",
    "[01]2*",
    "[^0]*",
    "[0-2]{2}",
    "[^0-1]",
    ".*1.{2}",
    ".",
    "(.0)*",
    "0 1 * 2",
    "((((0))))",
    "(0|1)*2(0|1)*",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_means_what_python_says(pattern: str) -> None:
    check_against_python(pattern, 3)


EXPRESSIONS = st.recursive(
    st.sampled_from(["0", "1", "2", ".", "[01]", "[^1]", "()"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}"])).map(lambda p: f"({p[0]}){p[1]}"),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_random_pattern_means_what_python_says(pattern: str) -> None:
    check_against_python(pattern, 3)


def test_same_language_written_differently() -> None:
    assert from_regex(".*", 3) == anything(3)
    assert from_regex("0*10*10*") == exactly(2)
    assert from_regex("(0*1){3}.*") == at_least(3)
    assert from_regex("01?") == (string([0]) | string([0, 1]))
    assert from_regex("[^0]", 1) == nothing(1)
    assert from_regex("{,2}".join(["0", ""])) == from_regex("0{0,2}")


def test_larger_numbers_and_names() -> None:
    animals = ["cat", "dog", "hot dog"]
    assert from_regex("<12>", 13) == string([12], 13)
    assert from_regex("[<10>-<12>]", 13) == string([10], 13) | string([11], 13) | string([12], 13)
    assert from_regex("<cat><hot dog>", classes=animals) == string([0, 2], 3)
    assert from_regex("[^<cat> <dog>]", classes=animals) == string([2], 3)
    assert from_regex("0<1>", classes=animals) == string([0, 1], 3)
    assert from_regex("<1>", classes=["zero", "one", "1"]) == string([2], 3)  # a name comes before a number


MISTAKES = [
    ("0)", "this ')' closes nothing", 1),
    ("0(1(", "this '(' is never closed", 3),
    ("[01", "this '[' is never closed", 0),
    ("0 <12", "this '<' is never closed", 2),
    ("0**", "two repeats in a row; put parentheses around the first", 2),
    ("0+?", "two repeats in a row; put parentheses around the first", 2),
    ("*0", "there is nothing to repeat before '*'", 0),
    ("0|+", "there is nothing to repeat before '+'", 2),
    ("(?0)", "there is nothing to repeat before '?'", 1),
    ("{2}", "there is nothing to repeat before '{'", 0),
    ("0{", "a repeat must be written {m}, {m,}, {,n} or {m,n}", 1),
    ("0{,}", "a repeat must be written {m}, {m,}, {,n} or {m,n}", 1),
    ("0{}", "a repeat must be written {m}, {m,}, {,n} or {m,n}", 1),
    ("0{x}", "a repeat must be written {m}, {m,}, {,n} or {m,n}", 1),
    ("00{3,2}", "the repeat asks for at least 3 and at most 2; write the smaller first", 2),
    ("0{1,9999999999999999999}", "a number of 19 digits; at most 18 are read", 4),
    ("02", "there is no class '2'; the classes are 0..1", 1),
    ("<cat>", "there is no class 'cat'; the classes are 0..1", 0),
    ("0cat", "class names are written in angle brackets, like <cat>", 1),
    ("[]", "an empty set matches no label; write . for any class", 0),
    ("[1-0]", "the range runs backwards; write the smaller class first", 1),
    ("[0-", "the pattern ends where a class is expected", 3),
    ("^0", "a pattern always covers the whole labeling, leave '^' out", 0),
    ("0$", "a pattern always covers the whole labeling, leave '$' out", 1),
    ("\\d", "there are no escapes; classes are digits, <numbers> or <names>", 0),
    ("[0,1]", "',' is not allowed here; expected a class", 2),
    ("0\0", "'\\x00' is not allowed here; expected a class", 1),
    ("\N{ARABIC-INDIC DIGIT ONE}", "'\N{ARABIC-INDIC DIGIT ONE}' is not allowed here; expected a class", 0),
]


@pytest.mark.parametrize(("pattern", "message", "column"), MISTAKES)
def test_mistake_is_pointed_at(pattern: str, message: str, column: int) -> None:
    with pytest.raises(ConstraintError) as caught:
        from_regex(pattern)
    assert str(caught.value) == f"{message}\n{pattern}\n{' ' * column}^".replace("\0", "\N{REPLACEMENT CHARACTER}")


def test_unknown_name_lists_the_classes() -> None:
    with pytest.raises(ConstraintError, match=r"^there is no class 'cow'; the classes are 0\.\.1, <cat>, <dog>\n"):
        from_regex("<cow>", classes=["cat", "dog"])


def test_no_class_at_all_is_refused() -> None:
    with pytest.raises(ConstraintError, match="a pattern needs at least one class, found num_symbols=0"):
        from_regex("", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(" * 500 + ")" * 500, "parentheses are nested more than 50 deep"),
        ("0" * 10_000, "the pattern has 10,000 characters; at most 9,999 are read"),
        ("0?" * 1_000, "the pattern has too many remainders and was stopped; simplify it"),
        ("(0|00){0,50000}", "the pattern has too many remainders and was stopped; simplify it"),
        ("0{1,100000000}", "grew past 100,000 states"),
        (".*1.{40}", "grew past 100,000 states"),
    ],
)
def test_hostile_pattern_is_refused_quickly(pattern: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises((ConstraintError, StateBudgetError), match=message):
        from_regex(pattern)
    assert time.process_time() - began < 10  # far below what writing it out would take, far above a slow machine


def test_deepest_allowed_nesting_is_read() -> None:
    assert from_regex("(0|" * 50 + "1" + ")" * 50) == from_regex("0|1")


def test_long_plain_pattern_is_read() -> None:
    assert from_regex("01" * 4_999).num_states == 9_999


def test_state_budget_applies() -> None:
    with state_budget(10), pytest.raises(StateBudgetError):
        from_regex("0{20}")
