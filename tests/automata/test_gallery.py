"""The programs of docs/programs.md against plain Python, on all labelings of small lengths."""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from glws.automata import Automaton, exactly, from_counts, state_budget, string
from glws.errors import AutomatonError, StateBudgetError

PAGE = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
Labels = tuple[int, ...]


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page() -> dict[str, object]:
    """Everything that the page defines."""
    namespace: dict[str, object] = {}
    for block in blocks():
        exec(compile(block, "programs.md", "exec", dont_inherit=True), namespace)
    return namespace


def text(y: Labels, letters: str) -> str:
    return "".join(letters[label] for label in y)


def columns(y: Labels, step: int) -> list[int]:
    """The numbers whose digits, the lowest first, are read in turn."""
    return [int("0" + text(y[start::step], "0123456789")[::-1]) for start in range(step)]


def is_addition(y: Labels) -> bool:
    a, b, total = columns(y, 3)
    return len(y) % 3 == 0 and a + b == total


def is_luhn(y: Labels) -> bool:
    doubled = [int(digit) for label in y[-2::-2] for digit in str(2 * label)]
    return (sum(y[-1::-2]) + sum(doubled)) % 10 == 0


def is_isbn10(y: Labels) -> bool:
    return len(y) == 10 and 10 not in y[:9] and sum((10 - j) * digit for j, digit in enumerate(y)) % 11 == 0


def is_isbn13(y: Labels) -> bool:
    return len(y) == 13 and (sum(y[::2]) + 3 * sum(y[1::2])) % 10 == 0


def has_one_peak(y: Labels) -> bool:
    cuts = range(len(y) + 1)
    return any(list(y[:cut]) == sorted(y[:cut]) and list(y[cut:]) == sorted(y[cut:])[::-1] for cut in cuts)


def is_nested(y: Labels) -> bool:
    """Empty brackets are taken out until nothing is left, and there are never more than three open."""
    left = text(y, "()[]")
    depths = itertools.accumulate(1 if sign in "([" else -1 for sign in left)
    while "()" in left or "[]" in left:
        left = left.replace("()", "").replace("[]", "")
    return left == "" and max([0, *depths]) <= 3


def value(y: Labels) -> int | None:
    written = text(y, "012+*")
    return eval(written) if re.fullmatch(r"[012]([+*][012])*", written) else None


def is_lift(y: Labels) -> bool:
    floor, is_open = 0, False
    for word in text(y, "udoc"):
        if is_open != (word == "c"):
            return False
        floor, is_open = floor + {"u": 1, "d": -1}.get(word, 0), word == "o"
        if not 0 <= floor <= 2:
            return False
    return not is_open


def is_paid(y: Labels) -> bool:
    coins = [(1, 2, 5)[label] for label in y]
    return sum(coins) >= 7 > sum(coins[:-1])


def is_gene(y: Labels) -> bool:
    letters = text(y, "ACGT")
    codons = [letters[j : j + 3] for j in range(0, len(letters), 3)]
    stops = [place for place, codon in enumerate(codons) if codon in ("TAA", "TAG", "TGA")]
    return codons[:1] == ["ATG"] and stops == [len(codons) - 1]


# For each program: plain Python, the number of classes, and up to which length all labelings are tried.

PROGRAMS: dict[str, tuple[Callable[[Labels], bool], int, int]] = {
    "addition": (is_addition, 10, 4),
    "even_ones": (lambda y: sum(y) % 2 == 0, 2, 10),
    "seventh": (lambda y: int("0" + text(y, "01"), 2) % 7 == 0, 2, 10),
    "tripled": (lambda y: len(y) % 2 == 0 and 3 * columns(y, 2)[0] == columns(y, 2)[1], 10, 4),
    "luhn": (is_luhn, 10, 4),
    "isbn10": (is_isbn10, 11, 2),
    "isbn13": (is_isbn13, 10, 2),
    "ascending": (lambda y: list(y) == sorted(y), 4, 6),
    "one_peak": (has_one_peak, 4, 6),
    "in_order": (lambda y: re.search("0.*1.*2", text(y, "012")) is not None, 3, 7),
    "pairs_of_ones": (lambda y: re.fullmatch("(0|11+(?!1))*", text(y, "01")) is not None, 2, 10),
    "few_runs": (lambda y: len(list(itertools.groupby(y))) <= 3, 3, 7),
    "no_three_alike": (lambda y: re.search(r"(.)\1\1", text(y, "012")) is None, 3, 7),
    "brackets": (lambda y: is_nested(tuple(label for label in y if label < 2)), 3, 8),
    "two_brackets": (is_nested, 4, 8),
    "formula": (lambda y: value(y) == 4, 5, 5),
    "lift": (is_lift, 4, 6),
    "traffic_light": (lambda y: all((b - a) % 3 < 2 for a, b in itertools.pairwise((0, *y))), 3, 7),
    "vending": (is_paid, 3, 7),
    "time_of_day": (lambda y: re.fullmatch("([01][0-9]|2[0-3])[0-5][0-9]", text(y, "0123456789")) is not None, 10, 4),
    "gene": (is_gene, 4, 6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_accepts_what_plain_python_accepts(name: str, page: dict[str, object]) -> None:
    judge, num_classes, longest = PROGRAMS[name]
    automaton = page[name]
    assert isinstance(automaton, Automaton)
    assert automaton.minimize().num_states == automaton.num_states
    for length in range(longest + 1):
        labelings = itertools.product(range(num_classes), repeat=length)
        assert list(automaton.labelings(length)) == [y for y in labelings if judge(y)]


@pytest.mark.parametrize(("name", "length", "found"), [("isbn10", 10, 10**9), ("isbn13", 13, 10**12)])
def test_check_digits_of_books(name: str, length: int, found: int, page: dict[str, object]) -> None:
    judge, num_classes, _ = PROGRAMS[name]
    automaton, generator = page[name], random.Random(0)
    assert isinstance(automaton, Automaton)
    assert automaton.count(length) == found
    for _ in range(500):
        start = [generator.randrange(num_classes if generator.random() < 0.02 else 10) for _ in range(length - 1)]
        for last in range(num_classes):
            assert automaton.accepts([*start, last]) is judge((*start, last))


def test_books_that_exist_are_accepted(page: dict[str, object]) -> None:
    for name, number in [("isbn10", "080442957X"), ("isbn13", "9780306406157"), ("luhn", "79927398713")]:
        automaton = page[name]
        assert isinstance(automaton, Automaton)
        assert automaton.accepts([10 if digit == "X" else int(digit) for digit in number])


def test_programs_have_at_most_five_lines_and_all_are_tested() -> None:
    gallery = next(block for block in blocks() if "fold = Automaton.from_fold" in block)
    programs = [node for node in ast.parse(gallery).body if isinstance(node, ast.Assign)][1:]
    names = {ast.unparse(node.targets[0]) for node in programs} - {"STOPS"}
    assert names | {"addition"} == set(PROGRAMS)
    assert len(names) == 20
    assert all((node.end_lineno or 0) - node.lineno < 5 for node in programs)


# from_fold


def test_equal_programs_give_equal_automata_however_clumsy() -> None:
    clumsy = Automaton.from_fold((), lambda seen, y: (*seen, y)[-9:], lambda seen: seen[-2:] == (1, 1), 2)
    elegant = Automaton.from_fold(0, lambda ones, y: min(ones + 1, 2) * y, lambda ones: ones == 2, 2)
    assert clumsy == elegant
    assert clumsy.num_states == elegant.num_states == 3


def test_fold_that_never_accepts_is_the_empty_language() -> None:
    assert Automaton.from_fold(0, lambda s, y: None, lambda s: False, 3) == Automaton(1, 3, [])


def test_fold_with_too_many_states_stops_at_the_budget() -> None:
    with state_budget(50), pytest.raises(StateBudgetError, match=r"^the automaton grew past 50 states and was stopped"):
        Automaton.from_fold(0, lambda s, y: s + 1, lambda s: True, 2)


def test_state_that_cannot_be_hashed_is_named() -> None:
    message = "^a state must be hashable; after label 0, step gave the list \\[0\\]: use a tuple or a frozenset$"
    with pytest.raises(AutomatonError, match=message):
        Automaton.from_fold((), lambda s, y: [*s, y], lambda s: True, 2)
    with pytest.raises(AutomatonError, match=r"^a state must be hashable; init is the list \[\]: use a tuple"):
        Automaton.from_fold([], lambda s, y: (), lambda s: True, 2)  # type: ignore[type-var]
    with pytest.raises(AutomatonError, match=r"^num_classes must be an integer >= 1, found 0$"):
        Automaton.from_fold(0, lambda s, y: s, lambda s: True, 0)


# given


@pytest.mark.parametrize(
    "automaton",
    [
        exactly(2, num_symbols=3),
        Automaton.from_fold(0, lambda s, y: (2 * s + y) % 5, lambda s: s == 3, 3),
        from_counts([-1.0, 0.5, -2.0], num_symbols=3),
        Automaton(2, 3, [(0, 0, 0, -0.5), (0, 0, 1, -1.0), (0, 1, 1), (1, 2, 0), (1, 0, 1)], 0, [1], sum_paths=True),
        Automaton(2, 3, [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 2, 0), (1, 0, 1)], {0: 0.0, 1: 0.0}, [1]),
    ],
)
def test_given_labels_leave_the_weights_of_the_others(automaton: Automaton) -> None:
    for labels in ({}, {0: 1}, {1: 0, 3: 2}, {0: 0, 1: 0, 2: 0, 3: 0}, {3: 1}):
        rest = automaton.given(labels, length=4)
        for others in itertools.product(range(3), repeat=4 - len(labels)):
            left = iter(others)
            whole = [labels[place] if place in labels else next(left) for place in range(4)]
            found, wanted = rest.log_weight(others), automaton.log_weight(whole)
            assert found == wanted or abs(found - wanted) < 1e-12
        for length in {0, 1, 2, 3, 4, 5} - {4 - len(labels)}:
            assert rest.count(length) == 0


def test_given_labels_that_do_not_exist_are_named() -> None:
    with pytest.raises(AutomatonError, match=r"^instance 3 must be in 0\.\.2$"):
        string([0, 1, 1]).given({3: 1}, length=3)
    with pytest.raises(AutomatonError, match=r"^label 2 must be in 0\.\.1$"):
        string([0, 1, 1]).given({2: 2}, length=3)
