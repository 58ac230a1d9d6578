"""Columns that will mislead: values lost in rounding, constant features, labels among the features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glws.cli import run
from glws.data import column_remarks, lost_values, read_description, read_table

ROWS = 60


def columns() -> dict[str, Any]:
    """Bags of 5 with counts; nothing wrong with the features a and b."""
    draw = np.random.default_rng(4)
    bags, truth = np.arange(ROWS) // 5, draw.integers(0, 2, ROWS)
    return {"bag": bags, "n": np.bincount(bags, truth)[bags].astype(int), "truth": np.where(truth, "up", "down"),
            "a": draw.normal(size=ROWS), "b": draw.integers(0, 7, ROWS)}  # fmt: skip


def remarks(folder: Path, features: Any = None, **others: Any) -> list[str]:
    """What is said of a table with these columns beside the usual ones; those are features unless told."""
    content = {**columns(), **others}
    rows = zip(*[np.asarray(values).tolist() for values in content.values()], strict=True)
    (folder / "t.csv").write_text("\n".join([",".join(content), *(",".join(map(str, row)) for row in rows)]) + "\n")
    about = {"data": str(folder / "t.csv"), "features": features or ["a", "b", *others], "classes": ["down", "up"],
             "label": "truth", "group": "bag", "kind": "proportions", "weak": {"count": "n"}}  # fmt: skip
    return column_remarks(read_table(about), read_description(about))


def test_nothing_is_said_of_usual_columns(tmp_path: Path) -> None:
    assert remarks(tmp_path, far=1.7e9 + np.arange(ROWS), whole=np.arange(ROWS), flag=np.arange(ROWS) % 2) == []


def test_a_column_that_loses_values_when_standardized_is_named(tmp_path: Path) -> None:
    wide = np.where(np.arange(ROWS) == 7, 1e20, np.arange(ROWS))
    assert remarks(tmp_path, wide=wide) == [
        "column wide keeps 2 of its 60 distinct values when standardized in float32: its range is too wide; clip what "
        "lies far out, or take the logarithm"
    ]


def test_all_columns_that_lose_values_are_named() -> None:
    features = np.stack([1.7e9 + np.arange(500) / 10, np.arange(500) / 10, -4e12 - np.arange(500)], axis=1)
    (line,) = lost_values(features, None, ["s", "near", "ms"])
    assert line.startswith("column s keeps ")
    assert line.endswith("subtract an offset (also ms)")


@pytest.mark.parametrize("rows", [10, 1000, 100_000])
def test_continuous_columns_of_any_length_lose_nothing_worth_a_word(rows: int) -> None:
    draw = np.random.default_rng(rows)
    features = np.stack([draw.normal(size=rows), draw.exponential(size=rows), draw.uniform(-1, 1, rows)], axis=1)
    assert lost_values(features, None, "abc") == []


def test_constant_columns_are_counted_and_named(tmp_path: Path) -> None:
    assert remarks(tmp_path, c=np.full(ROWS, 0.1)) == ["1 feature column holds one value in all rows (c)"]
    both = remarks(tmp_path, c=np.full(ROWS, 0.1), d=np.full(ROWS, 3))
    assert both == ["2 feature columns hold one value in all rows (c, d)"]


def test_groups_and_weak_labels_among_the_features_are_named(tmp_path: Path) -> None:
    assert remarks(tmp_path, ["a", "n", "bag"]) == [
        "column bag is a feature and the group of proportions: leave it out of the features",
        "column n is a feature and the weak label of proportions: leave it out of the features",
    ]


@pytest.mark.parametrize("codes", [(0, 1), (1, 0), (-7.5, 2)])
def test_a_column_that_tells_the_true_label_is_named_whatever_its_codes(tmp_path: Path, codes: Any) -> None:
    told = np.where(columns()["truth"] == "up", codes[1], codes[0])
    line = "column told reveals the true label (truth): leave it out of the features"
    assert remarks(tmp_path, told=told) == [line]
    told[3] = told[4] = told[5] = codes[0]  # no longer of every row
    assert remarks(tmp_path, told=told) == ([] if "up" in columns()["truth"][3:6] else [line])


def test_a_column_that_repeats_a_weak_label_is_named(tmp_path: Path) -> None:
    assert remarks(tmp_path, copy=columns()["n"], other=columns()["n"] + 1) == [
        "column copy repeats the weak label count of proportions: leave it out of the features"
    ]


def test_doctor_prints_what_is_wrong_with_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remarks(tmp_path, c=np.full(ROWS, 3))
    (tmp_path / "t.yaml").write_text(
        "data: t.csv\nfeatures: [a, c]\nclasses: [down, up]\ngroup: bag\nkind: proportions\nweak: {count: n}\n"
    )
    assert run(["doctor", str(tmp_path / "t.yaml")]) == 0
    assert "warning: 1 feature column holds one value in all rows (c)\n" in capsys.readouterr().out


def test_a_column_that_repeats_observed_classes_under_other_numbers_is_named(tmp_path: Path) -> None:
    seen = np.arange(ROWS) % 3 % 2
    (tmp_path / "t.csv").write_text("\n".join(["f,seen", *(f"{7 - value},{value}" for value in seen)]) + "\n")
    about = {"data": str(tmp_path / "t.csv"), "features": "f", "classes": 2, "kind": "noisy_labels",
             "weak": {"label": "seen"}, "options": {"rate": 0.1}}  # fmt: skip
    assert column_remarks(read_table(about), read_description(about)) == [
        "column f repeats the weak label label of noisy_labels: leave it out of the features"
    ]
