"""The site: its choices are right, its reference pages can be written, its gallery is complete."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
import yaml

from glws import kinds
from glws.data.tables import read_description

ROOT = Path(__file__).parent.parent
CHOICES = json.loads((ROOT / "docs" / "_static" / "choices.json").read_text())
sys.path.append(str(ROOT / "docs" / "_ext"))

HEAD = "data: table.csv\nfeatures: f*\nclasses: [negative, positive]\n"


def test_every_question_leads_to_an_answer() -> None:
    questions, answers = CHOICES["questions"], CHOICES["answers"]
    targets = {target for question in questions.values() for target in question["options"].values()}
    assert targets == (set(questions) | set(answers)) - {"about"}


@pytest.mark.parametrize("name", CHOICES["answers"])
def test_an_answer_is_a_description_that_can_be_read_and_python_that_names_what_exists(name: str) -> None:
    found = CHOICES["answers"][name]
    about = read_description(yaml.safe_load(HEAD + found["weak"]))
    assert all(block.kind in kinds.KINDS for block in about.blocks)
    for node in ast.walk(ast.parse(found["python"])):
        if isinstance(node, ast.ImportFrom) and node.module == "glws.kinds":
            assert all(hasattr(kinds, alias.name) for alias in node.names)
    assert all(hasattr(kinds, part) for part in found["kind"].split(" and "))


def test_an_indented_formula_is_a_literal_block_and_a_bar_is_a_bar() -> None:
    from reference import as_rst

    lines = [
        "First |x| line.",
        "",
        "    p(w | y) = 1",
        "",
        "After it.",
        "",
        ">>> 1 | 2",
        "3",
        "",
        "- item",
        "",
        "    more",
    ]
    made = as_rst(lines)
    assert made[:5] == [r"First \|x\| line.", "", "::", "", "    p(w | y) = 1"]
    assert ">>> 1 | 2" in made
    assert made[-3:] == ["- item", "", "    more"]


def test_every_kind_and_method_has_a_page(tmp_path: Path) -> None:
    from reference import _kind_pages, _method_pages

    from glws.methods import METHODS

    pages = _kind_pages(tmp_path)
    assert {f"{kind.__name__}.rst" for kind in kinds.KINDS.values()} <= set(pages)
    assert all("ICML 2024" in page for page in pages.values())
    assert "Quadrianto" in pages["Proportions.rst"]
    cited = yaml.safe_load((ROOT / "docs" / "_ext" / "references.yaml").read_text())
    assert {f"{name}.rst" for name in cited} <= set(pages)
    assert (tmp_path / "Proportions.svg").read_text().startswith("<svg")
    text = "".join(_method_pages().values())
    assert all(f"- ``{name}``" in text for name in METHODS)


def test_the_gallery_has_eighteen_examples_with_a_title() -> None:
    examples = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
    assert len(examples) >= 18
    for path in examples:
        title, line = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[:2]
        assert len(title) == len(line)
        assert set(line) == {"="}, path.name
