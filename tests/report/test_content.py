"""What does not fit together is refused in one line; what went wrong in training is not."""

import numpy as np
import pytest
from report.small_runs import instance, small_run

from glws.errors import DataError
from glws.evaluation import ReliabilityCurve
from glws.report import Example, KnownPart, Surprise, page
from glws.report._scores import best_row

WRONG = [
    (
        {"confusion": np.zeros((3, 2))},
        "run 'small': expected a confusion matrix of shape [3, 3] (3 classes), found [3, 2]",
    ),
    (
        {"reliability": ReliabilityCurve(np.zeros(2), np.zeros(2), np.zeros(3, np.int64))},
        "run 'small': confidence, accuracy and count must be [bins], found [2], [2], [3]",
    ),
    (
        {"known": (KnownPart("Labels", np.zeros((2, 2), np.int64)),)},
        "run 'small': group sizes of Labels are [groups], found shape [2, 2]",
    ),
    (
        {"examples": (Example(instance(0)), Example(instance(1, prediction=np.ones(2))))},
        "run 'small': example 1: expected a prediction of shape [3], found [2]",
    ),
    (
        {"surprising": (Surprise("7", "", 0.0, (instance(1, posterior=np.ones((1, 3))),)),)},
        "run 'small': group 7, instance 0: expected a posterior of shape [3], found [1, 3]",
    ),
    (
        {"examples": (Example(instance(0, label=-1)),)},
        "run 'small': example 0: label -1 is not one of 0..2; use None where it is unknown",
    ),
    (
        {"examples": (Example(instance(0, image=np.zeros((4, 2, 2), np.uint8))),)},
        "run 'small': example 0: expected an image as uint8 [channels, height, width] with 1 or 3 channels, "
        "found uint8 [4, 2, 2]",
    ),
    (
        {"examples": (Example(instance(0, image=np.zeros((1, 2, 2)))),)},
        "run 'small': example 0: expected an image as uint8 [channels, height, width] with 1 or 3 channels, "
        "found float64 [1, 2, 2]",
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[12:50] for _, message in WRONG])
def test_what_does_not_fit_is_refused_in_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        small_run(**changes)
    assert str(caught.value) == message


def test_settings_without_a_lasting_text_are_refused() -> None:
    with pytest.raises(DataError) as caught:
        page([small_run(config={"model": {"layer": object()}})])
    assert str(caught.value) == "config.model.layer: a report shows plain values, found object; give its text instead"


def test_a_report_of_no_runs_is_refused() -> None:
    with pytest.raises(DataError, match="at least one run, found none"):
        page([])


def test_the_first_of_several_best_epochs_is_named() -> None:
    metrics = [
        {"epoch": epoch, "test_accuracy": value} for epoch, value in enumerate((0.5, 0.9, 0.7, 0.9, float("nan")))
    ]
    assert best_row(metrics) == {"epoch": 1, "test_accuracy": 0.9}
