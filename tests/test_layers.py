"""The shape of the package: imports point one way, nothing dangerous is called, importing is cheap."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "glws"
LAYERS = [
    *("errors", "_plugins", "_class_names", "_rules", "_files", "automata", "inference", "kinds", "testing"),
    *("evaluation", "data", "_objective", "selection", "models", "methods", "training", "report", "experiment"),
    *("estimator", "cli"),
]
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_modules(path: Path) -> set[str]:
    tree = parsed(path)
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def layer(module: str) -> int | None:
    name = module.removeprefix("glws.").split(".")[0]
    return LAYERS.index(name) if module.startswith("glws.") and name in LAYERS else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    own = layer("glws." + ".".join(path.relative_to(SOURCE).with_suffix("").parts))
    for module in imported_modules(path):
        other = layer(module)
        assert own is None or other is None or other <= own, f"{path.name} imports {module} from a layer below"


@pytest.mark.parametrize("path", sorted((SOURCE / "automata").rglob("*.py")), ids=lambda path: path.name)
def test_automata_do_not_know_torch(path: Path) -> None:
    assert not {module for module in imported_modules(path) if module.split(".")[0] == "torch"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_runs_from_a_file(path: Path) -> None:
    """R21: no pickle, no eval, no loaders that execute what they read."""
    tree = parsed(path)
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    forbidden = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load", "pickle.load", "pickle.loads"}
    assert not called & forbidden
    assert not {module for module in imported_modules(path) if module.split(".")[0] in ("pickle", "dill", "shelve")}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            assert (node.arg, node.value.value) not in {("allow_pickle", True), ("shell", True)}


def test_the_language_of_kernels_is_imported_by_kernels_alone() -> None:
    """It imports Triton where that is installed."""
    kernels = {path for path in FILES if "@jit" in path.read_text()}
    users = {path for path in FILES if "glws._triton" in imported_modules(path)}
    assert users == kernels


def test_importing_loads_nothing_heavy() -> None:
    heavy = ["numba", "matplotlib", "pandas", "sklearn", "typer", "rich", "pyarrow", "triton", "yaml", "jinja2"]
    code = f"""
import sys, torch
before = set(sys.modules)
import glws
print([name for name in {heavy} if name in sys.modules and name not in before])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
