"""Bags on the command line: class names as labels, a test table of bags, columns and scores of whole bags."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow.csv import read_csv

from glws.cli import run
from glws.training import RunFolder

DESCRIPTION = """data: {name}.csv
features: "f*"
classes: [normal, tumor]
group: bag
kind: multi_instance
weak: {{present: diagnosis}}
"""


def write_table(folder: Path, name: str, number: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with open(folder / f"{name}.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["bag", "diagnosis", "f1", "f2"])
        for bag in range(number):
            rows = rng.normal(size=(rng.integers(2, 6), 2))
            word = "tumor" if (rows[:, 0] > 1.1).any() else "normal"
            lines.writerows([f"patient {bag}", word, *row] for row in rows.tolist())
    (folder / f"{name}.yaml").write_text(DESCRIPTION.format(name=name))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bags")
    write_table(folder, "train", 160, 0)
    write_table(folder, "test", 60, 1)
    words = ["train", "--data", str(folder / "train.yaml"), f"data.test={folder / 'test.yaml'}"]
    options = ["training.epochs=40", "training.learning_rate=0.1", "model.name=linear", "data.held_out=0.3"]
    assert run([*words, *options, "--out", str(folder / "run")]) == 0
    return folder


def test_a_test_table_of_bags_gives_scores_of_bags(trained: Path) -> None:
    found = RunFolder.open(trained / "run").result()
    assert found["bags"]["auc"] > 0.95
    assert found["bags"]["accuracy"] > 0.85
    assert found["bags"]["calibration_error"] < 0.15
    assert "accuracy" not in found
    assert found["held_out"]["bag_auc"] > 0.9
    rows = [json.loads(line) for line in (trained / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {"test_bag_accuracy", "held_out_bag_auc"} <= set(rows[-1].get("row", rows[-1]))
    assert "Whole bags" in (trained / "run" / "report.html").read_text()


def test_predictions_and_labels_say_what_each_bag_is(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("predict", "label"):
        out = trained / f"{command}.csv"
        assert run([command, str(trained / "run"), str(trained / "test.yaml"), "--out", str(out)]) == 0
        columns = read_csv(out).to_pydict()
        tumor = np.array(columns["group_p(tumor)"])
        assert np.allclose(tumor + np.array(columns["group_p(normal)"]), 1)
        assert ((tumor > 0.5) == (np.array(columns["group_label"]) == "tumor")).all()
    truth = np.array(read_csv(trained / "test.csv").to_pydict()["diagnosis"])
    assert (np.array(read_csv(trained / "predict.csv").to_pydict()["group_label"]) == truth).mean() > 0.85


def test_a_name_that_is_no_class_is_one_line(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (trained / "train.csv").read_text().replace(",tumor,", ",tumour,", 1)
    (trained / "typo.csv").write_text(text)
    (trained / "typo.yaml").write_text(DESCRIPTION.format(name="typo"))
    assert run(["doctor", str(trained / "typo.yaml")]) == 2
    said = capsys.readouterr().err
    assert "column diagnosis must be 1 or 0, yes or no, or a class (normal, tumor)" in said
    assert "'tumour'" in said
