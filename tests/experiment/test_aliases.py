"""Old names of settings work, and a line says the new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.base import clone

from glws import WeakClassifier
from glws._aliases import ALIASES, current_name, silent, with_current_names
from glws.cli import run
from glws.errors import ConfigError
from glws.experiment import config_of, read_config

RENAMED = "`data.standardise` is now called `data.standardize`; the old name will be removed, see CONTRIBUTING.md"


def test_an_old_key_of_a_file_is_read_and_the_new_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("data: {table: t.yaml, standardise: false}\n")
    with pytest.warns(DeprecationWarning, match="is now called") as told:
        config = read_config(tmp_path / "old.yaml")
    assert not config.data.standardize
    assert [str(each.message) for each in told] == [RENAMED]


def test_an_old_key_of_a_change_is_read_and_the_new_one_is_named() -> None:
    told: list[str] = []
    config = read_config(None, ["data.standardise=false", "train.epochs=3"], report=told.append)
    assert (config.data.standardize, config.training.epochs) == (False, 3)
    assert told[0] == RENAMED
    assert "`training.epochs`" in told[1]


def test_a_change_by_the_new_name_wins_over_a_file_with_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("data: {standardise: false}\n")
    assert read_config(tmp_path / "old.yaml", ["data.standardize=true"], report=silent).data.standardize


def test_the_command_line_says_the_new_name_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "data.standardise=false", "--dry-run"]) == 0
    assert capsys.readouterr().err == f"glws: warning: {RENAMED}\n"


def test_stored_configurations_are_read_without_a_word() -> None:
    assert not config_of({"data": {"standardise": False}}).data.standardize


@pytest.mark.parametrize("order", [["standardise", "standardize"], ["standardize", "standardise"]])
def test_a_setting_under_both_names_is_refused(order: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"`data\.standardize` is given twice, also by an old name"):
        with_current_names(dict.fromkeys(order, True), "data", silent)


def test_the_estimator_takes_old_names_and_forgets_them() -> None:
    with pytest.warns(DeprecationWarning, match=r"`WeakClassifier\.standardise` is now called"):
        model = WeakClassifier(standardise=False)
    assert not model.standardize
    assert "standardise" not in model.get_params()
    assert not clone(model).standardize
    with pytest.warns(DeprecationWarning, match=r"`WeakClassifier\.standardise` is now called"):
        assert model.set_params(standardise=True).standardize


def test_no_new_name_is_an_old_one() -> None:
    assert not set(ALIASES.values()) & set(ALIASES)
    assert all(current_name(name) == name for name in ALIASES.values())
