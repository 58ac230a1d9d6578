"""Snapshots: all that a step depends on comes back; what is saved when; whose weights are evaluated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from glws.data import WeakDataset
from glws.errors import CheckpointError
from glws.kinds import Proportions
from glws.methods import GLWS
from glws.models import build
from glws.training import (
    CHECKPOINTS,
    Observer,
    RunFolder,
    Snapshots,
    Training,
    TrainingConfig,
    World,
    latest,
    trained_weights,
)

FIXTURES = Path(__file__).parent / "fixtures"


def training(seed: int = 0, **options: object) -> Training:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, 3, generator=generator)
    data = WeakDataset(x, torch.arange(24).view(6, 4), Proportions.of((x[:, 0] > 0).view(6, 4).sum(1)))
    config = TrainingConfig(epochs=3, batch_size=2, learning_rate=0.1, seed=seed, **options)  # type: ignore[arg-type]
    model = build("mlp", [3], 2, torch.Generator().manual_seed(seed), hidden=[4])
    return Training(model, data, GLWS(e_step="same"), config, None, World())


def begun(path: Path, training: Training) -> RunFolder:
    return RunFolder.create(path, {"training": {"evaluate_average": training.config.evaluate_average}}, seed=0)


def steps_of(run: RunFolder) -> list[str]:
    return sorted(path.stem for path in (run.path / CHECKPOINTS).glob("*.json"))


def test_everything_that_changes_comes_back(tmp_path: Path) -> None:
    first = training(average=0.9)
    with begun(tmp_path / "run", first) as run:
        first.run(None, None, Snapshots(run, 0.0), Observer())
        first.warnings.append("a warning")
        Snapshots(run).save(first, now=True)
    second = training(seed=5, average=0.9)
    with RunFolder.resume(tmp_path / "run") as run:
        Snapshots(run).restore(second)
    assert second.step == first.step == 9
    assert second.warnings == first.warnings
    assert second.history == first.history
    for mine, its in ((first.model, second.model), (first.averaged, second.averaged)):
        assert mine is not None
        assert its is not None
        assert all(torch.equal(*pair) for pair in zip(mine.parameters(), its.parameters(), strict=True))
    assert second.meters.tensors.keys() == first.meters.tensors.keys()
    assert all(torch.equal(first.meters.tensors[name], second.meters.tensors[name]) for name in first.meters.tensors)
    one, other = first.optimizer.state_dict()["state"], second.optimizer.state_dict()["state"]
    assert all(torch.equal(one[number][name], other[number][name]) for number in one for name in one[number])


@pytest.mark.parametrize(("every", "expected"), [(0.0, ["step-000006", "step-000009"]), (1e9, ["step-000009"])])
def test_epochs_are_saved_as_often_as_asked_and_the_last_always(
    every: float, expected: list[str], tmp_path: Path
) -> None:
    made = training()
    with begun(tmp_path / "run", made) as run:
        made.run(None, None, Snapshots(run, every), Observer())
        assert steps_of(run) == expected


def test_without_a_folder_nothing_is_saved_or_restored() -> None:
    made = training()
    Snapshots(None).restore(made)
    Snapshots(None).save(made, now=True)
    Snapshots(None).note(made, {"epoch": 1})
    assert made.step == 0


def test_a_damaged_snapshot_is_reported_and_the_one_before_it_used(tmp_path: Path) -> None:
    made, messages = training(), []
    with begun(tmp_path / "run", made) as run:
        made.run(None, None, Snapshots(run, 0.0), Observer())
    damaged = next((tmp_path / "run" / CHECKPOINTS).glob("step-000009-*"))
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(bytes(content))
    again = training()
    with RunFolder.resume(tmp_path / "run") as run:
        Snapshots(run, report=messages.append).restore(again)
    assert again.step == 6
    assert len(again.history) == 2
    assert len(messages) == 1
    assert "step-000009" in messages[0]


def test_all_processes_go_on_from_the_snapshot_that_the_first_one_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that is not the newest sound one: the first also looks at the metrics."""
    made = training()
    with begun(tmp_path / "run", made) as run:
        made.run(None, None, Snapshots(run, 0.0), Observer())
    other = training()
    monkeypatch.setattr(other, "world", World(1, 2))
    monkeypatch.setattr(World, "broadcast", lambda self, number: 6)
    monkeypatch.setattr(World, "wait", lambda self: None)
    Snapshots(RunFolder.open(tmp_path / "run")).restore(other)
    assert (other.step, len(other.history)) == (6, 2)


@pytest.mark.parametrize("evaluate_average", [False, True])
def test_trained_weights_are_those_that_are_evaluated(evaluate_average: bool, tmp_path: Path) -> None:
    made = training(average=0.9, evaluate_average=evaluate_average)
    with begun(tmp_path / "run", made) as run:
        made.run(None, None, Snapshots(run, 0.0), Observer())
    found = trained_weights(RunFolder.open(tmp_path / "run"))
    expected = made.averaged if evaluate_average else made.model
    assert expected is not None
    assert found.keys() == expected.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in expected.state_dict().items())


def test_a_run_without_a_checkpoint_has_no_weights(tmp_path: Path) -> None:
    made = training()
    with begun(tmp_path / "run", made) as run, pytest.raises(CheckpointError, match="there is no checkpoint to read"):
        trained_weights(run)
    assert latest(tmp_path / "run" / CHECKPOINTS, print) is None


def test_a_training_that_an_earlier_release_began_goes_on_to_what_it_would_have_become(tmp_path: Path) -> None:
    """`first_edition` was cut off by the code of commit 520189b after step 6; the weights are its own at the end."""
    shutil.copytree(FIXTURES / "first_edition", tmp_path / "run")
    going_on = training(average=0.9, precision="float64")
    for weight in going_on.model.parameters():
        weight.data.zero_()  # so that what they are comes from the file
    with RunFolder.resume(tmp_path / "run") as run:
        going_on.run(None, None, Snapshots(run, 0.0), Observer())
        assert steps_of(run) == ["step-000006", "step-000009"]
        assert [row["step"] for row in run.metrics.rows()] == [3, 6, 9]
    expected = json.loads((FIXTURES / "first_edition_weights.json").read_text())
    found = going_on.model.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], torch.tensor(value, dtype=torch.float64), rtol=1e-9, atol=1e-12)
