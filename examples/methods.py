"""Train every method on scikit-learn's digits, in each of its settings, next to the ceiling and the majority class.

python examples/methods.py                     # writes docs/measurements/methods.md
python examples/methods.py --seeds 1 --only positive_unlabeled --out x.md
python examples/methods.py --catalog           # writes docs/methods.md, without training
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from settings import POSITIVE, percent, table

from glws.data import load
from glws.data.augment import views
from glws.data.sources import Source
from glws.data.weaken import simulated
from glws.experiment import Experiment, ExperimentData
from glws.methods import METHODS, AbstractMethod, build_method, fixed_options, method_class
from glws.models import build
from glws.training import Labeled, TrainingConfig

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "measurements" / "methods.md"
TEMPLATE = Path(__file__).parent / "methods_scores_template.md"
CATALOG_PAGE = DOCS / "methods.md"
CATALOG_TEMPLATE = Path(__file__).parent / "methods_template.md"
EPOCHS = 40


# ---------------------------------------------------------------- what is tried


@dataclass(frozen=True)
class Tried:
    """A method of the catalog, with the method and training options that differ from the defaults."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The name, and the options that differ from the defaults."""
        return " ".join(
            [f"`{self.name}`", *(f"`{key}={value}`" for key, value in (self.options | self.training).items())]
        )


@dataclass(frozen=True)
class Setting:
    """The weak labels in words, the weakening that simulates them with its options, and the methods.

    `prior` is given to every method that needs one. `binary` simulates a setting of any classes with two.
    """

    weakening: str
    known: str
    methods: tuple[str | Tried, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    prior: float | None = None
    binary: bool = False

    @property
    def tried(self) -> list[Tried]:
        """Its methods, each with its options."""
        return [Tried(each) if isinstance(each, str) else each for each in self.methods]


WEAK_E_STEP = Tried("glws", {"e_step": "weak", "supervised": 1.0})

SETTINGS: dict[str, Setting] = {
    "supervised": Setting("supervised", "all labels", ("supervised",)),
    "supervised, 2 classes": Setting("supervised", "all labels", ("supervised",), binary=True),
    "partial labels": Setting(
        "partial_labels",
        "candidate sets, ratio 0.5",
        (
            "glws",
            WEAK_E_STEP,
            "cc",
            "rc",
            "proden",
            "lws",
            Tried("lws", training={"learning_rate": 3e-4}),
            "lwc",
            "rcr",
            Tried("pico", {"queue_size": 1024}),
        ),
    ),
    "complementary labels": Setting(
        "complementary_labels",
        "one excluded class each",
        ("glws", WEAK_E_STEP, "forward", "scl_log", "scl_exp", "free", "non_negative", "gradient_ascent"),
    ),
    "few labels": Setting(
        "semi_supervised",
        "72 labels, the others unknown",
        ("glws", "pseudo_label", "fixmatch", "freematch", "softmatch"),
    ),
    "multiple instances": Setting(
        "multi_instance",
        "288 bags N(5, 1), half of them with a positive",
        ("glws", WEAK_E_STEP, "count_loss", "uum", "attention_mil"),
    ),
    "multiple instances, 10 classes": Setting(
        "multi_instance_classes",
        "288 bags N(5, 1), the set of classes",
        ("glws", "count_loss", "uum", "attention_mil"),
    ),
    "label proportions": Setting(
        "proportions",
        "144 bags N(10, 2), count of positives",
        ("glws", WEAK_E_STEP, "count_loss", "uum", "mean_proportion", "llp_vat"),
    ),
    "label proportions, 10 classes": Setting(
        "class_proportions",
        "144 bags N(10, 2), all counts",
        ("glws", WEAK_E_STEP, "count_loss", "uum", "mean_proportion", "llp_vat"),
    ),
    "pairwise comparison": Setting(
        "pair_comparison",
        "721 pairs, prior 0.5",
        (
            "glws",
            WEAK_E_STEP,
            "pcomp_unbiased",
            "pcomp_relu",
            "pcomp_abs",
            "rank_pruning",
            Tried("rank_pruning", {"warm_up_epochs": 1}),
            "pcomp_teacher",
            Tried("pcomp_teacher", {"warm_up_epochs": 1}),
        ),
        {"prior": 0.5},
        prior=0.5,
    ),
    "pairwise similarity": Setting(
        "pair_similarity",
        "721 pairs, prior 0.4",
        ("glws", "risk_sd", Tried("risk_sd", {"correction": "abs"}), "uum", "mcl", "kcl"),
        {"prior": 0.4},
        prior=0.4,
    ),
    "similarity confidence": Setting(
        "similarity_confidence",
        "576 pairs, prior 0.4",
        ("glws", "sconf_unbiased", "sconf_relu", "sconf_abs", "sconf_nn_abs"),
        {"prior": 0.4},
        prior=0.4,
    ),
    "confidence difference": Setting(
        "confidence_difference",
        "576 pairs, prior 0.4",
        ("glws", "confdiff_unbiased", "confdiff_relu", "confdiff_abs"),
        {"prior": 0.4},
        prior=0.4,
    ),
    "positive confidence": Setting(
        "positive_confidence",
        "576 instances, half of them positive",
        ("glws", "pconf", Tried("pconf", {"floor": 0.1})),
    ),
    "positive confidence, positives only": Setting(
        "positive_confidence", "576 positives", ("glws", "pconf"), {"positives_only": True}
    ),
    "positive, unlabeled": Setting(
        "positive_unlabeled",
        "96 positives, 1,247 unlabeled, half of them positive, groups of 64",
        ("glws", "upu", "nnpu", "cvir", "ted", "dist_pu", "vpu", "count_loss", "count_loss_expectation"),
    ),
    "unlabeled, unlabeled": Setting(
        "unlabeled_unlabeled",
        "721 + 721, priors 0.8 and 0.2, groups of 64",
        ("glws", "uu_unbiased", "uu_relu", "uu_abs", "uu_leaky"),
        prior=0.5,
    ),
    "similar, dissimilar, unlabeled": Setting(
        "similar_dissimilar_unlabeled",
        "240 + 240 pairs, 288 unlabeled, prior 0.4, groups of 64",
        (
            "glws",
            Tried("glws", {"weights": (1.0, 0.1)}),
            "su",
            "du",
            "sd",
            "sdu",
            Tried("sdu", {"correction": "abs"}),
        ),
        {"prior": 0.4},
    ),
    "similar, dissimilar, unlabeled, prior 0.2": Setting(
        "similar_dissimilar_unlabeled", "the same, prior 0.2", ("su", "du", "sd"), {"prior": 0.2}
    ),
    "unlabeled, unlabeled, shares of `su`": Setting(
        "unlabeled_unlabeled",
        "480 + 288, priors 0.31 and 0.4",
        ("uu_unbiased",),
        {"sizes": (480, 288), "priors": (0.31, 0.4)},
        prior=0.4,
    ),
    "unlabeled, unlabeled, shares of `sd`": Setting(
        "unlabeled_unlabeled",
        "480 + 480, priors 0.31 and 0.5",
        ("uu_unbiased",),
        {"sizes": (480, 480), "priors": (0.31, 0.5)},
        prior=0.4,
    ),
}
"""Every setting, in the order of the page. Sizes are those of `glws train` on digits."""


# ---------------------------------------------------------------- one run


class Score(NamedTuple):
    """Scores on the test labels after the last epoch, and the cost."""

    accuracy: float
    matched: float
    auc: float | None
    most_predicted: float
    loss: float
    seconds: float


@cache
def digits() -> Source:
    return load("digits")


def score(title: str, tried: Tried, seed: int, epochs: int = EPOCHS) -> Score:
    """Simulate, train, and evaluate on the test set once, at the end. Seconds are CPU time."""
    began, setting = time.process_time(), SETTINGS[title]
    source = digits().binary(POSITIVE) if setting.binary else digits()
    draw = torch.Generator().manual_seed(seed)
    drawn = simulated(source, setting.weakening, draw, POSITIVE, setting.options)
    num_classes = drawn.source.num_classes
    model = build("mlp", [64], num_classes, torch.Generator().manual_seed(seed), hidden=[128, 128])
    test = Labeled.of(drawn.source.test.inputs, drawn.source.test.labels)
    chosen = {"epochs": epochs, "evaluate_every": epochs, "seed": seed, "device": "cpu", **tried.training}
    data, config = drawn.weakened.dataset(drawn.inputs), TrainingConfig(**chosen)
    experiment = Experiment(
        ExperimentData.of(data, test=test, views=views("digits")), model, method_of(title, tried), config
    )
    fitted = experiment.train()
    fitted.stop_if_asked()
    row, seconds = fitted.history[-1], time.process_time() - began
    assert fitted.evaluation.tested is not None
    predicted = fitted.evaluation.tested.argmax(1)
    most = float(torch.bincount(predicted, minlength=num_classes).max() / len(predicted))
    accuracy, matched, loss = (float(row[name]) for name in ("test_accuracy", "test_matched_accuracy", "loss"))
    return Score(accuracy, matched, float(row["test_auc"]) if "test_auc" in row else None, most, loss, seconds)


def method_of(title: str, tried: Tried) -> AbstractMethod:
    """The method with its options, and with the setting's prior if it needs one."""
    prior = {"prior": SETTINGS[title].prior} if method_class(tried.name).needs_prior else {}
    return build_method(tried.name, {**tried.options, **prior})


def majority(num_classes: int) -> float:
    """The accuracy of predicting the most frequent training class."""
    source = digits().binary(POSITIVE) if num_classes == 2 else digits()
    most = torch.as_tensor(source.train.labels).mode().values
    return float((torch.as_tensor(source.test.labels) == most).double().mean())


# ---------------------------------------------------------------- all runs

Task = tuple[str, Tried, int]
Scores = dict[tuple[str, int], list[Score]]


def scored(task: Task) -> Score:
    torch.set_num_threads(1)
    return score(*task)


def all_scores(titles: Sequence[str], seeds: Sequence[int], processes: int) -> Scores:
    """The scores of all seeds, by setting and index of the method in it."""
    rows = [(title, number, tried) for title in titles for number, tried in enumerate(SETTINGS[title].tried)]
    tasks: list[Task] = [(title, tried, seed) for title, _, tried in rows for seed in seeds]
    found: Scores = {}
    with ProcessPoolExecutor(processes) as pool:
        answers = pool.map(scored, tasks)
        for title, number, tried in rows:
            found[title, number] = [next(answers) for _ in seeds]
            print(" | ".join([title, *cells(tried, found[title, number])]), flush=True)
    return found


# ---------------------------------------------------------------- the page


def cells(tried: Tried, scores: Sequence[Score]) -> list[str]:
    """The cells of a row, after its setting."""
    areas = [each.auc for each in scores if each.auc is not None]
    return [
        tried.shown,
        percent([each.accuracy for each in scores]),
        percent([each.matched for each in scores]),
        f"{100 * statistics.mean(areas):.1f}" if areas else "",
        f"{100 * statistics.mean(each.most_predicted for each in scores):.0f}",
        f"{statistics.mean(each.loss for each in scores):.2f}",
        f"{statistics.mean(each.seconds for each in scores):.1f}",
    ]


HEADER = ["setting", "method", "accuracy", "matched", "AUC", "most predicted", "last loss", "seconds"]


def score_table(found: Scores) -> str:
    """Every row; the majority classes first."""
    rows = [
        [f"majority, {number} classes", "", f"{100 * majority(number):.1f}", "", "", "100", "", ""]
        for number in (10, 2)
    ]
    for (title, number), scores in found.items():
        rows.append([title if number == 0 else "", *cells(SETTINGS[title].tried[number], scores)])
    return table(HEADER, rows)


def known_table(titles: Sequence[str]) -> str:
    rows = []
    for title in titles:
        setting = SETTINGS[title]
        options = ", ".join(f"{key}={value}" for key, value in setting.options.items())
        rows.append([title, setting.known, f"`{setting.weakening}`", f"`{options}`" if options else ""])
    return table(["setting", "weak labels", "weakening", "its options"], rows)


def catalog_table() -> str:
    """Every name: its class and options, the weak labels it takes, and whether it needs the prior."""
    rows = []
    for name in METHODS:
        kind, fixed = method_class(name), fixed_options(name)
        options = ", ".join(f"{key}={value!r}" for key, value in fixed.items())
        made = f"`{kind.__name__}({options})`"
        rows.append([f"`{name}`", made, kind.takes, "needed" if kind.needs_prior else "", kind.summary])
    return table(["name", "class", "learns from", "prior", "what it is"], rows)


def recipe_table() -> str:
    """The methods with a published recipe; names with the same recipe share a row."""
    rows: dict[str, list[str]] = {}
    for name in METHODS:
        recipe = build_method(name, {"prior": 0.3} if method_class(name).needs_prior else {}).recipe()
        if recipe is not None:
            cells = [
                recipe.of,
                *(", ".join(f"{k}: {v}" for k, v in part.items()) for part in (recipe.training, recipe.model)),
            ]
            rows.setdefault(" | ".join(cells), []).append(f"`{name}`")
    return table(
        ["methods", "experiment", "training", "network"],
        [[", ".join(names), *cells.split(" | ")] for cells, names in rows.items()],
    )


def _shown(value: Any) -> str:
    """Thirds with three digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def page(found: Scores, titles: Sequence[str], num_seeds: int) -> str:
    """The page of scores."""
    return TEMPLATE.read_text().format(
        command="python examples/methods.py",
        num_seeds=num_seeds,
        epochs=EPOCHS,
        scores=score_table(found),
        known=known_table(titles),
    )


def catalog_page() -> str:
    """The page of names and recipes, which needs no training."""
    return CATALOG_TEMPLATE.read_text().format(catalog=catalog_table(), recipes=recipe_table())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--only", help="one weakening, such as positive_unlabeled")
    parser.add_argument("--processes", type=int, default=2, help="number of runs at a time")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--catalog", action="store_true", help=f"write {CATALOG_PAGE.name} only, without training")
    arguments = parser.parse_args()
    if arguments.catalog:
        CATALOG_PAGE.write_text(catalog_page())
        print(f"wrote {CATALOG_PAGE}")
        return
    began = time.perf_counter()
    titles = [title for title, setting in SETTINGS.items() if arguments.only in (None, setting.weakening)]
    found = all_scores(titles, range(arguments.seeds), arguments.processes)
    arguments.out.write_text(page(found, titles, arguments.seeds))
    print(f"wrote {arguments.out} after {time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
