"""Instances that carry several labels: texts about parts of class names, and inference, against plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from glws import em_loss
from glws.automata import constraint, joint_classes
from glws.errors import AutomatonError, ConstraintError, DataError
from glws.inference import infer, join_heads, split_heads
from glws.kinds import Constraints, KindRequest

HEADS = (["red", "amber", "green"], "walk", "rain")
CLASSES = joint_classes(*HEADS)
Frame = tuple[int, int, int]
"""The light, whether people walk (0) or not (1), whether it rains (0) or not (1)."""
Trace = tuple[Frame, ...]
FRAMES: list[Frame] = list(itertools.product(range(3), range(2), range(2)))


def red(frame: Frame) -> bool:
    return frame[0] == 0


def walk(frame: Frame) -> bool:
    return frame[1] == 0


def rain(frame: Frame) -> bool:
    return frame[2] == 0


def follows(y: Trace, now: Callable[[Frame], bool], then: Callable[[Frame], bool]) -> bool:
    return all(not now(a) or then(b) for a, b in itertools.pairwise(y))


def holds_until(y: Trace, during: Callable[[Frame], bool], end: Callable[[Frame], bool]) -> bool:
    return any(end(frame) and all(map(during, y[:place])) for place, frame in enumerate(y))


def stays(frame: Frame) -> bool:
    return not walk(frame)


def dry_red(frame: Frame) -> bool:
    return red(frame) and not rain(frame)


def wet_walk_after_red(y: Trace) -> bool:
    return any(red(a) and walk(b) and rain(b) for a, b in itertools.pairwise(y))


TEXTS: list[tuple[str, Callable[[Trace], bool]]] = [
    ("any(red)", lambda y: any(map(red, y))),
    ("any(red and walk)", lambda y: any(red(f) and walk(f) for f in y)),
    ("all(red or not walk)", lambda y: all(red(f) or not walk(f) for f in y)),
    ("all(walk -> red)", lambda y: all(not walk(f) or red(f) for f in y)),
    ("none(red and not (walk or rain))", lambda y: not any(red(f) and not walk(f) and not rain(f) for f in y)),
    ("count(red) == 2", lambda y: sum(map(red, y)) == 2),
    ("count(walk and not rain) >= 2", lambda y: sum(walk(f) and not rain(f) for f in y) >= 2),
    ("count(red) + count(rain) == 3", lambda y: sum(map(red, y)) + sum(map(rain, y)) == 3),
    ("count({red, rain}) == 1", lambda y: sum(red(f) or rain(f) for f in y) == 1),
    ("red[0]", lambda y: bool(y) and red(y[0])),
    ("red[0] and not walk[-1]", lambda y: bool(y) and red(y[0]) and not walk(y[-1])),
    ("any(green[1:])", lambda y: any(f[0] == 2 for f in y[1:])),
    ("count(rain[::2]) == 1", lambda y: sum(map(rain, y[::2])) == 1),
    ("y[0] in walk", lambda y: bool(y) and walk(y[0])),
    ("all(y != 'red+walk+rain')", lambda y: (0, 0, 0) not in y),
    ("all(no_walk)", lambda y: not any(map(walk, y))),
    ("always(walk -> red)", lambda y: all(not walk(f) or red(f) for f in y)),
    ("always(walk -> last or next(not walk))", lambda y: follows(y, walk, lambda f: not walk(f))),
    ("always(red and rain -> last or next(red))", lambda y: follows(y, lambda f: red(f) and rain(f), red)),
    ("until(not walk, red and not rain)", lambda y: holds_until(y, stays, dry_red)),
    ("always(walk -> once(red))", lambda y: all(not walk(f) or any(map(red, y[: j + 1])) for j, f in enumerate(y))),
    ("eventually(red and next(walk and rain))", wet_walk_after_red),
]


@pytest.mark.parametrize(("text", "predicate"), TEXTS, ids=[text for text, _ in TEXTS])
def test_a_text_about_parts_means_what_the_predicate_says(text: str, predicate: Callable[[Trace], bool]) -> None:
    automaton = constraint(text, CLASSES)
    for length in range(4):
        traces = itertools.product(range(12), repeat=length)
        expected = [labels for labels in traces if predicate(tuple(FRAMES[label] for label in labels))]
        assert list(automaton.labelings(length)) == expected


def enumerated(heads: list[torch.Tensor], predicate: Callable[[Trace], bool]) -> tuple[float, list[torch.Tensor]]:
    """The probability of a formula and the posteriors of all heads, from every trace."""
    total, marginals = 0.0, [torch.zeros_like(head) for head in heads]
    for trace in itertools.product(FRAMES, repeat=len(heads[0])):
        if predicate(trace):
            weight = 1.0
            for place, frame in enumerate(trace):
                for head, label in zip(heads, frame, strict=True):
                    weight *= float(head[place, label].exp())
            total += weight
            for place, frame in enumerate(trace):
                for marginal, label in zip(marginals, frame, strict=True):
                    marginal[place, label] += weight
    return total, [marginal / total for marginal in marginals]


@pytest.mark.parametrize("number", [6, 10, 12, 18, 19, 21])
def test_inference_equals_enumeration_over_all_heads(number: int) -> None:
    text, predicate = TEXTS[number]
    generator = torch.Generator().manual_seed(number)
    sizes = (3, 2, 2)
    heads = [torch.randn(3, size, generator=generator).double().log_softmax(-1) for size in sizes]
    total, expected = enumerated(heads, predicate)
    answer = infer(join_heads(heads)[None], constraint(text, CLASSES))
    assert float(answer.log_likelihood.exp()) == pytest.approx(total, abs=1e-14)
    for found, other in zip(split_heads(answer.marginals[0], sizes), expected, strict=True):
        torch.testing.assert_close(found, other, rtol=0, atol=1e-13)


def test_the_gradient_of_each_head_is_its_posterior() -> None:
    heads = [torch.randn(2, 4, size, generator=torch.Generator().manual_seed(size)).double() for size in (3, 2, 2)]
    heads = [head.log_softmax(-1).requires_grad_() for head in heads]
    weak = Constraints.of(["always(walk -> red)", "eventually(red and rain)"], classes=CLASSES)
    answer = infer(join_heads(heads), weak)
    gradients = torch.autograd.grad(answer.log_likelihood.sum(), heads)
    for gradient, marginal in zip(gradients, split_heads(answer.marginals, (3, 2, 2)), strict=True):
        torch.testing.assert_close(gradient, marginal)
    assert em_loss(join_heads(heads), weak).loss.isfinite()


def test_tables_name_the_parts_too() -> None:
    request = KindRequest(
        {"constraint": np.array(["any(red and walk)", "red[0]"])}, tuple(CLASSES), np.array([2, 1]), {}
    )
    weak = Constraints.from_columns(request)
    assert weak.automaton(0, 2).count(2) == 144 - 100
    assert weak.automaton(1, 1).count(1) == 4


def test_names_of_parts_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(ConstraintError, match="there is no class 'blue'"):
        constraint("any(blue)", CLASSES)
    with pytest.raises(ConstraintError, match="expected a condition"):
        constraint("red and walk", CLASSES)
    with pytest.raises(ConstraintError, match="set is only allowed after 'in'"):
        constraint("y[0] == red", CLASSES)
    assert constraint("any('C++')", ["C++", "D"]) == constraint("any(0)", 2)
    for heads in ([], [["a", "a"]], [["a", ""]], ["a", "no_a"], ["a+b"]):
        with pytest.raises(AutomatonError, match="different names"):
            joint_classes(*heads)


def test_heads_of_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="the same instances"):
        join_heads([torch.zeros(2, 3), torch.zeros(3, 3)])
    with pytest.raises(DataError, match="do not have 5 joint classes"):
        split_heads(torch.zeros(2, 5), [2, 3])
