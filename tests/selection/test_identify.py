"""`identify` against brute force: all K^K class maps, all labelings."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from kinds.test_every_kind import KINDS
from strategies import random_automaton

from glws.automata import Automaton
from glws.data import WeakDataset
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    Constraints,
    Labels,
    MultiInstance,
    NoisyLabels,
    NoisyProportions,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PresentClasses,
    Proportions,
    SimilarityConfidence,
    SoftLabels,
    Together,
    Triplets,
    Unlabeled,
)
from glws.selection import Identifiability, identify

Part = tuple[AbstractSupervision, list[int]]


def of_parts(*parts: Part) -> WeakDataset:
    """Groups of their own for each kind, of instances that are in no other group."""
    groups, number = [], 0
    for _, lengths in parts:
        groups.append([list(range(number := number + size))[-size:] if size else [] for size in lengths])
    return WeakDataset(torch.zeros(number, 1), groups, [weak for weak, _ in parts], check=False)


def weights(weak: AbstractSupervision, group: int, length: int) -> np.ndarray:
    """log w(y) of all labelings, by the definition."""
    classes = range(weak.num_classes)
    values = [weak.log_weight(group, labels) for labels in product(classes, repeat=length)]
    return np.array(values).reshape([weak.num_classes] * length)


def brute_force(parts: Sequence[Part]) -> set[tuple[int, ...]]:
    """All maps that are as good as the truth, of the classes that some labeling of some group has, by trying them."""
    num_classes = parts[0][0].num_classes
    tables = [weights(weak, group, size) for weak, lengths in parts for group, size in enumerate(lengths)]
    support = [np.argwhere(table > -np.inf) for table in tables]
    occurs = sorted({int(label) for labelings in support for label in labelings.flatten()})
    found = set()
    for names in product(range(num_classes), repeat=len(occurs)):
        image = np.arange(num_classes)
        image[occurs] = names
        if all(_is_as_good(table, labelings, image) for table, labelings in zip(tables, support, strict=True)):
            found.add(tuple(image.tolist()))
    return found


def _is_as_good(table: np.ndarray, labelings: np.ndarray, image: np.ndarray) -> bool:
    before, after = table[tuple(labelings.T)], table[tuple(image[labelings].T)]
    return bool((after >= before - 1e-9).all())


def check(parts: Sequence[Part]) -> Identifiability:
    """That all that is said is what brute force says."""
    found, maps = identify(of_parts(*parts)), brute_force(parts)
    number, own = parts[0][0].num_classes, tuple(range(parts[0][0].num_classes))
    assert found.num_shortcuts == len(maps) - 1
    assert found.is_identified == (maps == {own})
    occurs = [label for label in own if label not in found.never]
    moved = [{label for label in own if image[label] != label} for image in maps - {own}]
    pairs = {image for image in maps if sum(map(int.__ne__, image, own)) == 2 and sorted(image) == list(own)}
    said = {(left, right) for one in found.exchangeable for left in one for right in one if left < right}
    assert said == {tuple(label for label in own if image[label] != label) for image in pairs}
    assert set(found.merged) == {
        (label, image[label]) for image in maps for label in own if {a for a in own if image[a] != a} == {label}
    }
    assert set(found.everything) == {
        name
        for name in range(number)
        if len(occurs) > 1 and any({image[a] for a in occurs} == {name} for image in maps)
    }
    assert set(found.others) <= maps - {own}
    if not found.is_identified:
        assert found.settled_by is not None
        assert all(not one.isdisjoint(found.settled_by) for one in moved)
        smallest = min(
            bin(chosen).count("1")
            for chosen in range(1 << number)
            if all(any(chosen >> label & 1 for label in one) for one in moved)
        )
        assert len(found.settled_by) == smallest
    if found.witness is not None:
        weak = parts[found.witness.part][0]
        before = weak.log_weight(found.witness.group, found.witness.labels)
        after = weak.log_weight(found.witness.group, found.witness.renamed)
        assert -math.inf < before <= after + 1e-9
        assert found.witness.labels != found.witness.renamed
    return found


def random_kind(rng: np.random.Generator, classes: int, groups: int) -> Part:
    """Weak labels of any kind, of groups of one to three instances, that some labelings satisfy."""
    lengths = rng.integers(1, 4, groups).tolist()
    labels = [rng.integers(0, classes, size).tolist() for size in lengths]
    counted = sorted(rng.choice(classes, int(rng.integers(1, classes)), replace=False).tolist())
    counts = [[one.count(label) for label in range(classes)] for one in labels]
    inside = [sum(one[label] for label in counted) for one in counts]
    flip = float(rng.choice([0.0, 0.1, 0.4]))
    singles, pairs = rng.integers(0, classes, groups), rng.integers(0, classes, (groups, 2))
    marks = [[-1 if rng.random() < 0.2 else int(count > 0) for count in one] for one in counts]
    masks = rng.random((groups, classes)) < 0.5
    masks[np.arange(groups), singles] = True
    matrix = rng.random((classes, classes)) + 2 * np.eye(classes)
    mask = masks.astype(int).tolist()
    kinds: list[Part] = [
        (Labels.of(np.where(rng.random(groups) < 0.3, -1, singles), classes), [1] * groups),
        (PartialLabels.of(mask, miss_rate=flip), [1] * groups),
        (NoisyLabels.of(singles, matrix / matrix.sum(1, keepdims=True)), [1] * groups),
        (SoftLabels.of(rng.random((groups, classes)).round(1) + 0.1), [1] * groups),
        (PairSimilarity.of(pairs[:, 0] == pairs[:, 1], classes, flip), [2] * groups),
        (PairComparison.of(rng.integers(0, 2, groups), classes, rng.choice(["half", "paper"]), flip), [2] * groups),
        (Triplets.of(rng.integers(1, 3, groups), classes, flip), [3] * groups),
        (SimilarityConfidence.of(rng.random(groups).round(1), classes), [2] * groups),
        (Proportions.of(inside, counted, classes), lengths),
        (Proportions.between(inside, np.array(inside) + rng.integers(0, 2), counted, classes), lengths),
        (NoisyProportions.of(inside, 0.7, counted=counted, num_classes=classes), lengths),
        (MultiInstance.of([int(count > 0) for count in inside], counted, classes, flip), lengths),
        (PresentClasses.of(marks if any(0 in one for one in marks) else np.abs(marks), flip), lengths),
        (ClassCounts.of(counts), lengths),
        (Unlabeled.of(rng.random(groups).round(1), "hard", counted, classes), lengths),
        (Unlabeled.of(rng.random(groups).round(1), "binomial", counted, classes), lengths),
        (Constraints.of([random_language(rng, classes) for _ in lengths], classes), lengths),
        (Constraints.of([random_weights(rng, classes) for _ in lengths], classes), lengths),
        (
            Together.of(
                Proportions.of(inside, counted, classes),
                Constraints.of([f"any({one[0]})" for one in labels], classes),
            ),
            lengths,
        ),
    ]
    return kinds[int(rng.integers(len(kinds)))]


def random_language(rng: np.random.Generator, classes: int) -> Automaton:
    """A language with more structure than chance gives: closed under some map, as often as not."""
    automaton = random_automaton(rng, classes, max_states=3, weighted=False)
    if rng.random() < 0.5:
        return automaton
    image = rng.integers(0, classes, classes)
    arcs = zip(automaton.sources.tolist(), automaton.symbols.tolist(), automaton.targets.tolist(), strict=True)
    renamed = {(source, int(name), target) for source, symbol, target in arcs for name in (symbol, image[symbol])}
    start = {state: 0.0 for state in np.flatnonzero(automaton.log_start > -np.inf).tolist()}
    final = np.flatnonzero(automaton.log_final > -np.inf).tolist()
    return Automaton(automaton.num_states, classes, sorted(renamed), start, final)


def random_weights(rng: np.random.Generator, classes: int) -> Automaton:
    """Weights of few different values: deterministic, or sums over paths."""
    is_deterministic = bool(rng.random() < 0.5)
    arcs = [
        (source, symbol, target, float(rng.choice([0.0, -1.0])))
        for source in (0, 1)
        for symbol in range(classes)
        for target in rng.choice(2, 1 if is_deterministic else int(rng.integers(0, 3)), replace=False).tolist()
    ]
    final = {0: float(rng.choice([0.0, -1.0])), 1: float(rng.choice([0.0, -1.0, -np.inf]))}
    return Automaton(2, classes, arcs, 0, final, sum_paths=not is_deterministic)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))])
def test_what_is_said_is_what_brute_force_says_of_random_mixtures(seed: int) -> None:
    """1,000 mixtures of up to three kinds in 20 parts: all class maps and all labelings written down."""
    rng = np.random.default_rng(seed)
    identified = []
    for _ in range(50):
        classes = int(rng.choice([2, 3, 3, 4, 4, 5]))
        parts = [random_kind(rng, classes, int(rng.integers(1, 3))) for _ in range(int(rng.integers(1, 4)))]
        parts = [part for part in parts if part[0].possible(torch.tensor(part[1])).all()]
        if parts:
            identified.append(check(parts).is_identified)
    assert {True, False} <= set(identified)


SELECTED = "positives of a case-control sample"
"""Its likelihood is of selected groups, of which class maps are not decided."""


@pytest.mark.parametrize("name", [name for name in KINDS if name != SELECTED])
def test_every_kind_says_what_brute_force_says(name: str) -> None:
    check([KINDS[name]])
