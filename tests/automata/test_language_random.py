"""Random constraint texts: well-formed ones against plain Python, any others are read or refused with three lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glws.automata import Automaton, constraint
from glws.errors import ConstraintError

ANIMALS = ["cat", "dog", "bird"]
Labeling = tuple[int, ...]


def check_minimal(automaton: Automaton) -> None:
    assert automaton.is_deterministic
    assert automaton.is_unambiguous()
    assert not automaton.is_weighted
    assert automaton.minimize().num_states == automaton.num_states


def read_or_refused(text: str, classes: int | Sequence[str]) -> tuple[Automaton | None, list[str]]:
    """The automaton of a text, or the lines of the error."""
    try:
        return constraint(text, classes), []
    except ConstraintError as error:
        return None, str(error).split("\n")


WORDS = [
    "any",
    "(",
    "1",
    ")",
    "any(1)",
    "not",
    "and",
    "count(1)",
    "==",
    "y[0]",
    "y",
    "[",
    "]",
    "in",
    "{",
    "}",
    ",",
    "-",
]
WORDS += ["if", "else", "regex", "'0'", "length"]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    automaton, lines = read_or_refused(text, 2)
    if automaton is None:
        assert len(lines) == 3
    else:
        check_minimal(automaton)


# Random texts: each is drawn as a pair of the text and a plain Python function of (labeling, y) that says True, False,
# or None for undefined; y is the label that a bare y stands for. No code is shared with the language.

Judge = Callable[[Labeling, "int | None"], "bool | None"]
Drawn = tuple[str, Judge]
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
signs = st.sampled_from(sorted(COMPARE))


def drawn_not(inner: Drawn) -> Drawn:
    def judge(labels: Labeling, y: int | None) -> bool | None:
        value = inner[1](labels, y)
        return None if value is None else not value

    return f"not ({inner[0]})", judge


def drawn_and(parts: list[Drawn]) -> Drawn:
    def judge(labels: Labeling, y: int | None) -> bool | None:
        values = [part[1](labels, y) for part in parts]
        return False if any(value is False for value in values) else None if None in values else True

    return " and ".join(f"({part[0]})" for part in parts), judge


def drawn_or(parts: list[Drawn]) -> Drawn:
    return " or ".join(f"({part[0]})" for part in parts), drawn_not(drawn_and([drawn_not(part) for part in parts]))[1]


def drawn_choice(parts: tuple[Drawn, Drawn, Drawn]) -> Drawn:
    condition, then, otherwise = parts

    def judge(labels: Labeling, y: int | None) -> bool | None:
        value = condition[1](labels, y)
        return None if value is None else (then if value else otherwise)[1](labels, y)

    return f"({then[0]}) if ({condition[0]}) else ({otherwise[0]})", judge


def combined(leaves: st.SearchStrategy[Drawn], max_leaves: int) -> st.SearchStrategy[Drawn]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(drawn_not),
            st.lists(inner, min_size=2, max_size=3).map(drawn_and),
            st.lists(inner, min_size=2, max_size=3).map(drawn_or),
            st.tuples(inner, inner, inner).map(drawn_choice),
        ),
        max_leaves=max_leaves,
    )


def drawn_count(weights: tuple[int, int, int], length_weight: int, sign: str, bound: int) -> Drawn:
    def judge(labels: Labeling, y: int | None) -> bool | None:
        total = sum(Fraction(weights[label], 2) for label in labels) + length_weight * len(labels)
        return COMPARE[sign](total, bound)  # type: ignore[arg-type]

    sums = " + ".join(f"{weight / 2} * count({name})" for weight, name in zip(weights, ANIMALS, strict=True))
    return f"{sums} {sign} {bound} - {length_weight} * length", judge


def drawn_quantifier(word: str, body: Drawn) -> Drawn:
    def judge(labels: Labeling, y: int | None) -> bool | None:
        every = drawn_and([("", lambda labels, y, label=label: body[1](labels, label)) for label in labels])
        some = drawn_or([("", lambda labels, y, label=label: body[1](labels, label)) for label in labels])
        value = (every if word == "all" else some)[1](labels, None)
        return value if word != "none" or value is None else not value

    return f"{word}({body[0]})", judge


def chains(bare: bool) -> st.SearchStrategy[Drawn]:
    """Chained comparisons of y[i], classes and, inside any and all, y; or membership in a set."""
    labels = [f"y[{index}]" for index in (0, 1, 3, -1, -2)] + (["y"] * 3 if bare else [])

    def value(term: str, known: Labeling, y: int | None) -> int | None:
        if term == "y":
            return y
        if term in ANIMALS or term.isdigit():
            return ANIMALS.index(term) if term in ANIMALS else int(term)
        index = int(term[2:-1])
        return known[index] if -len(known) <= index < len(known) else None

    def chain(first: str, rest: list[tuple[str, str]]) -> Drawn:
        def link(left: str, sign: str, right: str) -> Drawn:
            def judge(known: Labeling, y: int | None) -> bool | None:
                a, b = value(left, known, y), value(right, known, y)
                return None if a is None or b is None else COMPARE[sign](a, b)

            return f"{left} {sign} {right}", judge

        terms = [first] + [term for _, term in rest]
        links = [link(terms[i], sign, terms[i + 1]) for i, (sign, _) in enumerate(rest)]
        return " ".join([first] + [f"{sign} {term}" for sign, term in rest]), drawn_and(links)[1]

    def member(term: str, inside: list[str], negated: bool) -> Drawn:
        found = drawn_or([chain(term, [("==", other)]) for other in inside])
        judge = drawn_not(found)[1] if negated else found[1]
        return f"{term} {'not in' if negated else 'in'} {{{', '.join(inside)}}}", judge

    terms = st.sampled_from([*labels, "cat", "dog"])
    return st.one_of(
        st.builds(chain, st.sampled_from(labels), st.lists(st.tuples(signs, terms), min_size=1, max_size=2)),
        st.builds(
            member, st.sampled_from(labels), st.lists(terms | st.just("2"), min_size=1, max_size=3), st.booleans()
        ),
    )


small = st.integers(-3, 3)
LEAVES = st.one_of(
    st.builds(drawn_count, st.tuples(small, small, small), st.just(0), signs, small),
    st.builds(drawn_count, st.tuples(small, small, small), st.integers(-1, 1), signs, small),
    chains(bare=False),
    st.builds(drawn_quantifier, st.sampled_from(["any", "all", "none"]), combined(chains(bare=True), 3)),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(combined(LEAVES, 5))
def test_random_text_means_what_plain_python_says(drawn: Drawn) -> None:
    text, judge = drawn
    for length in range(5):
        expected = [y for y in itertools.product(range(3), repeat=length) if judge(y, None)]
        assert list(constraint(text, ANIMALS, length=length).labelings(length)) == expected
    automaton, lines = read_or_refused(text, ANIMALS)
    if automaton is None:
        assert "needs the length of the group" in lines[0]
        return
    check_minimal(automaton)
    for length in range(5):
        assert list(automaton.labelings(length)) == [
            y for y in itertools.product(range(3), repeat=length) if judge(y, None)
        ]
