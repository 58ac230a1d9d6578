"""How long training takes by default: by steps, rows and groups, and the same from every entrance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

from glws import WeakClassifier
from glws.data import Groups, WeakDataset
from glws.experiment import Experiment, config_of
from glws.kinds import Labels, Proportions, Unlabeled
from glws.methods import GLWS
from glws.models import build
from glws.training import Order, Training, TrainingConfig, World, fit
from glws.training._length import with_length, with_rate


def bags(number: int, size: int) -> WeakDataset:
    groups = Groups(torch.arange(number + 1) * size, torch.arange(number * size))
    return WeakDataset(torch.zeros(number * size, 2), groups, Proportions.of([1] * number), check=False)


def positives(number: int, unlabeled: int) -> WeakDataset:
    groups = [Groups.singles(number), Groups.of(torch.arange(number, number + unlabeled)[None])]
    weak = [Labels.of([1] * number, 2), Unlabeled.of([0.3])]
    return WeakDataset(torch.zeros(number + unlabeled, 2), groups, weak)


CASES = {
    "forty positives and one unlabeled set": (positives(40, 400), 100, (128, 1), 1),
    "seventy bags": (bags(70, 8), 100, (16,), 5),
    "two thousand rows": (bags(200, 10), 63, (13,), 16),
    "fifty thousand rows": (bags(5000, 10), 20, (13,), 385),
    "a million rows": (bags(100_000, 10), 5, (250,), 400),
    "ten million rows": (bags(1_000_000, 10), 3, (410,), 2440),
    "a few large bags": (bags(20, 50_000), 5, (1,), 20),
}


@pytest.mark.parametrize("name", CASES)
def test_the_default_length_follows_steps_rows_and_groups(name: str) -> None:
    data, epochs, batch, steps = CASES[name]
    config = with_length(TrainingConfig(), data)
    assert (config.epochs, config.batch_size) == (epochs, batch)
    assert Order.of(data, config.batch_size, 0).steps_per_epoch == steps


def test_more_rows_never_mean_more_passes_nor_smaller_steps() -> None:
    found = [with_length(TrainingConfig(), bags(10**power, 5)) for power in range(1, 7)]
    passes, batches = [config.epochs or 0 for config in found], [config.batch_size[0] for config in found]  # type: ignore[index]
    assert passes == sorted(passes, reverse=True)
    assert batches == sorted(batches)


def test_what_is_given_stays_and_the_rest_follows_it() -> None:
    data = bags(200, 10)
    assert with_length(TrainingConfig(epochs=7), data) == TrainingConfig(epochs=7, batch_size=(13,))
    assert with_length(TrainingConfig(batch_size=2), data) == TrainingConfig(epochs=20, batch_size=2)
    given = TrainingConfig(epochs=3, batch_size=50)
    assert with_length(given, data) is given


def test_the_command_line_fit_and_the_estimator_train_equally_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    rows, owner = draw.normal(size=(240, 2)), np.repeat(np.arange(60), 4)
    counts = np.bincount(owner, rows[:, 0] > 0).astype(int)
    lines = [f"{bag},{x:.4f},{y:.4f},{counts[bag]}" for bag, (x, y) in zip(owner, rows, strict=True)]
    (tmp_path / "bags.csv").write_text("\n".join(["bag,f1,f2,n", *lines]) + "\n")
    (tmp_path / "bags.yaml").write_text(
        "data: bags.csv\nfeatures: 'f*'\nclasses: [down, up]\ngroup: bag\nkind: proportions\nweak: {count: n}\n"
    )
    monkeypatch.setattr("glws.training._length.MOST_EPOCHS", 4)
    monkeypatch.setattr("glws.training._length.FEWEST_EPOCHS", 1)
    content = {"data": {"table": str(tmp_path / "bags.yaml"), "held_out": 0}, "model": {"name": "linear"}}
    experiment = Experiment.of(config_of(content), World())
    assert (experiment.config.training.epochs, experiment.config.training.batch_size) == (4, (32,))
    assert (
        config_of(experiment.config.as_dict()) == experiment.config
    )  # what is stored is what is trained, and is resumed

    data = WeakDataset(torch.as_tensor(rows).float(), Groups.from_ids(owner), Proportions.of(counts))
    fitted = fit(build("linear", [2], 2), data)
    assert (fitted.history[-1]["epoch"], fitted.history[-1]["step"]) == (4, 8)
    model = WeakClassifier("linear", kind="proportions", device="cpu").fit(rows, counts[owner], groups=owner)
    assert len(model.loss_curve_) == 4


def test_a_training_knows_its_length_before_it_begins() -> None:
    training = Training(build("linear", [2], 2), bags(70, 8), GLWS(), TrainingConfig(), None, World())
    assert (training.num_epochs, training.progress.num_steps) == (100, 500)


def test_a_linear_model_takes_larger_steps_unless_they_are_chosen() -> None:
    linear, network = build("linear", [3], 2), build("mlp", [3], 2)
    open_rate, chosen = TrainingConfig(), TrainingConfig(learning_rate=0.2)
    assert [with_rate(open_rate, model).learning_rate for model in (linear, network)] == [0.03, 1e-3]
    assert [with_rate(chosen, model).learning_rate for model in (linear, network)] == [0.2, 0.2]


def test_a_linear_model_fits_a_small_table_by_default() -> None:
    """Steps of 1e-3 end at 0.70."""
    rows, labels = load_wine(return_X_y=True)
    model = WeakClassifier("linear", random_state=0).fit(rows, labels)
    assert model.score(rows, labels) > 0.98
