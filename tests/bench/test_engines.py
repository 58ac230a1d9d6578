"""The benchmark: honest rows, whatever is installed."""

from __future__ import annotations

import csv
import io
import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.engines import memory
from benchmarks.engines.checking import errors
from benchmarks.engines.contest import BY_HAND, OURS, PARTIAL, PEER, YARDSTICK, Answer, Contestant, Task
from benchmarks.engines.documents import end, rewritten, start
from benchmarks.engines.environment import description
from benchmarks.engines.results import FAILED, MISSING, OTHER, RIGHT, SKIPPED, WRONG, Row, best_right_peer, to_csv
from benchmarks.engines.running import Run
from benchmarks.engines.tables import markdown, verdicts
from benchmarks.engines.tasks import FAMILIES, TASKS
from benchmarks.engines.tasks.inputs import count_inputs, pair_inputs, trellis_inputs
from benchmarks.engines.timing import interleaved
from benchmarks.engines.worker import run_apart
from glws.errors import DataError
from glws.inference import infer

pytestmark = pytest.mark.slow


def fixed(log_likelihood, marginals=None):
    """A contestant that always says the same."""
    return lambda inputs: lambda: Answer([log_likelihood], marginals)


def broken(inputs):
    raise RuntimeError("no such luck")


def toy(*contestants: Contestant, **changes) -> Task:
    ours = Contestant("ours", fixed(-1.0, [[0.5]]), OURS)
    task = Task("toy", "A toy", "L", (2, 4, 8), (2,), int, lambda _: Answer([-1.0], [[0.5]]), [ours, *contestants])
    return replace(task, **changes)


def rows_of(task: Task, *sizes: int, cap: float = 20.0) -> dict[str, Row]:
    rows = Run(task, cap, rounds=2, say=lambda _: None).all_sizes(sizes or (2,))
    return {f"{row.contestant} {row.size}" if len(sizes) > 1 else row.contestant: row for row in rows}


def test_answers_are_checked_before_they_are_timed():
    rows = rows_of(
        toy(
            Contestant("good", fixed(-1.00001, [[0.5]])),
            Contestant("bad", fixed(-1.0, [[0.75]])),
            Contestant("nan", fixed(math.nan)),
            Contestant("half", fixed(-1.0), PARTIAL),
            Contestant("else", fixed(-7.0), YARDSTICK),
        )
    )
    assert {name: row.status for name, row in rows.items()} == {
        "ours": RIGHT, "good": RIGHT, "bad": WRONG, "nan": WRONG, "half": RIGHT, "else": OTHER
    }  # fmt: skip
    assert rows["bad"].posterior_error == pytest.approx(0.25)
    assert rows["nan"].likelihood_error == math.inf
    assert all(row.median_ms >= row.minimum_ms > 0 for row in rows.values())
    assert rows["ours"].ratio == 1.0
    assert rows["bad"].ratio == pytest.approx(rows["bad"].median_ms / rows["ours"].median_ms)


def test_what_is_missing_or_breaks_is_listed():
    rows = rows_of(toy(Contestant("absent", broken, needs=("no_such_module",)), Contestant("broken", broken)))
    assert (rows["absent"].status, rows["absent"].note) == (MISSING, "needs no_such_module")
    assert (rows["broken"].status, rows["broken"].note) == (FAILED, "RuntimeError: no such luck")
    assert rows["broken"].median_ms is None


def test_our_own_failure_is_not_hidden():
    with pytest.raises(RuntimeError, match="no such luck"):
        rows_of(toy(Contestant("ours too", broken, OURS)))


def test_what_would_take_too_long_or_too_much_is_skipped():
    task = toy(
        Contestant("slow", fixed(-1.0), growth=60.0),
        Contestant("large", fixed(-1.0), gigabytes=lambda size: 100.0 * (size > 2)),
        Contestant("hard to build", fixed(-1.0), build_growth=60.0),
        Contestant("wrong", fixed(5.0), growth=40.0),
    )
    rows = rows_of(task, 2, 8)
    assert all(rows[f"{name} 2"].status in (RIGHT, WRONG) for name in ("slow", "large", "hard to build", "wrong"))
    assert all(rows[f"{name} 8"].status == SKIPPED for name in ("slow", "large", "hard to build", "wrong"))
    assert rows["slow 8"].note.endswith("s expected")
    assert rows["large 8"].note == "needs about 100 GB"
    assert rows["hard to build 8"].note.endswith("s of building expected")
    assert rows["wrong 8"].note == "wrong at 2 already"


def test_a_large_size_alone_is_judged_by_trying_smaller_ones():
    assert rows_of(toy(Contestant("slow", fixed(-1.0), growth=60.0)), 8)["slow"].status == SKIPPED


def test_errors_are_relative_for_the_likelihood_and_absolute_for_posteriors():
    found = errors(Answer([-101.0], [[0.25]]), Answer([-100.0], [[0.5]]))
    assert found.likelihood == pytest.approx(0.01)
    assert found.posterior == 0.25


def test_turns_are_interleaved():
    order: list[str] = []

    def slowly(name: str):
        def call() -> None:
            order.append(name)
            time.sleep(0.03)  # above one turn, so that it is not repeated

        return call

    times = interleaved({"a": slowly("a"), "b": slowly("b")}, rounds=2)
    assert order == ["a", "b"] * 3  # one call to see how long it takes, which counts, and two rounds
    assert times["a"].turns == 3
    assert times["a"].median >= times["a"].minimum >= 0.03


def test_peak_memory_sees_what_torch_takes():
    memory.give_back_early()
    peak = memory.peak_bytes(lambda: torch.ones(4_000_000).add(1.0))  # two tensors of 16 MB at once
    assert peak is None or 30e6 < peak < 45e6


@pytest.mark.parametrize("name", TASKS)
def test_every_task_runs_and_ours_are_right(name):
    task = replace(TASKS[name], contestants=[one for one in TASKS[name].contestants if not one.needs])
    size = {"batch": 6, "long": 100}.get(name, 8)
    rows = Run(task, rounds=1, say=lambda _: None).all_sizes([size])
    assert all(row.status in (RIGHT, OTHER) for row in rows), rows
    assert rows[0].kind == OURS


def test_families_cover_the_tasks():
    assert set(FAMILIES["all"]) == set(TASKS)
    assert {name for family in ("counts", "trellis", "pairs") for name in FAMILIES[family]} == set(TASKS)


def test_inputs_are_reproducible_and_mean_what_they_say():
    assert torch.equal(count_inputs(3, 5, 2).log_one, count_inputs(3, 5, 2).log_one)
    assert torch.allclose(count_inputs(3, 5, 2).log_probs.exp().sum(2), torch.ones(3, 5, dtype=torch.float64))
    assert pair_inputs(3).shape == (4096, 2, 3)
    inputs = trellis_inputs(4)
    assert inputs.moves.shape == (10, 8, 8)
    assert np.array_equal(inputs.moves.argmax(2).T, inputs.targets)
    state = 0
    for label in (3, 1, 4, 1):
        state = inputs.targets[state, label]
    assert inputs.automaton.accepts([3, 1, 4, 1]) == inputs.final[state]
    assert infer(inputs.log_probs, inputs.automaton).log_likelihood.isfinite().all()


def row(contestant: str, size: int, median: float, kind: str = PEER, status: str = RIGHT) -> Row:
    return Row("toy", size, contestant, kind, status, median_ms=median, minimum_ms=median, ratio=median, peak_mb=0.01)


EXAMPLE = [
    row("ours", 2, 1.0, OURS),
    row("peer", 2, 9.0),
    replace(row("fast", 2, 0.5, status=WRONG), likelihood_error=0.25),
    row("half", 2, 0.7, PARTIAL),
    Row("toy", 2, "absent", PEER, MISSING, note="needs luck"),
]


def test_only_a_right_and_whole_answer_can_be_the_best_peer():
    assert best_right_peer(EXAMPLE).contestant == "peer"
    assert best_right_peer(EXAMPLE[:1]) is None


def test_the_best_library_is_named_where_it_is_not_the_best_peer():
    hand = row("by hand", 2, 4.0, BY_HAND)
    assert best_right_peer([*EXAMPLE, hand]) is hand
    assert verdicts(toy(targets={2: 8.0}), [*EXAMPLE, hand]) == [
        "L = 2: 4x faster than the best right peer (by hand); target 8x, missed; "
        "9x faster than the best right library (peer)"
    ]


def test_targets_are_judged():
    assert verdicts(toy(targets={2: 8.0}), EXAMPLE) == [
        "L = 2: 9x faster than the best right peer (peer); target 8x, met"
    ]
    assert verdicts(toy(targets={2: 10.0}), EXAMPLE)[0].endswith("target 10x, missed")
    assert verdicts(toy(targets={2: 10.0}), [EXAMPLE[0], EXAMPLE[2]]) == ["L = 2: no right peer was timed"]
    assert verdicts(toy(), EXAMPLE) == ["L = 2: 9x faster than the best right peer (peer)"]
    slow = [replace(EXAMPLE[0], median_ms=18.0), *EXAMPLE[1:]]
    assert verdicts(toy(), slow) == ["L = 2: 2x slower than the best right peer (peer)"]
    assert verdicts(toy(), EXAMPLE[:1]) == []


def test_markdown_shows_everyone():
    text = markdown(toy(targets={2: 8.0}), EXAMPLE)
    assert "| peer | 9 (9x) |" in text
    assert "| fast | 0.5 (0.5x), wrong by 0.2 |" in text
    assert "| half (likelihood only) | 0.7 (0.7x) |" in text
    assert "| absent | not installed: needs luck |" in text
    assert text.endswith("target 8x, met")
    endless = replace(EXAMPLE[2], likelihood_error=math.inf)
    assert "| fast | 0.5 (0.5x), wrong: -inf or NaN |" in markdown(toy(), [EXAMPLE[0], endless])


def test_csv_reads_back():
    lines = list(csv.DictReader(io.StringIO(to_csv(EXAMPLE))))
    assert [line["contestant"] for line in lines] == ["ours", "peer", "fast", "half", "absent"]
    assert float(lines[1]["median_ms"]) == 9.0
    assert lines[4]["median_ms"] == ""


def test_marked_parts_are_rewritten_and_the_rest_is_kept():
    document = f"Before\n{start('toy')}\nold\n{end('toy')}\nAfter\n"
    once = rewritten(document, {"toy": "new \\1 table"})
    assert once == f"Before\n{start('toy')}\n\nnew \\1 table\n\n{end('toy')}\nAfter\n"
    assert rewritten(once, {"toy": "new \\1 table"}) == once
    with pytest.raises(DataError, match="no part 'other'"):
        rewritten(document, {"other": ""})


def test_the_environment_is_named():
    assert f"torch {torch.__version__}" in description()


def test_plots_show_every_curve():
    pytest.importorskip("matplotlib")
    from benchmarks.engines.plots import svg

    picture = svg(toy(), [*EXAMPLE, row("ours", 8, 2.0, OURS), row("peer", 8, 90.0)])
    for text in ("ours", "peer", "half (likelihood only)", "peak memory of a call, MB (less than 0.1 at 0.1)"):
        assert text in picture
    assert "absent" not in picture


def test_a_process_of_its_own_brings_back_rows(capfd):
    rows = run_apart("pairs", [2], cap=1.0, rounds=1)
    assert [row.status for row in rows if row.kind == OURS] == [RIGHT] * 3
    assert "classes = 2" in capfd.readouterr().err
