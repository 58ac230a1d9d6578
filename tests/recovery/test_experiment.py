"""Experiments that go on: with the scaling they began with, or without it, killed before it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from glws.errors import RunError
from glws.experiment import SCALING, Experiment, ExperimentConfig, config_of
from glws.training import Observer, RunFolder, World


def config(folder: Path, shift: float = 0.0) -> ExperimentConfig:
    """A small experiment on a table whose first feature is far from zero."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40, 2)) + np.array([50 + shift, 0])
    lines = [f"{a},{b},{number // 4},{int((x[number // 4 * 4 :][:4, 1] > 0).sum())}" for number, (a, b) in enumerate(x)]
    (folder / "bags.csv").write_text("\n".join(["a,b,bag,n", *lines]) + "\n")
    about = {"data": "bags.csv", "features": ["a", "b"], "classes": 2, "group": "bag", "kind": "proportions"}
    (folder / "bags.yaml").write_text(yaml.safe_dump({**about, "weak": {"count": "n"}}))
    return config_of({"data": {"table": str(folder / "bags.yaml")}, "training": {"epochs": 2, "save_every": 0}})


def ended(experiment: Experiment, run: RunFolder) -> dict[str, torch.Tensor]:
    """The scaling that a run has when it has ended."""
    with run:
        experiment.finish(run, Observer(), pytest.fail)
        return run.read_tensors(SCALING)


def test_a_run_that_was_killed_before_it_wrote_its_scaling_has_it_in_the_end(tmp_path: Path) -> None:
    experiment = Experiment.of(config(tmp_path), World())
    whole = ended(experiment, experiment.begin(tmp_path / "whole"))
    RunFolder.create(tmp_path / "cut", experiment.config.as_dict(), seed=0, command=["glws"]).close()  # killed here
    found = ended(*Experiment.resumed(tmp_path / "cut", World()))
    assert all(torch.equal(found[name], whole[name]) for name in ("mean", "spread"))
    for name in ("metrics.jsonl", "result.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_goes_on_with_the_scaling_it_began_with(tmp_path: Path) -> None:
    experiment = Experiment.of(config(tmp_path), World())
    experiment.begin(tmp_path / "run").close()
    config(tmp_path, shift=3.0)  # the data are changed meanwhile
    experiment, run = Experiment.resumed(tmp_path / "run", World(), changed_data=True)
    first = experiment.data.whole.instances.take(torch.arange(40))[:, 0]
    assert float(first.mean()) == pytest.approx(3.0, rel=0.5)
    run.close()


@pytest.mark.parametrize("rank", [0, 1])
def test_every_process_says_that_a_finished_run_is_finished(rank: int, tmp_path: Path) -> None:
    experiment = Experiment.of(config(tmp_path), World())
    ended(experiment, experiment.begin(tmp_path / "run"))
    with pytest.raises(RunError, match=r"is finished; its report is .*report\.html$"):
        Experiment.resumed(tmp_path / "run", World(rank, 1))
