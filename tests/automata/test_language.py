"""Constraint texts against plain Python predicates over all labelings, and texts that mean the same."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from glws.automata import (
    Automaton,
    all_equal,
    anything,
    at_least,
    at_most,
    between,
    constraint,
    exactly,
    from_regex,
    majority,
    nothing,
)
from glws.errors import ConstraintError

LONGEST = 6
ANIMALS = ["cat", "dog", "bird"]
Labeling = tuple[int, ...]
Predicate = Callable[[Labeling], bool]


def all_labelings(length: int, num_classes: int = 3) -> list[Labeling]:
    return list(itertools.product(range(num_classes), repeat=length))


def holds(predicate: Predicate, labeling: Labeling) -> bool:
    """A predicate that asks for a label that is not there does not hold."""
    try:
        return bool(predicate(labeling))
    except IndexError:
        return False


def check_minimal(automaton: Automaton) -> None:
    assert automaton.is_deterministic
    assert automaton.is_unambiguous()
    assert not automaton.is_weighted
    assert automaton.minimize().num_states == automaton.num_states


# Three classes: cat, dog, bird. Every text is compiled with and without the length of the group.

TEXTS: list[tuple[str, Predicate]] = [
    ("True", lambda y: True),
    ("False", lambda y: False),
    ("count(1) == 3", lambda y: y.count(1) == 3),
    ("count(1) != 3", lambda y: y.count(1) != 3),
    ("count(dog) < 2", lambda y: y.count(1) < 2),
    ("count(dog) > 2", lambda y: y.count(1) > 2),
    ("count(1) <= 2.5", lambda y: y.count(1) <= 2.5),
    ("count(1) == 2.5", lambda y: False),
    ("count(1) >= -1", lambda y: True),
    ("count(1) < 0", lambda y: False),
    ("count(cat) >= 1 and count(dog) == 2", lambda y: y.count(0) >= 1 and y.count(1) == 2),
    ("2 <= count(1) <= 5", lambda y: 2 <= y.count(1) <= 5),
    ("2 <= count(1) <= 5 != length", lambda y: 2 <= y.count(1) <= 5 != len(y)),
    ("count(1) in {0, 2, 4}", lambda y: y.count(1) in {0, 2, 4}),
    ("count(1) not in [1, 3]", lambda y: y.count(1) not in [1, 3]),
    ("count({cat, dog}) <= 2", lambda y: y.count(0) + y.count(1) <= 2),
    ("count(y != bird) <= 2", lambda y: sum(label != 2 for label in y) <= 2),
    ("count(y >= 1 and not y == 2) == 1", lambda y: y.count(1) == 1),
    ("count(1) + 2*count(2) == 4", lambda y: y.count(1) + 2 * y.count(2) == 4),
    ("4 >= count(1) + 2*count(2)", lambda y: y.count(1) + 2 * y.count(2) <= 4),
    ("(count(1) + count(2)) / 2 > 1", lambda y: y.count(1) + y.count(2) > 2),
    ("-count(1) >= -2", lambda y: y.count(1) <= 2),
    ("3 - count(1) > +1", lambda y: y.count(1) < 2),
    ("0.5 * count(1) + 1.5 * count(2) == 2", lambda y: y.count(1) + 3 * y.count(2) == 4),
    ("count(1) - count(1) == 0", lambda y: True),
    ("1 + 1 == 2", lambda y: True),
    ("2 * 3 - 4 / 2 != 4", lambda y: False),
    ("length >= 3", lambda y: len(y) >= 3),
    ("length == 0", lambda y: not y),
    ("2 < length != 4", lambda y: 2 < len(y) != 4),
    ("count(1) <= length", lambda y: True),
    ("length - count(0) == 2", lambda y: len(y) - y.count(0) == 2),
    ("count(0) + count(dog) + count(2) == length", lambda y: True),
    ("any(2)", lambda y: 2 in y),
    ("not any(2)", lambda y: 2 not in y),
    ("none(2)", lambda y: 2 not in y),
    ("none({cat, dog})", lambda y: all(label == 2 for label in y)),
    ("all(bird)", lambda y: all(label == 2 for label in y)),
    ("any({0, bird})", lambda y: 0 in y or 2 in y),
    ("any(y == 2)", lambda y: 2 in y),
    ("all(y != 1)", lambda y: 1 not in y),
    ("all(1 <= y)", lambda y: 0 not in y),
    ("any(0 < y < 2)", lambda y: 1 in y),
    ("all(y in {0, dog})", lambda y: 2 not in y),
    ("any(y not in {0, dog})", lambda y: 2 in y),
    ("all(y == 0 or y == 2)", lambda y: 1 not in y),
    ("any(y == 0 if True else y == 1)", lambda y: 0 in y),
    ("all(y == y[0])", lambda y: len(set(y)) <= 1),
    ("not all(y == y[0])", lambda y: len(set(y)) > 1),
    ("all(y == y[-1])", lambda y: len(set(y)) <= 1),
    ("all(y >= y[0])", lambda y: all(label >= y[0] for label in y)),
    ("any(y > y[0])", lambda y: any(label > y[0] for label in y)),
    ("none(y < y[-1])", lambda y: not any(label < y[-1] for label in y)),
    ("all(y == y[2])", lambda y: all(label == y[2] for label in y)),
    ("any(y > y[2])", lambda y: any(label > y[2] for label in y)),
    ("not any(y > y[-2])", lambda y: not any(label > y[-2] for label in y)),
    ("all(y == y[0] or y == y[-1])", lambda y: set(y) <= {y[0], y[-1]} if y else True),
    ("any(y != y[0] and y != y[1])", lambda y: any(label not in (y[0], y[1]) for label in y)),
    ("any(y == y[1]) and length > 1", lambda y: len(y) > 1),
    ("y[0] == 1", lambda y: y[0] == 1),
    ("y[0] != dog", lambda y: y[0] != 1),
    ("not y[3] == 1", lambda y: y[3] != 1),
    ("y[0] >= y[1]", lambda y: y[0] >= y[1]),
    ("not y[0] >= y[1]", lambda y: y[0] < y[1]),
    ("y[0] == y[1] != y[2]", lambda y: y[0] == y[1] != y[2]),
    ("y[0] < dog <= y[1]", lambda y: y[0] < 1 <= y[1]),
    ("y[0] == y[5]", lambda y: y[0] == y[5]),
    ("y[4] > y[1]", lambda y: y[4] > y[1]),
    ("y[2] == y[2]", lambda y: y[2] == y[2]),
    ("y[3] in {0, 2}", lambda y: y[3] in {0, 2}),
    ("y[-1] not in {cat}", lambda y: y[-1] != 0),
    ("y[-2] == 1", lambda y: y[-2] == 1),
    ("y[-1] == y[-3]", lambda y: y[-1] == y[-3]),
    ("y[0] == y[-1]", lambda y: y[0] == y[-1]),
    ("y[1] < y[-2]", lambda y: y[1] < y[-2]),
    ("not y[-1] <= y[2]", lambda y: y[-1] > y[2]),
    ("y[0] in {y[1], 2}", lambda y: y[0] == 2 or y[0] == y[1]),
    ("y[0] in {y[-1], y[1]}", lambda y: y[0] in {y[-1], y[1]} if len(y) > 1 else len(y) == 1),
    ("y[1 + 1] == cat", lambda y: y[2] == 0),
    ("cat < dog", lambda y: True),
    ("1 == dog", lambda y: True),
    ("length > 3 and y[3] == 1", lambda y: len(y) > 3 and y[3] == 1),
    ("length <= 3 or y[3] == 1", lambda y: len(y) <= 3 or y[3] == 1),
    ("not (length > 3 and y[3] == 1)", lambda y: not (len(y) > 3 and y[3] == 1)),
    ("y[3] == 1 or length <= 3", lambda y: len(y) <= 3 or y[3] == 1),  # unlike Python: true whatever y[3] would be
    ("y[3] == 1 or y[3] != 1", lambda y: len(y) > 3),
    ("y[3] == 1 if length > 3 else any(1)", lambda y: y[3] == 1 if len(y) > 3 else 1 in y),
    ("any(0) if y[1] == 1 else any(2)", lambda y: 0 in y if y[1] == 1 else 2 in y),
    ("not (any(0) if y[1] == 1 else any(2))", lambda y: not (0 in y if y[1] == 1 else 2 in y)),
    ("count(1) == 2 if length > 4 else any(1)", lambda y: y.count(1) == 2 if len(y) > 4 else 1 in y),
    ("any(0) if any(1) else any(2) if length > 2 else True", lambda y: 0 in y if 1 in y else 2 in y or len(y) < 3),
    ('regex("0*1+0*")', lambda y: re.fullmatch("0*1+0*", "".join(map(str, y))) is not None),
    ("not regex('<cat>.*|.{3}')", lambda y: not (y[:1] == (0,) or len(y) == 3)),
    ("any(0) or any(1) and any(2)", lambda y: 0 in y or (1 in y and 2 in y)),
    ("(any(0) or any(1)) and any(2)", lambda y: (0 in y or 1 in y) and 2 in y),
    ("not any(0) and any(1)", lambda y: 0 not in y and 1 in y),
    ("not not any(0)", lambda y: 0 in y),
    ("not count(0) == count(1) - count(1)", lambda y: 0 in y),
    ("count('cat') == 1 and \n\t any(\"dog\")", lambda y: y.count(0) == 1 and 1 in y),
]

# These are about groups of a known length.

TEXTS_WITH_LENGTH: list[tuple[str, Predicate]] = [
    ("majority(1)", lambda y: 2 * y.count(1) > len(y)),
    ("not majority({cat, dog})", lambda y: 2 * (y.count(0) + y.count(1)) <= len(y)),
    ("count(1) >= 0.3 * length", lambda y: 10 * y.count(1) >= 3 * len(y)),
    ("count(1) == length / 2", lambda y: 2 * y.count(1) == len(y)),
    ("count(1) / 6 <= length / 9", lambda y: 3 * y.count(1) <= 2 * len(y)),
    ("count(1) > count(0)", lambda y: y.count(1) > y.count(0)),
    ("count(1) != count(0)", lambda y: y.count(1) != y.count(0)),
    ("count(0) <= count(1) <= count(2)", lambda y: y.count(0) <= y.count(1) <= y.count(2)),
    ("2*count(1) - 3*count(2) == 1", lambda y: 2 * y.count(1) - 3 * y.count(2) == 1),
    ("count(2) < count({0, 1}) or length == 3", lambda y: 2 * y.count(2) < len(y) or len(y) == 3),
    ("y[length - 2] == 1", lambda y: y[len(y) - 2] == 1),
    (
        "majority(0) if length > 3 else count(0) > count(1)",
        lambda y: y.count(0) > (len(y) / 2 if len(y) > 3 else y.count(1)),
    ),
]


@pytest.mark.parametrize(("text", "predicate"), TEXTS, ids=[text for text, _ in TEXTS])
def test_text_means_what_the_predicate_says(text: str, predicate: Predicate) -> None:
    automaton = constraint(text, ANIMALS)
    check_minimal(automaton)
    for length in range(LONGEST + 1):
        expected = [y for y in all_labelings(length) if holds(predicate, y)]
        assert list(automaton.labelings(length)) == expected
        assert list(constraint(text, ANIMALS, length=length).labelings(length)) == expected


@pytest.mark.parametrize(("text", "predicate"), TEXTS_WITH_LENGTH, ids=[text for text, _ in TEXTS_WITH_LENGTH])
def test_text_about_a_known_length_means_what_the_predicate_says(text: str, predicate: Predicate) -> None:
    with pytest.raises(ConstraintError):
        constraint(text, ANIMALS)
    for length in range(LONGEST + 1):
        automaton = constraint(text, ANIMALS, length=length)
        check_minimal(automaton)
        assert list(automaton.labelings(length)) == [y for y in all_labelings(length) if holds(predicate, y)]


SAME_MEANING = [
    ("any(1)", "count(1) >= 1"),
    ("any(1)", "not none(1)"),
    ("all(1)", "count(1) == length"),
    ("all(y == y[0])", "all(y == y[-1])"),
    ("count({0, 1, 2}) == 3", "length == 3"),
    ("2 <= count(1) <= 5", "count(1) >= 2 and not count(1) > 5"),
    ("y[0] == y[1] != y[2]", "y[0] == y[1] and y[1] != y[2]"),
    ("y[0] in {0, 1}", "y[0] == 0 or y[0] == 1"),
    ("not y[0] == 0", "y[0] in {1, 2}"),
    ("y[0] < y[1]", "y[1] > y[0]"),
    ("any(0) if any(1) else any(2)", "any(1) and any(0) or none(1) and any(2)"),
    ('regex(".*1.*")', "any(1)"),
    ('regex("[^0].*0")', "y[0] != 0 and y[-1] == 0"),
    ("not (any(0) and any(1))", "none(0) or none(1)"),
    ("count(1) / 2 >= 1.5", "count(1) >= 3"),
    ("count(cat) == 1", "count(0) == 1"),
    ("count(y > 0) == 2", "count({dog, bird}) == 2"),
    ("count(1) >= 1 and count(1) <= 0", "False"),
    ("y[1] == y[1]", "length > 1"),
]


@pytest.mark.parametrize(("one", "other"), SAME_MEANING)
def test_same_meaning_gives_the_same_automaton(one: str, other: str) -> None:
    assert constraint(one, ANIMALS) == constraint(other, ANIMALS)


BUILDERS = [
    ("True", None, anything()),
    ("False", None, nothing()),
    ("count(1) == 3", None, exactly(3)),
    ("2 <= count(1) <= 5", None, between(2, 5)),
    ("count(1) < 3", None, at_most(2)),
    ("all(y == y[0])", None, all_equal()),
    ("count(1) >= 0.3 * length", 10, at_least(3)),
    ("count(1) > 0.3 * length", 10, at_least(4)),
    ("majority(1)", 5, majority(5)),
    ("majority(1)", 6, majority(6)),
    ("count(1) > count(0)", 6, majority(6)),
    ("count(1) == 0.1 * length + 0.2 * length", 10, exactly(3)),  # exact, unlike in floating point
    ('regex("0*1+0*")', None, from_regex("0*1+0*")),
]


@pytest.mark.parametrize(("text", "length", "automaton"), BUILDERS)
def test_text_agrees_with_builder(text: str, length: int | None, automaton: Automaton) -> None:
    assert constraint(text, 2, length) == automaton


def test_result_is_not_restricted_to_the_length() -> None:
    assert constraint("any(1)", 2, length=3) == constraint("any(1)", 2)


def test_comparison_of_two_positions_remembers_one_label() -> None:
    # before y[0], seven positions for each of the ten classes, and the end
    assert constraint("y[0] == y[7]", 10).num_states == 1 + 7 * 10 + 1


def test_far_positions_are_fine() -> None:
    assert constraint("y[500] == 1", 2).num_states == 502
    assert constraint("y[-500] == 1", 2, length=600).num_states == 102


def test_quoted_names_need_not_be_identifiers() -> None:
    classes = ["hot dog", "length", "7"]
    assert constraint('count("hot dog") == 1 and y[0] == "length"', classes) == constraint(
        "count(0) == 1 and y[0] == 1", 3
    )
    assert constraint("any('7')", classes) == constraint("any(2)", 3)
    assert constraint("any(naïve) or any(猫)", ["naïve", "猫"]) == constraint("length > 0", 2)
