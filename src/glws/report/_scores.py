"""The scores of a run in words, and several runs side by side: their scores, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from glws.report._content import RunContent
from glws.report._wording import NOT_GIVEN, decimal, flattened, in_words, is_number, percent, shown

CHOOSER = "test_accuracy"  # the column by which the best epoch on the test data is found


class Score(NamedTuple):
    """A score: its name in `glws.evaluation`, what people call it, how its value is written, what it means."""

    key: str
    name: str
    word: Callable[[float], str]
    meaning: str


class ScoreLine(NamedTuple):
    """A score of a run, ready to be read; `best` is its value in the epoch that was best on the test data."""

    name: str
    value: str
    best: str
    meaning: str


ACCURACY = Score("accuracy", "Test accuracy", percent, "The share of test instances whose class was predicted right.")
BALANCED = Score(
    "balanced_accuracy",
    "Balanced accuracy",
    percent,
    "The mean of that share over the classes, so that a rare class counts as much as a frequent one.",
)
MATCHED = Score(
    "matched_accuracy",
    "Matched accuracy",
    percent,
    "The accuracy after the best renaming of predicted classes: beside the test accuracy, never in its place.",
)
CALIBRATION = Score(
    "calibration_error",
    "Calibration error",
    percent,
    "How far confidence and share of right predictions lie apart on average; 0 is ideal.",
)
AREA = Score(
    "auc", "Area under the ROC curve", decimal, "How well class 1 is ranked above class 0: 1 is ideal, 0.5 is chance."
)
LIKELIHOOD = Score(
    "log_likelihood",
    "Held-out weak log-likelihood",
    decimal,
    "How well the predictions explain the weak label of a held-out group, on average; it needs no true label, and "
    "nearer to 0 is better.",
)
PER_INSTANCE = Score(
    "per_instance", "Weak log-likelihood per instance", decimal, "The same, divided by the number of instances."
)
ENTROPY = Score(
    "entropy",
    "Entropy of the posterior",
    decimal,
    "What is left open about a label, on average, in nats; 0 is nothing.",
)
IMPOSSIBLE = Score("impossible", "Impossible groups", decimal, "How many held-out groups the predictions rule out.")
APPROXIMATION = Score(
    "approximation_error",
    "Approximation error",
    decimal,
    "How far a posterior of a held-out group may be off because it is not computed exactly: an estimate.",
)
ESTIMATED = Score(
    "estimated_accuracy",
    "Accuracy as held-out groups tell it",
    percent,
    "The share of single instances whose class is predicted right, estimated from the weak labels of held-out groups "
    "alone; it needs no true label.",
)
ESTIMATED_ERROR = Score(
    "estimated_accuracy_error",
    "Standard error of that",
    percent,
    "How far the estimate may be off; about twice as much now and then.",
)
SCORES = (ACCURACY, BALANCED, MATCHED, CALIBRATION, AREA)
WEAK_SCORES = (ESTIMATED, ESTIMATED_ERROR, LIKELIHOOD, PER_INSTANCE, ENTROPY, IMPOSSIBLE, APPROXIMATION)
HEADLINE = ((ACCURACY, BALANCED, MATCHED, CALIBRATION), (ESTIMATED, LIKELIHOOD))


def headlines(run: RunContent) -> list[ScoreLine]:
    """The few numbers to read first."""
    chosen = [(run.scores, HEADLINE[0]), (run.weak_scores, HEADLINE[1])]
    return [
        ScoreLine(score.name, value_text(scores, score), "", score.meaning)
        for scores, wanted in chosen
        for score in wanted
        if scores is not None and scores.get(score.key) is not None
    ]


def score_lines(run: RunContent) -> list[ScoreLine]:
    """All scores, those without a description by their plain names."""
    best = best_row(run.metrics)
    lines = []
    for scores, described in ((run.scores, SCORES), (run.weak_scores, WEAK_SCORES)):
        for score in _all_scores(scores or {}, described):
            value, logged = value_text(scores, score), value_text(best, score._replace(key=f"test_{score.key}"))
            lines.append(ScoreLine(score.name, value, logged, score.meaning))
    return lines


def _all_scores(scores: Mapping[str, object], described: Sequence[Score]) -> list[Score]:
    known = {score.key for score in described}
    others = [key for key, value in scores.items() if key not in known and is_number(value)]
    return [score for score in described if scores.get(score.key) is not None] + [
        Score(key, in_words(key), percent if key.endswith("accuracy") else decimal, "") for key in sorted(others)
    ]


def class_lines(run: RunContent) -> list[tuple[str, str]]:
    """For each class the share of it that was predicted right; empty where that was not measured."""
    recalls = (run.scores or {}).get("per_class")
    if not isinstance(recalls, Sequence) or len(recalls) != len(run.classes):
        return []
    return [
        (name, percent(float(recall)) if is_number(recall) else "does not occur")
        for name, recall in zip(run.classes, recalls, strict=True)
    ]


def value_text(scores: Mapping[str, object] | None, score: Score) -> str:
    """The value of a score, or a dash."""
    value = None if scores is None else scores.get(score.key)
    if value is None:
        return NOT_GIVEN
    return score.word(float(value)) if is_number(value) else shown(value)  # type: ignore[arg-type]


def best_row(metrics: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    """The logged row with the highest test accuracy, the first of several.

    It was chosen by looking at the test labels, so it is no result; it is there to compare with papers that do so.

    >>> best_row([{"epoch": 1, "test_accuracy": 0.5}, {"epoch": 2, "test_accuracy": 0.9}, {"epoch": 3}])
    {'epoch': 2, 'test_accuracy': 0.9}
    """
    rows = [row for row in metrics if is_number(row.get(CHOOSER)) and math.isfinite(row[CHOOSER])]  # type: ignore[arg-type]
    return max(rows, key=lambda row: float(row[CHOOSER]), default=None)  # type: ignore[arg-type]


def best_name(metrics: Sequence[Mapping[str, object]]) -> str:
    """Which row that was: "epoch 7"."""
    row = best_row(metrics) or {}
    where = next((f"{key} {shown(row[key])}" for key in ("epoch", "step") if is_number(row.get(key))), "")
    return where if row else ""


class Table(NamedTuple):
    """Headings and, for each run, its name and one cell for each heading."""

    headings: list[str]
    rows: list[tuple[str, list[str]]]
    has_extra: bool = False  # the last column is no result


def distinct_names(runs: Sequence[RunContent]) -> list[str]:
    """The names of the runs, numbered where several have the same.

    >>> a, b = (RunContent(name, "", {}, {}, ()) for name in ("first", "second"))
    >>> distinct_names([a, b, a])
    ['first (1)', 'second', 'first (2)']
    """
    names = [run.name for run in runs]
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def score_table(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """The scores of the last epoch that any run has and, last and so named, the best test accuracy of any epoch."""
    chosen = [score for score in SCORES if any(_has(run.scores, score.key) for run in runs)]
    weak = [score for score in WEAK_SCORES if any(_has(run.weak_scores, score.key) for run in runs)]
    bests = [best_row(run.metrics) for run in runs]
    has_best = any(best is not None for best in bests)
    rows = []
    for name, run, best in zip(names, runs, bests, strict=True):
        cells = [value_text(run.scores, score) for score in chosen]
        cells += [value_text(run.weak_scores, score) for score in weak]
        cells += [value_text(best, ACCURACY._replace(key=CHOOSER))] if has_best else []
        rows.append((name, cells))
    extra = ["Best epoch on test (not a result)"] if has_best else []
    return Table([score.name for score in (*chosen, *weak)] + extra, rows, has_best)


def difference_table(names: Sequence[str], tables: Sequence[Mapping[str, str]]) -> Table:
    """The settings that are not the same in all runs.

    >>> difference_table(["a", "b"], [{"seed": "0", "epochs": "20"}, {"seed": "1", "epochs": "20"}])
    Table(headings=['seed'], rows=[('a', ['0']), ('b', ['1'])], has_extra=False)
    """
    keys = sorted({key for table in tables for key in table})
    differing = [key for key in keys if len({table.get(key) for table in tables}) > 1]
    rows = zip(names, tables, strict=True)
    return Table(differing, [(name, [table.get(key, NOT_GIVEN) for key in differing]) for name, table in rows])


def config_differences(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """Where the configurations differ."""
    return difference_table(names, [flattened(run.config) for run in runs])


def fact_differences(names: Sequence[str], runs: Sequence[RunContent]) -> Table:
    """Where versions, seeds, devices and the like differ."""
    return difference_table(names, [dict(run.facts) for run in runs])


def _has(scores: Mapping[str, object] | None, key: str) -> bool:
    return scores is not None and scores.get(key) is not None
