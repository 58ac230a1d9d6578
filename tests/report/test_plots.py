"""The plots put every number where it belongs; wherever it can be, against the plain formula of its place."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from glws.evaluation import ReliabilityCurve
from glws.report._axes import Axis, fitting, padded_range, round_ticks
from glws.report._heat_map import LEVELS, confusion_map, mistakes
from glws.report._plots import Line, belief_bars, line_chart, reliability_diagram, size_histogram

Element = ElementTree.Element
ROUNDED = 0.11  # coordinates are written to a tenth


def read(drawing: str) -> Element:
    return ElementTree.fromstring(drawing)


def of_kind(drawing: Element, tag: str, kind: str) -> list[Element]:
    return [element for element in drawing.iter(tag) if f"glws-{kind}" in element.get("class", "").split()]


def number(element: Element, name: str) -> float:
    return float(element.get(name, "nan"))


def texts(drawing: Element) -> list[str]:
    return [(element.text or "").replace("\u00a0", " ") for element in drawing.iter("text")]


def curve_points(drawing: Element) -> list[np.ndarray]:
    lines = [line.get("points", "").split() for line in drawing.iter("polyline")]
    return [np.array([[float(value) for value in point.split(",")] for point in line]) for line in lines]


# Axes


@pytest.mark.parametrize("seed", range(20))
def test_ticks_are_round_within_the_range_and_not_too_many(seed: int) -> None:
    generator = np.random.default_rng(seed)
    low = float(generator.normal() * 10.0 ** generator.integers(-6, 6))
    high = low + float(generator.exponential() * 10.0 ** generator.integers(-3, 6)) + 1e-4
    ticks = round_ticks(low, high)
    steps = np.diff(ticks)
    margin = 1e-6 * (high - low)
    assert 1 <= len(ticks) <= 7
    assert min(ticks) >= low - margin
    assert max(ticks) <= high + margin
    if len(steps):
        assert np.allclose(steps, steps[0])
        assert round(float(steps[0] / 10 ** np.floor(np.log10(steps[0] * 1.001))), 3) in (1, 2, 5)


def test_a_range_without_width_still_has_one() -> None:
    for values in ([], [3.0], [0.0, 0.0], [float("nan"), float("inf")], [-7.0, -7.0]):
        low, high = padded_range(values)
        assert low < high
        assert round_ticks(low, high)


def test_an_axis_is_linear_between_its_ends() -> None:
    axis = Axis(2.0, 6.0, 100.0, 0.0)
    assert [axis.at(value) for value in (2.0, 3.0, 6.0)] == [100.0, 75.0, 0.0]


def test_a_name_is_cut_to_its_room() -> None:
    assert fitting("two\nlines", 500) == "two lines"
    assert fitting("a very long name of a class", 80).endswith("…")
    assert len(fitting("wwwwwwwwwwww", 1)) == 2


# Curves


def test_curves_go_through_their_points() -> None:
    generator = np.random.default_rng(3)
    lines = [Line(name, np.arange(1.0, 9.0) ** 2, generator.normal(size=8)) for name in ("one", "two")]
    found = curve_points(read(line_chart(lines, "loss", "step")))
    assert len(found) == 2
    stacked, values = np.concatenate(found), np.concatenate([line.y for line in lines])
    places = np.concatenate([line.x for line in lines])
    for coordinates, given, sign in ((stacked[:, 0], places, 1), (stacked[:, 1], values, -1)):
        slope, offset = np.polyfit(given, coordinates, 1)
        assert sign * slope > 0
        assert np.abs(coordinates - slope * given - offset).max() < ROUNDED


def test_the_grid_has_the_scale_of_the_curve() -> None:
    drawing = read(line_chart([Line("one", np.array([0.0, 1.0]), np.array([0.0, 10.0]))], "loss", "epoch"))
    ((_, bottom), (_, top)) = curve_points(drawing)[0]
    labels = {text.text: number(text, "y") for text in drawing.iter("text") if text.get("text-anchor") == "end"}
    lines = sorted(number(line, "y1") for line in of_kind(drawing, "line", "rule"))
    assert list(labels) == ["0", "2", "4", "6", "8", "10"]
    assert lines[0] == pytest.approx(top, abs=ROUNDED)
    assert lines[-1] == pytest.approx(bottom, abs=ROUNDED)
    assert labels["10"] < labels["0"]


def test_a_value_that_is_not_finite_is_a_gap() -> None:
    y = np.array([1.0, 2.0, np.nan, 3.0, np.inf, 4.0, 5.0])
    drawing = read(line_chart([Line("one", np.arange(7.0), y)], "loss", "epoch"))
    assert [len(points) for points in curve_points(drawing)] == [2, 2]
    assert len(of_kind(drawing, "circle", "dot")) == 2  # the point alone, and the last one
    assert "nan" not in ElementTree.tostring(drawing).decode()


def test_a_curve_without_any_finite_value_is_said_to_have_none() -> None:
    drawing = read(line_chart([Line("one", np.arange(2.0), np.full(2, np.nan))], "loss", "epoch"))
    assert curve_points(drawing) == []
    assert drawing.findtext("desc") == "one: no finite value"


def test_shares_stay_between_0_and_100_percent() -> None:
    drawing = read(line_chart([Line("one", np.arange(3.0), np.array([0.0, 0.5, 1.0]))], "accuracy", "epoch", True))
    assert [text for text in texts(drawing) if "%" in text] == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]


# Reliability


def test_reliability_dots_and_counts_lie_at_their_confidence() -> None:
    curve = ReliabilityCurve(np.array([0.45, 0.62, 0.99]), np.array([0.2, 0.9, 0.95]), np.array([4, 1250, 37]))
    drawing = read(reliability_diagram(curve))
    dots = of_kind(drawing, "circle", "fill")
    ideal = of_kind(drawing, "line", "ideal")[0]
    left, right = number(ideal, "x1"), number(ideal, "x2")
    scale = np.polyfit([number(ideal, "y1"), number(ideal, "y2")], [0.4, 1.0], 1)
    for dot, confidence, accuracy in zip(dots, curve.confidence, curve.accuracy, strict=True):
        assert number(dot, "cx") == pytest.approx(left + (confidence - 0.4) / 0.6 * (right - left), abs=ROUNDED)
        assert np.polyval(scale, number(dot, "cy")) == pytest.approx(accuracy, abs=0.01)
    heights = [number(bar, "height") for bar in of_kind(drawing, "rect", "count")]
    assert heights[1] == 46  # the fullest bin fills the room, less that of its number
    assert heights[2] / heights[1] == pytest.approx(37 / 1250, abs=0.005)
    assert [text for text in texts(drawing) if text in ("4", "1.2k", "37")] == ["4", "1.2k", "37"]
    assert "confidence 62.0 %: 90.0 % right of 1,250" in (drawing.findtext("desc") or "").replace("\u00a0", " ")


def test_a_reliability_curve_that_is_empty_or_not_a_number_is_drawn_empty() -> None:
    nothing = ReliabilityCurve(np.array([np.nan]), np.array([0.5]), np.array([3]))
    assert of_kind(read(reliability_diagram(nothing)), "circle", "fill") == []


# Confusion


def test_numbers_of_the_confusion_matrix_stand_in_their_row_and_column() -> None:
    counts = np.array([[7, 2, 0], [1, 0, 1500], [0, 3, 6]])
    drawing = read(confusion_map(["ant", "bee", "cow"], counts))
    labels = {text.text: (number(text, "x"), number(text, "y")) for text in drawing.iter("text")}
    columns, rows = sorted({labels[name][0] for name in ("7", "2", "6")}), sorted({labels[name][1] for name in "716"})
    assert labels["2"] == (columns[1], rows[0])
    assert labels["1"] == (columns[0], rows[1])
    assert labels["1.5k"] == (columns[2], rows[1])
    assert "0" not in labels
    headings = [(text.text, number(text, "x")) for text in drawing.iter("text") if text.text in ("ant", "bee", "cow")]
    assert [x for _, x in headings[3:]] == columns  # after those of the rows


def test_cells_are_as_strong_as_the_root_of_their_share() -> None:
    counts = np.array([[64, 36], [9, 91]])
    drawing = read(confusion_map(["a", "b"], counts))
    strength = {}
    for path in drawing.iter("path"):
        for column, row in re.findall(r"M([\d.]+) ([\d.]+)h", path.get("d", "")):
            kind = path.get("class", "").removeprefix("glws-")
            strength[float(row) > 0, float(column) > 0] = (kind, float(path.get("fill-opacity", "nan")))
    assert {place: kind for place, (kind, _) in strength.items()} == {
        (False, False): "right",
        (False, True): "wrong",
        (True, False): "wrong",
        (True, True): "right",
    }
    for (row, column), (_, opacity) in strength.items():
        assert 0 <= opacity - np.sqrt(counts[int(row), int(column)] / 100) < 1 / LEVELS


def test_classes_that_do_not_occur_make_no_trouble() -> None:
    drawing = read(confusion_map(["a", "b"], np.array([[0, 0], [1, 2]])))
    assert drawing.findtext("desc", "").replace("\u00a0", " ") == "a: 0.0 % right; b: 66.7 % right"


def test_a_hundred_classes_stay_small_and_a_thousand_are_not_drawn() -> None:
    counts = np.random.default_rng(0).integers(0, 5, (100, 100))
    drawing = confusion_map([str(k) for k in range(100)], counts)
    assert len(drawing) < 300_000
    assert texts(read(drawing)) == ["predicted", "true"]
    assert confusion_map([str(k) for k in range(1000)], np.zeros((1000, 1000))) == ""


def test_mistakes_are_those_off_the_diagonal_in_order() -> None:
    counts = np.random.default_rng(4).integers(0, 50, (5, 5))
    pairs = [(row, column) for row in range(5) for column in range(5) if row != column and counts[row, column]]
    slow = sorted(pairs, key=lambda pair: (-counts[pair], pair))[:8]
    found = mistakes([str(k) for k in range(5)], counts)
    assert [(int(one.truth), int(one.predicted)) for one in found] == slow
    assert [one.share for one in found] == pytest.approx([counts[pair] / counts[pair[0]].sum() for pair in slow])
    assert mistakes(["a", "b"], np.diag([3, 4])) == []


# Sizes


@pytest.mark.parametrize("high", [4, 29, 31, 1000])
def test_bars_of_sizes_are_as_high_as_their_counts(high: int) -> None:
    sizes = np.append(np.random.default_rng(high).integers(1, high, 200), [1, high])
    drawing = read(size_histogram(sizes))
    bars = of_kind(drawing, "rect", "fill")
    step = -(-high // 30)
    counts = np.array([np.sum((sizes - 1) // step == k) for k in range(-(-high // step))])
    heights = np.array([number(bar, "height") for bar in bars])
    assert len(bars) == np.count_nonzero(counts) <= 30
    assert np.abs(heights / heights.max() - counts[counts > 0] / counts.max()).max() < 0.01
    axis = of_kind(drawing, "line", "axis")[0]
    left, right = number(axis, "x1"), number(axis, "x2")
    edges = left + (right - left) * np.arange(len(counts) + 1) / len(counts)
    sides = [(number(bar, "x"), number(bar, "x") + number(bar, "width")) for bar in bars]
    expected = [(edges[k] + 1, edges[k + 1] - 1) for k in np.flatnonzero(counts)]  # a pixel free at each side
    assert np.abs(np.array(sides) - expected).max() < 2 * ROUNDED


# Prior and posterior


def test_bars_are_as_long_as_prediction_and_posterior() -> None:
    prediction, posterior = np.array([0.1, 0.5, 0.003, 0.397]), np.array([0.7, 0.2, 0.002, 0.098])
    drawing = read(belief_bars(["a", "b", "c", "d"], prediction, posterior, "title"))
    full = number(of_kind(drawing, "rect", "track")[0], "width")
    for kind, values in (("prior", prediction), ("fill", posterior)):
        lengths = [number(bar, "width") / full for bar in of_kind(drawing, "rect", kind)]
        assert lengths == pytest.approx(values[[0, 1, 3]].tolist(), abs=0.001)  # the most believed first
    assert texts(drawing)[:2] == ["a", "0.10 → 0.70"]
    assert texts(drawing)[-1] == "1 more, less likely"


def test_predictions_that_are_not_numbers_have_no_bar() -> None:
    drawing = read(belief_bars(["a", "b"], np.array([np.nan, np.nan]), None, "title"))
    assert of_kind(drawing, "rect", "prior") == []
    assert "nan" in texts(drawing)
