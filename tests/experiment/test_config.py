"""Configurations: from files and `key=value`, with the nearest key where one is wrong, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from glws.errors import ConfigError
from glws.experiment import DataConfig, ExperimentConfig, NamedConfig, config_of, read_config
from glws.training import TrainingConfig


def test_a_file_is_read_and_changes_come_on_top(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("training: {epochs: 7, batch_size: [3, 4]}\nmodel: {name: mlp, hidden: [8]}\ndata: {held_out: 0}\n")
    config = read_config(path, ["training.epochs=9", "model.dropout=0.5", "data.options.num_bags=30"])
    assert config.training == TrainingConfig(epochs=9, batch_size=(3, 4))
    assert config.model == NamedConfig("mlp", {"hidden": [8], "dropout": 0.5})
    assert config.data == DataConfig(held_out=0, options={"num_bags": 30})


def test_paths_in_a_file_are_relative_to_it_and_a_table_takes_the_place_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("data: {table: bags.yaml, test: /elsewhere/test.yaml}\n")
    data = read_config(path).data
    assert (data.table, data.test, data.source) == (str(tmp_path / "bags.yaml"), "/elsewhere/test.yaml", None)
    assert read_config(None, ["data.table=bags.yaml"]).data.table == "bags.yaml"


def test_what_is_resolved_reads_back_as_it_was() -> None:
    asked = ["data.positive=[1, 3]", "training.milestones=[0.1]", "method.weights=[1, 0.5]", "model.hidden=[8, 8]"]
    config = read_config(None, [*asked, "training.epochs=40"])
    assert config_of(config.as_dict()) == config
    assert config.training.epochs == 40
    assert config_of(ExperimentConfig().as_dict()) == ExperimentConfig()


@pytest.mark.parametrize(("written", "value"), [("1e-3", 1e-3), ("2E+1", 20.0), ("1e5", 1e5), ("1.5e-3", 1.5e-3)])
def test_powers_of_ten_are_numbers_with_a_dot_and_without(written: str, value: float, tmp_path: Path) -> None:
    """To YAML 1e-3 is a text."""
    (tmp_path / "job.yaml").write_text(f"training: {{learning_rate: {written}, milestones: [{value / 1e6}, 5e-1]}}\n")
    found = read_config(tmp_path / "job.yaml", ["training.weight_decay=" + written]).training
    assert (found.learning_rate, found.weight_decay, found.milestones) == (value, value, (value / 1e6, 0.5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("trainin: {}", "no such key `trainin`; did you mean `training`?"),
        ("training: {epoch: 3}", "no such key `training.epoch`; did you mean `training.epochs`?"),
        ("training: 3", "`training` must be a section of names and values. Got 3."),
        ("- 1", "expected sections such as data and training, found list"),
        ("training: {epochs: 0}", "`training.epochs` must be an integer >= 1, or null. Got 0."),
        ("data: {sourc: digits}", "no such key `data.sourc`; did you mean `data.source`?"),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_what_was_meant(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.epochs", "expected section.key=value, such as training.epochs=5. Got 'training.epochs'."),
        ("epochs=5", "expected section.key=value, such as training.epochs=5. Got 'epochs=5'."),
        ("training.epochs=[", "the value of 'training.epochs=[' cannot be read; quote it"),
        ("training.seed=2024-13-45", "the value of 'training.seed=2024-13-45' cannot be read; quote it"),
        ("trainer.epochs=3", "no such key `trainer`; did you mean `training`?"),
        ("training.epochs=many", "`training.epochs` must be an integer >= 1, or null. Got 'many'."),
    ],
)
def test_a_mistake_in_a_change_is_one_line(change: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(None, [change])
    assert str(caught.value) == message


def test_an_empty_file_is_the_usual_job(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("")
    assert read_config(tmp_path / "job.yaml") == ExperimentConfig()
