"""`recipe="published"`: what the authors of a method chose, under what the user says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.small_run import write_table

from glws.cli import run
from glws.errors import ConfigError
from glws.estimator import WeakClassifier
from glws.experiment import ExperimentConfig, config_of, read_config
from glws.methods import METHODS, build_method, method_class
from glws.models import build
from glws.training import RunFolder, TrainingConfig

KNOWN = [
    "proden",
    "lws",
    "lwc",
    "rcr",
    "pico",
    "forward",
    "free",
    "non_negative",
    "gradient_ascent",
    "uum",
    "llp_vat",
    "attention_mil",
    "mcl",
    "kcl",
    "sconf_unbiased",
    "sconf_relu",
    "sconf_abs",
    "sconf_nn_abs",
    "confdiff_unbiased",
    "confdiff_relu",
    "confdiff_abs",
    "upu",
    "nnpu",
    "cvir",
    "ted",
    "dist_pu",
    "vpu",
    "uu_unbiased",
    "uu_relu",
    "uu_abs",
    "uu_leaky",
    "pseudo_label",
    "fixmatch",
    "freematch",
    "softmatch",
]


def method(name: str) -> Any:
    return build_method(name, {"prior": 0.3} if method_class(name).needs_prior else {})


def test_the_methods_with_a_published_recipe_are_these() -> None:
    assert {name for name in METHODS if method(name).recipe() is not None} == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_a_recipe_is_a_training_and_options_of_the_mlp(name: str) -> None:
    recipe = method(name).recipe()
    assert recipe.of
    config = TrainingConfig.published(method(name), epochs=3)
    assert config.epochs == 3
    assert "epochs" not in recipe.training
    for field, value in recipe.training.items():
        assert getattr(config, field) == value
    build("mlp", [4], 2, **recipe.model)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nnpu", {"optimizer": "adam", "weight_decay": 5e-3, "decay_biases": True}),
        ("vpu", {"optimizer": "adam", "betas": (0.5, 0.99), "weight_decay": 0.0}),
        ("pico", {"optimizer": "sgd", "nesterov": False, "weight_decay": 1e-3, "batch_size": 256}),
        ("fixmatch", {"optimizer": "sgd", "nesterov": True, "schedule": "fixmatch", "evaluate_average": True}),
        ("lws", {"learning_rate": 0.05, "weight_decay": 1e-3}),
        ("lwc", {"learning_rate": 0.01, "weight_decay": 1e-2}),
        ("attention_mil", {"optimizer": "adam", "learning_rate": 5e-4, "weight_decay": 1e-4, "batch_size": 1}),
    ],
)
def test_published_values_are_those_of_the_authors(name: str, wanted: dict[str, Any]) -> None:
    config = TrainingConfig.published(method(name))
    assert {field: getattr(config, field) for field in wanted} == wanted


def test_what_the_user_says_wins() -> None:
    assert TrainingConfig.published(method("pico"), learning_rate=0.5).learning_rate == 0.5
    asked = ["method.name=pico", "method.recipe=published", "training.learning_rate=0.5", "training.epochs=7"]
    config = read_config(None, asked)
    assert (config.training.optimizer, config.training.learning_rate, config.training.epochs) == ("sgd", 0.5, 7)
    assert config.method.options == {}
    assert config_of(config.as_dict()) == config
    assert config_of({"method": {"name": "pico"}}).training == ExperimentConfig().training


def test_a_method_without_a_recipe_says_so() -> None:
    with pytest.raises(ConfigError) as caught:
        config_of({"method": {"name": "cc", "recipe": "published"}})
    assert str(caught.value) == "`method.recipe`: no published recipe is known for cc; leave it out"
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.published(method("cc"))
    assert str(caught.value) == "no published recipe is known for CC; choose the training yourself"


def test_a_run_stores_what_the_recipe_came_to(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    lines = [line.split(",") for line in (tmp_path / "bags.csv").read_text().splitlines()]
    seen = ["seen", *("malignant" if line[4] == "malignant" else "" for line in lines[1:])]
    told = [["seen", "all", "rate"], *([label, "0", "0.4"] for label in seen[1:])]
    rows = [line + more for line, more in zip(lines, told, strict=True)]
    (tmp_path / "bags.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    known = "blocks:\n  - {kind: labels, weak: {label: seen}, missing: skip}\n"
    known += "  - {kind: unlabeled, group: all, weak: {prior: rate}}\n"
    text = table.read_text().replace("group: bag\nkind: proportions\nweak: {count: n}\n", "")
    table.write_text(text.replace("label: truth\n", known))
    arguments = ["--data", str(table), "--method", "nnpu", "method.recipe=published", "model.hidden=[5]"]
    assert run(["train", *arguments, "training.epochs=2", "data.held_out=0", "--out", str(tmp_path / "run")]) == 0
    stored: Any = RunFolder.open(tmp_path / "run").config
    assert stored["method"] == {"name": "nnpu", "recipe": "published"}
    assert stored["model"] == {"name": "auto", "hidden": [5], "batch_norm": True}
    assert stored["training"]["optimizer"] == "adam"
    assert stored["training"]["weight_decay"] == 5e-3
    assert run(["predict", str(tmp_path / "run"), "--out", str(tmp_path / "found.csv")]) == 0


def test_the_classifier_trains_by_a_recipe() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    sets = np.stack([rows[:, 0] > -0.5, rows[:, 0] < 0.5], 1)
    asked: dict[str, Any] = {"epochs": 2, "random_state": 0, "device": "cpu", "recipe": "published"}
    learned = WeakClassifier("linear", method="proden", **asked).fit(rows, sets)
    explicit = {**build_method("proden").recipe().training, "epochs": 2}  # type: ignore[union-attr]
    same = WeakClassifier("linear", method="proden", random_state=0, device="cpu", training_options=explicit)
    assert np.array_equal(learned.predict_proba(rows), same.fit(rows, sets).predict_proba(rows))
    other = WeakClassifier("linear", method="proden", learning_rate=1e-4, **asked).fit(rows, sets)
    assert not np.allclose(learned.predict_proba(rows), other.predict_proba(rows))
    with pytest.raises(ConfigError, match=r"^`recipe` must be one of published, or null\. Got 'mine'\.$"):
        WeakClassifier(recipe="mine").fit(rows, sets)  # type: ignore[arg-type]
