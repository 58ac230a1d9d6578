"""`python -m reproduction selection`: criteria, correlations and regrets, on data that is made here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from glws.data import Groups
from glws.kinds import Labels, PartialLabels, Unlabeled
from glws.selection import Calibration, WeakLabels
from glws.training import Stack
from glws.training import _stack as stack_module
from glws.training._mixture_search import Member, MixtureSearch
from reproduction import selection_criteria as module
from reproduction.files import read_lines
from reproduction.real_tasks import TASKS, Problem


def member(search: MixtureSearch, weight: float) -> Member:
    """A linear candidate that goes by the first feature."""
    stack = Stack(search.folds.number, search.rows.shape[1], 2, (), 0.0, torch.Generator())
    with torch.no_grad():
        stack.weights[0].zero_()
        stack.weights[0][:, 0, 1] = weight
        stack.biases[0].zero_()
    size = len(search.held_out.rows)
    return Member("linear", stack, np.zeros((size, 2)), Calibration(1.0, np.zeros(2)), np.zeros(1))


def test_criteria_of_candidate_sets_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    sets = np.stack([x[:, 0] < 0.3, x[:, 0] > -0.3], 1)
    known = WeakLabels((Groups.singles(60),), (PartialLabels.of(sets),))
    search = MixtureSearch(torch.tensor(x).float(), known, 0)
    found = module.criteria(search, member(search, 2.0), known)
    squashed = x[:, 0] / np.sqrt(1 + (x[:, 0] / 5) ** 2)
    probs = np.stack([1 / (1 + np.exp(2 * squashed)), 1 / (1 + np.exp(-2 * squashed))], 1)
    decided = probs.argmax(1)
    weighted = probs * sets
    assert found["likelihood"] == pytest.approx(np.log(weighted.sum(1)).mean(), abs=1e-5)
    assert found["low entropy"] == pytest.approx((probs * np.log(probs)).sum(1).mean(), abs=1e-5)
    assert found["covering rate"] == pytest.approx(sets[np.arange(60), decided].mean())
    posterior = weighted / weighted.sum(1, keepdims=True)
    assert found["approximated accuracy"] == pytest.approx(posterior[np.arange(60), decided].mean(), abs=1e-5)
    assert "PU AUC" not in found


def test_positives_and_a_prior_amount_to_an_accuracy_and_an_area() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random(400) < 0.3).astype(int)
    x = rng.normal(size=(400, 1)) + 2 * labels[:, None] - 1
    positive = np.flatnonzero(labels)[:40]
    rest = np.setdiff1d(np.arange(400), positive)
    weak = (Labels.of([1] * 40, 2), Unlabeled.of([labels[rest].mean()]))
    known = WeakLabels((Groups.of(positive[:, None]), Groups.of([rest.tolist()])), weak)
    search = MixtureSearch(torch.tensor(x).float(), known, 0)
    found = module.criteria(search, member(search, 3.0), known)
    assert found["PU accuracy"] == pytest.approx(((x[:, 0] > 0) == labels)[rest].mean(), abs=0.05)
    expected = roc_auc_score(np.r_[np.ones(40), np.zeros(len(rest))], np.r_[x[positive, 0], x[rest, 0]])
    assert found["PU AUC"] == pytest.approx(expected)


def test_a_correlation_and_a_regret() -> None:
    tests, values = [0.9, 0.7, 0.8], [1.0, 3.0, 2.0]
    candidates = [{"test": test, "likelihood": value, "flat": 1.0} for test, value in zip(tests, values, strict=True)]
    assert module.correlation_and_regret({"candidates": candidates}, "likelihood") == pytest.approx((-1.0, 0.2))
    assert module.correlation_and_regret({"candidates": candidates}, "flat") is None
    assert module.correlation_and_regret({"candidates": candidates}, "PU AUC") is None


def test_a_search_becomes_a_row_and_missing_data_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "FEWEST_STEPS", 10)
    rng = np.random.default_rng(0)
    labels = (rng.random(80) < 0.5).astype(int)
    x = rng.normal(size=(80, 2)) + 2 * labels[:, None]
    known = np.where(np.arange(60) < 40, labels[:60], -1)
    problem = Problem(x[:60], [Labels.of(known, 2)], [Groups.singles(60)], x[60:], labels[60:], "accuracy")

    def missing(folder: Path, seed: int) -> Problem:
        raise FileNotFoundError(2, "gone", "adult.data.gz")

    monkeypatch.setattr(module, "TASKS", {"easy": lambda folder, seed: problem, "gone": missing})
    said: list[str] = []
    for _ in range(2):  # the second time everything is there
        module.run(tmp_path, [0], None, tmp_path, said.append)
    assert [line.split(",")[0] for line in said] == ["easy", "gone: left out", "gone: left out"]
    (line,) = read_lines(tmp_path / module.LINES)
    assert line["best"] == max(each["test"] for each in line["candidates"]) > 0.8
    assert line["mixture"] > 0.7
    row = module.table([line]).splitlines()[2]
    assert row.startswith(f"| easy | 1 | {100 * line['best']:.1f} | {100 * line['mixture']:.1f} | ")


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    results = Path(module.ROOT) / "reproduction"
    page = tmp_path / "page.md"
    page.write_text(module.PAGE.read_text())
    module.write(results, page)
    assert page.read_text() == module.PAGE.read_text()
    lines = read_lines(results / module.LINES)
    assert {line["task"] for line in lines} <= set(TASKS)
    assert json.dumps(lines)
