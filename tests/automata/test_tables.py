"""Automata as arrays: trimming, products, complements and minimal forms against slow, obvious versions; the cache."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from glws.automata import Automaton, at_most, constraint, exactly
from glws.automata import _disk as disk
from glws.automata import _tables as tables
from glws.automata._operations import inverted, product

Labeling = tuple[int, ...]


def random_machine(seed: int, states: int, classes: int, deterministic: bool = True) -> Automaton:
    """Any arcs, some of them with weights in every third machine."""
    rng = np.random.default_rng(seed)
    weights = [0.0, 0.0, -0.5] if seed % 3 == 0 else [0.0]
    arcs = [
        (source, symbol, int(target), float(rng.choice(weights)))
        for source in range(states)
        for symbol in range(classes)
        for target in rng.permutation(states)[: 1 if deterministic else int(rng.integers(0, 3))]
        if rng.random() < 0.8
    ]
    return Automaton(states, classes, arcs, final=[state for state in range(states) if rng.random() < 0.4])


def slow_blocks(machine: Automaton) -> int:
    """The number of different futures of states that are reached and reach an end, by comparing all pairs."""
    machine = machine.trim()
    alike = {
        (p, q): machine.log_final[p] == machine.log_final[q]
        for p, q in itertools.product(range(machine.num_states), repeat=2)
    }
    rows = [{symbol: (target, weight) for symbol, target, weight in arcs} for arcs in machine.outgoing]
    for _ in range(machine.num_states):
        for p, q in alike:
            alike[p, q] &= rows[p].keys() == rows[q].keys() and all(
                weight == rows[q][symbol][1] and alike[target, rows[q][symbol][0]]
                for symbol, (target, weight) in rows[p].items()
            )
    return len({tuple(alike[p, q] for q in range(machine.num_states)) for p in range(machine.num_states)})


@pytest.mark.parametrize("small", [0, tables.SMALL])
def test_a_minimal_automaton_has_a_state_for_each_future(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL", small)
    for seed in range(120):
        machine = random_machine(seed, 1 + seed % 11, 1 + seed % 3)
        least = machine.minimize()
        assert least.num_states == slow_blocks(machine)
        assert least == machine
        again = tables.minimized(least.table)
        assert np.array_equal(again.targets, least.targets)


@pytest.mark.parametrize("patience", [0, 1000])
def test_distances_to_blocks_change_nothing(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PATIENCE", patience)
    rng = np.random.default_rng(1)
    chain = at_most(200, (1,), 3)
    assert chain.minimize().num_states == 201
    targets = rng.integers(0, 150, (150, 2))
    targets[:, 0] = np.roll(np.arange(150), 1)
    twice = [
        (s + 150 * half, k, int(targets[s, k]) + 150 * int(rng.integers(2)))
        for half in (0, 1)
        for s in range(150)
        for k in (0, 1)
    ]
    doubled = Automaton(300, 2, twice, final=[state for state in range(300) if state % 150 % 7 == 0])
    single = Automaton(150, 2, [(s, k, int(targets[s, k])) for s in range(150) for k in (0, 1)], final=range(0, 150, 7))
    assert doubled.minimize().num_states == single.minimize().num_states
    assert doubled == single


def test_twenty_thousand_states_are_minimized() -> None:
    assert exactly(20_000).minimize().num_states == 20_001


def test_products_and_complements_are_those_of_sets() -> None:
    for seed in range(60):
        left, right = (random_machine(3 * seed + k, 1 + (seed + k) % 5, 2).support() for k in (1, 2))
        both, not_left = product(left.table, right.table), inverted(left.table)
        for length in range(5):
            for labels in itertools.product(range(2), repeat=length):
                expected = left.accepts(labels) and right.accepts(labels)
                assert Automaton.from_table(both).accepts(labels) == expected
                assert Automaton.from_table(not_left).accepts(labels) != left.accepts(labels)


def test_products_of_weights_multiply_them() -> None:
    for seed in range(0, 60, 3):
        left, right = (random_machine(seed + 3 * k, 3 + k, 2, False) for k in (0, 1))
        left, right = (Automaton.from_table(side.table, sum_paths=True) for side in (left, right))
        both = left & right
        for length in range(5):
            for labels in itertools.product(range(2), repeat=length):
                assert both.weight(labels) == pytest.approx(left.weight(labels) * right.weight(labels))


# The cache

TEXT = "sum(y[0:5]) == 11 and sum(y[2:7]) == 9"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLWS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("glws.automata._language.compiler.WORTHWHILE", 0.0)
    disk._keys.cache_clear()
    return tmp_path / "cache"


def test_what_was_compiled_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language = constraint(TEXT, 4, 7)
    disk._keys.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("glws.automata._language.compiler.parse", None)
        assert constraint(TEXT, 4, 7) == language
        with pytest.raises(TypeError):
            constraint(TEXT + " or False", 4, 7)


def damaged(path: Path, seed: int) -> bytes:
    """The file with one bit flipped, cut off, or replaced."""
    content, rng = bytearray(path.read_bytes()), np.random.default_rng(seed)
    if seed % 4 == 0:
        return bytes(content[: int(rng.integers(len(content)))])
    if seed % 4 == 1:
        return b"no database at all" * 100
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    return bytes(content)


def test_a_damaged_cache_is_as_good_as_none(folder: Path) -> None:
    language = constraint(TEXT, 4, 7)
    intact = (folder / "automata.sqlite").read_bytes()
    for seed in range(40):
        (folder / "automata.sqlite").write_bytes(intact)
        (folder / "automata.sqlite").write_bytes(damaged(folder / "automata.sqlite", seed))
        disk._keys.cache_clear()
        assert constraint(TEXT, 4, 7) == language


def test_a_locked_cache_is_left_alone(folder: Path) -> None:
    language = constraint(TEXT, 4, 7)
    with sqlite3.connect(folder / "automata.sqlite") as other:
        other.execute("BEGIN EXCLUSIVE")
        disk._keys.cache_clear()
        assert constraint(TEXT, 4, 7) == language
    assert (folder / "automata.sqlite").is_file()


def test_a_folder_that_cannot_be_made_means_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file")
    assert constraint(TEXT, 4, 7).accepts([3, 3, 3, 1, 1, 1, 3])
    monkeypatch.setenv("GLWS_CACHE", "")
    assert constraint(TEXT, 4, 7).accepts([3, 3, 3, 1, 1, 1, 3])


def test_the_cache_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_BYTES", 20_000)
    for total in range(40):
        constraint(f"sum(y) == {total + 20}", 10, 30)
    with sqlite3.connect(folder / "automata.sqlite") as connection:
        size, entries = connection.execute("SELECT SUM(size), COUNT(*) FROM automata").fetchone()
    assert 10_000 < size <= 20_000
    assert entries >= 1


def test_texts_that_differ_in_anything_have_entries_of_their_own(folder: Path) -> None:
    for classes, length, values in ((3, 4, [1.0, 2.0, 3.0]), (3, 5, [1.0, 2.0, 3.0]), (3, 4, [1.0, 2.0, 4.0])):
        language = constraint("sum(price) == length + 2", classes, length, values={"price": values})
        for labels in itertools.product(range(3), repeat=length):
            assert language.accepts(labels) == (sum(values[label] for label in labels) == length + 2)
