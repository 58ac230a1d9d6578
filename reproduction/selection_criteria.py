"""`python -m reproduction selection [FOLDER]`: how well criteria without a test label choose among candidates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from glws.data import Groups, scaled, scaling_of
from glws.kinds import Labels, Unlabeled
from glws.selection import WeakLabels, posterior_of_rows, weak_fit
from glws.training import bag_log_odds_of
from glws.training._mixture import MixtureMember, answers
from glws.training._mixture_search import Member, MixtureSearch
from reproduction.files import put_between, read_lines
from reproduction.real_data import score
from reproduction.real_tasks import TASKS, Problem

Array = NDArray[np.float64]
ROOT = Path(__file__).parent.parent
LINES = "selection.jsonl"
PAGE = ROOT / "docs" / "measurements" / "selection.md"
START, END = "<!-- written by python -m reproduction selection -->", "<!-- end of selection -->"
CRITERIA = (
    "likelihood",
    "recalibrated",
    "low entropy",
    "covering rate",
    "approximated accuracy",
    "PU accuracy",
    "PU AUC",
)


def run(folder: Path, seeds: Sequence[int], only: str | None, results: Path, say: Callable[[str], None]) -> None:
    """Search what is not yet in the file of results, one line for each task and seed; missing data are said."""
    path = results / LINES
    done = {(line["task"], line["seed"]) for line in read_lines(path)}
    for name, make in TASKS.items():
        for seed in seeds if only in (None, name) else ():
            if (name, seed) in done:
                continue
            try:
                problem = make(folder, seed)
            except FileNotFoundError as error:
                say(f"{name}: left out, {error.filename} is not there")
                break
            line = {"task": name, "seed": seed, "metric": problem.metric, **searched(problem, seed)}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            say(f"{name}, seed {seed}: best {line['best']:.4f}, mixture {line['mixture']:.4f}")


def searched(problem: Problem, seed: int) -> dict[str, Any]:
    """All candidates of a search with their criteria and their test scores, and those of the mixture."""
    scaling = scaling_of(problem.rows, problem.rows[0], len(problem.rows))
    rows, test = (scaled(each, scaling).float() for each in (problem.rows, problem.test_rows))
    known = WeakLabels(tuple(Groups.of(each) for each in problem.groups), tuple(problem.weak))
    search = MixtureSearch(rows, known, seed)
    members: list[Member] = []

    def keep(_: object, some: Sequence[Member]) -> bool:
        members.extend(some)
        return False

    found = search.run((), keep)
    candidates: list[dict[str, Any]] = [
        {
            "name": member.name,
            "test": _tested(problem, MixtureMember(member.learner, member.calibration, 1.0), test),
            **criteria(search, member, known),
        }
        for member in members
    ]
    best = max(each["test"] for each in candidates)
    return {"best": best, "mixture": _tested(problem, found.mixture, test), "candidates": candidates}


def criteria(search: MixtureSearch, member: Member, known: WeakLabels) -> dict[str, float]:
    """Every criterion, more being better, from predictions for held-out rows; those that say nothing are left out."""
    with torch.no_grad():
        raw = search.held_out.pick(list(answers(member.learner, search.rows).numpy()))
    decided, probs = raw.argmax(1), np.exp(raw)
    fit = weak_fit(raw, search.held_out.known, needs_gradient=False)
    with np.errstate(divide="ignore"):
        certain = weak_fit(np.log(np.eye(raw.shape[1])[decided]), search.held_out.known, needs_gradient=False)
    posterior = posterior_of_rows(raw, search.held_out.known)
    found = {
        "likelihood": float(fit.log_likelihood.mean()),
        "recalibrated": float(member.fits.mean()),
        "low entropy": float((probs * raw).sum(1).mean()),
        "covering rate": 1 - certain.impossible / len(certain.log_likelihood),
        "approximated accuracy": float(posterior[np.arange(len(raw)), decided].mean()),
    }
    return found | dict(_without_negatives(search, known, probs))


def _without_negatives(search: MixtureSearch, known: WeakLabels, probs: Array) -> Iterator[tuple[str, float]]:
    """The accuracy and the AUC that positives and unlabeled rows with a class prior π amount to.

    accuracy = 2 π p(f = 1 | positive) + 1 - π - p(f = 1 | unlabeled), and the AUC of positives against unlabeled rows.
    """
    if tuple(map(type, known.weak)) != (Labels, Unlabeled) or not bool((known.weak[0].labels == 1).all()):  # type: ignore[attr-defined]
        return
    prior = float(known.weak[1].initial_posterior()[0, 1])  # type: ignore[index]
    positive, unlabeled = (probs[np.isin(search.held_out.rows, groups.indices.numpy()), 1] for groups in known.groups)
    yield "PU accuracy", 2 * prior * float((positive > 0.5).mean()) + 1 - prior - float((unlabeled > 0.5).mean())
    marks = np.repeat([1, 0], [len(positive), len(unlabeled)])
    yield "PU AUC", float(roc_auc_score(marks, np.concatenate([positive, unlabeled])))


@torch.no_grad()
def _tested(problem: Problem, model: torch.nn.Module, rows: torch.Tensor) -> float:
    """The test score of a model of rows."""
    log_probs = model(rows).double().log_softmax(1)
    if problem.bags is None:
        return score(problem, log_probs.exp().numpy())
    rule = problem.weak[0].bag_rule()
    assert rule is not None
    odds = bag_log_odds_of(Groups.of([bag.tolist() for bag in problem.bags]), rule, log_probs.__getitem__)
    return float(((odds[:, 0] > 0).numpy() == problem.test_labels).mean())


# ------------------------------------------------------------ the page


def table(lines: Sequence[dict[str, Any]]) -> str:
    """For each task and criterion: rank correlation with the test score / regret in points, means over seeds."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        found[line["task"]].append(line)
    header = f"| task | runs | best candidate | mixture | {' | '.join(CRITERIA)} |\n"
    rows = [_row(name, found[name]) for name in TASKS if name in found]
    rows.append(_means(found))
    return f"{header}|{'---|' * (len(CRITERIA) + 4)}\n{''.join(rows)}"


def correlation_and_regret(line: dict[str, Any], name: str) -> tuple[float, float] | None:
    """The rank correlation of a criterion with the test score, and what its choice is behind the best candidate.

    None for a criterion that is the same for all candidates.
    """
    candidates = [each for each in line["candidates"] if name in each]
    values, tests = (np.array([each[key] for each in candidates]) for key in (name, "test"))
    if len(values) < 2 or np.ptp(values) == 0 or np.ptp(tests) == 0:
        return None
    return float(spearmanr(values, tests).statistic), float(tests.max() - tests[values.argmax()])


def _row(name: str, lines: Sequence[dict[str, Any]]) -> str:
    scores = [f"{100 * np.mean([line[key] for line in lines]):.1f}" for key in ("best", "mixture")]
    cells = [_cell([correlation_and_regret(line, criterion) for line in lines]) for criterion in CRITERIA]
    return f"| {' | '.join([name, str(len(lines)), *scores, *cells])} |\n"


def _means(found: dict[str, list[dict[str, Any]]]) -> str:
    """The mean over tasks of the means over seeds."""
    cells = [
        _cell([correlation_and_regret(line, criterion) for lines in found.values() for line in lines])
        for criterion in CRITERIA
    ]
    return f"| {' | '.join(['all', str(sum(map(len, found.values()))), '', '', *cells])} |\n"


def _cell(pairs: Sequence[tuple[float, float] | None]) -> str:
    known = np.array([pair for pair in pairs if pair is not None])
    return "" if not len(known) else f"{known[:, 0].mean():.2f} / {100 * known[:, 1].mean():.1f}"


def write(results: Path, page: Path = PAGE) -> None:
    """Rewrite the table in the page."""
    put_between(page, START, END, table(read_lines(results / LINES)))
