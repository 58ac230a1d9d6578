"""Sums, numbers, slices, order and time: texts against plain Python on all labelings up to length six."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glws.automata import Automaton, constraint
from glws.errors import ConstraintError

LONGEST = 6
LIGHTS = ["red", "green", "amber"]
VALUES = {"price": [0.5, 3, 1.25], "score": [-1, 0, 2], "odd": [1, 3, 7], "debt": [-1, -2, -4]}
PRICE, SCORE, ODD, DEBT = ([Fraction(str(value)) for value in table] for table in VALUES.values())
Labeling = tuple[int, ...]
Predicate = Callable[[Labeling], bool]


def digits(labels: Sequence[int], size: int, base: int = 3) -> int:
    """The number with these digits, of which there must be `size` (-1: any number)."""
    if size not in (len(labels), -1):
        raise IndexError
    return sum(label * base**place for place, label in enumerate(reversed(labels)))


def holds(predicate: Predicate, labeling: Labeling) -> bool:
    """A predicate that asks for a label that is not there, or for the extremes of none, does not hold."""
    try:
        return bool(predicate(labeling))
    except (IndexError, ValueError):
        return False


def after(y: Labeling, first: int, then: int) -> bool:
    return all(y[place + 1 :][:1] == (then,) for place, label in enumerate(y) if label == first)


def worth(table: Sequence[Fraction], labels: Sequence[int]) -> Fraction:
    return sum((table[label] for label in labels), Fraction(0))


TEXTS: list[tuple[str, Predicate]] = [
    # Sums
    ("sum(y) == 5", lambda y: sum(y) == 5),
    ("sum(y) != 5", lambda y: sum(y) != 5),
    ("sum(y) == 2.5", lambda y: False),
    ("sum(y) != 2.5", lambda y: True),
    ("not sum(y) == 2.5", lambda y: True),
    ("sum(y) <= 2.5", lambda y: sum(y) <= 2),
    ("sum(y) > 2.5", lambda y: sum(y) > 2),
    ("sum(y) >= 2.5", lambda y: sum(y) > 2),
    ("sum(y) < 2.5", lambda y: sum(y) <= 2),
    ("sum(y) < 3", lambda y: sum(y) < 3),
    ("sum(y) >= 0", lambda y: True),
    ("sum(y) < 0", lambda y: False),
    ("3 <= sum(y[0:4]) <= 6", lambda y: 3 <= sum(y[0:4]) <= 6),
    ("sum(y) in {2, 7}", lambda y: sum(y) in {2, 7}),
    ("sum(y) not in {2, 7}", lambda y: sum(y) not in {2, 7}),
    ("sum(y[1:]) == 4", lambda y: sum(y[1:]) == 4),
    ("sum(y[:3]) == 4", lambda y: sum(y[:3]) == 4),
    ("sum(y[:]) == 4", lambda y: sum(y) == 4),
    ("sum(y[::-1]) == 4", lambda y: sum(y) == 4),
    ("sum(y[::2]) == 3", lambda y: sum(y[::2]) == 3),
    ("sum(y[1::2]) == 3", lambda y: sum(y[1::2]) == 3),
    ("sum(y[1:6:2]) >= 3", lambda y: sum(y[1:6:2]) >= 3),
    ("sum(y[3:0:-1]) == 2", lambda y: sum(y[1:4]) == 2),
    ("sum(y[:2:-1]) == 2", lambda y: sum(y[3:]) == 2),
    ("sum(y[4:2]) == 0", lambda y: True),
    ("sum(y[::2]) + sum(y[::3]) == 4", lambda y: sum(y[::2]) + sum(y[::3]) == 4),
    ("sum(y[0:2]) == sum(y[2:4])", lambda y: sum(y[0:2]) == sum(y[2:4])),
    ("sum(y[0:2]) < sum(y[2:5])", lambda y: sum(y[0:2]) < sum(y[2:5])),
    ("sum(y[0:2]) >= 2 * sum(y[2:5]) - 1", lambda y: sum(y[0:2]) >= 2 * sum(y[2:5]) - 1),
    ("sum(y) - sum(y[0:2]) == 3", lambda y: sum(y[2:]) == 3),
    ("sum(y) - 2 * sum(y[0:2]) == 1", lambda y: sum(y[2:]) - sum(y[:2]) == 1),
    ("2 * sum(y[0:2]) - sum(y) > -2", lambda y: sum(y[:2]) - sum(y[2:]) > -2),
    ("sum(y) == 2 * count(2)", lambda y: y.count(1) == 0),
    ("sum(y) == count(1) + 4", lambda y: y.count(2) == 2),
    ("0.5 * sum(y) == 1.5", lambda y: sum(y) == 3),
    ("sum(y[0:3]) / 3 <= 1", lambda y: sum(y[0:3]) <= 3),
    ("sum(y) == 4 if any(2) else sum(y) == 3", lambda y: sum(y) == (4 if 2 in y else 3)),
    # Labels as numbers
    ("y[0] + y[1] == 3", lambda y: y[0] + y[1] == 3),
    ("not y[0] + y[1] == 3", lambda y: y[0] + y[1] != 3),
    ("y[0] + y[1] == y[2]", lambda y: y[0] + y[1] == y[2]),
    ("2 * y[0] - y[3] <= y[1]", lambda y: 2 * y[0] - y[3] <= y[1]),
    ("y[2] - y[2] == 0", lambda y: len(y) > 2),
    ("0 * y[2] == 0", lambda y: len(y) > 2),
    ("y[0] + 0 in {0, 2}", lambda y: y[0] in {0, 2}),
    ("count(2) == y[0]", lambda y: y.count(2) == y[0]),
    ("y[3] == sum(y[0:3])", lambda y: y[3] == sum(y[0:3])),
    ("sum(y) > 3 * y[1]", lambda y: sum(y) > 3 * y[1]),
    ("10*y[0] + y[1] > 11 and y[0] - 1 == 0", lambda y: 10 * y[0] + y[1] > 11 and y[0] == 1),
    # Tables of values
    ("sum(price) == 4.75", lambda y: worth(PRICE, y) == Fraction("4.75")),
    ("sum(price) <= 4", lambda y: worth(PRICE, y) <= 4),
    ("sum(price[0:3]) == 3", lambda y: worth(PRICE, y[0:3]) == 3),
    ("sum(price[1:5:2]) <= 1", lambda y: worth(PRICE, y[1:5:2]) <= 1),
    ("sum(score[0:3]) < 0", lambda y: worth(SCORE, y[0:3]) < 0),
    ("3 * y[1] - sum(price[0:4]) >= 0", lambda y: 3 * y[1] >= worth(PRICE, y[0:4])),
    ("sum(odd[0:3]) == 4", lambda y: worth(ODD, y[0:3]) == 4),
    ("sum(odd[0:3]) <= 4", lambda y: worth(ODD, y[0:3]) <= 4),
    ("sum(debt[0:3]) == 0", lambda y: worth(DEBT, y[0:3]) == 0),
    ("sum(debt[1:4]) >= -2", lambda y: worth(DEBT, y[1:4]) >= -2),
    ("sum(debt) > -4", lambda y: worth(DEBT, y) > -4),
    ("sum(price[1:3]) > 3.5", lambda y: worth(PRICE, y[1:3]) > 3.5),
    ("price[0] + price[1] == 3.5", lambda y: PRICE[y[0]] + PRICE[y[1]] == 3.5),
    ("price[1] < price[0]", lambda y: PRICE[y[1]] < PRICE[y[0]]),
    ("price[0] == 3", lambda y: PRICE[y[0]] == 3),
    ("sum(score[0:4]) == 1", lambda y: worth(SCORE, y[0:4]) == 1),
    ("sum(score) % 3 == 1", lambda y: worth(SCORE, y) % 3 == 1),
    ("sum(price) % 0.75 == 0.25", lambda y: worth(PRICE, y) % Fraction("0.75") == 0.25),
    ("number(score[0:2], base=10) >= 2", lambda y: 10 * SCORE[y[0]] + SCORE[y[1]] >= 2),
    # Remainders
    ("sum(y) % 3 == 0", lambda y: sum(y) % 3 == 0),
    ("sum(y) % 3 != 0", lambda y: sum(y) % 3 != 0),
    ("not sum(y) % 3 <= 1", lambda y: sum(y) % 3 > 1),
    ("1 < sum(y) % 4", lambda y: sum(y) % 4 > 1),
    ("sum(y) % 3 in {0, 2}", lambda y: sum(y) % 3 in {0, 2}),
    ("(count(1) - count(2)) % 3 == 2", lambda y: (y.count(1) - y.count(2)) % 3 == 2),
    ("(sum(y) + 1) % 2 == 0", lambda y: sum(y) % 2 == 1),
    ("(1 - sum(y)) % 4 == 3", lambda y: (1 - sum(y)) % 4 == 3),
    ("(7 % 4) * count(1) == 6", lambda y: y.count(1) == 2),
    ("length % 2 == 1", lambda y: len(y) % 2 == 1),
    ("parity(y) == 1", lambda y: sum(y) % 2 == 1),
    ("parity(y[1::2]) == 0", lambda y: sum(y[1::2]) % 2 == 0),
    ("number(y[0:4]) % 5 == 2", lambda y: digits(y[0:4], 4) % 5 == 2),
    ("(3*y[0] + 2*y[1] + y[2]) % 4 == 0", lambda y: (3 * y[0] + 2 * y[1] + y[2]) % 4 == 0),
    # Numbers
    ("number(y[0:3]) == 14", lambda y: digits(y[0:3], 3) == 14),
    ("not number(y[0:3]) == 14", lambda y: digits(y[0:3], 3) != 14),
    ("number(y[0:3]) != 14", lambda y: digits(y[0:3], 3) != 14),
    ("number(y[1:4]) > 11", lambda y: digits(y[1:4], 3) > 11),
    ("7 <= number(y[0:3], base=2) < 9", lambda y: 7 <= digits(y[0:3], 3, 2) < 9),
    ("number(y[0:3], base = 10) == 210", lambda y: y[0:3] == (2, 1, 0)),
    ("number(y[2::-1]) == 14", lambda y: digits(y[2::-1], 3) == 14 and len(y) > 2),
    ("number(y[4:1:-1]) < 5", lambda y: len(y) > 4 and digits(y[4:1:-1], 3) < 5),
    ("number(y[0:5:2]) >= 12", lambda y: digits(y[0:5:2], 3) >= 12),
    ("number(y[0:0]) == 0", lambda y: True),
    ("number(y[0:3]) == number(y[3:6])", lambda y: digits(y[0:3], 3) == digits(y[3:6], 3)),
    ("number(y[0:2]) + number(y[2:4]) == 11", lambda y: digits(y[0:2], 2) + digits(y[2:4], 2) == 11),
    ("number(y[0:2]) - number(y[2:4]) < 2", lambda y: digits(y[0:2], 2) - digits(y[2:4], 2) < 2),
    (
        "number(y[0:2]) + number(y[2:4]) == number(y[4:6])",
        lambda y: digits(y[0:2], 2) + digits(y[2:4], 2) == digits(y[4:6], 2),
    ),
    (
        "number(y[0:4:3]) + number(y[1:5:3]) == number(y[2:6:3])",
        lambda y: digits(y[0:4:3], 2) + digits(y[1:5:3], 2) == digits(y[2:6:3], 2),
    ),
    ("number(y[0:6:2]) <= number(y[1:6:2])", lambda y: digits(y[0:6:2], 3) <= digits(y[1:6:2], 3)),
    ("number(y[0:2]) == y[2] + y[3]", lambda y: digits(y[0:2], 2) == y[2] + y[3]),
    ("2 * number(y[0:2]) - count(1) == 7", lambda y: 2 * digits(y[0:2], 2) - y.count(1) == 7),
    ("number(y[0:2]) == 3 or length < 2", lambda y: len(y) < 2 or digits(y[0:2], 2) == 3),
    # Slices in counts and quantifiers
    ("count(y[0:4] == 1) == 2", lambda y: y[0:4].count(1) == 2),
    ("count(y[::2] in {0, 2}) >= 2", lambda y: sum(label != 1 for label in y[::2]) >= 2),
    ("count(y[0:3] == 1) == count(y[3:6] == 2)", lambda y: y[0:3].count(1) == y[3:6].count(2)),
    ("any(y[2:] == 0)", lambda y: 0 in y[2:]),
    ("all(y[1:4] != 2)", lambda y: 2 not in y[1:4]),
    ("none(y[::3] == 1)", lambda y: 1 not in y[::3]),
    ("not all(y[1:4] != 2)", lambda y: 2 in y[1:4]),
    ("all(y[::2] == y[0])", lambda y: len(set(y[::2])) <= 1),
    ("any(y[0:2] > y[3])", lambda y: any(label > y[3] for label in y[0:2])),
    ("all(y[2:5] >= y[1])", lambda y: all(label >= y[1] for label in y[2:5])),
    ("any(y[1::2] == y[-1])", lambda y: any(label == y[-1] for label in y[1::2])),
    ("all(y[0:2] != y[-1] and y[0:2] != y[2])", lambda y: all(label not in (y[-1], y[2]) for label in y[0:2])),
    # Order and extremes
    ("sorted(y)", lambda y: list(y) == sorted(y)),
    ("not sorted(y)", lambda y: list(y) != sorted(y)),
    ("sorted(y[::-1])", lambda y: list(y)[::-1] == sorted(y)),
    ("sorted(y[1:4])", lambda y: list(y[1:4]) == sorted(y[1:4])),
    ("sorted(y[::2])", lambda y: list(y[::2]) == sorted(y[::2])),
    ("sorted(y[4:1:-1])", lambda y: list(y[2:5])[::-1] == sorted(y[2:5])),
    ("alldifferent(y)", lambda y: len(set(y)) == len(y)),
    ("not alldifferent(y)", lambda y: len(set(y)) < len(y)),
    ("alldifferent(y[1:3])", lambda y: len(set(y[1:3])) == len(y[1:3])),
    ("alldifferent(y[::2]) and alldifferent(y[1::2])", lambda y: all(len({*p}) == len(p) for p in (y[::2], y[1::2]))),
    ("max(y) == 1", lambda y: max(y) == 1),
    ("not max(y) == 1", lambda y: max(y) != 1),
    ("max(y) != green", lambda y: max(y) != 1),
    ("min(y) >= 1", lambda y: min(y) >= 1),
    ("min(y[0:3]) >= max(y[3:6])", lambda y: min(y[0:3]) >= max(y[3:6])),
    ("max(y[1:]) < y[0]", lambda y: max(y[1:]) < y[0]),
    ("max(y[1:]) < y[-1]", lambda y: max(y[1:]) < y[-1]),
    ("max(y) == y[-1]", lambda y: max(y) == y[-1]),
    ("y[2] == min(y[::2])", lambda y: y[2] == min(y[::2])),
    ("max(y[::2]) in {0, 2}", lambda y: max(y[::2]) in {0, 2}),
    ("y[1] in {max(y), min(y)}", lambda y: y[1] in {max(y), min(y)}),
    ("max(y) == y[0] if any(1) else min(y) == 0", lambda y: max(y) == y[0] if 1 in y else min(y) == 0),
    # Implication
    ("any(1) -> any(2)", lambda y: 1 not in y or 2 in y),
    ("any(0) -> any(1) -> any(2)", lambda y: 0 not in y or 1 not in y or 2 in y),
    ("(any(0) -> any(1)) -> any(2)", lambda y: (0 in y and 1 not in y) or 2 in y),
    ("any(0) or any(1) -> sum(y) == 2", lambda y: not (0 in y or 1 in y) or sum(y) == 2),
    ("any(1) if any(0) -> any(2) else any(0)", lambda y: 1 in y if 0 not in y or 2 in y else 0 in y),
    # Time
    ("always(red -> next(green))", lambda y: after(y, 0, 1)),
    ("always(red -> last or next(green))", lambda y: after((*y, 1), 0, 1)),
    ("always(y != 2)", lambda y: 2 not in y),
    ("always({red, 1})", lambda y: 2 not in y),
    ("eventually(amber)", lambda y: 2 in y),
    ("eventually(amber and next(amber))", lambda y: (2, 2) in itertools.pairwise(y)),
    ("eventually(next(next(green)))", lambda y: 1 in y[2:]),
    ("next(green)", lambda y: y[1] == 1),
    ("not next(green)", lambda y: y[1:2] != (1,)),
    ("until(red, green)", lambda y: re.match("0*1", "".join(map(str, y)))),
    ("until(red or amber, green and last)", lambda y: re.fullmatch("[02]*1", "".join(map(str, y)))),
    ("eventually(first and green)", lambda y: y[0] == 1),
    ("eventually(last and green)", lambda y: y[-1] == 1),
    ("always(last -> amber)", lambda y: y[-1:] != (0,) and y[-1:] != (1,)),
    ("since(red, green)", lambda y: re.fullmatch(".*10*", "".join(map(str, y)))),
    ("once(amber)", lambda y: 2 in y),
    ("historically(y != 2)", lambda y: 2 not in y),
    ("previous(amber)", lambda y: y[-2] == 2),
    ("always(green -> once(red))", lambda y: 1 not in y or 0 in y[: y.index(1)]),
    ("always(amber -> previous(green))", lambda y: all(y[j - 1 : j] == (1,) for j, k in enumerate(y) if k == 2)),
    ("once(red and next(green))", lambda y: (0, 1) in itertools.pairwise(y)),
    ("eventually(red) and not always(red)", lambda y: 0 in y and set(y) != {0}),
    ("always(eventually(green))", lambda y: y[-1:] in ((), (1,))),
    ("eventually(always(green))", lambda y: y[-1] == 1),
    ("always(green if first else True)", lambda y: y[:1] in ((), (1,))),
]  # fmt: skip

# These are about groups of a known length.

TEXTS_WITH_LENGTH: list[tuple[str, Predicate]] = [
    ("sum(y) == 2 * length - 3", lambda y: sum(y) == 2 * len(y) - 3),
    ("sum(y) > 1.2 * length", lambda y: 10 * sum(y) > 12 * len(y)),
    ("sum(y[0:2]) == sum(y[2:])", lambda y: sum(y[:2]) == sum(y[2:])),
    ("sum(y[::2]) > sum(y[1::2])", lambda y: sum(y[::2]) > sum(y[1::2])),
    ("sum(y[-3:]) == 4", lambda y: sum(y[-3:]) == 4),
    ("sum(y[:-1]) == 4", lambda y: sum(y[:-1]) == 4),
    ("sum(y[4::-2]) == 3", lambda y: sum(y[4::-2]) == 3),
    ("sum(y[::-3]) == 3", lambda y: sum(y[::-3]) == 3),
    ("sum(score) == 2", lambda y: worth(SCORE, y) == 2),
    ("sum(score[1:]) >= score[0]", lambda y: worth(SCORE, y[1:]) >= SCORE[y[0]]),
    ("sum(price) == 3 * sum(score)", lambda y: worth(PRICE, y) == 3 * worth(SCORE, y)),
    ("y[-1] + y[-2] == 2", lambda y: y[-1] + y[-2] == 2),
    ("(sum(y[:-1]) - y[-1]) % 3 == 0", lambda y: sum(y[:-1]) % 3 == y[-1]),
    ("number(y) == 14", lambda y: digits(y, len(y)) == 14),
    ("number(y[::-1]) == 14", lambda y: digits(y[::-1], len(y)) == 14),
    ("number(y[-3:]) <= 7", lambda y: digits(y[-3:], 3) <= 7),
    ("number(y[0:10]) == 0", lambda y: False),
    ("number(y[::2]) + number(y[1::2]) == 16", lambda y: digits(y[::2], -1) + digits(y[1::2], -1) == 16),
    ("number(y[::-2]) > number(y[-2::-2])", lambda y: len(y) > 1 and digits(y[::-2], -1) > digits(y[-2::-2], -1)),
    ("count(y[:3] == 1) == count(y[3:] == 1)", lambda y: y[:3].count(1) == y[3:].count(1)),
    ("majority(y[0:3] == 1)", lambda y: 2 * y[0:3].count(1) > len(y[0:3])),
    ("all(y[-2:] == y[0])", lambda y: not y[-2:] or all(label == y[0] for label in y[-2:])),
    ("max(y[-2:]) == 1", lambda y: max(y[-2:]) == 1),
    ("sorted(y[-3:])", lambda y: list(y[-3:]) == sorted(y[-3:])),
    ("alldifferent(y[:-3:-1])", lambda y: len(set(y[-2:])) == len(y[-2:])),
    ("max(y) == y[length - 1] and sum(y) > length", lambda y: max(y) == y[-1] and sum(y) > len(y)),
]  # fmt: skip


def labelings(length: int, num_classes: int = 3) -> list[Labeling]:
    return list(itertools.product(range(num_classes), repeat=length))


def check_minimal(automaton: Automaton) -> None:
    assert automaton.is_deterministic
    assert not automaton.is_weighted
    assert automaton.minimize().num_states == automaton.num_states


@pytest.mark.parametrize(("text", "predicate"), TEXTS, ids=[text for text, _ in TEXTS])
def test_text_means_what_plain_python_says(text: str, predicate: Predicate) -> None:
    automaton = constraint(text, LIGHTS, values=VALUES)
    check_minimal(automaton)
    for length in range(LONGEST + 1):
        expected = [y for y in labelings(length) if holds(predicate, y)]
        assert list(automaton.labelings(length)) == expected
        assert list(constraint(text, LIGHTS, length, values=VALUES).labelings(length)) == expected


@pytest.mark.parametrize(("text", "predicate"), TEXTS_WITH_LENGTH, ids=[text for text, _ in TEXTS_WITH_LENGTH])
def test_text_about_a_known_length_means_what_plain_python_says(text: str, predicate: Predicate) -> None:
    for length in range(LONGEST + 1):
        automaton = constraint(text, LIGHTS, length, values=VALUES)
        check_minimal(automaton)
        assert list(automaton.labelings(length)) == [y for y in labelings(length) if holds(predicate, y)]


# Random sums: coefficients and slices, drawn as a text and a function of the labels.


def read_or_refused(text: str) -> tuple[Automaton | None, str]:
    """The automaton of a text, or the error."""
    try:
        return constraint(text, LIGHTS, values=VALUES), ""
    except ConstraintError as error:
        return None, str(error)


COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ends = st.none() | st.integers(-3, 6)
slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 3, -1, -2]))
parts = st.tuples(st.integers(-2, 2), st.sampled_from(["y", *VALUES]), slices)


def shown(cut: slice) -> str:
    ends = [("" if end is None else str(end)) for end in (cut.start, cut.stop, cut.step)]
    return f"[{ends[0]}:{ends[1]}]" if cut.step is None else f"[{ends[0]}:{ends[1]}:{ends[2]}]"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(parts, min_size=1, max_size=3), st.sampled_from(sorted(COMPARE)), st.integers(-4, 8), st.integers(0, 4))
def test_random_sums_mean_what_plain_python_says(
    chosen: list[tuple[int, str, slice]], sign: str, bound: int, modulus: int
) -> None:
    text = " + ".join(f"{factor} * sum({name}{shown(cut)})" for factor, name, cut in chosen)
    text = f"({text}) % {modulus} {sign} {bound}" if modulus else f"{text} {sign} {bound}"
    tables = dict(zip(["y", *VALUES], [[Fraction(0), Fraction(1), Fraction(2)], PRICE, SCORE, ODD, DEBT], strict=True))

    def judge(y: Labeling) -> bool:
        total = sum((factor * worth(tables[name], y[cut]) for factor, name, cut in chosen), Fraction(0))
        return COMPARE[sign](total % modulus if modulus else total, bound)

    whole, message = read_or_refused(text)
    assert whole is not None or "needs the length of the group" in message
    for length in range(6):
        expected = [y for y in labelings(length) if judge(y)]
        automaton = constraint(text, LIGHTS, length, values=VALUES)
        check_minimal(automaton)
        assert list(automaton.labelings(length)) == expected
        assert whole is None or list(whole.labelings(length)) == expected


# Random formulas of time: each is a text and a function of (labels, time).

Moment = Callable[[Labeling, int], bool]
Drawn = tuple[str, Moment]


def one(word: str, part: Drawn) -> Drawn:
    def moment(y: Labeling, now: int) -> bool:
        ahead, behind = range(now, len(y)), range(now + 1)
        if word == "next":
            return now + 1 < len(y) and part[1](y, now + 1)
        if word == "previous":
            return now > 0 and part[1](y, now - 1)
        times = ahead if word in ("always", "eventually") else behind
        return (all if word in ("always", "historically") else any)(part[1](y, time) for time in times)

    return f"{word}({part[0]})", moment


def two(word: str, first: Drawn, then: Drawn) -> Drawn:
    def moment(y: Labeling, now: int) -> bool:
        if word == "until":
            return any(then[1](y, j) and all(first[1](y, i) for i in range(now, j)) for j in range(now, len(y)))
        return any(then[1](y, j) and all(first[1](y, i) for i in range(j + 1, now + 1)) for j in range(now + 1))

    return f"{word}({first[0]}, {then[0]})", moment


def joined(first: Drawn, word: str, then: Drawn) -> Drawn:
    join = {"and": lambda a, b: a and b, "or": lambda a, b: a or b, "->": lambda a, b: not a or b}[word]
    return f"({first[0]}) {word} ({then[0]})", lambda y, now: join(first[1](y, now), then[1](y, now))


AHEAD, BEHIND = ["always", "eventually", "next"], ["historically", "once", "previous"]
ATOMS: list[Drawn] = [
    ("red", lambda y, now: y[now] == 0),
    ("y != red", lambda y, now: y[now] != 0),
    ("first", lambda y, now: now == 0),
    ("last", lambda y, now: now == len(y) - 1),
    ("{red, 1}", lambda y, now: True),
]
moments = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds(one, st.sampled_from(AHEAD + BEHIND), inner),
        st.builds(two, st.sampled_from(["until", "since"]), inner, inner),
        st.builds(joined, inner, st.sampled_from(["and", "or", "->"]), inner),
        inner.map(lambda part: (f"not ({part[0]})", lambda y, now: not part[1](y, now))),
    ),
    max_leaves=5,
)


def check_time(text: str, moment: Moment, word: str) -> None:
    """The text is compared at the first label, or at the last where its operator looks back."""
    automaton = constraint(text, ["red", "green"])
    check_minimal(automaton)
    assert automaton.accepts([]) is (word in ("always", "historically"))
    for length in range(1, LONGEST + 1):
        now = 0 if word in (*AHEAD, "until") else length - 1
        assert list(automaton.labelings(length)) == [y for y in labelings(length, 2) if moment(y, now)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(AHEAD + BEHIND), moments)
def test_random_formulas_of_time_mean_what_a_plain_evaluator_says(word: str, part: Drawn) -> None:
    check_time(*one(word, part), word)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(["until", "since"]), moments, moments)
def test_random_formulas_of_two_parts_mean_what_a_plain_evaluator_says(word: str, first: Drawn, then: Drawn) -> None:
    check_time(*two(word, first, then), word)


SAME_MEANING = [
    ("sum(y) == 5", "count(1) + 2 * count(2) == 5"),
    ("sum(y[:]) == 5", "sum(y) == 5"),
    ("count(y[::1] == 2) >= 1", "any(2)"),
    ("number(y[0:2]) == number(y[1:3])", "y[0] == y[1] == y[2]"),
    ("number(y[0:3]) < number(y[0:3]) + 1", "length >= 3"),
    ("sum(y) % 1 == 0", "True"),
    ("max(y) == 2", "any(2)"),
    ("min(y) == 2", "all(2) and length > 0"),
    ("sorted(y)", 'regex("0*1*2*")'),
    ("sorted(y) and alldifferent(y)", 'regex("0?1?2?")'),
    ("always(y == 1)", "all(1)"),
    ("eventually(1 -> 2)", "any(y != 1)"),
    ("always(0 -> next(until(0, 1)))", 'regex("([12]|0+1)*")'),
    ("not until(True, 2)", "none(2)"),
    ("always(last -> once(1))", "any(1) or length == 0"),
]


@pytest.mark.parametrize(("one", "other"), SAME_MEANING)
def test_same_meaning_gives_the_same_automaton(one: str, other: str) -> None:
    assert constraint(one, 3) == constraint(other, 3)


# Sizes: what a step must remember, and no more.


def test_addition_read_digit_by_digit_remembers_little_more_than_the_carry() -> None:
    def columns(digits: int, slices: str) -> Automaton:
        text = "number(y[{}]) + number(y[{}]) == number(y[{}])".format(*slices.split())
        return constraint(text, 10, length=3 * digits)

    lowest_first = columns(40, "-3::-3 -2::-3 -1::-3")  # of each column, a and b and s, from the last column back
    assert lowest_first.num_states < 40 * 40
    highest_first = columns(40, "::3 1::3 2::3")
    assert highest_first.num_states < 40 * 40
    assert highest_first.accepts([0, 0, 1, 5, 6, 1] + [0, 0, 0] * 37 + [2, 7, 9])
    assert not highest_first.accepts([0, 0, 0, 5, 6, 1] + [0, 0, 0] * 37 + [2, 7, 9])


def test_comparison_of_long_numbers_remembers_what_is_undecided() -> None:
    assert constraint("number(y[0:200:2]) < number(y[1:200:2])", 10).num_states < 200 * 12
    lowest_first = constraint("number(y[::-2]) > number(y[-2::-2])", 10, length=80)
    assert lowest_first.num_states < 80 * 21
    assert constraint("number(y[0:60]) == 123456789", 10).num_states == 61
    assert constraint("number(y[59::-1]) % 7 == 3", 10).num_states <= 60 * 7 + 1


def test_a_known_sum_of_two_numbers_needs_the_first_of_them() -> None:
    assert constraint("number(y[0:2]) + number(y[2:4]) == 131", 10).num_states < 150


MISTAKES = [
    ({"sum": [1, 2, 3]}, "a table of values cannot be called 'sum'; choose another name"),
    ({"red": [1, 2, 3]}, "a table of values cannot be called 'red'; choose another name"),
    ({"a b": [1, 2, 3]}, "a table of values cannot be called 'a b'; choose another name"),
    ({"price": [1, 2]}, "values 'price': expected one for each of 3 classes, found 2"),
    ({"price": [1, 2, float("nan")]}, "values 'price': expected finite numbers, found [1, 2, nan]"),
    ({"price": [1, 2, "cheap"]}, "values 'price': expected finite numbers, found [1, 2, 'cheap']"),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_wrong_tables_are_named(values: dict[str, list[float]], message: str) -> None:
    with pytest.raises(ConstraintError, match=f"^{re.escape(message)}$"):
        constraint("True", LIGHTS, values=values)


TABLE_MISTAKES = [
    ("price == 3", "price alone stands for each label inside a function, as in sum(price); write price[0]", 0),
    ("price[0:2] == 3", "a slice of price stands inside a function, as in sum(price[0:3])", 0),
    ("sum(prise) == 3", "there is no class 'prise' (did you mean 'price'?); the classes are red, green, amber", 4),
    ("max(price) == 3", "max takes y or a slice of it, as in max(y[0:3])", 4),
    ("count(price) == 3", "expected a count or a number, found values one by one", 6),
    ("sum(price) * sum(y) == 3", "counts cannot be multiplied with each other; multiply by a number", 11),
]


@pytest.mark.parametrize(("text", "message", "column"), TABLE_MISTAKES)
def test_wrong_use_of_a_table_is_pointed_at(text: str, message: str, column: int) -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint(text, LIGHTS, values=VALUES)
    assert str(caught.value) == f"{message}\n{text}\n{' ' * column}^"


def test_alldifferent_of_many_classes_is_for_short_groups() -> None:
    with pytest.raises(ConstraintError) as caught:
        constraint("any(0) and alldifferent(y)", 26)
    assert str(caught.value).splitlines()[0] == (
        "alldifferent remembers which of 26 classes occurred, which needs more than 100,000 states; "
        "use it on shorter slices, or raise max_states"
    )
    assert constraint("alldifferent(y[0:3])", 26).count(3) == 26 * 25 * 24
