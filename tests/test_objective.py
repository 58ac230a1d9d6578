"""The EM objective: Fisher's identity, views, reductions, impossible groups, per-class reduction."""

import pytest
import torch
from strategies import random_log_probs

import glws
from glws._objective import em_loss
from glws.automata import any_of, exactly, string
from glws.errors import DataError
from glws.kinds import ClassCounts, Proportions


def gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, logits, retain_graph=True)[0]


def test_both_terms_have_the_same_gradient_on_the_same_predictions() -> None:
    logits = random_log_probs(1, 5, 4, 3).requires_grad_()
    answer = em_loss(logits.log_softmax(-1), exactly(2, of=1, num_symbols=3), [4, 3, 4, 2, 4], reduction="group")
    assert torch.allclose(gradient(answer.unsupervised, logits), gradient(answer.supervised, logits), atol=1e-10)


def test_other_eyes_make_the_gradients_differ() -> None:
    logits = random_log_probs(2, 3, 4, 2).requires_grad_()
    other = random_log_probs(3, 3, 4, 2)
    answer = em_loss(logits.log_softmax(-1), exactly(2), e_log_probs=other, reduction="group")
    assert torch.equal(answer.posterior.marginals, glws.infer(other, exactly(2)).marginals)
    expected = -(answer.posterior.marginals * logits.log_softmax(-1)).sum((1, 2)).mean()
    assert torch.allclose(answer.unsupervised, expected)
    assert not torch.allclose(gradient(answer.unsupervised, logits), gradient(answer.supervised, logits), atol=1e-3)


def test_the_views_of_the_e_step_get_no_gradient() -> None:
    view = random_log_probs(4, 2, 3, 2).requires_grad_()
    answer = em_loss(random_log_probs(5, 2, 3, 2).requires_grad_(), any_of(1), e_log_probs=view)
    answer.loss.backward()
    assert view.grad is None


def test_true_labels_give_cross_entropy_twice() -> None:
    logits = random_log_probs(6, 4, 1, 3).requires_grad_()
    labels = torch.tensor([0, 2, 1, 1])
    answer = em_loss(logits.log_softmax(-1), [string([int(label)], 3) for label in labels])
    reference = torch.nn.functional.cross_entropy(logits[:, 0], labels)
    assert torch.allclose(answer.supervised, reference)
    assert torch.allclose(answer.unsupervised, reference)
    assert torch.allclose(answer.loss, 2 * reference)


def test_reductions_average_over_what_they_say() -> None:
    log_probs, lengths = random_log_probs(7, 2, 4, 2), [1, 4]
    q = glws.infer(log_probs, any_of(1), lengths).marginals
    total = -(q * log_probs).sum()
    assert torch.allclose(em_loss(log_probs, any_of(1), lengths).unsupervised, total / 5)
    assert torch.allclose(em_loss(log_probs, any_of(1), lengths, reduction="group").unsupervised, total / 2)


def test_weights_scale_the_terms() -> None:
    answer = em_loss(random_log_probs(8, 2, 3, 2), exactly(1), unsupervised=0.5, supervised=3.0)
    assert torch.allclose(answer.loss, 0.5 * answer.unsupervised + 3 * answer.supervised)


@pytest.mark.filterwarnings("ignore:.* groups are impossible under the predictions")
def test_impossible_groups_are_left_out() -> None:
    log_probs = random_log_probs(9, 3, 2, 2)
    log_probs[1] = torch.tensor([0.0, -torch.inf])
    log_probs.requires_grad_()
    answer = em_loss(log_probs, any_of(1))
    answer.loss.backward()
    others = em_loss(log_probs.detach()[[0, 2]], any_of(1))
    assert torch.allclose(answer.loss, others.loss)
    assert answer.posterior.num_impossible == 1
    assert torch.all(log_probs.grad[1] == 0)
    assert log_probs.grad.isfinite().all()
    nothing_left = em_loss(log_probs.detach()[[1]].requires_grad_(), any_of(1))
    assert nothing_left.loss.item() == 0.0


def test_certain_predictions_give_no_nan() -> None:
    log_probs = torch.tensor([[[0.0, -torch.inf], [-torch.inf, 0.0]]], requires_grad=True)
    answer = em_loss(log_probs, exactly(1))
    answer.loss.backward()
    assert answer.loss.item() == 0.0
    assert log_probs.grad.isfinite().all()


def test_per_class_is_one_binary_problem_for_each_class() -> None:
    log_probs = random_log_probs(10, 2, 3, 3)
    counts = torch.tensor([[1, 2, 0], [0, 1, 1]])
    answer = em_loss(log_probs, ClassCounts.of(counts), [3, 2], multiclass="per_class")
    expected = []
    for group, length in ((0, 3), (1, 2)):
        for label in range(3):
            p = log_probs[group, :length].exp()[:, label]
            binary = torch.stack([1 - p, p], -1).log()[None]
            expected.append(-glws.infer(binary, Proportions.of([int(counts[group, label])])).log_likelihood)
    assert torch.allclose(answer.supervised, torch.cat(expected).mean())


def test_joint_counts_are_those_of_the_product_automaton() -> None:
    log_probs = random_log_probs(11, 2, 4, 3)
    weak = ClassCounts.of([[1, 2, 1], [0, 4, 0]])
    answer = em_loss(log_probs, weak, multiclass="joint")
    oracle = glws.infer(log_probs, weak, engine="enumeration")
    assert torch.allclose(answer.posterior.marginals, oracle.marginals, atol=1e-10)
    assert torch.allclose(answer.supervised, -oracle.log_likelihood.mean())


def test_mistakes_are_named() -> None:
    log_probs = random_log_probs(12, 1, 2, 2)
    with pytest.raises(DataError, match="is not about several classes at once"):
        em_loss(log_probs, exactly(1), multiclass="per_class")
    with pytest.raises(DataError, match="is not about several classes at once"):
        em_loss(log_probs, exactly(1), multiclass="joint")
    with pytest.raises(DataError, match='reduction must be "instance" or "group"'):
        em_loss(log_probs, exactly(1), reduction="sum")
    with pytest.raises(DataError, match="does not take evidence about instances"):
        em_loss(log_probs, ClassCounts.of([[1, 1]]), evidence=log_probs, multiclass="per_class")
