"""Data that nothing can be learned from is refused with one line: on the command line, by `fit` and the estimator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glws import WeakClassifier
from glws.cli import run
from glws.data import Groups, WeakDataset, check_learnable
from glws.errors import DataError
from glws.kinds import (
    AbstractSupervision,
    Labels,
    MultiInstance,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PositiveConfidence,
    Proportions,
    Unlabeled,
)
from glws.models import build
from glws.training import fit

PAIRS, BAGS, NOBODY = Groups.of([[0, 1], [2, 3]]), Groups.of([[0, 1, 2], [3, 4]]), Groups.of([])
RULED_OUT = "every weak label rules out class 0; add labels of it, or unlabeled data with a class prior"
LABELS = (Groups.singles(3), Labels.of([1, 1, 1], 2))

REFUSED: dict[str, tuple[list[tuple[Groups, AbstractSupervision]], str]] = {
    "positives alone": ([LABELS], RULED_OUT),
    "positives beside rows without a label": ([(Groups.singles(3), Labels.of([1, None, 1], 2))], RULED_OUT),
    "positives beside full bags": ([LABELS, (BAGS, Proportions.of([3, 2]))], RULED_OUT),
    "negative bags alone": ([(BAGS, MultiInstance.of([0, 0]))], RULED_OUT.replace("class 0", "class 1")),
    "one candidate": ([(Groups.singles(2), PartialLabels.of([[0, 1, 0]] * 2))], RULED_OUT.replace("0", "0, 2")),
    "no labels at all": (
        [(Groups.singles(2), Labels.of([-1, -1], 2))],
        "every weak label allows every class: there is nothing to learn from",
    ),
    "a kind without a group": (
        [LABELS, (NOBODY, Unlabeled.of(torch.zeros(0)))],
        "Unlabeled has no groups; add some, or leave the kind out",
    ),
}
ACCEPTED: dict[str, list[tuple[Groups, AbstractSupervision]]] = {
    "positives and unlabeled": [LABELS, (BAGS, Unlabeled.of([0.3, 0.3]))],
    "positives and a negative": [LABELS, (Groups.of([[4]]), Labels.of([0], 2))],
    "positives and a mixed bag": [LABELS, (BAGS, Proportions.of([3, 1]))],
    "positive bags": [(BAGS, MultiInstance.of([1, 1]))],
    "one large positive bag": [(Groups.of([list(range(200)), [0]]), MultiInstance.of([1, 0]))],
    "a wide range in a large bag": [(Groups.of([list(range(200))]), Proportions.between([1], [199]))],
    "similar pairs": [(PAIRS, PairSimilarity.of([True, True]))],
    "comparisons": [(PAIRS, PairComparison.of([0, 0]))],
    "confident positives": [(Groups.singles(2), PositiveConfidence.of([0.9, 0.8]))],
    "two of three classes": [(Groups.singles(2), Labels.of([0, 2], 3))],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learned_from_is_one_line(name: str) -> None:
    parts, message = REFUSED[name]
    groups, weak = [part[0] for part in parts], [part[1] for part in parts]
    for attempt in (
        lambda: check_learnable(groups, weak),
        lambda: fit(build("linear", [2], weak[0].num_classes), WeakDataset(torch.zeros(5, 2), groups, weak)),
        lambda: WeakClassifier("linear").fit(np.arange(10.0).reshape(5, 2), weak, groups=groups),
    ):
        with pytest.raises(DataError) as caught:
            attempt()
        assert str(caught.value) == message


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_may_be_learned_from_is_not_refused(name: str) -> None:
    check_learnable([part[0] for part in ACCEPTED[name]], [part[1] for part in ACCEPTED[name]])


def test_a_piece_that_tells_enough_is_enough_and_the_last_group_may_be_the_one_that_does() -> None:
    labels = torch.ones(100_000, dtype=torch.int64)
    with pytest.raises(DataError, match="rules out class 0;"):
        check_learnable([Groups.singles(len(labels))], [Labels.of(labels, 2)])
    labels[-1] = 0
    check_learnable([Groups.singles(len(labels))], [Labels.of(labels, 2)])


def test_a_job_needs_every_class_that_its_table_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("f,known\n" + "".join(f"{row},{('a', 'b')[row % 2]}\n" for row in range(20)))
    Path("t.yaml").write_text("data: t.csv\nfeatures: [f]\nclasses: [a, b, c]\nkind: labels\nweak: {label: known}\n")
    assert run(["train", "--data", "t.yaml"]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "glws: error: every weak label rules out class c; add labels of it, or unlabeled data with a class prior\n"
    )
    assert not Path("runs").exists()


def test_positives_alone_are_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("f,known\n" + "".join(f"{row},fraud\n" for row in range(20)))
    Path("t.yaml").write_text(
        "data: t.csv\nfeatures: [f]\nclasses: [genuine, fraud]\nkind: labels\nweak: {label: known}\n"
    )
    assert run(["train", "--data", "t.yaml"]) == 2
    assert capsys.readouterr().err.startswith("glws: error: every weak label rules out class genuine; add labels of it")
