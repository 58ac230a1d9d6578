"""Groups one after the other get the answers of padded ones: likelihood, posteriors, queries, gradients, errors."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import glws
from glws.automata import all_equal
from glws.data import Groups, WeakDataset
from glws.errors import DataError
from glws.inference import (
    AbstractForm,
    Automata,
    Between,
    Counts,
    Exactly,
    JointCounts,
    PresenceSet,
    PresenceWeights,
    Sampled,
    Selected,
    Weighted,
    infer,
    padding_mask,
)
from glws.inference._threads import _pieces, in_parallel
from glws.kinds import MultiInstance, Proportions

LENGTHS = torch.tensor([3, 1, 2, 9, 2, 3, 30, 2])
GROUPS, CLASSES = len(LENGTHS), 3


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def counted() -> Tensor:
    return torch.tensor([[False, True, True], [True, False, False]]).repeat(GROUPS // 2, 1)


def presence(seed: int) -> PresenceWeights:
    return PresenceWeights(counted(), drawn(seed, GROUPS, 2))


FORMS: dict[str, Callable[[], AbstractForm]] = {
    "presence": lambda: presence(1),
    "exactly": lambda: Counts(counted(), Exactly(LENGTHS // 2)),
    "between": lambda: Counts(counted(), Between(LENGTHS // 3, LENGTHS // 2)),
    "weighted": lambda: Counts(counted(), Weighted(drawn(2, GROUPS, 31))),
    "sampled": lambda: Counts(counted(), Sampled(torch.full((GROUPS,), 0.3, dtype=torch.float64))),
    "automata": lambda: Automata.of([all_equal(3), glws.constraint("not any(2)", 3)] * (GROUPS // 2), GROUPS),
    "regex": lambda: Automata.of(glws.constraint("regex('0*1+.*')", 3), GROUPS),
    "joint counts": lambda: JointCounts(torch.stack([LENGTHS - LENGTHS // 2, LENGTHS // 2, LENGTHS * 0], 1)),
    "a set": lambda: PresenceSet(torch.tensor([[True, False, False]]).repeat(GROUPS, 1)),
    "selected": lambda: Selected(presence(3), presence(4)),
}


def packed(padded: Tensor, lengths: Tensor = LENGTHS) -> Tensor:
    return padded[padding_mask(padded, lengths)]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("engine", ["auto", "trellis"])
def test_the_answers_are_those_of_padded_groups(name: str, engine: str) -> None:
    form, log_probs = FORMS[name](), drawn(5, GROUPS, 30, CLASSES).log_softmax(2)
    log_probs[1, 0, 1:] = -torch.inf
    padded, answer = (
        infer(log_probs, form, LENGTHS, engine=engine),
        infer(packed(log_probs), form, LENGTHS, engine=engine),
    )
    torch.testing.assert_close(answer.log_likelihood, padded.log_likelihood, rtol=0, atol=1e-12)
    torch.testing.assert_close(answer.marginals, packed(padded.marginals), rtol=0, atol=1e-12)
    assert answer.engine == padded.engine
    assert torch.equal(answer.impossible, padded.impossible)
    assert torch.equal(answer.mode(), packed(padded.mode()))
    torch.testing.assert_close(answer.entropy(), padded.entropy(), rtol=0, atol=1e-9)
    samples = answer.sample(3, torch.Generator().manual_seed(0))
    assert samples.shape == (3, int(LENGTHS.sum()))
    assert torch.equal((samples < 0).all(0), answer.impossible.repeat_interleave(LENGTHS))


@pytest.mark.parametrize("name", ["presence", "exactly", "regex", "selected"])
def test_the_gradient_is_that_of_padded_groups(name: str) -> None:
    form, log_probs = FORMS[name](), drawn(6, GROUPS, 30, CLASSES).log_softmax(2)
    weights, gradients = drawn(7, GROUPS), []
    for values in (log_probs, packed(log_probs)):
        leaf = values.clone().requires_grad_()
        (infer(leaf, form, LENGTHS).log_likelihood * weights).sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], packed(gradients[0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduction", ["instance", "group"])
@pytest.mark.parametrize("is_other", [False, True])
def test_the_loss_is_that_of_padded_groups(reduction: str, is_other: bool) -> None:
    form, log_probs = FORMS["selected"](), drawn(8, GROUPS, 30, CLASSES).log_softmax(2)
    other = drawn(9, GROUPS, 30, CLASSES).log_softmax(2) if is_other else None
    losses = []
    for arrange in (lambda values: values, packed):
        leaf = arrange(log_probs).clone().requires_grad_()
        view = None if other is None else arrange(other)
        answer = glws.em_loss(leaf, form, LENGTHS, e_log_probs=view, reduction=reduction)  # type: ignore[arg-type]
        answer.loss.backward()
        losses.append((answer.loss.detach(), leaf.grad))
    torch.testing.assert_close(losses[0][0], losses[1][0])
    torch.testing.assert_close(packed(losses[0][1]), losses[1][1])


def test_empty_groups_and_no_groups() -> None:
    lengths = torch.tensor([0, 2, 0])
    answer = infer(drawn(1, 2, 2), Proportions.of([0, 1, 1]), lengths)
    assert (answer.log_likelihood == -torch.inf).tolist() == [False, False, True]
    assert answer.log_likelihood[0] == 0
    assert answer.marginals.shape == (2, 2)
    assert infer(drawn(1, 0, 2), Proportions.of([]), []).log_likelihood.shape == (0,)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([2, 2], r"lengths of packed groups must sum to the 5 rows of log_probs, found 4 in shape \[2\]"),
        ([6, -1], "lengths of packed groups must sum to the 5 rows"),
        ([2.0, 3.0], "lengths must be whole numbers"),
        (None, r"log_probs must be \[groups, instances, classes\], found shape \[5, 2\]"),
    ],
)
def test_wrong_lengths_are_refused(lengths: list[int] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        infer(torch.zeros(5, 2), Proportions.of([1, 1]), lengths)


def test_a_wrong_number_is_named_by_its_group() -> None:
    log_probs = torch.zeros(5, 2)
    log_probs[3, 1] = torch.nan
    with pytest.raises(DataError, match="group 1, instance 1, class 1: log-probability nan"):
        infer(log_probs, Proportions.of([1, 1]), [2, 3])
    with pytest.raises(DataError, match="of group 1, instance 1 sums to"):
        glws.em_loss(torch.tensor([[0.0, -torch.inf]] * 3 + [[-1.0, -1.0]]), Proportions.of([1, 1]), [2, 2])


def test_memory_is_in_proportion_to_the_instances() -> None:
    """5,000 bags of 10 and one of 50,000 would take 4 GB as one padded table."""
    groups = Groups(torch.cat([torch.arange(5001) * 10, torch.tensor([100_000])]), torch.arange(100_000))
    data = WeakDataset(torch.zeros(100_000, 1), groups, MultiInstance.of([1] * 5001))
    (batch,) = data.batches(1)
    (part,) = batch.parts
    assert part.rows.shape == (100_000,)
    log_probs = torch.randn(100_000, 2, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    arranged = part.arranged(log_probs)
    answer = infer(arranged, part.weak, part.lengths)
    alone = infer(log_probs[None, 50_000:], part.weak[[5000]])
    assert torch.equal(answer.marginals[50_000:], alone.marginals[0])


@pytest.mark.parametrize("name", ["presence", "exactly", "between", "weighted", "regex"])
def test_the_bits_do_not_depend_on_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, values = FORMS[name](), drawn(3, int(LENGTHS.sum()), CLASSES)
    one = infer(values, form, LENGTHS)
    monkeypatch.setattr("glws.inference._threads.LEAST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    three = infer(values, form, LENGTHS)
    assert torch.equal(one.log_likelihood, three.log_likelihood)
    assert torch.equal(one.marginals, three.marginals)


def test_pieces_cover_all_groups_and_the_longest_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = _pieces(LENGTHS.numpy(), 5)
    assert sorted(number for begin, end in pieces for number in range(begin, end)) == list(range(GROUPS))
    assert pieces[0][0] <= int(LENGTHS.argmax()) < pieces[0][1]
    monkeypatch.setattr("glws.inference._threads.LEAST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    solved: list[int] = []
    in_parallel(lambda begin, end: solved.extend(range(begin, end)), LENGTHS.numpy())
    assert sorted(solved) == list(range(GROUPS))
