"""Every Python block of the README and of the documentation runs, block after block in one namespace a page, and the
numbers of the paper's tables are those that the runs tell."""

import re
import shlex
from pathlib import Path

import pytest

from glws.cli import run as glws_command
from reproduction.__main__ import run as command
from reproduction.compare import compared
from reproduction.results import read_results

ROOT = Path(__file__).parent.parent
FRAMEWORKS = ROOT / "docs" / "frameworks.md"
"""Its blocks need packages that glws does not."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the frameworks
def test_python_blocks_of_other_frameworks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightning", "transformers", "accelerate"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_blocks(FRAMEWORKS)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page) and page != FRAMEWORKS],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_python_blocks_run(page: Path) -> None:
    run_blocks(page)


def run_blocks(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "documentation"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec", dont_inherit=True), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.slow
def test_page_of_results_is_what_its_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert command(["show", "all", "--out", str(tmp_path / "results.md")]) == 0
    assert (tmp_path / "results.md").read_text() == (ROOT / "docs" / "results.md").read_text()


def test_readme_counts_the_cells_that_the_runs_count() -> None:
    rows = [row for row in compared(read_results(ROOT / "reproduction")) if row.ours is not None]
    above = sum(row.ours.mean > row.published.mean for row in rows)
    assert f"in {above} of the {len(rows)} cells run so far" in (ROOT / "README.md").read_text()


def test_readme_is_short_and_shows_code_early() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 120
    assert lines.index("```python") < 12


def test_the_picture_of_the_readme_is_what_its_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text()
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("    glws explain")))
    monkeypatch.chdir(tmp_path)
    assert glws_command(words[1:]) == 0
    assert (tmp_path / "explain.svg").read_text() == (ROOT / "docs" / "plots" / "explain.svg").read_text()
