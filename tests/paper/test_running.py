"""Runs of the paper's cells on small made-up data: results are written once, failures do not spread."""

import json
from pathlib import Path

import numpy as np
import pytest

from glws.cli import run as command
from glws.data import Source, Split
from glws.paper import cell, cells
from glws.paper import running as running_module
from glws.paper.plans import plan
from glws.paper.results import read_results
from glws.paper.running import Crowd, PaperRun, run_all, run_cell, runnable


def tiny(name: str, folder: Path | None = None, verify: bool = True) -> Source:
    """Images whose brightness in one corner tells the class."""
    generator = np.random.default_rng(0)

    def part(number: int) -> Split:
        labels = np.arange(number) % 10
        images = generator.integers(0, 40, (number, 1, 28, 28), dtype=np.uint8)
        images[np.arange(number), 0, 2 * labels, 2 * labels] = 255
        return Split(images, labels)

    return Source("mnist", tuple("0123456789"), part(300), part(100))


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "load", tiny)


BAGS = PaperRun("proportions", "mnist", "classes=2,mean=50", seed=1, epochs=1)


@pytest.mark.slow
def test_a_run_is_written_once_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_cell(BAGS, tmp_path, device="cpu", runs=tmp_path / "runs")
    assert {"accuracy", "balanced_accuracy", "matched_accuracy", "best_on_test", "curve"} <= first.keys()
    assert (first["epochs"], first["seed"], len(first["curve"])) == (1, 1, 1)
    monkeypatch.setattr(running_module, "load", None)  # nobody is to need it
    assert run_cell(BAGS, tmp_path, device="cpu") == first
    (record,) = read_results(tmp_path)
    assert record["cell"] == "classes=2,mean=50"


@pytest.mark.slow
def test_a_run_that_breaks_is_counted_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = PaperRun("positive_unlabeled", "mnist", "positives=1000", epochs=1)  # there are not so many
    assert run_all([broken, BAGS], Crowd(tmp_path, device="cpu")) == 1
    out = capsys.readouterr().out
    assert "positives=1000" in out
    assert "DataError" in out
    assert BAGS.path(tmp_path).exists()
    assert not broken.path(tmp_path).exists()


def test_no_run_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    assert run_all([BAGS], Crowd(tmp_path, device="cpu", seconds=0.0)) == 0
    assert not BAGS.path(tmp_path).exists()


def test_every_runnable_cell_has_a_plan_for_glws_and_the_ceiling() -> None:
    chosen = [one for one in cells() if runnable(one)]
    assert len(chosen) > 150
    for one in chosen:
        for method in ("glws", "supervised"):
            made = plan(one, method, seed=0, device="cpu")
            assert made.config.epochs == one.hyper_parameters().epochs


def test_a_baseline_that_needs_a_prior_gets_that_of_the_cell() -> None:
    made = plan(cell("pair_comparison", "mnist", "prior=0.8"), "pcomp_relu", seed=0)
    assert made.method.prior == 0.8  # type: ignore[attr-defined]


def test_list_and_mistakes_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command(["paper", "list", "proportions", "--dataset", "mnist"]) == 0
    assert "classes=10,mean=20" in capsys.readouterr().out
    for words in (
        ["paper", "list", "proportion"],
        ["paper", "run", "proportions", "--dataset", "minst"],
        ["paper", "run", "proportions", "--cell", "classes=3"],
        ["paper", "run", "proportions", "--method", "glvs"],
        ["paper", "run", "proportions", "--seeds", "one"],
        ["paper", "show", "all", "--results", str(tmp_path / "none")],
    ):
        assert command(words) == 2, words
        errors = capsys.readouterr().err
        assert errors.startswith("glws: error: ")
        assert len(errors.splitlines()) == 1


def test_show_prints_our_number_beside_the_published_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = {"setting": "proportions", "dataset": "mnist", "cell": "classes=2,mean=50", "method": "glws", "seed": 0}
    shares = {"accuracy": 0.98, "balanced_accuracy": 0.975, "matched_accuracy": 0.98, "best_on_test": 0.976}
    (tmp_path / "one.json").write_text(json.dumps({**record, **shares, "seconds": 1.0, "epochs": 100}))
    assert command(["paper", "show", "proportions", "--results", str(tmp_path)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "MNIST, classes=2,mean=50" in line)
    assert "97.05±0.13" in line
    assert "97.50 (1)" in line
    assert "+0.45" in line
