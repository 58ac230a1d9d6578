"""Automata as values: construction, meaning, errors, the algebra against sets of labelings."""

import copy
import pickle
from itertools import product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import automata, many

from glws.automata import (
    Automaton,
    all_equal,
    any_of,
    anything,
    at_least,
    at_most,
    between,
    exactly,
    from_table,
    majority,
    none_of,
    nothing,
    state_budget,
    string,
)
from glws.errors import AutomatonError, StateBudgetError

LENGTHS = range(5)
languages = automata(num_symbols=2, weighted=False)


def words(num_symbols: int = 2) -> list[tuple[int, ...]]:
    return [word for length in LENGTHS for word in product(range(num_symbols), repeat=length)]


def language(automaton: Automaton) -> set[tuple[int, ...]]:
    return {word for word in words(automaton.num_symbols) if automaton.accepts(word)}


def weights(automaton: Automaton) -> dict[tuple[int, ...], float]:
    return {word: automaton.weight(word) for word in words(automaton.num_symbols)}


# The algebra, against sets


@many
@given(languages, languages)
def test_and_or_are_intersection_and_union(left: Automaton, right: Automaton) -> None:
    assert language(left & right) == language(left) & language(right)
    assert language(left | right) == language(left) | language(right)


@many
@given(languages)
def test_not_is_the_complement(automaton: Automaton) -> None:
    assert language(~automaton) == set(words()) - language(automaton)


@many
@given(languages, languages)
def test_plus_is_concatenation(left: Automaton, right: Automaton) -> None:
    joined = {u + v for u in language(left) for v in language(right) if len(u + v) in LENGTHS}
    assert language(left + right) == joined


@many
@given(languages, languages)
def test_operations_on_languages_give_languages(left: Automaton, right: Automaton) -> None:
    for result in (left & right, left | right, left + right, left.star(), left.reverse(), ~left):
        assert not result.is_weighted
        assert all(result.weight(word) in (0.0, 1.0) for word in words())


@many
@given(languages)
def test_star_is_any_number_of_repetitions(automaton: Automaton) -> None:
    reached = {()}
    for _ in LENGTHS:
        reached |= {u + v for u in reached for v in language(automaton) if len(u + v) in LENGTHS}
    assert language(automaton.star()) == reached


@many
@given(languages)
def test_reverse_reads_from_the_end(automaton: Automaton) -> None:
    assert language(automaton.reverse()) == {word[::-1] for word in language(automaton)}


@many
@given(languages)
def test_tidying_keeps_the_language(automaton: Automaton) -> None:
    for tidy in (automaton.trim(), automaton.determinize(), automaton.minimize(), automaton.resolve()):
        assert language(tidy) == language(automaton)
        assert tidy == automaton
    assert automaton.determinize().is_deterministic
    assert automaton.resolve().is_unambiguous()


@many
@given(languages)
def test_minimal_is_as_small_as_brzozowskis(automaton: Automaton) -> None:
    """Reversing and determinizing twice is another road to the minimal automaton."""
    twice = automaton.reverse().trim().determinize().reverse().trim().determinize().trim()
    assert automaton.minimize().num_states == twice.num_states


@many
@given(languages, languages)
def test_equality_is_that_of_languages(left: Automaton, right: Automaton) -> None:
    difference = (left & ~right) | (~left & right)
    assert (left == right) == (difference == nothing(2))


@many
@given(languages)
def test_counting_and_listing_agree_with_acceptance(automaton: Automaton) -> None:
    for length in LENGTHS:
        accepted = [word for word in product((0, 1), repeat=length) if automaton.accepts(word)]
        assert list(automaton.labelings(length)) == accepted
        assert automaton.count(length) == len(accepted)


@many
@given(languages)
def test_ambiguity_is_two_paths_for_one_labeling(automaton: Automaton) -> None:
    """Paths counted one by one up to length 4; four states can hide a longer witness, never a shorter one."""
    paths = Automaton(
        automaton.num_states,
        2,
        zip(automaton.sources, automaton.symbols, automaton.targets, [1e-9] * len(automaton.sources), strict=True),
        {s: 0.0 for s in np.flatnonzero(automaton.log_start == 0)},
        {s: 0.0 for s in np.flatnonzero(automaton.log_final == 0)},
        sum_paths=True,
    )
    if any(paths.weight(word) > 1.5 for word in words()):
        assert not automaton.is_unambiguous()
    if automaton.is_unambiguous():
        assert all(paths.weight(word) < 1.5 for word in words())


# Weights


weighted = automata(num_symbols=2, weighted=True)


@many
@given(weighted, weighted)
def test_weights_multiply_and_add(left: Automaton, right: Automaton) -> None:
    product_of, sum_of = left & right, left | right
    for word in words():
        assert product_of.weight(word) == pytest.approx(left.weight(word) * right.weight(word))
        assert sum_of.weight(word) == pytest.approx(left.weight(word) + right.weight(word))


@many
@given(weighted, languages)
def test_a_language_next_to_weights_counts_once(left: Automaton, right: Automaton) -> None:
    for word in words():
        assert (left & right).weight(word) == pytest.approx(left.weight(word) * right.accepts(word))


@many
@given(weighted, weighted)
def test_weights_of_a_concatenation_sum_over_cuts(left: Automaton, right: Automaton) -> None:
    joined = left + right
    for word in words():
        cuts = sum(left.weight(word[:i]) * right.weight(word[i:]) for i in range(len(word) + 1))
        assert joined.weight(word) == pytest.approx(cuts)


@many
@given(weighted)
def test_weighted_equality_sees_weights(automaton: Automaton) -> None:
    assert automaton == automaton.trim()
    assert automaton.reverse().reverse() == automaton
    if any(automaton.weight(word) > 1e-3 for word in words()):
        assert automaton != automaton & from_weighted_anything(-0.1)


def from_weighted_anything(log_weight: float) -> Automaton:
    return Automaton(1, 2, [(0, 0, 0), (0, 1, 0)], final={0: log_weight})


def test_star_of_weights_is_a_geometric_sum() -> None:
    half = Automaton(2, 1, [(0, 0, 1, log(0.5))], final=[1])
    assert [half.star().weight((0,) * n) for n in range(4)] == pytest.approx([1, 0.5, 0.25, 0.125])
    with pytest.raises(AutomatonError, match="needs weight 0 for the empty labeling"):
        from_weighted_anything(-1.0).star()


@many
@given(automata())
def test_att_text_is_read_back_as_the_same(automaton: Automaton) -> None:
    again = Automaton.from_att(automaton.to_att(), automaton.num_symbols, sum_paths=automaton.sum_paths)
    assert weights(again) == pytest.approx(weights(automaton))


def _parts(a: Automaton) -> tuple[object, ...]:
    arcs = list(zip(a.sources, a.symbols, a.targets, a.log_weights, strict=True))
    start = {s: w for s, w in enumerate(a.log_start) if w > -np.inf}
    return a.num_states, a.num_symbols, arcs, start, {s: w for s, w in enumerate(a.log_final) if w > -np.inf}


# Builders, against what they say


BUILDERS = {
    "anything": (anything(3), lambda y: True),
    "nothing": (nothing(3), lambda y: False),
    "string": (string([0, 2, 1], 3), lambda y: y == (0, 2, 1)),
    "empty string": (string([], 3), lambda y: y == ()),
    "exactly": (exactly(2, of=1, num_symbols=3), lambda y: y.count(1) == 2),
    "exactly none": (exactly(0, of=1, num_symbols=3), lambda y: 1 not in y),
    "exactly a negative number": (exactly(-1, of=1, num_symbols=3), lambda y: False),
    "exactly of two classes": (exactly(2, of=[0, 2], num_symbols=3), lambda y: y.count(0) + y.count(2) == 2),
    "at least": (at_least(2, of=2, num_symbols=3), lambda y: y.count(2) >= 2),
    "at least zero": (at_least(0, of=2, num_symbols=3), lambda y: True),
    "at most": (at_most(1, of=0, num_symbols=3), lambda y: y.count(0) <= 1),
    "between": (between(1, 3, of=1, num_symbols=3), lambda y: 1 <= y.count(1) <= 3),
    "an empty range": (between(3, 1, of=1, num_symbols=3), lambda y: False),
    "any of": (any_of([1, 2], 3), lambda y: 1 in y or 2 in y),
    "any of nothing": (any_of([], 3), lambda y: False),
    "none of": (none_of([1, 2], 3), lambda y: 1 not in y and 2 not in y),
    "all equal": (all_equal(3), lambda y: len(set(y)) <= 1),
    "majority of four": (majority(4, of=2, num_symbols=3), lambda y: y.count(2) >= 3),
    "table": (from_table([[1, 0, 0], [0, 1, 0], [1, 1, 0]]), lambda y: y in {(0, 0), (1, 1), (2, 0), (2, 1)}),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_mean_what_they_say(name: str) -> None:
    automaton, holds = BUILDERS[name]
    assert language(automaton) == {word for word in words(3) if holds(word)}
    assert automaton.is_deterministic
    assert automaton.minimize().num_states == automaton.trim().num_states


def test_labelings_without_two_ones_in_a_row_are_fibonacci() -> None:
    apart = Automaton(2, 2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=[0, 1])
    assert [apart.count(n) for n in range(10)] == [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def test_counts_are_exact_whole_numbers_of_any_size() -> None:
    assert exactly(250).count(500) == comb(500, 250)


def test_table_weights_are_kept_for_every_labeling() -> None:
    table = np.random.default_rng(0).random((3, 3, 3))
    automaton = from_table(table)
    assert all(automaton.weight(y) == pytest.approx(table[y]) for y in product(range(3), repeat=3))
    assert automaton.weight((0, 1)) == 0


# A value


def test_an_automaton_cannot_be_changed() -> None:
    automaton = exactly(1)
    with pytest.raises(AttributeError, match="immutable"):
        automaton.num_states = 3
    with pytest.raises(AttributeError, match="immutable"):
        del automaton.num_states
    with pytest.raises(ValueError, match="read-only"):
        automaton.targets[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(automaton)


def test_copies_are_equal() -> None:
    automaton = from_table([[0.5, 0.0], [1.0, 0.5]])
    assert copy.deepcopy(automaton) == automaton
    assert pickle.loads(pickle.dumps(automaton)) == automaton
    assert automaton != "something else"
    assert anything(2) != anything(3)


def test_repr_is_one_line() -> None:
    assert repr(exactly(2)) == "Automaton(3 states, 2 symbols, 5 arcs)"
    assert repr(from_table([[0.5, 0.0], [1.0, 0.5]])).startswith("Automaton(weighted, ")


# Errors


WRONG = {
    "num_states must be an integer >= 1, found 0": lambda: Automaton(0, 2, []),
    "num_symbols must be an integer >= 1, found 'two'": lambda: Automaton(1, "two", []),
    r"arc 1 \(0, 5, 1\): its symbol must be in 0..1": lambda: Automaton(2, 2, [(0, 0, 0), (0, 5, 1)]),
    r"arc 0 \(2, 0, 1\): its source must be in 0..1": lambda: Automaton(2, 2, [(2, 0, 1)]),
    r"arc 0 \(0, 0, -1\): its target must be in 0..1": lambda: Automaton(2, 2, [(0, 0, -1)]),
    r"arc 0 \(0, 0.5, 1\): its symbol": lambda: Automaton(2, 2, [(0, 0.5, 1)]),
    r"arc 0 \(0, 0, 1, nan\): its log-weight": lambda: Automaton(2, 2, [(0, 0, 1, float("nan"))]),
    r"arc 0 \(0, 0, 1, inf\): its log-weight": lambda: Automaton(2, 2, [(0, 0, 1, float("inf"))]),
    r"arc 1: expected \(source, symbol, target\[, log_weight\]\), found \(0, 1\)": lambda: Automaton(
        2, 2, [(0, 0, 1), (0, 1)]
    ),
    r"arc \(0, 0, 1\) is given twice": lambda: Automaton(2, 2, [(0, 0, 1), (0, 0, 1)]),
    "start state 3 must be in 0..1": lambda: Automaton(2, 2, [], start=3),
    "final state 2 must be in 0..1": lambda: Automaton(2, 2, [], final=[2]),
    "final state 1: log-weight nan": lambda: Automaton(2, 2, [], final={1: float("nan")}),
    "cannot combine automata over 2 and 3 symbols": lambda: anything(2) & anything(3),
    "expected an Automaton to combine with, found int": lambda: anything(2) | 3,
    "has no complement": lambda: ~from_weighted_anything(-1.0),
    "cannot be determinized in general": lambda: (
        from_weighted_anything(-1.0) | from_weighted_anything(-2.0)
    ).determinize(),
    "symbol 7 must be in 0..1": lambda: exactly(1, of=7),
    "label 2 must be in 0..1": lambda: anything(2).accepts([0, 2]),
    r"found shape \(2, 3\)": lambda: from_table([[1, 2, 3], [1, 2, 3]]),
    "finite numbers >= 0": lambda: from_table([1.0, -0.5]),
    r"AT&T text, line 2: expected .* found '0 1 x'": lambda: Automaton.from_att("0 1 0\n0 1 x"),
}


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_are_named(message: str) -> None:
    with pytest.raises(AutomatonError, match=message) as caught:
        WRONG[message]()
    assert "\n" not in str(caught.value)


def test_a_blow_up_is_stopped_and_says_how_large_it_got() -> None:
    """The 12th label from the end is 1: 2^12 states once determinized."""
    from_end = Automaton(
        13, 2, [(0, 0, 0), (0, 1, 0), (0, 1, 1), *((i, y, i + 1) for i in range(1, 12) for y in (0, 1))]
    )
    nfa = Automaton(*_parts(from_end)[:4], final=[12])
    with state_budget(1000), pytest.raises(StateBudgetError, match="grew past 1,000 states"):
        nfa.determinize()
    assert nfa.minimize().num_states == 2**12


@given(st.integers(0, 30), st.integers(1, 30))
def test_count_weights_are_recognized(low: int, width: int) -> None:
    found = between(low, low + width, of=[0, 2], num_symbols=3).count_weights
    assert found is not None
    assert found.counted.tolist() == [True, False, True]
    expected = [0.0 if low <= k <= low + width else -np.inf for k in range(50)]
    assert found.up_to(49).tolist() == expected


def test_what_counts_and_what_does_not() -> None:
    even = Automaton(2, 2, [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)], final=[0])
    assert even.count_weights.up_to(6).tolist() == [0, -np.inf] * 3 + [0]
    assert even.count_weights.period == 2
    assert at_least(3).count_weights.up_to(5).tolist() == [-np.inf] * 3 + [0.0] * 3
    noisy = Automaton(3, 2, [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 0, 2)], final={1: -0.1, 2: -2.0})
    assert noisy.count_weights.up_to(3).tolist() == [-np.inf, -0.1, -2.0, -np.inf]
    assert anything(3).count_weights is not None
    for other in (all_equal(2), string([0, 1]), exactly(1, 0, 3) & exactly(1, 1, 3)):
        assert other.count_weights is None


@many
@given(languages)
def test_recognized_counts_are_right_for_every_labeling(automaton: Automaton) -> None:
    found = automaton.count_weights
    if found is not None:
        for word in words():
            count = sum(found.counted[symbol] for symbol in word)
            assert (found.up_to(len(word))[count] > -np.inf) == automaton.accepts(word)
