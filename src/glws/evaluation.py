"""Evaluation of a model: with true labels, and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._reprs import short_repr
from glws.errors import DataError
from glws.inference import Posterior

NUM_BINS = 15
FEWEST_BAGS = 8
"""Bags of either label that a calibration is fitted to, at least."""
NEWTON_STEPS = 50


@dataclass(frozen=True)
class Scores:
    """Scores against true labels, all between 0 and 1.

    accuracy: the share of correct predictions. balanced_accuracy: the mean over the classes that occur of the share of
    correct predictions (`per_class`, None for a class that does not occur). matched_accuracy: the accuracy after the
    best renaming of the predicted classes, for labels that are identifiable up to permutation; never a substitute for
    accuracy. calibration_error: the mean distance between confidence and accuracy over `NUM_BINS` bins. auc: the
    area under the ROC curve of class 1, for two classes; None if only one occurs.
    """

    __repr__ = short_repr

    accuracy: float
    balanced_accuracy: float
    matched_accuracy: float
    calibration_error: float
    auc: float | None
    per_class: tuple[float | None, ...]

    def as_dict(self) -> dict[str, object]:
        """The scores by name."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Mean confidence, accuracy and number of predictions of each bin of confidence."""

    __repr__ = short_repr

    confidence: npt.NDArray[np.float64]
    accuracy: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


def scores(log_probs: Float[Tensor, "instances classes"], labels: Int[Tensor, "instances"]) -> Scores:
    """Scores of predictions against true labels; instances with label -1 are left out.

    >>> log_probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]]).log()
    >>> answer = scores(log_probs, torch.tensor([0, 1, 1, 0]))
    >>> answer.accuracy, answer.per_class, answer.auc
    (0.75, (1.0, 0.5), 1.0)
    """
    probs, truth = _checked_labels(log_probs, labels)
    predicted = probs.argmax(1)
    table = confusion(predicted, truth, probs.shape[1])
    recalls = [float(row[k] / row.sum()) if row.sum() else None for k, row in enumerate(table)]
    present = [recall for recall in recalls if recall is not None]
    return Scores(
        accuracy=float((predicted == truth).mean()),
        balanced_accuracy=float(np.mean(present)),
        matched_accuracy=matched_accuracy(table),
        calibration_error=calibration_error(reliability_curve(log_probs, labels)),
        auc=_auc(probs, truth),
        per_class=tuple(recalls),
    )


def balanced_posterior(
    log_probs: Float[Tensor, "instances classes"], shares: Float[Tensor, "classes"] | Sequence[float] | None
) -> Float[Tensor, "instances classes"]:
    """Predictions for balanced classes, p(k | x) / share(k), normalized; unchanged without `shares`.

    The most likely class is then the one under which x is most likely. This decision has the best balanced accuracy
    if the predictions are right about classes of these shares.

    >>> balanced_posterior(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([0.9, 0.1])).exp()
    tensor([[0.3077, 0.6923]])
    """
    if shares is None:
        return log_probs
    return (log_probs - torch.as_tensor(shares).to(log_probs).log()).log_softmax(-1)


def _checked_labels(log_probs: Tensor, labels: Tensor) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    if log_probs.ndim != 2 or labels.shape != log_probs.shape[:1]:
        raise DataError(
            f"expected log_probs [instances, classes] and labels [instances], "
            f"found {list(log_probs.shape)} and {list(labels.shape)}"
        )
    truth = labels.detach().cpu().numpy()
    if truth.size and truth.max() >= log_probs.shape[1]:
        raise DataError(f"label {truth.max()} must be in 0..{log_probs.shape[1] - 1}")
    if not np.any(truth >= 0):
        raise DataError("there are no true labels to compare with")
    probs = log_probs.detach().double().softmax(1).cpu().numpy()
    return probs[truth >= 0], truth[truth >= 0]


def confusion(
    predicted: npt.NDArray[np.int64], truth: npt.NDArray[np.int64], num_classes: int
) -> npt.NDArray[np.int64]:
    """Number of instances of each true class (rows) that were predicted as each class (columns)."""
    table = np.bincount(truth * num_classes + predicted, minlength=num_classes**2)
    return table.reshape(num_classes, num_classes)


def matched_accuracy(table: npt.NDArray[np.int64]) -> float:
    """The accuracy after the best one-to-one renaming of predicted classes."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def reliability_curve(
    log_probs: Float[Tensor, "instances classes"], labels: Int[Tensor, "instances"]
) -> ReliabilityCurve:
    """Confidence against accuracy, in bins of equal width; empty bins are left out."""
    probs, truth = _checked_labels(log_probs, labels)
    confidence = probs.max(1)
    place = np.minimum((confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    count = np.bincount(place, minlength=NUM_BINS)
    used = count > 0
    right = (probs.argmax(1) == truth).astype(np.float64)
    means = [np.bincount(place, values, NUM_BINS)[used] / count[used] for values in (confidence, right)]
    return ReliabilityCurve(means[0], means[1], count[used])


def calibration_error(curve: ReliabilityCurve) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy, bins weighted by their size."""
    return float(np.average(np.abs(curve.confidence - curve.accuracy), weights=curve.count))


def _auc(probs: npt.NDArray[np.float64], truth: npt.NDArray[np.int64]) -> float | None:
    if probs.shape[1] != 2 or len(np.unique(truth)) < 2:
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, probs[:, 1]))


def bag_scores(log_odds: Float[Tensor, "groups questions"], marks: Int[Tensor, "groups questions"]) -> Scores | None:
    """Scores of bags against their labels, all questions together; None if no label is known.

    `log_odds` are those of "yes" (`glws.kinds.BagRule`), `marks` are 1 yes, 0 no, -1 unknown.

    >>> found = bag_scores(torch.tensor([[2.0], [-1.0], [0.5]]), torch.tensor([[1], [0], [0]]))
    >>> round(found.accuracy, 3), found.auc
    (0.667, 1.0)
    """
    if not bool((marks >= 0).any()):
        return None
    odds = log_odds.double().flatten()
    both = torch.stack([torch.nn.functional.logsigmoid(-odds), torch.nn.functional.logsigmoid(odds)], 1)
    return scores(both, marks.flatten())


@dataclass(frozen=True)
class BagCalibration:
    """Recalibrated log-odds of bags: slope * asinh(log-odds) + offset, fitted to bags that were not trained on.

    Networks are too sure of bags they were not trained on; asinh grows like a logarithm, so a single confident mistake
    does not decide the fit.
    """

    slope: float
    offset: float

    def __call__(self, log_odds: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The recalibrated log-odds; those of empty bags stay -inf."""
        known = self.slope * log_odds.double().asinh() + self.offset
        return torch.where(log_odds.isinf(), log_odds.double(), known)

    @classmethod
    def fitted(cls, log_odds: Float[Tensor, "*shape"], marks: Int[Tensor, "*shape"]) -> BagCalibration | None:
        """The most likely calibration, with a weak normal prior on slope 1 and offset 0.

        None where fewer than `FEWEST_BAGS` bags of either answer are known, or the log-odds do not rank the bags.

        >>> odds = torch.tensor([8.0, 6.0, -7.0, -9.0, 7.0, -6.0]).repeat(4)
        >>> BagCalibration.fitted(odds, torch.tensor([1, 1, 0, 0, 0, 1]).repeat(4))
        BagCalibration(slope=0.2..., offset=0.0...)
        """
        used = (marks >= 0) & log_odds.isfinite()
        shown, truth = log_odds[used].double().asinh(), marks[used].double()
        if min(float(truth.sum()), float((1 - truth).sum())) < FEWEST_BAGS:
            return None
        weights = _logistic(torch.stack([shown, torch.ones_like(shown)], 1), truth, torch.tensor([1.0, 0.0]).double())
        slope, offset = weights.tolist()
        return cls(slope, offset) if slope > 0 else None


def _logistic(
    design: Float[Tensor, "rows weights"], truth: Float[Tensor, "rows"], prior: Float[Tensor, "weights"]
) -> Float[Tensor, "weights"]:
    """Logistic regression with a unit normal prior around `prior`, by Newton's method with halved steps."""

    def loss(weights: Tensor) -> float:
        odds = design @ weights
        return float((torch.nn.functional.softplus(odds) - truth * odds).sum() + (weights - prior).square().sum() / 2)

    weights, eye = torch.zeros_like(prior), torch.eye(len(prior)).double()
    for _ in range(NEWTON_STEPS):
        probs = (design @ weights).sigmoid()
        gradient = design.T @ (probs - truth) + (weights - prior)
        step = torch.linalg.solve((design.T * (probs * (1 - probs))) @ design + eye, gradient)
        while loss(weights - step) > loss(weights) and bool(step.abs().max() > 1e-12):
            step = step / 2
        weights = weights - step
    return weights


@dataclass(frozen=True)
class WeakScores:
    """Scores of held-out groups that need no true labels.

    log_likelihood: mean over groups of log p(w | x), without impossible ones; per_instance: the same sum divided by the
    number of instances. entropy: mean over instances of the entropy of the posterior, in nats. impossible: number of
    groups that the predictions rule out. approximation_error: estimated error of a posterior; 0 if all are exact.
    """

    log_likelihood: float
    per_instance: float
    entropy: float
    impossible: int
    approximation_error: float = 0.0


def weak_scores(posterior: Posterior) -> WeakScores:
    """How well predictions explain weak labels, and how uncertain the posterior is.

    >>> from glws import infer
    >>> from glws.automata import exactly
    >>> weak_scores(infer(torch.zeros(1, 2, 2).log_softmax(-1), exactly(1)))
    WeakScores(log_likelihood=-0.693..., per_instance=-0.346..., entropy=0.693..., impossible=0,
               approximation_error=0.0)
    """
    possible = ~posterior.impossible
    total = posterior.log_likelihood.detach().double()[possible].sum()
    instances = posterior.lengths[possible].sum().clamp_min(1)
    spread = torch.special.entr(posterior.marginals.double()).sum()
    return WeakScores(
        log_likelihood=float(total / possible.sum().clamp_min(1)),
        per_instance=float(total / instances),
        entropy=float(spread / instances),
        impossible=posterior.num_impossible,
        approximation_error=0.0 if posterior.error is None else float(posterior.error.max()),
    )


BLOCKS = 20


@dataclass(frozen=True)
class BagAccuracy:
    """An estimate of the accuracy on single instances from the weak labels of bags.

    accuracy: the share of correct predictions. balanced_accuracy: the mean over the classes; None if not available.
    standard_error: of the accuracy, by leaving out a twentieth of the bags at a time. An estimate can be slightly above
    1: it is unbiased.
    """

    accuracy: float
    balanced_accuracy: float | None
    standard_error: float


def accuracy_from_counts(predicted: Int[Tensor, "bags classes"], counts: Int[Tensor, "bags classes"]) -> BagAccuracy:
    """Estimate accuracy from the predicted and the true count of each class in each bag.

    An instance of class j is predicted as class k with probability M_jk, whatever its bag, so that

        E[predicted_b] = counts_b M

    and least squares over bags estimate M, without bias; its diagonal holds the recalls. For bags of one instance this
    is the confusion matrix itself. Classes that never occur are left out.

    >>> true = torch.tensor([[2, 0], [0, 2], [1, 1], [1, 1]]).repeat(5, 1)
    >>> seen = torch.tensor([[2, 0], [1, 1], [1, 1], [1, 1]]).repeat(5, 1)
    >>> round(accuracy_from_counts(seen, true).accuracy, 3)
    0.75
    """
    _check_bags(predicted, counts)

    def estimate(chosen: Tensor) -> tuple[float, float]:
        true_counts, seen = counts[chosen].double(), predicted[chosen].double()
        recalls = torch.linalg.lstsq(true_counts, seen, driver="gelsd").solution.diagonal()
        often = true_counts.sum(0)
        return float((often * recalls).sum() / often.sum()), float(recalls[often > 0].mean())

    accuracy, balanced = estimate(torch.arange(len(counts)))
    return BagAccuracy(accuracy, balanced, _jackknife(lambda chosen: estimate(chosen)[0], len(counts)))


def accuracy_from_presence(
    predicted: Int[Tensor, "bags classes"], present: Bool[Tensor, "bags classes"]
) -> BagAccuracy:
    """Estimate accuracy from predicted counts of classes and the classes that occur in each bag.

    Every mistake is a class predicted where it does not occur, and in a bag without class k all predictions of k are
    wrong. With r_k the share of k in the predictions for those bags, and π_k the share of class k among all instances,

        accuracy = 1 - Σ_k (1 - π_k) r_k

    if members of a bag are independent. π_k solves Σ_b (1 - π_k)^size_b = number of bags without k.

    >>> present = torch.tensor([[True, False], [False, True], [True, True], [True, True]]).repeat(5, 1)
    >>> seen = torch.tensor([[3, 1], [0, 4], [2, 2], [1, 3]]).repeat(5, 1)
    >>> round(accuracy_from_presence(seen, present).accuracy, 3)
    0.823
    """
    _check_bags(predicted, present)
    if bool(present.all(0).any()):
        name = int(present.all(0).nonzero()[0])
        raise DataError(f"class {name} is in every bag, so its wrong predictions cannot be counted")

    def estimate(chosen: Tensor) -> float:
        seen, absent = predicted[chosen].double(), ~present[chosen]
        sizes = seen.sum(1, keepdim=True)
        wrong = (seen * absent).sum(0) / (sizes * absent).sum(0).clamp_min(1)
        return 1 - float(((1 - _shares_by_absence(absent, sizes)) * wrong).sum())

    return BagAccuracy(estimate(torch.arange(len(present))), None, _jackknife(estimate, len(present)))


def _shares_by_absence(absent: Tensor, sizes: Tensor) -> Float[Tensor, "classes"]:
    """π with Σ_b (1 - π)^size_b = bags without the class, for each class, by bisection."""
    low, high = torch.zeros(absent.shape[1]).double(), torch.ones(absent.shape[1]).double()
    for _ in range(50):
        middle = (low + high) / 2
        is_more = ((1 - middle) ** sizes).sum(0) > absent.sum(0)
        low, high = torch.where(is_more, middle, low), torch.where(is_more, high, middle)
    return (low + high) / 2


def _jackknife(estimate: Callable[[Tensor], float], bags: int) -> float:
    """The standard error of an estimate from exchangeable bags."""
    number = min(BLOCKS, bags)
    blocks = torch.arange(bags) * number // bags
    each = torch.tensor([estimate(torch.nonzero(blocks != left)[:, 0]) for left in range(number)]).double()
    return float(((number - 1) * each.var(unbiased=False)).sqrt())


def bags_needed(num_classes: int) -> int:
    """Number of bags for a useful estimate of accuracy: ten times the number of classes.

    >>> bags_needed(2)
    20
    """
    return 10 * num_classes


def _check_bags(predicted: Tensor, facts: Tensor) -> None:
    if predicted.shape != facts.shape:
        raise DataError(f"predictions of shape {tuple(predicted.shape)} do not fit bags of shape {tuple(facts.shape)}")
    if len(facts) < bags_needed(facts.shape[1]):
        wanted = f"{bags_needed(facts.shape[1])} of them for {facts.shape[1]} classes"
        raise DataError(f"an accuracy from bags needs at least {wanted}, found {len(facts)}")
