"""`python -m reproduction real_data FOLDER`: glws by default, next to simple peers, on real data."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from glws import WeakClassifier
from glws.evaluation import calibration_error, reliability_curve
from reproduction.files import put_between, read_lines
from reproduction.real_peers import all_labels
from reproduction.real_tasks import TASKS, Problem

Array = NDArray[np.float64]
ROOT = Path(__file__).parent.parent
LINES = "real_data.jsonl"
PAGE = ROOT / "docs" / "measurements" / "real-data.md"
DEFAULT, LINEAR, NETWORK, CEILING = "default", "linear", "mlp", "all labels"
START, END = "<!-- written by python -m reproduction real_data -->", "<!-- end of real_data -->"


def run(folder: Path, seeds: Sequence[int], only: str | None, results: Path, say: Callable[[str], None]) -> None:
    """Run what is not yet in the file of results, one line for each task, seed and method."""
    path = results / LINES
    done = {(line["task"], line["seed"], line["method"]) for line in read_lines(path)}
    for name, make in TASKS.items():
        for seed in seeds if only in (None, name) else ():
            problem = make(folder, seed)
            for method, answer in answers(problem, seed):
                if (name, seed, method) in done:
                    continue
                began = time.process_time()
                found = {"task": name, "seed": seed, "method": method, "metric": problem.metric, **answer()}
                found["seconds"] = round(time.process_time() - began, 1)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                say(f"{name}, seed {seed}, {method}: {found['score']:.4f} ({found['seconds']} s)")


def answers(problem: Problem, seed: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is compared: the name of each method, and what trains and scores it."""
    ours: dict[str, dict[str, Any]] = {DEFAULT: {}, LINEAR: {"model": "linear"}, NETWORK: {"model": "mlp"}}
    ours |= {method: {"model": "mlp", "method": method} for method in problem.methods}
    for name, options in ours.items():
        yield name, lambda options=options: _ours(problem, options, seed)  # type: ignore[misc]
    for name, peer in problem.peers.items():
        yield name, lambda peer=peer: {"score": score(problem, peer())}  # type: ignore[misc]
    if problem.labels is not None:
        yield CEILING, lambda: {"score": _ceiling(problem)}


def _ours(problem: Problem, options: dict[str, Any], seed: int) -> dict[str, Any]:
    model = WeakClassifier(**options, random_state=seed, device="cpu")
    weak, groups = (some[0] if len(some) == 1 else list(some) for some in (problem.weak, problem.groups))
    model.fit(problem.rows, weak, groups=groups)
    if problem.bags is not None:
        table = model.predict_proba_bags([problem.rows[bag] for bag in problem.bags])
    else:
        table = model.predict_proba(problem.test_rows)
    found: dict[str, Any] = {
        "score": score(problem, table),
        "calibration_error": _calibration_error(table, problem.test_labels),
    }
    if hasattr(model, "candidates_"):
        found["chosen"] = [[one.name, round(one.weight, 3)] for one in model.candidates_ if one.weight > 0]
    return found


def score(problem: Problem, table: Array) -> float:
    """AUC of class 1, or accuracy."""
    if problem.metric == "auc":
        return float(roc_auc_score(problem.test_labels, table[:, 1]))
    return float((table.argmax(1) == problem.test_labels).mean())


def _calibration_error(table: Array, labels: NDArray[np.int64]) -> float:
    with np.errstate(divide="ignore"):
        return calibration_error(reliability_curve(torch.from_numpy(np.log(table)), torch.from_numpy(labels)))


def _ceiling(problem: Problem) -> float:
    assert problem.labels is not None
    classes = problem.weak[0].num_classes
    return max(score(problem, table) for table in all_labels(problem.rows, problem.labels, problem.test_rows, classes))


# ------------------------------------------------------------ the page


def table(lines: Sequence[dict[str, Any]]) -> str:
    """One row for each task, in the order of `TASKS`."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        found[line["task"]][line["method"]].append(line)
    header = "| task | runs | default | linear | mlp | our baseline | simple peers | all labels | ECE | CPU s |\n"
    rows = [_row(name, found[name]) for name in TASKS if name in found]
    return header + "|---|---|---|---|---|---|---|---|---|---|\n" + "".join(rows)


def _row(name: str, methods: dict[str, list[dict[str, Any]]]) -> str:
    named = {DEFAULT, LINEAR, NETWORK, CEILING}
    peers = [method for method in methods if method not in named and not _is_ours(method)]
    own = [method for method in methods if _is_ours(method)]
    default = methods.get(DEFAULT, [])
    errors = [line["calibration_error"] for line in default]
    cells = [
        name,
        str(len(default)),
        *(_cell(methods.get(method, [])) for method in (DEFAULT, LINEAR, NETWORK)),
        "<br>".join(f"{method} {_cell(methods[method])}" for method in own),
        "<br>".join(f"{method} {_cell(methods[method])}" for method in peers),
        _cell(methods.get(CEILING, [])),
        f"{statistics.mean(errors):.3f}" if errors else "",
        f"{statistics.mean([line['seconds'] for line in default]):.0f}" if default else "",
    ]
    return f"| {' | '.join(cells)} |\n"


def _is_ours(method: str) -> bool:
    from glws.methods import METHODS

    return method in METHODS


def _cell(lines: Sequence[dict[str, Any]]) -> str:
    """Mean ± standard error, in percent."""
    values = [100 * line["score"] for line in lines]
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def write(results: Path, page: Path = PAGE) -> None:
    """Put the table between the marks of the page."""
    put_between(page, START, END, table(read_lines(results / LINES)))
