"""One experiment: what is trained, evaluated and reported is one thing, computed once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.small_run import QUICK, write_table
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.errors import RunError
from glws.experiment import Experiment, ExperimentData, FinishedRun, read_config
from glws.kinds import Proportions
from glws.models import build
from glws.training import Observer, TrainingConfig, World, fit


def seen_in_evaluation(model: nn.Module) -> Counter[tuple[float, ...]]:
    """Counts from now on how often the network is asked about an instance while it is not training."""
    seen: Counter[tuple[float, ...]] = Counter()

    def count(module: nn.Module, inputs: tuple[Tensor]) -> None:
        if not module.training:
            seen.update(tuple(row) for row in inputs[0].tolist())

    model.register_forward_pre_hook(count)
    return seen


def test_the_test_set_is_predicted_once_per_epoch_for_scores_report_and_results(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    experiment = Experiment.of(
        read_config(None, [*QUICK, f"data.table={table}", "data.held_out=0.5", "data.source=null"]), World()
    )
    assert experiment.data.test is not None
    rows = experiment.data.test.instances.take(torch.arange(len(experiment.data.test.instances)))
    held_out = Counter(torch.unique(experiment.data.held_out.groups[0].indices).tolist())  # type: ignore[union-attr]
    seen = seen_in_evaluation(experiment.training.model)
    with experiment.begin(tmp_path / "run") as run:
        outcome = experiment.finish(run, Observer(), pytest.fail)
    # Held-out groups have the same instances, and are predicted once per epoch as well.
    assert len(held_out) == len(rows)
    assert {seen[tuple(row)] for row in rows.tolist()} == {2 * 2}
    content = FinishedRun.open(outcome.folder).report()
    assert content.confusion.trace() / content.confusion.sum() == outcome.scores["accuracy"]
    assert content.metrics[-1]["test_accuracy"] == outcome.scores["accuracy"]


def small(folder: Path, *options: str) -> Experiment:
    return Experiment.of(read_config(None, [*QUICK, f"data.table={write_table(folder)}", "data.source=null", *options]))


def same_columns(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, column in first.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(column, second[name], atol=1e-6, err_msg=name)
        else:
            assert column.tolist() == second[name].tolist(), name


def test_an_experiment_in_memory_answers_as_its_finished_run(tmp_path: Path) -> None:
    experiment = small(tmp_path, "data.held_out=0.5")
    with experiment.begin(tmp_path / "run") as run:
        outcome = experiment.finish(run)
    used = FinishedRun.open(tmp_path / "run")
    same_columns(experiment.predict(), used.predict())
    same_columns(experiment.label(), used.label())
    assert experiment.evaluate() == outcome.scores == used.run.result()


def test_training_with_and_without_a_folder_gives_the_same_bits(tmp_path: Path) -> None:
    first, second = small(tmp_path), small(tmp_path)
    with first.begin(tmp_path / "run") as run:
        first.finish(run)
    assert second.train().history == first.fitted.history
    assert second.evaluate() == first.evaluate()


def test_fit_and_an_experiment_train_alike() -> None:
    x = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    data = WeakDataset(x, torch.arange(24).view(8, 3), Proportions.of((x[:, 0] > 0).view(8, 3).sum(1)))
    config = TrainingConfig(epochs=2, batch_size=4)
    models = [build("linear", [3], 2, torch.Generator().manual_seed(1)) for _ in range(2)]
    fitted = fit(models[0], data, config=config, held_out=data)
    experiment = Experiment(ExperimentData.of(data, held_out=data, classes=["no", "yes"]), models[1], config=config)
    assert experiment.train().history == fitted.history
    assert set(experiment.label()["label"]) <= {"no", "yes"}
    assert torch.equal(experiment.predictor(x), fitted.predict(x))
    with pytest.raises(RunError, match="there is no configuration to store in a run"):
        experiment.begin()


def test_nothing_is_answered_before_training(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    for ask in (experiment.evaluate, experiment.predict, experiment.label):
        with pytest.raises(RunError, match=r"^nothing is trained yet; call train\(\) first$"):
            ask()
