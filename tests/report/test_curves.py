"""Which logged numbers become curves, over what, and how the runs of a comparison share a plot."""

import re

import numpy as np

from glws.report._curves import MAX_POINTS, comparison_charts, logged_numbers, place_name, run_charts


def polylines(plot: str) -> list[int]:
    return [len(points.split()) for points in re.findall(r'<polyline points="([^"]*)"', plot)]


def test_curves_run_over_epochs_if_each_row_has_its_own() -> None:
    assert place_name([[{"epoch": 1, "step": 5}, {"epoch": 2, "step": 9}]]) == "epoch"
    assert place_name([[{"epoch": 1, "step": 5}, {"epoch": 1, "step": 9}]]) == "step"
    assert place_name([[{"epoch": 1}, {"epoch": 2}], [{"step": 1}]]) == "row"
    assert place_name([[{"epoch": 1}, {"loss": 2.0}]]) == "row"


def test_only_numbers_are_drawn() -> None:
    log = [{"epoch": 1, "loss": 1, "note": "text", "done": True, "nothing": None, "numpy": np.float32(2)}]
    assert logged_numbers([log]) == ["loss", "numpy"]


def test_training_and_test_share_a_chart_and_the_asked_for_come_first() -> None:
    log = [{"epoch": n, "zeal": 1.0, "loss": 2.0, "train_accuracy": 0.5, "test_accuracy": 0.4} for n in (1, 2)]
    charts = run_charts(log)
    assert [chart.heading for chart in charts] == ["accuracy", "loss", "zeal"]
    assert [(entry.name, entry.last) for entry in charts[0].legend] == [
        ("test accuracy", "40.0\u00a0%"),
        ("train accuracy", "50.0\u00a0%"),
    ]


def test_a_column_that_is_missing_in_some_rows_joins_those_that_have_it() -> None:
    log = [{"step": n, "loss": 1.0, **({"test_accuracy": 0.5} if n % 3 == 0 else {})} for n in range(9)]
    assert [polylines(chart.plot) for chart in run_charts(log)] == [[3], [9]]


def test_long_logs_are_thinned_but_keep_their_ends() -> None:
    log = [{"step": n, "loss": float(n)} for n in range(12_345)]
    chart = run_charts(log)[0]
    assert polylines(chart.plot) == [MAX_POINTS]
    assert chart.legend[0].last == "12,344"
    assert chart.note == "300 of 12,345 points drawn"
    assert "from 0 to 12,344 over step 0 to 12,344" in chart.plot


def test_a_value_that_is_no_number_is_told_even_if_its_point_is_not_drawn() -> None:
    log = [{"step": n, "loss": float("nan") if n in (700, 703) else 1.0} for n in range(1500)]
    assert run_charts(log)[0].note == "2 values not finite, 300 of 1,500 points drawn"


def test_values_too_large_to_draw_are_gaps() -> None:
    log = [{"epoch": n, "loss": value} for n, value in enumerate([1.0, 2.0, 1e300, 3.0, 4.0])]
    assert polylines(run_charts(log)[0].plot) == [2, 2]


def test_a_run_keeps_its_color_where_another_lacks_the_number() -> None:
    logs = [[{"epoch": 1, "loss": 1.0}], [{"epoch": 1, "loss": 2.0, "entropy": 0.5}]]
    charts = {chart.heading: chart for chart in comparison_charts(["a", "b"], logs)}
    second = charts["loss"].legend[1]
    assert charts["entropy"].legend == [second._replace(last="0.5")]
    assert "glws-c1" in second.swatch


def test_runs_beyond_the_sixth_are_dashed() -> None:
    logs = [[{"epoch": 1, "loss": float(n)}] for n in range(8)]
    looks = [entry.swatch for entry in comparison_charts([str(n) for n in range(8)], logs)[0].legend]
    assert len(set(looks)) == 8


def test_logs_without_numbers_have_no_charts() -> None:
    assert run_charts([]) == []
    assert comparison_charts(["a", "b"], [[], []]) == []
