"""What is public: the names that packages export, each with a line of description (docs/api.md); all else is private.

`python tests/test_public.py` writes the page anew.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glws"
PAGE = ROOT / "docs" / "api.md"
OPEN_MODULES = {"errors", "evaluation", "testing"}
"""Modules at the top that are public as a whole."""
HEAD = """# Public names

What each package exports. A name that is not here is private and may change at any time; how a public one changes is
in [contributing](../CONTRIBUTING.md). `python tests/test_public.py` writes this page from the docstrings.
"""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def file_of(module: str) -> Path:
    path = SOURCE.parent.joinpath(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"


def faces() -> list[str]:
    """The public packages."""
    folders = [path.parent.relative_to(SOURCE.parent) for path in sorted(SOURCE.rglob("__init__.py"))]
    return [".".join(folder.parts) for folder in folders if not any(part.startswith("_") for part in folder.parts)]


def exported(face: str) -> dict[str, str]:
    """The names of a package, and the modules that they come from."""
    names: dict[str, str] = {}
    for node in ast.walk(parsed(file_of(face))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glws"):
            names |= {alias.name: node.module for alias in node.names if alias.asname == alias.name}
    for node in parsed(file_of(face)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            names[node.name] = face
    return names


def description(name: str, module: str) -> str:
    """The first sentence of the documentation, wherever the name is defined."""
    if (SOURCE / f"{name}.py").exists() or (SOURCE / name).is_dir():
        return first_sentence(ast.get_docstring(parsed(file_of(f"glws.{name}"))))
    body = parsed(file_of(module)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return first_sentence(ast.get_docstring(node))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glws"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return description(alias.name, node.module)
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node) and isinstance(after, ast.Expr):
            value = after.value
            return first_sentence(value.value if isinstance(value, ast.Constant) else None)
    return ""


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    written = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {each.id for target in written for each in ast.walk(target) if isinstance(each, ast.Name)}


def first_sentence(text: object) -> str:
    if not isinstance(text, str):
        return ""
    words = " ".join(text.strip().split("\n\n")[0].split())
    end = min((words.find(mark) for mark in (". ", ": ", "; ") if mark in words), default=len(words))
    return words[:end].rstrip(".")


def page() -> str:
    parts = [HEAD]
    for face in faces():
        rows = [
            f"| `{name}` | {description(name, module).replace('|', chr(92) + '|')} |"
            for name, module in sorted(exported(face).items())
            if not name.startswith("_")
        ]
        if rows:
            parts.append("\n".join([f"## {face}\n", "| name | what it is |", "|---|---|", *rows, ""]))
    modules = sorted(OPEN_MODULES)
    rows = [
        f"| `glws.{name}` | {first_sentence(ast.get_docstring(parsed(file_of(f'glws.{name}'))))} |" for name in modules
    ]
    parts.append("\n".join(["## Modules\n", "| module | what it is |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def test_every_public_name_is_on_the_page_with_a_line_of_description() -> None:
    assert PAGE.read_text() == page(), "python tests/test_public.py writes the page anew"
    missing = [
        (face, name) for face in faces() for name, module in exported(face).items() if not description(name, module)
    ]
    assert [each for each in missing if not each[1].startswith("_")] == []


def test_every_public_name_can_be_imported() -> None:
    for face in faces():
        found = import_module(face)
        assert [name for name in exported(face) if not hasattr(found, name)] == []


def test_every_other_module_begins_with_an_underscore() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_private = any(part.startswith("_") for part in parts)
        assert is_private or parts[-1] in OPEN_MODULES, f"{'/'.join(parts)} is neither private nor a package"


def crossings() -> Iterator[tuple[Path, str, bool]]:
    """Imports of one package by another: who, what, and whether it goes around the face."""
    public = set(faces()) | {f"glws.{name}" for name in OPEN_MODULES}
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("glws"):
                continue
            module = node.module or ""
            package = module.split(".")[1] if "." in module else ""
            if package == own or (module.count(".") == 1 and package.startswith("_")):
                continue  # its own, or one of the private modules at the top that all share
            inner = [alias.name for alias in node.names if file_of(f"{module}.{alias.name}").exists()]
            yield path, module, module not in public or any(name.startswith("_") for name in inner)


def test_nine_imports_in_ten_between_packages_go_through_a_face() -> None:
    around = [(path.name, module) for path, module, is_around in crossings() if is_around]
    assert len(around) <= 0.1 * len(list(crossings())), around


def test_packages_do_not_import_what_is_none_of_their_business() -> None:
    forbidden = {"data": "glws._objective", "estimator": "glws.data.tables", "models": "glws.inference"}
    for path, module, _ in crossings():
        package = path.relative_to(SOURCE).parts[0]
        assert not module.startswith(forbidden.get(package, "nothing")), f"{path} imports {module}"
    for path in (SOURCE / "data").rglob("*.py"):
        modules = {node.module for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)}
        assert "glws._objective" not in modules, f"{path} imports the objective"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
