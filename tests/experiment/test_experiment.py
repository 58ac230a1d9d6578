"""One experiment: what is trained, evaluated and reported is one thing, computed once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from cli.small_run import QUICK, write_table
from torch import Tensor, nn

from glws.experiment import Experiment, FinishedRun, read_config
from glws.training import Observer, World


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
