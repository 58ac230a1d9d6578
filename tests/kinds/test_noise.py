"""Learned noise: planted rates come back, EM never loses likelihood, expected counts add up over batches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from glws.kinds import (
    MultiInstance,
    NoisyCandidates,
    NoisyLabels,
    NoisyProportions,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PresentClasses,
    Triplets,
    log_rates,
)

pytestmark = pytest.mark.slow

GROUPS = 4000
TRANSITION = [[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.0, 0.2, 0.8]]
GUESS = torch.full((3, 3), 0.2, dtype=torch.float64).fill_diagonal_(0.6)

Build = Callable[[Tensor, Tensor, torch.Generator], Any]

# name: instances and classes, how it is made, the first guess, the field, its planted value, the tolerance (four times
# the largest standard deviation of the estimate over twenty seeds, rounded up)
CASES: dict[str, tuple[int, int, Build, Build, str, Any, float]] = {
    "transition matrix": (
        1, 3,
        lambda y, n, g: NoisyLabels.from_labels(y[:, 0], TRANSITION, g),
        lambda weak, n, g: NoisyLabels.of(weak.observed, GUESS),
        "transition", TRANSITION, 0.07,
    ),
    "miss rate": (
        1, 4,
        lambda y, n, g: PartialLabels.from_labels(y[:, 0], 4, 0.3, 0.15, g),
        lambda weak, n, g: PartialLabels.of(weak.candidates, 0.4),
        "miss_rate", [0.15], 0.04,
    ),
    "inclusion matrix": (
        1, 3,
        lambda y, n, g: NoisyCandidates.from_labels(y[:, 0], TRANSITION, g),
        lambda weak, n, g: NoisyCandidates.of(weak.candidates, GUESS),
        "inclusion", TRANSITION, 0.07,
    ),
    "flipped similarity": (
        2, 3,
        lambda y, n, g: PairSimilarity.from_labels(y, 3, [0.1, 0.3], g),
        lambda weak, n, g: PairSimilarity.of(weak.same, 3, 0.2),
        "flip", [0.1, 0.3], 0.07,
    ),
    "flipped comparison": (
        2, 3,
        lambda y, n, g: PairComparison.from_labels(y, 3, "half", 0.2, g),
        lambda weak, n, g: PairComparison.of(weak.winner, 3, "half", 0.4),
        "flip", [0.2], 0.05,
    ),
    "flipped triplets": (
        3, 3,
        lambda y, n, g: Triplets.from_labels(y, 3, 0.2, g),
        lambda weak, n, g: Triplets.of(weak.closer, 3, 0.4),
        "flip", [0.2], 0.08,
    ),
    "flipped bags": (
        4, 2,
        lambda y, n, g: MultiInstance.from_labels(y, n, flip=[0.1, 0.25], generator=g),
        lambda weak, n, g: MultiInstance.of(weak.present, flip=0.3),
        "flip", [0.1, 0.25], 0.05,
    ),
    "flipped sets": (
        3, 3,
        lambda y, n, g: PresentClasses.from_labels(y, n, 3, [0.1, 0.25], g),
        lambda weak, n, g: PresentClasses.of(weak.present, 0.3),
        "flip", [0.1, 0.25], 0.03,
    ),
    "geometric counts": (
        5, 2,
        lambda y, n, g: NoisyProportions.from_labels(y, n, 1.2, generator=g),
        lambda weak, n, g: NoisyProportions.of(weak.observed, 3.0),
        "scale", [1.2], 0.1,
    ),
    "laplace counts": (
        5, 2,
        lambda y, n, g: NoisyProportions.from_labels(y, n, 0.7, "laplace", generator=g),
        lambda weak, n, g: NoisyProportions.of(weak.observed, 3.0, "laplace"),
        "scale", [0.7], 0.07,
    ),
}  # fmt: skip


def simulated(name: str, seed: int = 0) -> tuple[Any, Tensor, Tensor]:
    """Weak labels with planted noise and a wrong first guess of it, predictions that are right, and lengths."""
    instances, num_classes, build, guess, *_ = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    shape = (GROUPS, instances, num_classes)
    log_probs = (3 * torch.randn(shape, generator=generator, dtype=torch.float64)).log_softmax(2)
    labels = torch.multinomial(log_probs.exp().flatten(0, 1), 1, generator=generator).view(shape[:2])
    shortest = 1 if name.endswith(("bags", "sets", "counts")) else instances
    lengths = torch.randint(shortest, instances + 1, (GROUPS,), generator=generator)
    return guess(build(labels, lengths, generator), lengths, generator), log_probs, lengths


@pytest.mark.parametrize("name", CASES)
def test_planted_noise_is_recovered_and_likelihood_never_falls(name: str) -> None:
    weak, log_probs, lengths = simulated(name)
    before = -torch.inf
    for _ in range(20):
        posterior = weak.infer(log_probs, lengths)
        likelihood = float(posterior.log_likelihood.sum())
        assert likelihood >= before - 1e-6  # rounding of a sum of thousands of logs
        before, weak = likelihood, weak.m_step(posterior)
    *_, field, planted, tolerance = CASES[name]
    found = getattr(weak, field)
    wanted = torch.tensor(planted, dtype=torch.float64)
    assert float((found - wanted).abs().max()) < tolerance, f"found {found.tolist()}, planted {planted}"


@pytest.mark.parametrize("name", CASES)
def test_expected_counts_add_up_over_batches(name: str) -> None:
    weak, log_probs, lengths = simulated(name)
    parts = torch.arange(300).split(111)
    batches = [weak[part].expected_counts(weak[part].infer(log_probs[part], lengths[part])) for part in parts]
    whole = weak[:300].expected_counts(weak[:300].infer(log_probs[:300], lengths[:300]))
    torch.testing.assert_close(torch.stack(batches).sum(0), whole)


@pytest.mark.parametrize("name", CASES)
def test_impossible_groups_say_nothing_about_the_noise(name: str) -> None:
    weak, log_probs, lengths = simulated(name)
    nowhere = torch.full_like(log_probs[:5], -torch.inf)
    posterior = weak[:5].infer(nowhere, lengths[:5])
    assert posterior.num_impossible == 5
    counts = weak[:5].expected_counts(posterior)
    assert not bool(counts.any())
    field = CASES[name][4]
    assert torch.equal(getattr(weak[:5].relearned(counts), field), getattr(weak, field))


def test_exact_responsibility_of_a_flip_in_a_small_bag() -> None:
    """One positive report, two even instances: some are positive with probability 3/4."""
    weak = MultiInstance.of([1], flip=[0.2, 0.4])
    counts = weak.expected_counts(weak.infer(torch.full((1, 2, 2), 0.5, dtype=torch.float64).log()))
    wrong, right = 0.25 * 0.2, 0.75 * 0.6
    wanted = torch.tensor([[0.0, wrong], [0.0, right]], dtype=torch.float64) / (wrong + right)
    torch.testing.assert_close(counts, wanted)


def test_rates_of_zero_and_one_are_allowed() -> None:
    assert log_rates(torch.tensor([0.0, 1.0])).exp().tolist() == [[1.0, 0.0], [1.0, 0.0]]
