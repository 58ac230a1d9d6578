"""`python -m benchmarks`: what it prints and what it writes."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import FAMILY_NAMES, measure, run
from benchmarks.engines.contest import OURS, PEER
from benchmarks.engines.documents import end, start
from benchmarks.engines.results import RIGHT, Row
from glws.cli import UsageError


def measured(task: str, sizes: list[int], cap: float, rounds: int) -> list[Row]:
    """In place of a run."""
    numbers = {"minimum_ms": 1.0, "turns": rounds, "peak_mb": 2.0}
    rows = []
    for size in sizes:
        rows.append(Row(task, size, "ours", OURS, RIGHT, median_ms=1.0 * size, ratio=1.0, **numbers))
        rows.append(Row(task, size, "peer", PEER, RIGHT, median_ms=20.0 * size, ratio=20.0, **numbers))
    return rows


@pytest.fixture(autouse=True)
def no_run(monkeypatch):
    monkeypatch.setattr("benchmarks.engines.worker.run_apart", measured)


def test_it_prints_a_table_and_the_verdicts(capsys):
    measure(task="trellis", quick=True)
    out = capsys.readouterr().out
    assert "Trellis: 64 groups" in out
    assert "one thread" in out
    assert "L = 50: 20x faster than the best right peer (peer); target 2.5x, met" in out


def test_sizes_are_those_asked_for(capsys):
    measure(task="counts", sizes="10,30")
    out = capsys.readouterr().out
    assert "L = 30: 20x" in out
    assert "L = 50" not in out


def test_it_writes_tables_and_plots(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    measure(task="counts", out=tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["batch.csv", "counts.csv", "counts.svg", "long.csv", "long.svg"]
    assert (tmp_path / "new" / "counts.csv").read_text().startswith("task,size,contestant,kind,status,median_ms")


def test_it_rewrites_the_marked_parts_of_a_document(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("\n".join(f"{start(name)}\nold\n{end(name)}" for name in ("machine", "pairs")) + "\nprose\n")
    measure(task="pairs", docs=page)
    text = page.read_text()
    assert "old" not in text
    assert "| peer | 40 (20x) | 200 (20x) |" in text
    assert text.endswith("prose\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "sums"}, "--task must be one of counts, trellis, pairs, all, found 'sums'"),
        ({"task": "counts", "sizes": "ten"}, "--sizes must be whole numbers of at least 2, such as 10,50; found 'ten'"),
        ({"task": "counts", "sizes": "1"}, "--sizes must be whole numbers of at least 2, such as 10,50; found '1'"),
        ({"sizes": "10"}, "--sizes are of one task: give --task counts, trellis or pairs too"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    with pytest.raises(UsageError) as caught:
        measure(**arguments)
    assert str(caught.value) == message


def test_a_document_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="there is no such file"):
        measure(docs=tmp_path / "none.md")


def test_the_names_are_those_of_the_tasks():
    from benchmarks.engines.tasks import FAMILIES

    assert tuple(FAMILIES) == FAMILY_NAMES


def test_it_is_a_command(capsys):
    assert run(["--help"]) == 0
    assert "python -m benchmarks" in capsys.readouterr().out
    assert run(["--task", "sums"]) == 2
    assert capsys.readouterr().err.startswith("glws: error: --task must be one of")
