"""The pages of the methods: every method has a row, and every option they name for the released behavior exists."""

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

from glws.data import load
from glws.data.sources import Source
from glws.data.weaken import SETTINGS, simulated
from glws.methods import GLWS, METHODS, AbstractMethod, build_method, method_class
from glws.models import build
from glws.training import TrainingConfig, fit

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "methods.md").read_text()
SCORES = (ROOT / "docs" / "measurements" / "methods.md").read_text()


def example() -> ModuleType:
    """The program that writes the pages."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        spec = importlib.util.spec_from_file_location("methods_example", ROOT / "examples" / "methods.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["methods_example"] = module  # its dataclasses look themselves up there
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ROOT / "examples"))


def rows(heading: str, text: str = TEXT) -> list[list[str]]:
    """The cells of the table under a heading, without its header."""
    lines = [line for line in text.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_method_is_tried_in_every_setting_that_it_learns_from() -> None:
    tried = {(setting.weakening, one.name) for setting in example().SETTINGS.values() for one in setting.tried}
    assert {name for _, name in tried} == METHODS.keys()
    weakenings = {weakening for weakening, _ in tried}
    assert weakenings == SETTINGS.keys() - {"noisy_labels"}
    assert {weakening for weakening, name in tried if name == "glws"} == weakenings - {"supervised"}


def test_the_page_has_a_row_for_every_run_of_the_example() -> None:
    shown = [one.shown for setting in example().SETTINGS.values() for one in setting.tried]
    assert [cells[1] for cells in rows("Scores", SCORES) if len(cells) == 8 and cells[1]] == shown


def test_the_page_names_every_method_with_what_it_takes() -> None:
    found = {cells[0].strip("`"): cells for cells in rows("Every name")}
    assert list(found) == list(METHODS)
    for name, (_, made, takes, prior, summary) in found.items():
        kind = method_class(name)
        assert (takes, summary, prior == "needed") == (kind.takes, kind.summary, kind.needs_prior)
        assert made.startswith(f"`{kind.__name__}(")


def test_the_page_is_what_its_program_writes_and_has_the_recipes() -> None:
    assert example().catalog_page() == TEXT
    assert example().known_table(list(example().SETTINGS)) in SCORES
    assert {name for cells in rows("How their authors trained them") for name in re.findall("`([^`]+)`", cells[0])} == {
        name for name in METHODS if method_of(name).recipe() is not None
    }


def method_of(name: str) -> AbstractMethod:
    return build_method(name, {"prior": 0.3} if method_class(name).needs_prior else {})


@cache
def digits() -> Source:
    return load("digits")


def options(cell: str) -> dict[str, object]:
    """`name: value, name: value` as a mapping."""
    return yaml.safe_load("{" + cell.strip("`") + "}")


RELEASED = rows("As in the released code")


@pytest.mark.slow
@pytest.mark.parametrize("cells", RELEASED, ids=lambda cells: re.sub(r"\W+", "_", cells[0]))
def test_the_released_behavior_is_an_option_that_trains(cells: list[str]) -> None:
    _, setting, given, name, chosen = cells
    drawn = simulated(digits(), setting.strip("`"), torch.Generator().manual_seed(0), options=options(given))
    told = {"prior": 0.4} if method_class(name.strip("`")).needs_prior else {}
    method = build_method(name.strip("`"), {**options(chosen), **told})
    assert method != build_method(name.strip("`"), told) or given
    network = build("mlp", [64], drawn.source.num_classes, hidden=[16])
    fitted = fit(network, drawn.weakened.dataset(drawn.inputs), method, TrainingConfig(epochs=1, device="cpu"))
    assert abs(float(fitted.history[-1]["loss"])) < float("inf")


def test_the_options_of_em_are_all_there() -> None:
    method = build_method("glws", {"e_step": "teacher", "multiclass": "per_class", "weights": [1.0, 0.1]})
    assert method == GLWS(e_step="teacher", multiclass="per_class", weights=(1.0, 0.1))
