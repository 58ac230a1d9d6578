"""Forty mistakes that come naturally on five journeys, each with the one line that answers it. Nothing is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import glws
from glws import WeakClassifier, constraint
from glws.cli import run
from glws.data import WeakDataset, read_table, read_votes
from glws.kinds import NoisyLabels, Proportions, Votes
from glws.training import TrainingConfig, fit

X = np.random.default_rng(0).normal(size=(24, 3))
LABELS = (X[:, 0] > 0).astype(int)
BAG = np.arange(24) // 4
COUNTS = np.bincount(BAG, LABELS)[BAG]
BAGS = [X[:12], X[12:]]
PU = {"kind": "positive_unlabeled"}
TABLE = "bag,f1,f2,n\na,1,2,1\na,2,3,1\nb,1,0,0\nb,3,3,0\n"
Attempt = Callable[[], Any]


def model(kind: str | None = None, **options: Any) -> WeakClassifier:
    return WeakClassifier("linear", kind=kind, epochs=2, random_state=0, kind_options=options or None)


def table(text: str = TABLE, **changes: Any) -> Any:
    """A table as it is read where it lies beside its description."""
    about = {"data": "t.csv", "features": "f*", "classes": ["no", "yes"], "group": "bag", "kind": "proportions"}
    about = {**about, "weak": {"count": "n"}, **changes}
    Path("t.csv").write_text(text)
    return read_table({key: value for key, value in about.items() if value is not None}).dataset()


PATHOLOGIST: dict[str, tuple[Attempt, str]] = {
    "labels of instances for bags": (
        lambda: model("multi_instance").fit(X, LABELS, groups=BAG),
        "rows 0 and 3 are of one group, but y is 1 and 0; expected the weak label of the group in each of its rows",
    ),
    "bag labels without bags": (
        lambda: model("multi_instance").fit(X, np.ones(24)),
        'kind="multi_instance" tells something of groups; pass groups=, the name of its group for each row',
    ),
    "names of classes without classes": (
        lambda: model("multi_instance").fit(BAGS, ["tumor", "normal"]),
        "y has the names normal, tumor; say which one a group has if any of its rows has it: classes=[",
    ),
    "more labels than bags": (lambda: model("multi_instance").fit(BAGS, [1, 0, 1]), "X has 24 rows but y has 3"),
    "bags of different width": (
        lambda: model("multi_instance").fit([X[:12], X[12:, :2]], [1, 0]),
        "X: bag 0 has 3 features and bag 1 has 2",
    ),
    "groups of a list of bags": (
        lambda: model("multi_instance").fit(BAGS, [1, 0], groups=BAG),
        "X is a list of bags, which are the groups; leave groups= out",
    ),
    "no positive bag": (
        lambda: model("multi_instance").fit(X, np.zeros(24), groups=BAG),
        "every weak label rules out class 1; add labels of it, or unlabeled data with a class prior",
    ),
    "a slide that is not there": (
        lambda: table("bag,f1,n\na,1,1\n,2,1\n"),
        "t.csv, line 3: column bag is empty",
    ),
}
ADVERTISER: dict[str, tuple[Attempt, str]] = {
    "shares for counts": (
        lambda: model("proportions").fit(X, COUNTS / 4, groups=BAG),
        "group 0: counts must be whole numbers, found 0.75; one whole count for each group; shares are",
    ),
    "noisy counts for exact ones": (
        lambda: model("proportions").fit(X, COUNTS - 2.5, groups=BAG),
        "counts with noise NoisyProportions.of",
    ),
    "more positives than rows": (
        lambda: model("proportions").fit(X, np.full(24, 5), groups=BAG),
        "group 0: exactly 5 of class 1 cannot hold in a group of 4 instances",
    ),
    "counts of each class under the name of the class": (
        lambda: model("class_counts").fit(X, COUNTS, groups=BAG),
        "no kind of weak label is called 'class_counts'; say kind: proportions with weak: {counts: [...]}",
    ),
    "noise without its size": (
        lambda: model("noisy_proportions").fit(X, COUNTS + 0.3, groups=BAG),
        "noisy counts need options: {epsilon: 1} or {scale: 1.0}, one of them; found neither",
    ),
    "a negative epsilon": (
        lambda: model("noisy_proportions", mechanism="laplace", epsilon=-1).fit(X, COUNTS, groups=BAG),
        "epsilon must be above 0, found -1",
    ),
    "a mechanism with a slip": (
        lambda: model("noisy_proportions", mechanism="laplac", epsilon=1).fit(X, COUNTS, groups=BAG),
        "must be one of geometric, laplace, gaussian, found 'laplac'",
    ),
    "a missing name of a group": (
        lambda: model("proportions").fit(X, COUNTS, groups=[None] * 24),
        "row 0: the name of its group is missing",
    ),
    "groups of fewer rows": (
        lambda: model("proportions").fit(X, COUNTS, groups=BAG[:20]),
        "there are 24 rows but the groups of 20",
    ),
    "two counts for one group": (
        lambda: table("bag,f1,n\na,1,1\na,2,2\n"),
        "t.csv: column n must be the same in all of group a: line 2 has 1, line 3 has 2",
    ),
}
ELECTION: dict[str, tuple[Attempt, str]] = {
    "rows of other areas than columns": (
        lambda: glws.ecological(np.ones((3, 2)), np.ones((4, 2))),
        "rows have 3 areas but columns 4",
    ),
    "margins that do not add up": (
        lambda: glws.ecological(np.array([[3, 4], [5, 6]]), np.array([[3, 4], [5, 7]])),
        "area 1: rows and columns must count the same people, found 11 and 12; add a column for those who are missing",
    ),
    "a count in words": (
        lambda: table("bag,f1,n\na,1,one\na,2,one\n"),
        "t.csv, line 2: column n must be a number, found 'one' (also line 3)",
    ),
    "a column that is not there": (
        lambda: table(weak={"count": "m"}),
        "t.csv: there is no column 'm'; known are bag, f1, f2, n",
    ),
    "no feature of that name": (
        lambda: table(features="g*"),
        "t.csv: no column matches 'g*'; there are bag, f1, f2, n",
    ),
    "a key with a slip": (
        lambda: read_table({"data": "t.csv", "feature": "f*", "classes": ["a", "b"]}),
        "there is no key 'feature'; did you mean features?",
    ),
    "one class twice": (lambda: table(classes=["yes", "yes"]), "classes: 'yes' is there twice"),
}
CROWD: dict[str, tuple[Attempt, str]] = {
    "votes that are not there": (lambda: read_votes("gone.csv"), "gone.csv: there is no such file"),
    "votes without a column": (
        lambda: (Path("v.csv").write_text("item\n1\n2\n"), read_votes("v.csv")),
        "v.csv: there is no column of votes; there are item",
    ),
    "a vote for no class": (
        lambda: Votes.of([[0, 5], [1, 1]], 2),
        "group 0: votes must be within -1..1, found (0, 5); rows are instances, columns sources",
    ),
    "a class with a slip": (
        lambda: table("f1,y\n1,yess\n2,no\n", kind="labels", weak={"label": "y"}, group=None),
        "t.csv, line 2: column y: no class is called 'yess'; did you mean yes?",
    ),
    "no candidate": (lambda: model().fit(X, np.zeros((24, 2), bool)), "group 0: the set of candidates is empty"),
    "a rule that compares with =>": (lambda: constraint("count(1) => 2", 2), "write == to compare"),
    "a rule about no class": (
        lambda: constraint("count(5) == 2", 2, 3),
        "class 5 is out of range: the classes are numbered 0..1",
    ),
    "identifiability of a kind alone": (
        lambda: glws.identify(Proportions.of([1])),  # type: ignore[arg-type]
        "identify asks about data, as different groups identify more than one: identify(WeakDataset(instances, groups",
    ),
}
FRAUD: dict[str, tuple[Attempt, str]] = {
    "0 for unlabeled": (
        lambda: model(**PU).fit(X, LABELS),
        "if 0 means unlabeled, add the option unlabeled: 0; if it means negative, the kind is labels",
    ),
    "-1 for negative": (
        lambda: model().fit(X, np.where(LABELS == 1, 1, -1)),
        "y has only the class 1; expected at least two classes (-1 is a row without a label: write 0 for negatives",
    ),
    "a prior in percent": (
        lambda: model(**PU, prior=15, unlabeled=0).fit(X, LABELS),
        'prior must be a share between 0 and 1, a range [low, high], or "estimate", found 15; divide percentages',
    ),
    "a prior of the unlabeled rows": (
        lambda: model(**PU, prior=0.05, unlabeled=0).fit(X, LABELS),
        "it is the share of positives among all rows, labeled ones included (of the unlabeled only: scenario: case_co",
    ),
    "an estimate from three positives": (
        lambda: model(**PU, unlabeled=0).fit(X, (np.arange(24) < 3).astype(int)),
        "3 labeled positives are too few to estimate the prior from; expected at least 10, or say the prior",
    ),
    "no unlabeled row": (
        lambda: model(**PU).fit(X, np.ones(24)),
        "positive-unlabeled data need labeled positives and unlabeled rows, but every row is labeled",
    ),
    "accuracy by marks": (
        lambda: cross_val_score(
            model(**PU, prior=0.5, unlabeled=0), X, LABELS, scoring="accuracy", error_score="raise", cv=2
        ),
        "accuracy_score reads unlabeled rows as negatives: search with scoring='roc_auc'",
    ),
    "a classifier without weights": (
        lambda: WeakClassifier(base_estimator=KNeighborsClassifier()).fit(X, LABELS),
        "`base_estimator` must have predict_proba and take sample_weight in fit. Got KNeighborsClassifier.",
    ),
    "a kind with a slip": (
        lambda: model("proportion").fit(X, COUNTS, groups=BAG),
        "no kind of weak label is called 'proportion'; did you mean 'proportions'?",
    ),
    "an option with a slip": (
        lambda: WeakClassifier("linear", training_options={"epoch": 3}).fit(X, LABELS),
        "no such key `training_options.epoch`; did you mean `training_options.epochs`?",
    ),
    "no epoch": (lambda: TrainingConfig(epochs=0), "`training.epochs` must be an integer >= 1, or null. Got 0."),
    "data in place of a model": (
        lambda: fit(WeakDataset(torch.zeros(4, 1), [[0, 1]], Proportions.of([1]))),  # type: ignore[arg-type]
        "there is nothing to learn from: fit(model, data), or fit(data=data) to have a model chosen",
    ),
}
COMMANDS: dict[str, tuple[list[str], str]] = {
    "a table for a description": (["train", "--data", "t.csv"], "t.csv is a table by itself; write a YAML file that"),
    "a network with a slip": (
        ["train", "--data", "t.yaml", "--model", "mpl"],
        "no network is called 'mpl'; did you mean 'mlp'?",
    ),
    "options of the training with dashes": (
        ["train", "--epochs", "5"],
        "no such option --epochs; settings of training are written training.epochs=...",
    ),
    "labels of no run": (["label", "runs/x"], "runs/x: there is no such run folder"),
}
JOURNEYS = {**PATHOLOGIST, **ADVERTISER, **ELECTION, **CROWD, **FRAUD}


def test_there_are_forty() -> None:
    assert len(JOURNEYS) + len(COMMANDS) >= 40


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_natural_mistake_has_an_answer_of_one_line(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    attempt, answer = JOURNEYS[name]
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        attempt()
    first, *rest = str(raised.value).split("\n")
    assert answer in first
    assert all(line.startswith(("count", " ")) for line in rest)  # the text of a rule, and where in it


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_on_the_command_line_has_an_answer_of_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE)
    lines = ["data: t.csv", "features: f*", "classes: ['no', 'yes']", "group: bag", "kind: proportions"]
    (tmp_path / "t.yaml").write_text("\n".join([*lines, "weak: {count: n}"]))
    words, answer = COMMANDS[name]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"glws: error: {answer}")
    assert said.count("\n") == 1


def test_a_share_for_each_of_two_sets_is_enough() -> None:
    short, long = (NoisyLabels.of_sets([3, 1], priors) for priors in ([0.7, 0.2], [[0.3, 0.7], [0.8, 0.2]]))
    torch.testing.assert_close(short.transition, long.transition)
    with pytest.raises(ValueError, match=r"priors must be within 0 and 1, found 1\.7"):
        NoisyLabels.of_sets([3, 1], [1.7, 0.2])
