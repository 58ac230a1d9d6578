"""Every setting learns the digits: one seed, few epochs, above what a broken engine would reach."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import glws
import glws._objective

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parent.parent / "examples" / "settings.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("settings_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["settings_example"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


example = loaded()


@cache
def digits() -> object:
    return example.Digits.read()


# The least accuracy of each setting, a few points below what seeds 0 to 4 gave. Where the classes are known only up to
# a permutation it is the matched one. Majority: 0.50 for two classes, 0.10 for ten.
BOUNDS = {
    "partial labels": 0.88,
    "multiple instances": 0.87,
    "label proportions": 0.93,
    "pairwise comparison": 0.90,
    "pairwise similarity": 0.93,
    "similarity confidence": 0.90,
    "confidence difference": 0.89,
    "positive confidence": 0.90,
    "positive, unlabeled": 0.80,
    "unlabeled, unlabeled": 0.88,
    "similar, dissimilar, unlabeled": 0.92,
}
MATCHED = ("pairwise similarity", "similarity confidence")


def test_there_is_a_bound_for_each_of_the_eleven_settings() -> None:
    assert [setting.name for setting in example.SETTINGS] == list(BOUNDS)
    assert len(BOUNDS) == 11


@pytest.mark.parametrize("setting", example.SETTINGS, ids=lambda setting: setting.name)
def test_setting_learns(setting: object) -> None:
    found = example.run(setting, digits(), seed=1)
    accuracy = found.matched if setting.name in MATCHED else found.accuracy
    assert accuracy >= BOUNDS[setting.name]


def handed_to_the_neighbor(log_probs: torch.Tensor, *question: object) -> SimpleNamespace:
    """A broken engine: each posterior goes to the next instance of its group, or to the next class of a single one."""
    right = glws.infer(log_probs.detach(), *question)
    wrong = right.marginals.roll(1, 1 if log_probs.shape[1] > 1 else 2)
    likelihood = right.log_likelihood + (wrong * (log_probs - log_probs.detach())).sum((1, 2))
    return SimpleNamespace(
        log_likelihood=likelihood,
        marginals=wrong,
        impossible=right.impossible,
        log_selection=None,
        num_impossible=0,
        num_known=None,
    )


# Of two unlabeled sets only the rates are known, and those survive among neighbors.
TELLING = [setting for setting in example.SETTINGS if setting.name != "unlabeled, unlabeled"]


@pytest.mark.parametrize("setting", TELLING, ids=lambda setting: setting.name)
def test_bound_is_missed_by_a_broken_engine(setting: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glws._objective, "infer", handed_to_the_neighbor)
    found = example.run(setting, digits(), seed=1)
    accuracy = found.matched if setting.name in MATCHED else found.accuracy
    assert accuracy < BOUNDS[setting.name] - 0.05


VARIANT_BOUNDS = [0.50, 0.72, 0.88, 0.93, 0.93, 0.80]


@pytest.mark.parametrize(
    ("setting", "bound"),
    list(zip(example.VARIANTS[: len(VARIANT_BOUNDS)], VARIANT_BOUNDS, strict=True)),
    ids=lambda value: getattr(value, "name", ""),
)
def test_variant_learns(setting: object, bound: float) -> None:
    assert example.run(setting, digits(), seed=1).accuracy >= bound


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.8])
def test_comparison_collapses_with_full_weight_for_ties_and_not_with_half(prior: float) -> None:
    ours, paper = (example.run(example.comparison(prior, ties), digits(), seed=1) for ties in ("half", "paper"))
    assert paper.most_predicted == 1.0
    assert paper.accuracy < 0.52
    assert ours.most_predicted < 0.65
    assert ours.accuracy > 0.87


def test_several_kinds_together_beat_each_alone() -> None:
    alone = [example.run_mixed([name], digits(), seed=1).accuracy for name in example.MIXED]
    together = example.run_mixed(example.MIXED, digits(), seed=1).accuracy
    assert together >= 0.85
    assert together > max(alone) + 0.02
