"""Simulate every setting of the paper on scikit-learn's digits, train with one loop, evaluate on true test labels.

python examples/settings.py                     # writes docs/settings.md
python examples/settings.py --seeds 1 --out x.md
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from glws import batch_loss
from glws.data import Groups, WeakDataset, load, weaken
from glws.data.weaken import Weakened
from glws.kinds import Labels

POSITIVE = (0, 1, 2, 3, 4)
PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
TEMPLATE = Path(__file__).parent / "settings_template.md"


# ---------------------------------------------------------------- the one loop


def network(num_classes: int, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    hidden = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(128, num_classes))


def train(
    model: nn.Module,
    data: WeakDataset,
    *,
    epochs: int,
    batches: int,
    seed: int,
    weights: Sequence[float] | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Train by gradient steps of EM; the loss is that of the batch, for any kind of weak label."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in data.batches(batches, generator):
            log_probs = model(batch.instances).log_softmax(-1)
            loss = batch_loss(batch, log_probs, weights=weights, **(options or {}))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# ---------------------------------------------------------------- data and scores


@dataclass(frozen=True)
class Digits:
    """Training and test inputs, with labels for 10 and for 2 classes (digits 0-4 are positive)."""

    inputs: Tensor
    labels: Mapping[int, Tensor]
    test_inputs: Tensor
    test_labels: Mapping[int, Tensor]

    @classmethod
    def read(cls) -> Digits:
        """Load from scikit-learn."""
        source = load("digits")
        binary = source.binary(POSITIVE)
        train_labels = {10: torch.as_tensor(source.train.labels), 2: torch.as_tensor(binary.train.labels)}
        test_labels = {10: torch.as_tensor(source.test.labels), 2: torch.as_tensor(binary.test.labels)}
        inputs, test_inputs = (torch.as_tensor(part.inputs) for part in (source.train, source.test))
        return cls(inputs, train_labels, test_inputs, test_labels)

    def scored(self, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, binary labels and P(positive) of the instances that the confidence model was not fitted to."""
        answer = weaken.held_out_scores(self.inputs, self.labels[10], 10, held_out=0.2, generator=generator)
        confidence = weaken.positive_scores(answer.probabilities, POSITIVE)
        return self.inputs[answer.scored], self.labels[2][answer.scored], confidence


@dataclass(frozen=True)
class Score:
    """Test accuracy, matched accuracy, and the share of the most predicted class."""

    accuracy: float
    matched: float
    most_predicted: float
    seconds: float = 0.0


@torch.no_grad()
def score(model: nn.Module, inputs: Tensor, labels: Tensor, num_classes: int, seconds: float = 0.0) -> Score:
    predicted = model(inputs).argmax(1)
    confusion = torch.bincount(labels * num_classes + predicted, minlength=num_classes**2).view(num_classes, -1)
    rows, columns = linear_sum_assignment(confusion.numpy(), maximize=True)
    accuracy, matched = confusion.diagonal().sum() / len(labels), confusion[rows, columns].sum() / len(labels)
    return Score(float(accuracy), float(matched), float(confusion.sum(0).max() / len(labels)), seconds)


# ---------------------------------------------------------------- the settings

Simulate = Callable[[Digits, torch.Generator], tuple[Tensor, Weakened]]


@dataclass(frozen=True)
class Setting:
    """How to simulate one setting, how long to train, and the weights of its kinds."""

    name: str
    known: str
    num_classes: int
    simulate: Simulate
    epochs: int = 20
    batches: int = 20
    weights: tuple[float, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Callable[[Weakened], Weakened] | None = None
    start_epochs: int = 2


def run(setting: Setting, digits: Digits, seed: int, epochs: int | None = None) -> Score:
    began = time.perf_counter()
    inputs, record = setting.simulate(digits, torch.Generator().manual_seed(seed))
    model = network(setting.num_classes, seed)
    if setting.start:
        first = setting.start(record).dataset(inputs)
        train(model, first, epochs=setting.start_epochs, batches=setting.batches, seed=seed)
    schedule = {"epochs": setting.epochs if epochs is None else epochs, "batches": setting.batches, "seed": seed}
    train(model, record.dataset(inputs), weights=setting.weights, options=setting.options, **schedule)
    seconds = time.perf_counter() - began
    return score(model, digits.test_inputs, digits.test_labels[setting.num_classes], setting.num_classes, seconds)


def of_all(num_classes: int, function: Callable[..., Weakened], *arguments: Any, **keywords: Any) -> Simulate:
    """A setting simulated from all training instances."""
    return lambda digits, generator: (
        digits.inputs,
        function(digits.labels[num_classes], *arguments, generator=generator, **keywords),
    )


def of_scored(function: Callable[..., Weakened], *arguments: Any, **keywords: Any) -> Simulate:
    """A setting simulated from the instances with a confidence."""

    def simulate(digits: Digits, generator: torch.Generator) -> tuple[Tensor, Weakened]:
        inputs, labels, confidence = digits.scored(generator)
        return inputs, function(labels, confidence, *arguments, generator=generator, **keywords)

    return simulate


def positives_against_unlabeled(record: Weakened) -> Weakened:
    """Positives and unlabeled instances as negatives, for the first epochs; this ranks the instances."""
    positives, unlabeled = (groups.indices for groups in record.groups)
    labels = torch.cat([torch.ones_like(positives), torch.zeros_like(unlabeled)])
    return Weakened(Groups.of(torch.cat([positives, unlabeled])[:, None]), Labels.of(labels, 2), {})


def comparison(prior: float, ties: str) -> Setting:
    options = {"supervised": 0.0} if ties == "code" else {}
    simulate = of_all(2, weaken.pair_comparison, 1000, prior, ties=ties)
    return Setting("pairwise comparison", f'1000 pairs, prior {prior}, `ties="{ties}"`', 2, simulate, options=options)


SETTINGS = [
    Setting("partial labels", "candidate sets, ratio 0.5", 10, of_all(10, weaken.partial_labels, 10, 0.5)),
    Setting(
        "multiple instances", "600 bags N(5, 1), half with a positive", 2, of_all(2, weaken.multi_instance, 600, 5, 1)
    ),
    Setting("label proportions", "300 bags N(10, 2), count of positives", 2, of_all(2, weaken.proportions, 300, 10, 2)),
    comparison(0.5, "half"),
    Setting("pairwise similarity", "1000 pairs, prior 0.4", 2, of_all(2, weaken.pair_similarity, 1000, 0.4)),
    Setting("similarity confidence", "1000 pairs, prior 0.4", 2, of_scored(weaken.similarity_confidence, 1000, 0.4)),
    Setting("confidence difference", "1000 pairs, prior 0.4", 2, of_scored(weaken.confidence_difference, 1000, 0.4)),
    Setting(
        "positive confidence",
        "800 instances, half of them positive",
        2,
        of_scored(weaken.positive_confidence, 800, positives_only=False),
    ),
    Setting(
        "positive, unlabeled",
        '100 positives, groups of 64, `count="expected"`, started by positives against unlabeled',
        2,
        of_all(2, weaken.positive_unlabeled, 100, count="expected"),
        start=positives_against_unlabeled,
    ),
    Setting(
        "unlabeled, unlabeled",
        '700 + 700, priors 0.8 and 0.2, groups of 64, `count="expected"`',
        2,
        of_all(2, weaken.unlabeled_unlabeled, (700, 700), (0.8, 0.2), count="expected"),
        batches=11,
    ),
    Setting(
        "similar, dissimilar, unlabeled",
        '250 + 250 pairs, 300 unlabeled, prior 0.4, `count="binomial"`, weights 1 and 0.1',
        2,
        of_all(2, weaken.similar_dissimilar_unlabeled, 250, 250, 300, 0.4, count="binomial"),
        epochs=40,
        batches=5,
        weights=(1.0, 0.1),
    ),
]

VARIANTS = [
    Setting("complementary labels", "one wrong class each", 10, of_all(10, weaken.complementary_labels, 10), epochs=60),
    Setting("few labels", "40 labels, the others unknown", 10, of_all(10, weaken.semi_supervised, 10, 40)),
    Setting("noisy labels", "4 in 10 wrong, rate known", 10, of_all(10, weaken.noisy_labels, 10, 0.4)),
    Setting(
        "multiple instances, 10 classes",
        "600 bags N(5, 1), the set of classes",
        10,
        of_all(10, weaken.multi_instance_classes, 10, 600, 5, 1),
    ),
    Setting(
        "label proportions, 10 classes",
        "300 bags N(10, 2), all counts",
        10,
        of_all(10, weaken.class_proportions, 10, 300, 10, 2),
    ),
    Setting(
        "positive, unlabeled",
        '100 positives, groups of 64, `count="binomial"`, no start',
        2,
        of_all(2, weaken.positive_unlabeled, 100, count="binomial"),
    ),
    Setting(
        "similar, dissimilar, unlabeled",
        '250 + 250 pairs, 300 unlabeled, prior 0.4, `count="binomial"`, weights 1 and 1',
        2,
        of_all(2, weaken.similar_dissimilar_unlabeled, 250, 250, 300, 0.4, count="binomial"),
        epochs=40,
        batches=5,
    ),
]

COMPARISONS = [comparison(prior, ties) for ties in ("half", "paper", "code") for prior in (0.2, 0.5, 0.8)]


# ---------------------------------------------------------------- several kinds at once


def mixed_parts(digits: Digits, generator: torch.Generator) -> dict[str, Weakened]:
    """Counts of some bags, candidate sets of some instances, and 20 true labels."""
    labels = digits.labels[10]
    counts = weaken.class_proportions(labels, 10, 12, 10, 2, generator=generator)
    sets = weaken.partial_labels(labels, 10, 0.5, generator=generator)
    some = torch.randperm(len(labels), generator=generator)[:150]
    few = weaken.semi_supervised(labels, 10, 20, generator=generator)
    known = (few.weak.labels >= 0).nonzero()[:, 0]
    return {
        "counts of 12 bags": counts,
        "150 candidate sets": Weakened(sets.groups[some], sets.weak[some], {}),
        "20 true labels": Weakened(few.groups[known], few.weak[known], {}),
    }


def run_mixed(names: Sequence[str], digits: Digits, seed: int, epochs: int = 60) -> Score:
    began = time.perf_counter()
    parts = mixed_parts(digits, torch.Generator().manual_seed(seed))
    chosen = [parts[name] for name in names]
    data = WeakDataset(digits.inputs, [part.groups for part in chosen], [part.weak for part in chosen])
    model = network(10, seed)
    train(model, data, epochs=epochs, batches=5, seed=seed)
    return score(model, digits.test_inputs, digits.test_labels[10], 10, time.perf_counter() - began)


MIXED = ["counts of 12 bags", "150 candidate sets", "20 true labels"]
MIXTURES = [[MIXED[0]], [MIXED[1]], [MIXED[2]], MIXED[:2], MIXED[1:], [MIXED[0], MIXED[2]], MIXED]


# ---------------------------------------------------------------- the page


def supervised(digits: Digits, num_classes: int, seed: int) -> Score:
    labels = digits.labels[num_classes]
    record = Weakened(Groups.singles(len(labels)), Labels.of(labels, num_classes), {})
    setting = Setting("supervised", "all labels", num_classes, lambda digits, generator: (digits.inputs, record))
    return run(setting, digits, seed)


def majority(digits: Digits, num_classes: int) -> float:
    most = digits.labels[num_classes].mode().values
    return float((digits.test_labels[num_classes] == most).double().mean())


def percent(values: Sequence[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return row(header) + row(["---"] * len(header)) + "".join(row(cells) for cells in rows)


def measured(setting: Setting, digits: Digits, seeds: Sequence[int]) -> list[Score]:
    scores = [run(setting, digits, seed) for seed in seeds]
    print(f"{setting.name:32s} {setting.known:70s} {percent([s.accuracy for s in scores])}", flush=True)
    return scores


def setting_row(setting: Setting, digits: Digits, seeds: Sequence[int], ceiling: Mapping[int, str]) -> list[str]:
    scores = measured(setting, digits, seeds)
    shown = [percent([getattr(s, name) for s in scores]) for name in ("accuracy", "matched")]
    most = f"{100 * statistics.mean(s.most_predicted for s in scores):.0f}"
    seconds = f"{statistics.mean(s.seconds for s in scores):.1f}"
    lowest = f"{100 * majority(digits, setting.num_classes):.1f}"
    return [setting.name, setting.known, lowest, *shown, ceiling[setting.num_classes], most, seconds]


HEADER = ["setting", "weak labels", "majority", "accuracy", "matched", "supervised", "most predicted", "seconds"]


def page(digits: Digits, seeds: Sequence[int]) -> str:
    ceiling = {k: percent([supervised(digits, k, seed).accuracy for seed in seeds]) for k in (2, 10)}
    return TEMPLATE.read_text().format(
        command="python examples/settings.py",
        num_seeds=len(seeds),
        settings=table(HEADER, [setting_row(setting, digits, seeds, ceiling) for setting in SETTINGS]),
        variants=table(HEADER, [setting_row(setting, digits, seeds, ceiling) for setting in VARIANTS]),
        comparisons=comparison_table(digits, seeds),
        mixed=mixed_table(digits, seeds),
    )


def comparison_table(digits: Digits, seeds: Sequence[int]) -> str:
    rows = []
    for setting in COMPARISONS:
        scores = measured(setting, digits, seeds)
        most = f"{100 * statistics.mean(s.most_predicted for s in scores):.0f}"
        rows.append([setting.known, percent([s.accuracy for s in scores]), most])
    return table(["pairs", "accuracy", "most predicted"], rows)


def mixed_table(digits: Digits, seeds: Sequence[int]) -> str:
    rows = []
    for names in MIXTURES:
        scores = [run_mixed(names, digits, seed) for seed in seeds]
        rows.append([" + ".join(names), percent([s.accuracy for s in scores])])
        print(f"{rows[-1][0]:70s} {rows[-1][1]}", flush=True)
    return table(["weak labels", "accuracy"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    text = page(Digits.read(), range(arguments.seeds))
    arguments.out.write_text(text)
    print(f"wrote {arguments.out} after {time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
