"""Mode, samples and entropy of every form, against writing all labelings down and against the trellis."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from strategies import random_log_probs
from torch import Tensor

import glws
from glws.automata import Automaton, all_equal, any_of, between, exactly, from_counts, from_table, none_of, string
from glws.inference import (
    AbstractForm,
    Agreement,
    Automata,
    Counts,
    JointCounts,
    PresenceSet,
    PresenceWeights,
    Selected,
    TableWeights,
)
from glws.inference import _counts as counts
from glws.inference import _trellis as trellis
from glws.kinds import ExpectedCount

GROUPS, LONGEST = 12, 5
Make = Callable[[torch.Generator, Tensor, int], AbstractForm]


def sides(generator: torch.Generator, classes: int) -> Tensor:
    """Some classes of each group, never none and never all, and not the same everywhere."""
    mask = torch.rand(GROUPS, classes, generator=generator) < 0.5
    mask[:, 0], mask[:, -1] = True, False
    return mask.roll(int(torch.randint(classes, (1,), generator=generator)), 1)


def log_numbers(generator: torch.Generator, *shape: int) -> Tensor:
    """Random log-weights; one in four is -inf."""
    values = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return values.masked_fill(torch.rand(*shape, generator=generator) < 0.25, -torch.inf)


def whole(generator: torch.Generator, lengths: Tensor) -> Tensor:
    return (torch.rand(len(lengths), generator=generator) * (lengths + 1.4)).long()


def joint(generator: torch.Generator, lengths: Tensor, classes: int) -> Tensor:
    """Counts that sum to the length, but for one group."""
    labels = torch.randint(classes, (GROUPS, LONGEST), generator=generator)
    real = torch.arange(LONGEST) < lengths[:, None]
    found = (torch.nn.functional.one_hot(labels, classes) * real[..., None]).sum(1)
    found[0, 0] += 1
    return found


AUTOMATA = {
    2: [exactly(2), string([0, 1, 0], 2), between(1, 2, of=0, num_symbols=2), any_of(0, 2)],
    3: [exactly(1, of=[0, 2], num_symbols=3), string([2, 1, 0, 0], 3), all_equal(3), none_of(1, 3)],
    4: [
        from_counts([-1.0, 0.3, -torch.inf, 0.5, -0.2, 0.1], [1, 3], 4),
        from_table([[0.1, 0.0, 0.4, 0.2]] * 4),
        any_of([0, 3], 4),
        Automaton(2, 4, [(0, 1, 1), (1, 3, 0), (0, 0, 0), (1, 2, 1, -0.7)], final=[0, 1]),
    ],
}

FORMS: dict[str, Make] = {
    "singles": lambda g, lengths, k: TableWeights(log_numbers(g, GROUPS, k)),
    "pairs": lambda g, lengths, k: TableWeights(log_numbers(g, GROUPS, k, k)),
    "triplets": lambda g, lengths, k: TableWeights(log_numbers(g, GROUPS, k, k, k)),
    "agreement": lambda g, lengths, k: Agreement(log_numbers(g, GROUPS), log_numbers(g, GROUPS), k),
    "presence": lambda g, lengths, k: PresenceWeights(sides(g, k), log_numbers(g, GROUPS, 2)),
    "exactly": lambda g, lengths, k: Counts(sides(g, k), counts.Exactly(whole(g, lengths))),
    "between": lambda g, lengths, k: Counts(sides(g, k), counts.Between(whole(g, lengths) - 1, whole(g, lengths))),
    "weighted": lambda g, lengths, k: Counts(sides(g, k), counts.Weighted(log_numbers(g, GROUPS, LONGEST + 1))),
    "sampled": lambda g, lengths, k: Counts(
        sides(g, k), counts.Sampled(torch.rand(GROUPS, generator=g, dtype=torch.float64))
    ),
    "joint counts": lambda g, lengths, k: JointCounts(joint(g, lengths, k)),
    "presence set": lambda g, lengths, k: PresenceSet(joint(g, lengths, k) > 0),
    "selected": lambda g, lengths, k: Selected(
        Counts(sides(g, k), counts.Exactly(whole(g, lengths))), PresenceWeights(sides(g, k), torch.zeros(GROUPS, 2))
    ),
    "automata": lambda g, lengths, k: Automata.of([AUTOMATA[k][i % 4] for i in range(GROUPS)], GROUPS),
}


def predictions(generator: torch.Generator, classes: int, how: str) -> Tensor:
    values = 2.0 * torch.randn(GROUPS, LONGEST, classes, generator=generator, dtype=torch.float64)
    if how == "ties":
        return (values / 2).round()
    if how == "certain":  # one class in most instances
        hard = torch.rand(GROUPS, LONGEST, 1, generator=generator) < 0.6
        return torch.where(hard & (values < values.amax(2, keepdim=True)), -torch.inf, values)
    if how == "ruled out":
        return values.masked_fill(torch.rand(values.shape, generator=generator) < 0.2, -torch.inf)
    if how == "sharp":
        return 100.0 * values
    return values.log_softmax(2)


def cases(name: str, how: str, trials: int) -> Iterator[tuple[AbstractForm, Tensor, Tensor, Tensor]]:
    """Form, log-probabilities, evidence and lengths."""
    for trial in range(trials):
        generator = torch.Generator().manual_seed(1000 * trial + len(name) + 17 * len(how))
        classes = 2 + trial % 3
        fixed = {"singles": 1, "pairs": 2, "agreement": 2, "triplets": 3}.get(name)
        lengths = torch.randint(0, LONGEST + 1, (GROUPS,), generator=generator)
        if fixed:
            lengths[1:] = fixed
        evidence = torch.randn(GROUPS, LONGEST, classes, generator=generator, dtype=torch.float64).round()
        form = FORMS[name](generator, lengths, classes)
        yield form, predictions(generator, classes, how), evidence, lengths


def labelings(form: AbstractForm, potentials: Tensor, lengths: Tensor, group: int) -> dict[tuple[int, ...], float]:
    """log A(y) + Σ_j φ_j(y_j) of every labeling that can be."""
    automata, index = form.machines(lengths)
    length, classes = int(lengths[group]), potentials.shape[2]
    found = {}
    for labels in product(range(classes), repeat=length):
        score = automata[int(index[group])].log_weight(labels)
        score += sum(float(potentials[group, j, k]) for j, k in enumerate(labels))
        if score > -math.inf:
            found[labels] = score
    return found


HOW = ["ordinary", "ties", "certain", "ruled out", "sharp"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", FORMS)
def test_mode_samples_and_entropy_are_those_of_all_labelings(name: str, how: str) -> None:
    for form, log_probs, evidence, lengths in cases(name, how, 6):
        answer = glws.infer(log_probs, form, lengths, evidence)
        mode, entropy = answer.mode(), answer.entropy()
        samples = answer.sample(5, torch.Generator().manual_seed(1))
        assert mode.shape == lengths.new_empty(GROUPS, LONGEST).shape
        for group, length in enumerate(lengths.tolist()):
            scores = labelings(form, log_probs + evidence, lengths, group)
            assert (mode[group, length:] == -1).all()
            assert (samples[:, group, length:] == -1).all()
            if not scores:
                assert (mode[group] == -1).all()
                assert (samples[:, group] == -1).all()
                assert entropy[group] == 0
                continue
            values = torch.tensor(list(scores.values()), dtype=torch.float64)
            best = scores[tuple(mode[group, :length].tolist())]
            assert best >= float(values.max()) - 1e-9
            wanted = torch.special.entr(values.softmax(0)).sum()
            assert torch.isclose(entropy[group], wanted, atol=1e-9, rtol=0)
            for drawn in samples[:, group, :length].tolist():
                assert tuple(drawn) in scores


@pytest.mark.parametrize("name", FORMS)
def test_samples_of_every_form_follow_the_posterior_over_labelings(name: str) -> None:
    """4,000 draws: each labeling within five standard errors of its probability."""
    number = 4000
    for form, log_probs, evidence, lengths in cases(name, "ordinary", 2):
        answer = glws.infer(log_probs, form, lengths, evidence)
        samples = answer.sample(number, torch.Generator().manual_seed(3))
        for group, length in enumerate(lengths.tolist()):
            scores = labelings(form, log_probs + evidence, lengths, group)
            if not scores:
                continue
            shares = torch.tensor(list(scores.values()), dtype=torch.float64).softmax(0)
            found = Counter(map(tuple, samples[:, group, :length].tolist()))
            drawn = torch.tensor([found[labels] for labels in scores], dtype=torch.float64)
            assert drawn.sum() == number
            assert ((drawn - number * shares).abs() <= 5 * (number * shares * (1 - shares)).sqrt() + 3).all()


@pytest.mark.parametrize("name", FORMS)
def test_forms_answer_as_their_trellis_does(name: str) -> None:
    for form, log_probs, _, lengths in cases(name, "ordinary", 3):
        possible = (~glws.infer(log_probs, form, lengths).impossible).nonzero()[:, 0]
        if not len(possible):
            continue
        part, potentials, sizes = form.select(possible), log_probs[possible], lengths[possible]
        real = torch.arange(LONGEST) < sizes[:, None]
        walked = AbstractForm.mode(part, potentials, sizes)
        assert torch.equal(part.mode(potentials, sizes)[real], walked[real])
        spread = AbstractForm.entropy(part, potentials, sizes)
        assert torch.allclose(part.entropy(potentials, sizes), spread, atol=1e-9, rtol=0)


def test_a_projection_has_each_instance_by_itself() -> None:
    log_probs, lengths = random_log_probs(1, 3, 4, 3), torch.tensor([4, 0, 3])
    counted = torch.tensor([[True, False, True]]).expand(3, -1)
    answer = glws.infer(log_probs, ExpectedCount(counted, torch.tensor([0.3, 0.5, 0.6])), lengths)
    real = torch.arange(4) < lengths[:, None]
    assert torch.equal(answer.mode(), torch.where(real, answer.marginals.argmax(2), -1))
    assert torch.allclose(answer.entropy(), torch.special.entr(answer.marginals).sum((1, 2)))
    drawn = answer.sample(20_000, torch.Generator().manual_seed(0))
    share = torch.stack([(drawn == k).double().mean(0) for k in range(3)], 2)
    assert (share - answer.marginals).abs().max() < 5 * 0.5 / 20_000**0.5
    assert (drawn[:, ~real] == -1).all()


def test_equally_likely_labelings_give_the_same_mode_every_time() -> None:
    even = torch.zeros(1, 6, 3)
    assert glws.infer(even, exactly(2, of=[1], num_symbols=3)).mode().tolist() == [[1, 1, 0, 0, 0, 0]]
    assert glws.infer(even, any_of([2], 3)).mode().tolist() == [[2, 0, 0, 0, 0, 0]]
    for form in (JointCounts(torch.tensor([[1, 2, 3]])), PresenceSet(torch.ones(1, 3, dtype=torch.bool))):
        first, second = (glws.infer(even, form).mode() for _ in range(2))
        assert torch.equal(first, second)


LARGE = 3001


def large_counts() -> dict[str, counts.Weights]:
    k = torch.arange(LARGE + 1, dtype=torch.float64)
    two_peaks = torch.logaddexp(-(k - 400).abs(), -(k - 2600).abs() - 900.0)[None]
    return {
        "exactly": counts.Exactly(torch.tensor([900])),
        "between": counts.Between(torch.tensor([1800]), torch.tensor([2500])),
        "weighted": counts.Weighted(two_peaks),
        "sampled": counts.Sampled(torch.tensor([0.55], dtype=torch.float64)),
    }


@pytest.mark.parametrize("name", large_counts())
def test_queries_of_a_large_bag_agree_with_its_trellis_and_its_marginals(name: str) -> None:
    """Its samples: the number counted and single instances within five standard errors, in 200 draws."""
    weights, number = large_counts()[name], 200
    log_probs, lengths = random_log_probs(5, 1, LARGE, 2), torch.tensor([LARGE])
    form = Counts(torch.tensor([[False, True]]), weights, 1)
    answer = glws.infer(log_probs, form)
    dense = weights.weighted(lengths) if isinstance(weights, counts.Sampled) else None
    dense = weights if isinstance(weights, counts.Weighted) else dense
    odds = (log_probs[0, :, 1] - log_probs[0, :, 0]).sort(descending=True).values
    best = torch.cat([odds.new_zeros(1), odds.cumsum(0)])
    if isinstance(weights, counts.Exactly):
        best[torch.arange(LARGE + 1) != 900] = -torch.inf
    if isinstance(weights, counts.Between):
        best[torch.arange(LARGE + 1) < 1800], best[2501:] = -torch.inf, -torch.inf
    best = best if dense is None else best + dense.log_weights[0]
    mode = answer.mode()[0]
    top = odds[: int(best.argmax())].min()
    assert int(mode.sum()) == int(best.argmax())
    assert bool(((log_probs[0, :, 1] - log_probs[0, :, 0] >= top) == (mode == 1)).all())
    samples = answer.sample(number, torch.Generator().manual_seed(2))[:, 0]
    share = answer.marginals[0, :, 1]
    error = 5 * (share * (1 - share) / number).sqrt() + 5 / number
    assert (samples.double().mean(0) - share).abs().lt(error).float().mean() > 0.999
    total = samples.sum(1).double()
    if isinstance(weights, counts.Exactly):
        assert (total == 900).all()
    spread = max(float(total.std()), 1e-9)
    assert abs(float(total.mean() - share.sum())) <= 5 * spread / number**0.5 + 1e-6


def test_the_entropy_of_a_large_bag_is_that_of_the_trellis() -> None:
    log_probs = random_log_probs(6, 1, 300, 3)
    counted = torch.tensor([[True, False, True]])
    k = torch.arange(301, dtype=torch.float64)
    for weights in (
        counts.Exactly(torch.tensor([40])),
        counts.Between(torch.tensor([10]), torch.tensor([60])),
        counts.Weighted(-(k - 77).abs()[None] / 3),
        counts.Sampled(torch.tensor([0.9], dtype=torch.float64)),
    ):
        form = Counts(counted, weights)
        exact = AbstractForm.entropy(form, log_probs, torch.tensor([300]))
        assert torch.allclose(glws.infer(log_probs, form).entropy(), exact, atol=1e-8, rtol=0)


def test_joint_counts_of_a_large_group_are_an_assignment() -> None:
    """Against an assignment with a place for each label; 180 instances, tied and ruled out predictions too."""
    from scipy.optimize import linear_sum_assignment

    generator = torch.Generator().manual_seed(4)
    for how in HOW:
        log_probs = torch.cat([predictions(generator, 4, how) for _ in range(3)]).reshape(1, -1, 4)
        labels = torch.distributions.Categorical(logits=log_probs[0]).sample()
        wanted = torch.bincount(labels, minlength=4)
        places = torch.repeat_interleave(torch.arange(4), wanted)
        rows, columns = linear_sum_assignment(-log_probs[0][:, places].numpy())
        best = float(log_probs[0, rows, places[columns]].sum())
        found = glws.infer(log_probs, JointCounts(wanted[None])).mode()[0]
        assert torch.equal(torch.bincount(found, minlength=4), wanted)
        assert float(log_probs[0].gather(1, found[:, None]).sum()) == pytest.approx(best, abs=1e-8)


def test_samples_of_joint_counts_too_many_to_write_down_have_the_counts_and_the_marginals() -> None:
    log_probs = random_log_probs(7, 1, 400, 4)
    wanted = torch.tensor([[50, 120, 90, 140]])
    answer = glws.infer(log_probs, JointCounts(wanted))
    samples = answer.sample(100, torch.Generator().manual_seed(5))[:, 0]
    found = torch.nn.functional.one_hot(samples, 4)
    assert (found.sum(1) == wanted).all()
    share = found.double().mean(0)
    error = 5 * (answer.marginals[0] * (1 - answer.marginals[0]) / 100).sqrt() + 5 / 100
    assert (share - answer.marginals[0]).abs().lt(error).float().mean() > 0.999


def test_the_trellis_keeps_one_step_in_sqrt_l() -> None:
    log_probs, lengths = random_log_probs(8, 3, 50, 2), torch.tensor([50, 0, 37])
    machine = trellis.build([string([0, 1] * 25, 2)], torch.zeros(3, dtype=torch.int64))
    alphas, _ = trellis.forward(log_probs, lengths, machine)
    again = list(trellis.alphas_backwards(log_probs, lengths, machine))
    assert len(again) == 51
    for first, second in zip(reversed(alphas), again, strict=True):
        assert torch.equal(first, second)


MILLION = """
import resource, sys, torch
from glws.kinds import Proportions

torch.set_num_threads(1)
query, n = sys.argv[1], 1_000_000
log_probs = torch.randn(1, n, 2, generator=torch.Generator().manual_seed(0)).log_softmax(2)
small, whole = (Proportions.of([m // 3]).infer(log_probs[:, :m]) for m in (1000, n))
ask = {"mode": lambda a: a.mode(), "sample": lambda a: a.sample(1), "entropy": lambda a: a.entropy()}[query]
ask(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = ask(whole)
assert query == "entropy" or int(found.sum()) == n // 3
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("query", "megabytes"), [("mode", 200), ("sample", 500), ("entropy", 300)])
def test_queries_of_a_bag_of_a_million_take_memory_in_proportion(query: str, megabytes: int) -> None:
    """Peak memory beyond that of the predictions and the posterior, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", MILLION, query], capture_output=True, text=True, check=True)
    assert float(done.stdout) < megabytes
