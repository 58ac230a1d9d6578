"""Drawings are text: they are parsed, measured, and compared with what they must say."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from glws._svg import clean, cubic, number, text_width
from glws.automata import (
    Automaton,
    all_equal,
    any_of,
    anything,
    at_least,
    automaton_svg,
    between,
    exactly,
    explain_svg,
    from_table,
    nothing,
    string,
    to_dot,
    trellis_svg,
)
from glws.automata._drawing.labels import placed, symbols_text, weight_text
from glws.automata._drawing.layout import layers_of
from glws.automata._drawing.trellis import probability_text, shown_columns
from glws.automata._drawing.trellis_flow import flow, paths
from glws.errors import AutomatonError, DataError

NAMESPACE = "{http://www.w3.org/2000/svg}"
NAMES = ["cat", "dog", "bird"]

one_run_of_ones = Automaton(3, 2, [(0, 0, 0), (0, 1, 1), (1, 1, 1), (1, 0, 2), (2, 0, 2)], final=[1, 2])
multiple_of_three = Automaton(3, 2, [(i, 1, (i + 1) % 3) for i in range(3)] + [(i, 0, i) for i in range(3)], final=[0])
comparison = from_table([[0.5, 0.0], [1.0, 0.5]])
cats_and_dogs = (at_least(1, 0, 3) & exactly(2, 1, 3)).minimize()
contains_0101 = Automaton(
    5,
    2,
    [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 1, 0), (3, 1, 4), (3, 0, 1), (4, 0, 4), (4, 1, 4)],
    final=[4],
)
TIDY = {  # drawn without any overlap at all
    "exactly": exactly(3),
    "at least one": any_of(1),
    "between": between(1, 3),
    "all equal": all_equal(4),
    "comparison": comparison,
    "one run": one_run_of_ones,
    "cycle": multiple_of_three,
    "cats and dogs": cats_and_dogs,
    "substring": contains_0101,
    "table": from_table(np.arange(1.0, 10.0).reshape(3, 3) / 10),
    "strings": (string([0, 1, 1]) | string([1]) | string([0, 0])).minimize(),
    "one state": anything(3),
    "nothing": nothing(2),
    "long": exactly(100),
    "wide": all_equal(40),
}


def random_machine(seed: int, num_states: int = 10, num_arcs: int = 24) -> Automaton:
    generator = np.random.default_rng(seed)
    highs = (num_states, 3, num_states)
    arcs = {tuple(int(generator.integers(high)) for high in highs) for _ in range(num_arcs)}
    return Automaton(num_states, 3, sorted(arcs), final=[3, 7])


def elements(svg: str, tag: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [e for e in root.iter(NAMESPACE + tag) if f"glws-{kind}" in e.get("class", "").split()]


def nodes(svg: str) -> np.ndarray:
    return np.array([[float(e.get(key, "")) for key in ("cx", "cy", "r")] for e in elements(svg, "circle", "node")])


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(NAMESPACE + "text")]


def curves(svg: str) -> list[np.ndarray]:
    """Points along every arc."""
    sampled = []
    for element in elements(svg, "path", "shaft"):
        points = np.array([float(v) for v in re.findall(r"-?[\d.]+", element.get("d", ""))]).reshape(-1, 2)
        t = np.linspace(0, 1, 30)[:, None]
        for i in range(0, len(points) - 1, 3):
            a, b, c, d = points[i : i + 4]
            sampled.append((1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d)
    return sampled


def label_boxes(svg: str) -> list[tuple[float, float, float, float]]:
    boxes = []
    for element in elements(svg, "text", "label"):
        x, y, size = (float(element.get(key, "")) for key in ("x", "y", "font-size"))
        half = text_width(element.text or "", size) / 2
        boxes.append((x - half, y - 0.75 * size, x + half, y + 0.2 * size))
    return boxes


def assert_nodes_apart(svg: str) -> None:
    for (x, y, r), (u, v, s) in itertools.combinations(nodes(svg), 2):
        assert np.hypot(x - u, y - v) > r + s + 4


def arcs_through_nodes(svg: str) -> int:
    centers = nodes(svg)
    return sum(
        bool(np.any(np.hypot(curve[:, 0] - x, curve[:, 1] - y) < r - 2)) for curve in curves(svg) for x, y, r in centers
    )


# The automaton


@pytest.mark.parametrize("name", TIDY)
def test_states_labels_and_arcs_stay_apart(name):
    svg = automaton_svg(TIDY[name])
    assert_nodes_apart(svg)
    assert arcs_through_nodes(svg) == 0
    boxes = label_boxes(svg)
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(boxes, 2):
        assert c <= e or g <= a or d <= f or h <= b
    for x, y, r in nodes(svg):
        for a, b, c, d in boxes:
            assert np.hypot(x - np.clip(x, a, c), y - np.clip(y, b, d)) > r - 1


@pytest.mark.parametrize("seed", range(25))
def test_no_arc_of_a_random_machine_hides_a_state(seed):
    svg = automaton_svg(random_machine(seed))
    assert_nodes_apart(svg)
    assert arcs_through_nodes(svg) == 0


def test_a_chain_is_a_straight_line():
    heights = nodes(automaton_svg(exactly(5)))[:, 1]
    assert np.ptp(heights) == 0
    assert np.ptp(nodes(automaton_svg(contains_0101))[:, 1]) < 2  # although two arcs lead back


def test_labels_and_marks_say_what_the_automaton_is():
    svg = automaton_svg(cats_and_dogs, NAMES)
    assert {"cat", "dog", "bird", "cat, bird", "q0", "q5"} <= set(texts(svg))
    assert len(nodes(svg)) == 6
    assert len(elements(svg, "circle", "ring")) == 1  # one final state


def test_weights_are_written_as_probabilities():
    machine = Automaton(2, 2, [(0, 1, 1, np.log(0.5)), (0, 0, 1)], start={0: np.log(0.25)}, final={1: np.log(0.75)})
    assert {"0", "1 · 0.5", "0.25", "final · 0.75"} <= set(texts(automaton_svg(machine)))
    assert weight_text(-50.0) == "e^-50"


def test_class_names_are_escaped():
    names = ["<script>alert(1)</script>", 'a"b&c']
    svg = explain_svg(exactly(1), 2, "<b>&\x00", ["<i>"], names, None, [[0.5, 0.5], [0.5, 0.5]])
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert "<b>" not in svg
    assert "\x00" not in svg
    assert clean("a\ud800<") == "a\ufffd&lt;"


def test_a_large_automaton_is_cut_and_says_so():
    svg = automaton_svg(exactly(5000))
    assert len(svg) < 100_000
    assert any("4,987 more states" in text for text in texts(svg))
    assert any("more states" in text for text in texts(automaton_svg(all_equal(1000))))


def test_the_picture_needs_nothing_from_elsewhere():
    svg = automaton_svg(exactly(2))
    assert "href" not in svg
    assert "url(" not in svg
    assert "prefers-color-scheme:dark" in svg
    assert exactly(2)._repr_svg_() == svg


def test_states_nothing_leads_to_are_drawn_too():
    assert len(nodes(automaton_svg(Automaton(3, 2, [(1, 0, 2)], final=[0])))) == 3


@pytest.mark.parametrize(
    ("symbols", "num_symbols", "expected"),
    [
        ([0, 1], 2, "any"),
        ([0], 1, "0"),
        ([0, 2], 3, "0, 2"),
        ([0, 2, 3], 4, "not 1"),
        ([0, 1, 2], 9, "0–2"),
        ([0, 2, 4, 6, 8, 10], 20, "0, 2, 4, 6, 8, … 1 more"),
    ],
)
def test_sets_of_classes_are_put_shortly(symbols, num_symbols, expected):
    assert symbols_text(symbols, num_symbols, None) == expected


def test_wrong_number_of_class_names_is_refused():
    with pytest.raises(AutomatonError, match="reads 2 classes, but 3 class names"):
        automaton_svg(exactly(1), NAMES)


def test_layers_are_the_longest_ways_without_a_cycle_and_the_shortest_with_one():
    assert layers_of([0, 1, 2], [(0, 1), (1, 2), (0, 2)], [0]) == {0: 0, 1: 1, 2: 2}
    assert layers_of([0, 1, 2], [(0, 1), (1, 2), (0, 2), (2, 0)], [0]) == {0: 0, 1: 1, 2: 1}


def test_a_label_moves_away_from_what_is_there():
    level = cubic((0, 0), (30, 0), (60, 0), (90, 0))
    ((_, free),) = placed([level], [(10, 10)], [])
    ((_, moved),) = placed([level], [(10, 10)], [(0, -20, 90, -1)])
    assert free < 0 < moved


def test_coordinates_are_short():
    assert [number(value) for value in (1.0, 2.26, -0.01, 10.0)] == ["1", "2.3", "0", "10"]


# Graphviz


def test_dot_merges_arcs_and_marks_start_and_final():
    dot = to_dot(cats_and_dogs, NAMES)
    assert "start -> 0;" in dot
    assert '0 -> 0 [label="bird"];' in dot
    assert "5 [shape=doublecircle];" in dot
    assert '5 -> 5 [label="cat, bird"];' in dot
    assert dot == cats_and_dogs.to_dot(NAMES)


def test_dot_shows_weights_and_quotes_names():
    machine = Automaton(2, 2, [(0, 1, 1, np.log(0.5)), (0, 0, 1)], start={0: np.log(0.25)}, final={1: np.log(0.75)})
    dot = to_dot(machine, ['say "hi"', "back\\slash"])
    assert 'start -> 0 [label="0.25"];' in dot
    assert '1 [shape=doublecircle, label="1\\n0.75"];' in dot
    assert '0 -> 1 [label="say \\"hi\\"\\nback\\\\slash · 0.5"];' in dot


# What runs through the trellis


def enumerated(machine: Automaton, probs: np.ndarray) -> tuple[float, np.ndarray]:
    """p(w) and the marginals, by listing all labelings."""
    length, num_classes = probs.shape
    total, marginals = 0.0, np.zeros_like(probs)
    for labeling in itertools.product(range(num_classes), repeat=length):
        weight = machine.weight(labeling) * float(np.prod([probs[j, y] for j, y in enumerate(labeling)]))
        total += weight
        for j, y in enumerate(labeling):
            marginals[j, y] += weight
    return total, marginals / total


@pytest.mark.parametrize(
    "machine", [exactly(2), any_of(1), one_run_of_ones, multiple_of_three, cats_and_dogs, contains_0101, comparison]
)
def test_flow_agrees_with_enumeration(machine):
    length = 2 if machine is comparison else 4
    probs = np.random.default_rng(7).dirichlet(np.ones(machine.num_symbols), length)
    if machine.count(length) == 0:
        probs = probs[:3]
    run = flow(machine, probs)
    total, marginals = enumerated(machine, probs)
    np.testing.assert_allclose(np.exp(run.log_likelihood), total, rtol=1e-12)  # rounding of a few dozen operations
    np.testing.assert_allclose(run.marginals(machine), marginals, atol=1e-12)
    np.testing.assert_allclose(run.arcs.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(run.states.sum(axis=1), 1, atol=1e-12)


def test_flow_of_an_impossible_constraint_is_zero():
    run = flow(exactly(2), [[1.0, 0.0], [1.0, 0.0]])
    assert run.log_likelihood == -np.inf
    assert not run.arcs.any()


def test_an_arc_is_live_exactly_if_an_accepted_labeling_takes_it():
    machine, length = cats_and_dogs, 4
    taken = np.zeros((length, len(machine.sources)), dtype=bool)
    for labeling in machine.labelings(length):
        state = 0
        for step, symbol in enumerate(labeling):
            (arc,) = np.flatnonzero((machine.sources == state) & (machine.symbols == symbol))
            taken[step, arc], state = True, machine.targets[arc]
    np.testing.assert_array_equal(paths(machine, length).live_arcs(machine), taken)


# The trellis


def test_trellis_has_a_state_for_each_column_and_row():
    svg = trellis_svg(exactly(2), 4)
    assert len(nodes(svg)) == 3 * 5
    assert_nodes_apart(svg)
    assert arcs_through_nodes(svg) == 0
    assert len(elements(svg, "g", "live")) == int(paths(exactly(2), 4).live_arcs(exactly(2)).sum())
    assert {"start", "x1", "x4", "accepted"} <= set(texts(svg))
    assert "x5" not in texts(svg)


def test_trellis_shows_prior_and_posterior():
    svg = trellis_svg(exactly(2), 4, probs=[[0.1, 0.9], [0.8, 0.2], [0.4, 0.6], [0.5, 0.5]])
    assert {"0.90 → 0.92", "0.20 → 0.11", "0.60 → 0.57", "0.50 → 0.40"} <= set(texts(svg))
    assert ".92" in texts(svg)  # the posterior of q1 after the first instance


def test_trellis_shows_marginals_computed_elsewhere():
    svg = trellis_svg(exactly(1), 2, marginals=[[0.25, 0.75], [0.75, 0.25]])
    assert {"0.25", "0.75"} <= set(texts(svg))
    assert not any("→" in text for text in texts(svg))


def test_a_long_trellis_is_shown_from_both_ends():
    svg = trellis_svg(between(1, 3), 40)
    assert {"x1", "x6", "29 more", "x36", "x40"} <= set(texts(svg))
    assert shown_columns(12) == list(range(13))
    assert len(shown_columns(13)) == 12


@pytest.mark.parametrize(("machine", "length"), [(exactly(20), 40), (exactly(2), 2_000_000)])
def test_a_trellis_with_too_many_states_is_not_drawn(machine, length):
    (text,) = texts(trellis_svg(machine, length))
    assert "is not drawn" in text


def test_bars_are_shown_even_where_the_trellis_is_not():
    probs = np.full((40, 2), 0.5)
    assert "0.50 → 0.50" in texts(trellis_svg(exactly(20), 40, probs=probs))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"length": 3, "automaton": exactly(5)}, "No labeling of length 3 is accepted."),
        ({"length": 2, "automaton": exactly(2), "probs": [[1, 0], [1, 0]]}, "p(w | x) = 0"),
        ({"length": 2, "automaton": Automaton(2, 1, [(0, 0, 0), (0, 0, 1)], final=[0, 1])}, "determinized first"),
        ({"length": 4, "automaton": all_equal(30)}, "is not drawn"),
    ],
)
def test_the_trellis_says_what_is_special(arguments, expected):
    assert any(expected in text for text in texts(trellis_svg(**arguments)))


def test_an_empty_group_has_a_trellis_of_one_column():
    assert "accepted" in texts(trellis_svg(anything(2), 0, probs=np.zeros((0, 2))))


def test_many_arcs_between_two_states_are_drawn_as_one():
    svg = trellis_svg(any_of(3, 12), 3, probs=np.full((3, 12), 1 / 12))
    assert {"any", "not 3", "… 6 more classes"} <= set(texts(svg))


@pytest.mark.parametrize("seed", range(10))
def test_trellises_of_random_machines_are_drawn(seed):
    machine = random_machine(seed)
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), 5)
    svg = explain_svg(machine, 5, "random", ["a fact"], NAMES, probs=probs)
    ElementTree.fromstring(svg)
    assert len(svg) < 200_000


@pytest.mark.parametrize(
    ("values", "message"),
    [([[0.5, 0.5]], r"shape \[length, classes\] = \[2, 2\], found \[1, 2\]"), ([[np.nan, 1], [0, 1]], "finite")],
)
def test_wrong_predictions_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        trellis_svg(exactly(1), 2, probs=values)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, "0"), (1e-9, "<.01"), (0.254, ".25"), (0.999, ">.99"), (1.0, "1")]
)
def test_a_probability_is_never_rounded_to_certainty(share, expected):
    assert probability_text(share) == expected
