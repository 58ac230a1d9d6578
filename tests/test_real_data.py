"""`python -m reproduction real_data`: peers, scores and the table, on data that is made here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from glws.kinds import Proportions
from reproduction import real_data, real_peers
from reproduction.real_tasks import TASKS, Problem, cancer_pairs, cancer_positives, cancer_sets


def rows_and_labels(num_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = (rng.random(num_rows) < 0.4).astype(int)
    return rng.normal(size=(num_rows, 3)) + 3 * labels[:, None], labels


def test_every_peer_ranks_easy_data() -> None:
    rows, labels = rows_and_labels()
    bags = np.arange(400).reshape(-1, 4)
    counts, positive = labels[bags].sum(1), np.flatnonzero(labels)[:60]
    first, second = np.flatnonzero(labels), np.flatnonzero(1 - labels)
    masks = np.eye(2, dtype=bool)[labels] | (np.arange(400)[:, None] % 5 == 0)
    groups = [bag for bag in bags]
    tables = [
        real_peers.bag_means(rows, bags, counts, rows),
        real_peers.imputed_shares(rows, bags, counts, rows),
        real_peers.naive_positive(rows, positive, rows),
        real_peers.elkan_noto(rows, positive, rows),
        real_peers.which_set(rows, first, second, rows),
        real_peers.mean_of_candidates(rows, masks, rows, False),
        *real_peers.all_labels(rows, labels, rows, 2),
    ]
    for table in tables:
        assert roc_auc_score(labels, table[:, 1]) > 0.9
    present = counts > 1
    for kind in ("lr", "svc"):
        found = real_peers.pooled(rows, groups, present.astype(int), groups, kind)
        assert (found.argmax(1) == present).mean() > 0.8


def test_results_are_kept_and_become_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = rows_and_labels(40)
    bags = np.arange(40).reshape(-1, 4)
    weak, peers = Proportions.of(labels[bags].sum(1)), {"constant": lambda: np.full((40, 2), 0.5)}
    problem = Problem(rows, [weak], [bags], rows, labels, "auc", labels, peers=peers)
    name = next(iter(TASKS))
    monkeypatch.setitem(real_data.TASKS, name, lambda folder, seed: problem)
    monkeypatch.setattr(real_data, "_ours", lambda problem, options, seed: {"score": 0.75, "calibration_error": 0.02})
    said: list[str] = []
    for _ in range(2):
        real_data.run(tmp_path, [0, 1], name, tmp_path, said.append)
    lines = [json.loads(line) for line in (tmp_path / real_data.LINES).read_text().splitlines()]
    assert len(lines) == len(said) == 2 * 5  # default, linear, mlp, peer, all labels: each once for each seed
    row = real_data.table(lines).splitlines()[2]
    assert row.startswith(
        f"| {name} | 2 | 75.0 ± 0.0 | 75.0 ± 0.0 | 75.0 ± 0.0 |  | constant 50.0 ± 0.0 | 100.0 ± 0.0 | 0.020 |"
    )
    page = tmp_path / "page.md"
    page.write_text(f"before\n{real_data.START}\n{real_data.END}\nafter\n")
    real_data.write(tmp_path, page)
    assert row in page.read_text()


@pytest.mark.parametrize("make", [cancer_positives, cancer_sets, cancer_pairs])
def test_problems_hide_the_labels_that_they_do_not_state(make: object) -> None:
    problem = make(Path(), 0)  # type: ignore[operator]
    assert problem.labels is not None
    stated = sum(weak.num_labels or 0 for weak in problem.weak)
    assert stated <= 30
    rows = np.concatenate([np.concatenate([np.atleast_1d(each) for each in part]) for part in problem.groups])
    assert rows.max() < len(problem.rows) == 400
