"""R23: every field of a configuration, and every option of a method, is checked and says what it must be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from glws._rules import rule_of
from glws.errors import ConfigError
from glws.experiment import DataConfig, ExperimentConfig, NamedConfig, config_of
from glws.experiment._config import MethodConfig
from glws.methods import METHODS, build_method, method_class
from glws.training import TrainingConfig

NAN, WRONG_TYPE = float("nan"), 1j
WRONG_VALUES: dict[type[Any], dict[str, list[Any]]] = {
    TrainingConfig: {
        "epochs": [0, -4, 1.5, True, "many"],
        "batch_size": [0, -1, [2, 0], "4", True],
        "rows_at_once": [0, None, 1.5],
        "sync_batch_norm": [1, None],
        "order": ["sorted", "", 1],
        "optimizer": ["adamax", ""],
        "decay_biases": [1, "yes", None],
        "betas": [0.9, [0.9], [0.9, 1.0], [-0.1, 0.9], [0.9, 0.99, 0.999]],
        "nesterov": [1, "yes", None],
        "restarts": [-1, 1.5, True, None],
        "learning_rate": [0, -1e-3, NAN, float("inf"), True],
        "weight_decay": [-1, NAN],
        "momentum": [1, 1.5, -0.1],
        "step_instances": [0, 1.5],
        "schedule": ["linear", None],
        "final_learning_rate": [-1e-9, NAN],
        "warm_up": [-0.1, 1, NAN],
        "milestones": [[0.5, 1.0], [-0.1], 0.5, ["half"]],
        "decay": [0, -1],
        "clip": [0, -1, NAN],
        "precision": ["half", "float16", None],
        "average": [1, -0.1],
        "evaluate_average": [1, "yes", None],
        "evaluate_every": [0, 1.0],
        "shares": [[0.5, 0.0], [-0.1, 1.1], 0.5, ["half"], [0.9, 0.3]],
        "speed": ["fast", None],
        "deterministic": [0, "no"],
        "on_impossible": ["raise", True],
        "save_every": [-1, NAN, "often"],
        "timeout": [0, -1, NAN, "long"],
        "seed": [-1, 0.5, True],
        "device": ["", 0, None],
    },
    DataConfig: {
        "table": ["", 3],
        "source": ["", 3],
        "setting": ["", None],
        "options": [[1], "a=1", {1: 2}],
        "positive": [3, [-1], ["a"], "1"],
        "held_out": [1, 1.5, -0.1, NAN],
        "test": ["", 1],
        "folder": ["", 1],
        "views": ["", None],
        "standardize": [1, "yes", None],
    },
    NamedConfig: {"name": ["", 3, None], "options": [[1]]},
    MethodConfig: {"name": ["", 3, None], "options": [[1]], "recipe": ["mine", "", True]},
}
"""For each field at least one value of a type that could be right. A new field has to be listed here."""
SECTIONS = {TrainingConfig: "training", DataConfig: "data"}


@pytest.mark.parametrize("kind", WRONG_VALUES)
def test_every_field_has_a_rule_and_wrong_values_to_try_it_on(kind: type[Any]) -> None:
    assert {item.name for item in fields(kind)} == set(WRONG_VALUES[kind])
    for item in fields(kind):
        words, holds = item.metadata["rule"]
        assert words
        assert not holds(WRONG_TYPE)
        assert not any(holds(value) for value in WRONG_VALUES[kind][item.name])


def test_the_sections_of_a_job_are_those_that_are_tried_here() -> None:
    kinds = {item.name: type(getattr(ExperimentConfig(), item.name)) for item in fields(ExperimentConfig)}
    assert kinds == {"data": DataConfig, "model": NamedConfig, "method": MethodConfig, "training": TrainingConfig}


def wrong_fields() -> Iterator[Any]:
    for kind, section in SECTIONS.items():
        for name, values in WRONG_VALUES[kind].items():
            for value in [*values, WRONG_TYPE]:
                yield pytest.param(kind, section, name, value, id=f"{section}.{name}={value!r}")


@pytest.mark.parametrize(("kind", "section", "name", "value"), list(wrong_fields()))
def test_a_wrong_value_says_what_it_must_be(kind: type[Any], section: str, name: str, value: Any) -> None:
    """In Python, and in a configuration that was read."""
    expected = rf"^`{section}\.{name}` must be .+\. Got {re.escape(repr(value))}\.$"
    with pytest.raises(ConfigError, match=expected):
        kind(**{name: value})
    shown = re.escape(repr(tuple(value) if isinstance(value, list) else value))
    with pytest.raises(ConfigError, match=rf"^`{section}\.{name}` must be .+\. Got {shown}\.$"):
        config_of({section: {name: value}})


@pytest.mark.parametrize("section", ["model", "method"])
@pytest.mark.parametrize("value", [*WRONG_VALUES[NamedConfig]["name"], WRONG_TYPE])
def test_a_wrong_name_says_what_it_must_be(section: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^`{section}\.name` must be a text\. Got {re.escape(repr(value))}\.$"):
        config_of({section: {"name": value}})


def test_a_wrong_recipe_says_what_it_must_be() -> None:
    with pytest.raises(ConfigError) as caught:
        config_of({"method": {"recipe": "mine"}})
    assert str(caught.value) == "`method.recipe` must be one of published, or null. Got 'mine'."


def test_restarts_are_for_the_cosine() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingConfig(schedule="constant", restarts=2)
    assert str(caught.value) == "`training.restarts` is for the schedule cosine. Got constant."


def test_every_default_keeps_its_rule_and_lists_become_tuples() -> None:
    config = TrainingConfig(batch_size=[4, 2], milestones=[0.25])  # type: ignore[arg-type]
    assert (config.batch_size, config.milestones) == ((4, 2), (0.25,))
    assert config == TrainingConfig(batch_size=(4, 2), milestones=(0.25,))
    assert ExperimentConfig() == config_of({})


def options() -> Iterator[Any]:
    """Every option of every method, each class once."""
    seen = set()
    for name in METHODS:
        kind = method_class(name)
        for item in fields(kind):  # type: ignore[arg-type]
            if (kind, item.name) not in seen:
                seen.add((kind, item.name))
                yield pytest.param(name, item.name, id=f"{kind.__name__}.{item.name}")


@pytest.mark.parametrize(("name", "option"), list(options()))
def test_every_option_of_a_method_has_a_rule_and_is_checked_by_it(name: str, option: str) -> None:
    words, holds = rule_of(get_type_hints(method_class(name))[option])
    assert words != "a value", "its type says nothing: give it one that rule_of knows"
    wrong = [value for value in (NAN, "", "nonsense", 1.5, 1, "1", [WRONG_TYPE]) if not holds(value)]
    assert wrong
    for value in [*wrong, WRONG_TYPE]:
        with pytest.raises(ConfigError, match=rf"^`method\.{option}` must be .+\. Got {re.escape(repr(value))}\.$"):
            build_method(name, {option: value})
