"""Small made-up runs for quick tests, with everything a page can show and no symmetry to hide behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from glws.evaluation import ReliabilityCurve
from glws.report import Example, Instance, KnownPart, RunContent, Surprise

HOSTILE = "<script>alert(1)</script>"
QUOTED = "/data/\"onerror='alert(1)'/it's.png"
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>automaton</title></svg>'


def instance(seed: int, **changes: Any) -> Instance:
    """A gray image with a prediction and a posterior over three classes."""
    generator = np.random.default_rng(seed)
    prediction, posterior = generator.dirichlet(np.ones(3), 2)
    image = generator.integers(0, 256, (1, 5, 7), dtype=np.uint8)
    return replace(Instance(prediction, posterior, image, label=seed % 3, name=f"row {seed}"), **changes)


def small_run(**changes: Any) -> RunContent:
    """Three classes, two kinds of weak labels, four epochs of which the third was best on the test data."""
    accuracies = [0.4, 0.6, 0.875, 0.75]
    metrics = [
        {"epoch": n + 1, "step": 5 * n + 5, "loss": 2.0 - 0.3 * n, "train_accuracy": a - 0.1, "test_accuracy": a}
        for n, a in enumerate(accuracies)
    ]
    table = instance(5, image=None, features={"height": 1.75, "color": "red"})
    run = RunContent(
        name="small",
        command="glws train --data toy",
        facts={"torch": "2.1", "device": "cpu", "seed": "0"},
        config={"optimizer": {"name": "adamw", "lr": 0.001}, "epochs": 4},
        classes=("ant", "bee", "cow"),
        known=(
            KnownPart("Proportions", np.array([3, 5, 5, 9]), ("exactly 2 of class 1",), DRAWING, "group 0"),
            KnownPart("PairSimilarity", np.array([2, 2]), ("a pair of the same class",)),
        ),
        learned_from="4 bags and 2 pairs (0 labeled rows)",
        metrics=metrics,
        scores={
            "accuracy": 0.75,
            "balanced_accuracy": 0.71,
            "matched_accuracy": 0.8125,
            "calibration_error": 0.043,
            "auc": None,
            "per_class": (1.0, 0.5, None),
        },
        weak_scores={
            **{"log_likelihood": -1.25, "per_instance": -0.2, "entropy": 0.3, "impossible": 1},
            **{"estimated_accuracy": 0.9125, "estimated_accuracy_error": 0.021},
        },
        confusion=np.array([[7, 2, 0], [1, 4, 5], [0, 0, 6]]),
        reliability=ReliabilityCurve(np.array([0.45, 0.7, 0.95]), np.array([0.3, 0.8, 0.9]), np.array([4, 1200, 7])),
        examples=(Example(instance(1), "exactly 2 of class 1"), Example(table, "a pair of the same class")),
        surprising=(
            Surprise("group 17", "exactly 3 of class 1", -12.5, (instance(2), instance(3))),
            Surprise("group 4", "a pair of the same class", -np.inf, (table, table)),
        ),
        warnings=("The model predicts one class only.",),
    )
    return replace(run, **changes)


def hostile_run() -> RunContent:
    """Markup, quotes and unprintable characters wherever a string can be."""
    shown = instance(1, name=QUOTED, features={HOSTILE: HOSTILE, QUOTED: QUOTED})
    table = replace(shown, image=None)
    return small_run(
        name=HOSTILE,
        command=f"glws train {QUOTED} {HOSTILE}",
        facts={HOSTILE: QUOTED},
        config={HOSTILE: {QUOTED: [HOSTILE]}, "nul": "a\x00b\ud800c"},
        classes=(HOSTILE, QUOTED, "</svg></style></title>{{ 7 * 7 }}"),
        known=(KnownPart(HOSTILE, np.array([1, 2]), (HOSTILE, QUOTED), f"{HOSTILE}\ud800", f"{QUOTED}{HOSTILE}"),),
        learned_from=HOSTILE,
        metrics=[{"epoch": 1, HOSTILE: 1.0, QUOTED: 2.0}, {"epoch": 2, HOSTILE: 1.0, QUOTED: HOSTILE}],
        scores={"accuracy": HOSTILE, HOSTILE: 0.5},
        examples=(Example(shown, HOSTILE), Example(table, QUOTED)),
        surprising=(Surprise(HOSTILE, QUOTED, -1.0, (shown,)), Surprise(QUOTED, HOSTILE, -1.0, (table,))),
        warnings=(HOSTILE, QUOTED),
    )
