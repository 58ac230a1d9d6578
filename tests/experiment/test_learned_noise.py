"""Noise that a run has learned: in its log, its result, its report and the labels of new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.small_run import train
from experiment.test_finished_run import predicted_by_hand

from glws.cli import run
from glws.errors import DataError
from glws.experiment import FinishedRun
from glws.training import RunFolder

DESCRIPTION = """\
data: {name}.csv
features: "f*"
classes: [benign, malignant]
kind: noisy_labels
weak: {{label: seen}}
options: {options}
"""


def write(folder: Path, name: str, options: str, size: int = 600, seed: int = 0) -> Path:
    """Rows of two classes; a fifth of their labels is wrong."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(size, 2))
    seen = (values[:, 0] > 0) ^ (generator.random(size) < 0.2)
    rows = [f"{x:.4f},{y:.4f},{'malignant' if k else 'benign'}" for (x, y), k in zip(values, seen, strict=True)]
    (folder / f"{name}.csv").write_text("\n".join(["f1,f2,seen", *rows]) + "\n")
    (folder / f"{name}.yaml").write_text(DESCRIPTION.format(name=name, options=options))
    return folder / f"{name}.yaml"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned the rate of wrong labels."""
    folder = tmp_path_factory.mktemp("learned")
    table = write(folder, "table", "{rate: learn}")
    options = ["training.epochs=8", "training.batch_size=32", "training.learning_rate=0.1"]
    return train(folder / "run", "--data", str(table), *options)


def rate(folder: Path) -> float:
    (estimate,) = RunFolder.open(folder).result()["noise"]  # type: ignore[misc]
    return float(estimate["value"])  # type: ignore[call-overload, index, arg-type]


def test_the_rate_is_in_the_result_with_an_interval_and_in_every_row_of_the_log(learned: Path) -> None:
    (estimate,) = RunFolder.open(learned).result()["noise"]  # type: ignore[misc]
    assert estimate["name"] == "rate"  # type: ignore[call-overload, index]
    assert estimate["low"] < 0.2 < estimate["high"]  # type: ignore[call-overload, index, operator]
    assert not estimate["is_weak"]  # type: ignore[call-overload, index]
    rates = [row["noise_NoisyLabels_rate"] for row in RunFolder.open(learned).rows()]
    assert rates[0] == pytest.approx(0.35)  # the start, before the first M-step
    assert rates[-1] == pytest.approx(rate(learned))


def test_the_report_shows_it(learned: Path) -> None:
    page = (learned / "report.html").read_text()
    assert "Learned noise" in page
    assert "95 % interval" in page


@pytest.mark.parametrize("options", ["{rate: learn}", "{rate: 0.4, learn: true}", "{rate: 0.05}"])
def test_new_data_are_labeled_with_the_noise_that_the_run_has_learned_unless_theirs_is_given(
    learned: Path, tmp_path: Path, options: str
) -> None:
    found = FinishedRun.open(learned).label(write(tmp_path, "new", options, 40, seed=1))
    table = np.genfromtxt(tmp_path / "new.csv", delimiter=",", skip_header=1, usecols=(0, 1))
    seen = np.array([line.endswith("malignant") for line in (tmp_path / "new.csv").read_text().splitlines()[1:]])
    wrong = 0.05 if "0.05" in options else rate(learned)
    weights = predicted_by_hand(learned, table) * np.where(seen[:, None] == [False, True], 1 - wrong, wrong)
    wanted = (weights / weights.sum(1, keepdims=True))[:, 1]
    order = np.argsort(found["row"], kind="stable")
    np.testing.assert_allclose(found["p(malignant)"][order], wanted, atol=2e-6)  # float32 predictions


def test_other_learned_noise_than_that_of_the_run_is_refused(learned: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the noise of NoisyLabels is to be learned, but training has learned that of"):
        FinishedRun.open(learned).label(write(tmp_path, "new", "{transition: learn}", 40))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{rate: 0.0, learn: true}", "noise is learned from a start between 0 and 1, found rate 0"),
        ("{rate: 0.1, learn: soon}", "option learn must be true, false or a number of prior counts above 0"),
        ("{}", "{rate: learn} or {transition: learn} learns it"),
    ],
)
def test_what_cannot_be_learned_is_one_line(options: str, message: str, tmp_path: Path, capsys: Any) -> None:
    assert run(["doctor", str(write(tmp_path, "table", options, 20))]) == 2
    assert message in capsys.readouterr().err


def test_the_checkpoint_holds_the_counts(learned: Path) -> None:
    from glws.training import learned_counts

    counts = learned_counts(RunFolder.open(learned)).counts["NoisyLabels"]
    assert counts.shape == (2,)
    assert float(counts[0] / counts.sum()) == pytest.approx(rate(learned))
    assert counts.dtype == torch.float64
