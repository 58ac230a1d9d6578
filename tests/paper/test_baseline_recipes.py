"""Baselines are trained by the plan of the cell, or as their authors did."""

from pathlib import Path

import pytest

import reproduction
from glws.errors import DataError
from reproduction import Cell, cell, cells
from reproduction.compare import changes
from reproduction.plans import BY_RECIPE, chosen_options, plan
from reproduction.results import Record, read_results

RESULTS = Path(reproduction.__file__).parent


def positives() -> Cell:
    return cell("positive_unlabeled", "mnist", "positives=500")


def test_a_published_recipe_takes_no_training_that_was_chosen_for_glws() -> None:
    one = positives()
    assert any(name.split(".")[0].startswith("train") for name in chosen_options(one))
    made = plan(one, "vpu", 0)
    recipe = made.method.recipe()
    assert recipe is not None
    for name, value in recipe.training.items():
        assert getattr(made.config, name) == value
    assert (made.config.optimizer, made.config.betas, made.config.clip) == ("adam", (0.5, 0.99), None)
    assert made.method.view == "weak"  # type: ignore[attr-defined]


def test_what_a_recipe_does_not_say_is_that_of_the_cell() -> None:
    one = positives()
    by_recipe, by_cell = plan(one, "nnpu", 0), plan(one, "nnpu", 0, recipe="cell")
    for name in ("epochs", "batch_size", "precision", "evaluate_every"):
        assert getattr(by_recipe.config, name) == getattr(by_cell.config, name)
    assert by_recipe.weaken == by_cell.weaken
    assert by_cell.config.optimizer == "adamw"
    assert by_cell.method.view == "strong"  # type: ignore[attr-defined]


def test_any_baseline_may_be_trained_by_its_recipe() -> None:
    assert plan(positives(), "dist_pu", 0).config.optimizer == "adamw"
    assert plan(positives(), "dist_pu", 0, recipe="published").config.optimizer == "adam"


@pytest.mark.parametrize("method", ["glws", "supervised", "cvir"])
def test_a_recipe_must_be_known(method: str) -> None:
    with pytest.raises(DataError, match="no recipe is called 'own'; there are published, cell"):
        plan(positives(), method, 0, recipe="own")


@pytest.mark.parametrize("method", ["glws", "supervised"])
def test_a_method_without_a_recipe_is_one_line(method: str) -> None:
    reason = f"no published recipe is known for {method}; leave out recipe=published"
    with pytest.raises(DataError, match=reason):
        plan(positives(), method, 0, recipe="published")


def test_every_cell_has_a_plan_for_the_baselines_with_recipes() -> None:
    for setting, methods in {"partial_labels": BY_RECIPE[:2], "positive_unlabeled": BY_RECIPE[2:]}.items():
        for one in cells(setting):
            for method in methods:
                assert plan(one, method, 0).method.recipe() is not None


def test_stored_runs_by_the_plan_of_the_cell_are_not_plain() -> None:
    runs = [run for run in read_results(RESULTS) if run["method"] in BY_RECIPE]

    def by(seed: int, **options: str) -> list[Record]:
        return [run for run in runs if run["seed"] == seed and run["options"] == options]

    assert by(0)
    assert by(0, recipe="cell")
    assert all(changes(run) == run["options"] for run in runs)
