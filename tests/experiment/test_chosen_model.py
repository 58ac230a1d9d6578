"""`glws train` on tables and `fit` without a model: candidates are tried, mixed, stored, and go on when killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

from glws.cli import run
from glws.data import WeakDataset
from glws.errors import CheckpointError, ConfigError, DataError
from glws.experiment import Experiment, FinishedRun, read_config
from glws.kinds import Labels, Proportions
from glws.models import build
from glws.selection import Calibration, log_mixture
from glws.training import Mixture, Observer, RunFolder, Snapshots, TrainingConfig, fit, is_searchable, trained_weights
from glws.training import _mixture_search as search_module
from glws.training import _stack as stack_module
from glws.training._mixture import MixtureMember, answers, learner_of_tensors
from glws.training._stack import Stack
from glws.training._trees import Trees
from tests.cli.small_run import write_table


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 8)


def data(num_bags: int = 20, seed: int = 0) -> WeakDataset:
    x = torch.randn(4 * num_bags, 3, generator=torch.Generator().manual_seed(seed))
    return WeakDataset(x, torch.arange(len(x)).view(-1, 4), Proportions.of((x[:, 0] > 0).view(-1, 4).sum(1)))


# ------------------------------------------------------------ trees and mixtures as tensors


@pytest.mark.parametrize(("is_boosting", "outputs"), [(True, 1), (False, 1), (False, 3)])
def test_trees_as_tensors_predict_what_scikit_learn_predicts(is_boosting: bool, outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    x = rng.normal(size=(300, 4)).astype(np.float32).round(1)  # with ties
    target = rng.random((300, outputs)) * (x[:, :1] > 0.2)
    maker = HistGradientBoostingRegressor(max_iter=12, early_stopping=False) if is_boosting else ExtraTreesRegressor(9)
    fitted = maker.set_params(random_state=0).fit(x, target[:, 0] if outputs == 1 else target)
    trees = Trees.of(fitted, 300)
    rows = np.concatenate([x, rng.normal(size=(50, 4)).astype(np.float32)])
    expected = fitted.predict(rows).reshape(len(rows), -1)
    np.testing.assert_allclose(trees._sums(torch.from_numpy(rows)).numpy(), expected, atol=1e-6)
    again = learner_of_tensors(torch.nn.ModuleList([trees]).state_dict())
    assert torch.equal(answers(again, torch.from_numpy(rows))[0], trees(torch.from_numpy(rows)))


def test_a_mixture_is_the_weighted_mean_of_calibrated_predictions_and_survives_storage() -> None:
    generator = torch.Generator().manual_seed(1)
    stacks = [Stack(2, 3, 3, hidden, 0.0, generator) for hidden in ((), (5,))]
    calibrations = [Calibration(0.7, np.array([0.2, 0.0, -0.1])), Calibration(1.5, np.zeros(3))]
    members = [MixtureMember(*each) for each in zip(stacks, calibrations, (0.3, 0.7), strict=True)]
    last = Calibration(1.2, np.array([0.0, 0.5, 0.0]))
    mixture = Mixture(members, last).double()
    rows = torch.randn(11, 3, generator=generator).double()
    with torch.no_grad():
        tables = [answers(stack, rows.float()).numpy() for stack in stacks]
        parts = [
            log_mixture([calibration(table) for table in each], [0.5, 0.5])
            for each, calibration in zip(tables, calibrations, strict=True)
        ]
        expected = last(log_mixture(parts, [0.3, 0.7]))
        np.testing.assert_allclose(mixture(rows).numpy(), expected, atol=1e-5)
        again = Mixture.of_tensors(mixture.state_dict())
        np.testing.assert_allclose(again.double()(rows).numpy(), expected, atol=1e-5)


# ------------------------------------------------------------ fit


def test_fit_without_a_model_chooses_among_candidates() -> None:
    known = data()
    fitted = fit(data=known, held_out=data(6, seed=1))
    assert fitted.selection is not None
    assert fitted.stopped_by is None
    assert sum(each.weight for each in fitted.selection.candidates) == pytest.approx(1)
    names = [row["candidate"] for row in fitted.history]
    assert sorted(names[:-1]) == sorted(each.name for each in fitted.selection.candidates)
    assert "held_out_log_likelihood" in fitted.history[-1]
    rows = known.instances.take(torch.arange(80))
    np.testing.assert_allclose(fitted.predict(rows).exp().sum(1), 1, atol=1e-5)


def test_what_cannot_be_chosen_is_said() -> None:
    images = WeakDataset(torch.zeros(4, 1, 8, 8), [[0], [1]], Labels.of([0, 1], 2))
    ids = WeakDataset(torch.zeros(4, 3, dtype=torch.int64), [[0], [1]], Labels.of([0, 1], 2))
    assert not is_searchable(images)
    assert not is_searchable(ids)
    with pytest.raises(DataError, match='model="auto" chooses for rows of numbers in memory, at most 33,554'):
        fit("auto", images)
    with pytest.raises(ConfigError, match="chooses by itself how to train; pass a model to choose method or training"):
        fit("auto", data(), config=TrainingConfig(epochs=3))
    with pytest.raises(DataError, match="there is nothing to learn from"):
        fit()


class Interrupting(Observer):
    """Ctrl-C after so many stages."""

    def __init__(self, stages: int) -> None:
        self.left = stages

    def stepped(self, step: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_the_candidates_that_were_trained() -> None:
    fitted = fit(data=data(), observer=Interrupting(2))
    assert fitted.stopped_by is not None
    assert fitted.selection is not None
    assert {each.name.split()[0] for each in fitted.selection.candidates} == {"linear,", "mlp"}  # no trees


# ------------------------------------------------------------ glws train


def described(folder: Path, *changes: str) -> Experiment:
    return Experiment.of(read_config(None, [f"data.table={write_table(folder)}", *changes]))


def tensors_of(run_folder: Path) -> Mapping[str, torch.Tensor]:
    return trained_weights(RunFolder.open(run_folder))


def test_a_killed_search_goes_on_and_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(Exception):
        pass

    class Killing(Observer):
        def stepped(self, step: int) -> None:
            if step == 4:
                raise Killed

    whole = described(tmp_path)
    with whole.begin(tmp_path / "whole") as folder:
        whole.finish(folder)
    half = described(tmp_path, "training.save_every=0")
    with half.begin(tmp_path / "half") as folder, pytest.raises(Killed):
        half.finish(folder, Killing())
    trained: list[tuple[int, ...]] = []
    train_stack = search_module.train_stack
    monkeypatch.setattr(search_module, "train_stack", lambda *words: trained.append(()) or train_stack(*words))
    again, folder = Experiment.resumed(tmp_path / "half")
    with folder:
        again.finish(folder)
    assert not trained
    found, expected = tensors_of(tmp_path / "half"), tensors_of(tmp_path / "whole")
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in found.items())
    first, second = ((tmp_path / name / "metrics.jsonl").read_text() for name in ("half", "whole"))
    assert first == second


def test_train_on_a_table_tells_what_it_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, folder = write_table(tmp_path, 30), tmp_path / "run"
    assert run(["train", "--data", str(table), "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "choosing among linear models, small networks and trees by held-out weak labels (--model mlp" in said
    assert "candidate 1: linear, weight decay 0.05: held-out score -" in said
    assert "candidates by held-out weak labels: " in said
    page = (folder / "report.html").read_text()
    assert "<h2>Candidates</h2>" in page
    assert "standard errors of the best are mixed" in page
    finished = FinishedRun.open(folder)
    assert finished.config.model.name == "mixture"
    candidates = finished.run.result()["candidates"]
    assert isinstance(candidates, list)
    assert sum(each["weight"] for each in candidates) == pytest.approx(1)  # type: ignore[index,misc,call-overload]
    columns = finished.predict(table)
    np.testing.assert_allclose(columns["p(benign)"] + columns["p(malignant)"], 1, atol=1e-6)
    counts = np.bincount(np.unique(finished.label()["group"], return_inverse=True)[1], finished.label()["p(malignant)"])
    np.testing.assert_allclose(counts, counts.round(), atol=1e-5)


@pytest.mark.parametrize("words", [["--model", "linear"], [], ["--method", "uum"]])
def test_a_choice_means_one_network(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(write_table(tmp_path)), "--out", str(tmp_path / "run")]
    assert run(["train", *data, *words, "training.batch_size=4", "training.epochs=2"]) == 0
    assert "choosing among" not in capsys.readouterr().out


def test_runs_of_earlier_versions_keep_their_network(tmp_path: Path) -> None:
    """Their configuration says model "auto", which meant a network."""
    config = read_config(None, [f"data.table={write_table(tmp_path)}"])
    assert type(Experiment.of(config, is_begun=True).training).__name__ == "Training"
    assert type(Experiment.of(config).training).__name__ == "MixtureTraining"


def test_snapshots_of_another_training_are_refused(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {}, seed=0) as folder:
        fit(build("linear", [3], 2), data(), config=TrainingConfig(epochs=1), snapshots=Snapshots(folder, 0))
    with RunFolder.resume(tmp_path / "run") as folder, pytest.raises(CheckpointError, match="is not that of a search"):
        fit(data=data(), snapshots=Snapshots(folder, 0))
