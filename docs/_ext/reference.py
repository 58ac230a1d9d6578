"""Writes the reference pages: one for each public package, kind of weak labels and method, from docstrings.

The docstrings of glws are plain text with backticks, indented formulas and doctests. `as_rst` turns indented text into
literal blocks, so that formulas keep their layout.
"""

from __future__ import annotations

import importlib
import inspect
import re
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import yaml

PACKAGES = (
    "glws",
    "glws.automata",
    "glws.data",
    "glws.data.augment",
    "glws.data.sources",
    "glws.data.tables",
    "glws.data.weaken",
    "glws.errors",
    "glws.estimator",
    "glws.evaluation",
    "glws.experiment",
    "glws.inference",
    "glws.kinds",
    "glws.methods",
    "glws.models",
    "glws.report",
    "glws.selection",
    "glws.testing",
    "glws.training",
)


def as_rst(lines: list[str]) -> list[str]:
    """Docstring lines with indented paragraphs as literal blocks, and bars as bars."""
    result: list[str] = []
    is_literal = is_doctest = False
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        is_indented = line.startswith("    ") and bool(line.strip())
        is_doctest = line.startswith(">>>") or (is_doctest and bool(line.strip()))
        if is_indented and not is_literal and not is_doctest and not _in_list(result):
            result += ["", "::", ""] if before.strip() else ["::", ""]
            is_literal = True
        elif line.strip() and not line.startswith(" "):
            if is_literal and before.strip():
                result.append("")
            is_literal = False
        is_text = not is_literal and not is_doctest and not is_indented
        result.append(line.replace("|", "\\|") if is_text else line)
    return result


def _in_list(before: list[str]) -> bool:
    """Whether the last paragraph is a list item, which indented text continues."""
    paragraph = list(takewhile(lambda line: line.strip(), dropwhile(lambda line: not line.strip(), reversed(before))))
    return any(re.match(r"([-*]|\d+\.) ", line) for line in paragraph)


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)


def _public(package: str) -> list[str]:
    """The public names of a package: what it imports as itself, and what it defines."""
    module = importlib.import_module(package)
    names = []
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        home = str(getattr(value, "__module__", ""))
        if home.startswith("glws") if hasattr(module, "__path__") else home == package:
            names.append(name)
    return names


def _page(package: str, seen: set[Any]) -> str:
    """All public names of a package; what another page has already is not indexed again."""
    title = f"{package}\n{'=' * len(package)}\n\n"
    body = f".. automodule:: {package}\n   :no-members:\n\n"
    for name in _public(package):
        body += (
            f".. autoclass:: {package}.{name}\n"
            if _is_class(package, name)
            else f".. autofunction:: {package}.{name}\n"
        )
        value = getattr(importlib.import_module(package), name)
        body += "   :no-index:\n\n" if value in seen else "\n"
        seen.add(value)
    return title + body


def _is_class(package: str, name: str) -> bool:
    return inspect.isclass(getattr(importlib.import_module(package), name))


# ---------------------------------------------------------------- kinds


def _examples() -> dict[str, tuple[Any, int]]:
    """A group of each kind to draw: the weak label and the length of the group."""

    from glws import kinds

    return {
        "Labels": (kinds.Labels.of([1], 3), 1),
        "PartialLabels": (kinds.PartialLabels.of([[True, False, True]]), 1),
        "SoftLabels": (kinds.SoftLabels.of([[0.7, 0.2, 0.1]]), 1),
        "PositiveConfidence": (kinds.PositiveConfidence.of([0.8]), 1),
        "NoisyLabels": (kinds.NoisyLabels.of([1], [[0.9, 0.1], [0.2, 0.8]]), 1),
        "MultiInstance": (kinds.MultiInstance.of([1]), 4),
        "PresentClasses": (kinds.PresentClasses.of([[True, True, False]]), 4),
        "Proportions": (kinds.Proportions.of([2]), 4),
        "ClassCounts": (kinds.ClassCounts.of([[1, 2, 1]]), 4),
        "NoisyProportions": (kinds.NoisyProportions.of([2], scale=0.5, kernel="laplace"), 4),
        "PairComparison": (kinds.PairComparison.of([1]), 2),
        "PairSimilarity": (kinds.PairSimilarity.of([1], 3), 2),
        "Triplets": (kinds.Triplets.of([1], 3), 3),
        "Constraints": (kinds.Constraints.of(["y[0] != y[1] and any(2)"], 3), 3),
    }


def _kind_page(name: str, kind: Any, folder: Path) -> str:
    columns = [
        "- " + ", ".join(f"``{column}`` ({reading})" for column, reading in choice.items()) for choice in kind.columns
    ]
    lines = [name, "=" * len(name), ""]
    if kind.name:
        lines += [f"In a table: ``kind: {kind.name}``. ``weak`` names one of these sets of columns:", "", *columns, ""]
        lines += [f"Options: {', '.join(f'``{option}``' for option in kind.options)}.", ""] if kind.options else []
    lines += _picture(name, folder)
    lines += [f".. autoclass:: glws.kinds.{name}", "   :no-index:", ""]
    return "\n".join([*lines, *_references(name)])


def _references(name: str) -> list[str]:
    """The papers that a kind comes from, and the one that makes all of them one likelihood."""
    cited = yaml.safe_load((Path(__file__).parent / "references.yaml").read_text(encoding="utf-8")).get(name, [])
    general = "Chen et al.: A General Framework for Learning from Weak Supervision. ICML 2024"
    return [".. rubric:: References", "", *(f"- {paper}" for paper in (*cited, general)), ""]


def _picture(name: str, folder: Path) -> list[str]:
    """The automaton of an example, if it has one."""
    from glws.automata import automaton_svg
    from glws.errors import GlwsError

    try:
        weak, length = _examples()[name]
        drawing = automaton_svg(weak.automaton(0, length))
    except (KeyError, GlwsError):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(drawing)
    told = weak.describe(0)
    return [
        f".. figure:: ../pictures/{name}.svg",
        f"   :alt: The automaton of an example: {told}",
        "",
        f"   {told}, in a group of {length}",
        "",
    ]


def _kind_pages(pictures: Path) -> dict[str, str]:
    from glws import kinds

    found = {name: value for name, value in vars(kinds).items() if inspect.isclass(value)}
    real = {
        name: value
        for name, value in found.items()
        if issubclass(value, kinds.AbstractSupervision) and not inspect.isabstract(value) and not name.startswith("Abs")
    }
    return {f"{name}.rst": _kind_page(name, value, pictures) for name, value in real.items()}


# ---------------------------------------------------------------- methods


def _method_pages() -> dict[str, str]:
    """A page for each class of methods, with the names that stand for it."""
    from glws.methods import METHODS, fixed_options

    names: dict[type, list[str]] = {}
    for name, make in METHODS.items():
        names.setdefault(getattr(make, "func", make), []).append(name)
    pages = {}
    for kind, called in names.items():
        own = [f"- ``{name}``" + (f": {fixed_options(name)}" if fixed_options(name) else "") for name in called]
        title = ", ".join(called) if len(called) < 4 else f"{called[0]} and {len(called) - 1} more"
        text = [
            title,
            "=" * len(title),
            "",
            f"{kind.summary[0].upper()}{kind.summary[1:]}.",
            "",
            "Names:",
            "",
            *own,
            "",
        ]
        text += [
            f"Learns from {kind.takes}.",
            "",
            f".. autoclass:: {kind.__module__}.{kind.__name__}",
            "   :no-index:",
            "",
        ]
        pages[f"{called[0]}.rst"] = "\n".join(text)
    return pages


# ---------------------------------------------------------------- all pages


def _write(folder: Path, pages: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()


def _generate(app: Any) -> None:
    """Before anything is read: the pages of packages, kinds and methods."""
    folder = Path(app.srcdir) / "reference"
    seen: set[Any] = set()
    _write(folder / "packages", {f"{package}.rst": _page(package, seen) for package in PACKAGES})
    _write(folder / "kinds", _kind_pages(folder / "pictures"))
    _write(folder / "methods", _method_pages())


def _choose(app: Any) -> None:
    """The page that helps to choose a kind, with its choices inside, so that it works without a server."""
    folder = Path(app.srcdir) / "_static"
    choices, script = (folder / "choices.json").read_text(), (folder / "choose.js").read_text()
    page = f'<div id="choose"></div>\n<script type="application/json" id="choices">\n{choices}</script>\n'
    (folder / "choose.html").write_text(page + f"<script>\n{script}</script>\n")


ELSEWHERE = {"../CONTRIBUTING.md": "contributing.md", "../CHANGELOG.md": "changelog.md", "../README.md": "index.md"}
"""Pages outside of docs/ that the site has under another name."""


OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*((?:reproduction|benchmarks)/README\.md|CITATION\.cff)\)")
"""Links to files of the repository that are not on the site."""


def _read(app: Any, name: str, source: list[str]) -> None:
    for target, page in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({target}", f"]({page}")
    source[0] = OUTSIDE.sub(r"\1 (`\2`)", source[0])


def _include(app: Any, path: Path, parent: str, source: list[str]) -> None:
    """Pages from the top of the repository name other files as seen from there."""
    source[0] = source[0].replace("](examples/", "](../examples/")
    _read(app, parent, source)


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("builder-inited", _generate)
    app.connect("builder-inited", _choose)
    app.connect("include-read", _include)
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
