"""The examples for an advertiser, an election and a fraud analyst, from files to metrics and labels."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from examples import adult_noisy_counts, advertiser, election, fraud
from glws.aggregates import ecological, read_margins
from glws.cli import run


@pytest.mark.slow
def test_an_advertiser_trains_on_noisy_counts_of_overlapping_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    advertiser.write(tmp_path, people=1500)
    assert run(["doctor", "clicks.yaml"]) == 0
    assert run(["train", "--data", "clicks.yaml", "--out", "run", "training.epochs=15"]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["content"]["scores"]["accuracy"] > 0.8


@pytest.mark.slow
def test_fourteen_columns_are_learned_from_noisy_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adult_noisy_counts.main(["--model", "linear"]) > 0.75
    assert "columns: 6 numbers, 8 categories; 51 inputs of the model" in capsys.readouterr().out
    line = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, Cuba, >50K\n"
    )
    (tmp_path / "adult.data").write_text(line)
    people, is_rich = adult_noisy_counts.read(tmp_path / "adult.data", np.random.default_rng(0), 10)
    assert (people["age"][0], people["occupation"][0], is_rich.tolist()) == (39.0, None, [True])


@pytest.mark.slow
def test_a_fraud_analyst_trains_without_knowing_the_prior(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fraud.write(tmp_path)
    assert run(["doctor", "fraud.yaml"]) == 0
    assert run(["train", "--data", "fraud.yaml", "--out", "run", "training.epochs=40"]) == 0
    assert run(["label", "run", "--out", "labels.csv"]) == 0
    with (tmp_path / "labels.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    with (tmp_path / "fraud.csv").open() as file:
        truth = [row["truth"] for row in csv.DictReader(file)]
    assert np.mean([a == b for a, b in zip(found, truth, strict=True)]) > 0.9


@pytest.mark.slow
def test_an_election_is_margins_in_and_cells_out(tmp_path: Path) -> None:
    election.write(tmp_path, precincts=50)
    margins = read_margins(tmp_path / "precincts.csv", election.ROWS, election.COLUMNS, area="precinct")
    found = ecological(margins.rows, margins.columns, row_names=election.ROWS, draws=400)
    hidden = np.loadtxt(tmp_path / "cells.csv", delimiter=",", skiprows=1, usecols=range(1, 7)).reshape(-1, 2, 3)
    true = hidden.sum(0) / margins.rows.sum(0)[:, None]
    assert abs(found.cells - true).mean() < 0.03
    assert "town" in repr(found)
