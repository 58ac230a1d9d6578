"""Inputs that mean something else to the person who gives them: each is understood as meant, or refused with what to
write instead. Nothing is ever trained on such a misreading."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.semi_supervised import SelfTrainingClassifier
from strategies import random_log_probs
from torch import Tensor

import glws
from glws import UNKNOWN, WeakClassifier, _objective_checks, batch_loss, em_loss, infer
from glws.data import Groups, WeakDataset, check_learnable
from glws.errors import DataError
from glws.kinds import (
    AbstractSupervision,
    ClassCounts,
    ConfidenceDifference,
    Constraints,
    Labels,
    MultiInstance,
    NoisyCandidates,
    NoisyLabels,
    NoisyProportions,
    PairComparison,
    PairSimilarity,
    PartialLabels,
    PositiveConfidence,
    PresentClasses,
    Proportions,
    SimilarityConfidence,
    SoftLabels,
    Together,
    Triplets,
    Unlabeled,
    UnlabeledClasses,
)
from glws.methods import GLWS, step_of

LOGITS = 3 * random_log_probs(0, 2, 3, 2) + torch.tensor([0.5, 2.0])
LOG_PROBS = LOGITS.log_softmax(-1)
COUNTS = Proportions.of([1, 2])
X = np.random.default_rng(0).normal(size=(60, 3))
TRUTH = (X[:, 0] > 0).astype(int)
GAPS = np.where(np.arange(60) % 3 > 0, TRUTH, UNKNOWN)
SIGNS = 2 * TRUTH - 1
BAGS = np.arange(60) // 5
BAG_SIGNS = np.where(np.bincount(BAGS, TRUTH) > 2, 1, -1)[BAGS]


@pytest.fixture(autouse=True)
def nothing_warned_yet() -> None:
    _objective_checks._WARNED.clear()


def model(**options: Any) -> WeakClassifier:
    quick = {"epochs": 2, "batch_size": 30, "learning_rate": 0.1, "random_state": 0, "device": "cpu"}
    return WeakClassifier("linear", **{**quick, **options})


def fit(y: Any, groups: Any = None, **options: Any) -> WeakClassifier:
    return model(**options).fit(X, y, groups=groups)


def batch() -> Any:
    return next(WeakDataset(torch.zeros(6, 1), [[0, 1, 2], [3, 4, 5]], COUNTS).batches(1))


class MissingOfPandas:
    """Neither equal to anything nor different."""

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __eq__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    # ------------------------------------------------------------ predictions
    "logits": (
        lambda: em_loss(LOGITS, COUNTS),
        "log_probs look like logits (exp(log_probs) of group 0, instance 0 sums to ",
    ),
    "logits below 0": (lambda: em_loss(LOGITS - 50, COUNTS), "exp(log_probs) of group 0, instance 0 sums to "),
    "logits of zeros": (
        lambda: em_loss(torch.zeros(2, 3, 2), COUNTS),
        "exp(log_probs) of group 0, instance 0 sums to 2",
    ),
    "logits in half precision": (lambda: em_loss(LOGITS.bfloat16(), COUNTS), "log_probs look like logits"),
    "probabilities": (
        lambda: em_loss(LOG_PROBS.exp(), COUNTS),
        "log_probs look like probabilities (they sum to 1 over the classes): pass log_probs.log()",
    ),
    "one-hot probabilities": (
        lambda: em_loss(torch.eye(2).expand(2, 2, 2), COUNTS),
        "log_probs look like probabilities",
    ),
    "a softmax over the wrong axis": (
        lambda: em_loss(LOGITS.log_softmax(1), COUNTS),
        "exp(log_probs) of group 0, instance 0 sums to ",
    ),
    "logits of the last group only": (
        lambda: em_loss(torch.cat([LOG_PROBS[:1], LOGITS[:1]]), COUNTS),
        "log_probs look like logits (exp(log_probs) of group 1, instance 0 sums to ",
    ),
    "logits for the E-step": (
        lambda: em_loss(LOG_PROBS, COUNTS, e_log_probs=LOGITS),
        "e_log_probs look like logits",
    ),
    "probabilities for the E-step": (
        lambda: em_loss(LOG_PROBS, COUNTS, e_log_probs=LOG_PROBS.exp()),
        "e_log_probs look like probabilities (they sum to 1 over the classes): pass e_log_probs.log()",
    ),
    "logits to a batch": (lambda: batch_loss(batch(), LOGITS.flatten(0, 1)), "log_probs look like logits"),
    "predictions without groups": (
        lambda: em_loss(LOG_PROBS[:, 0], COUNTS),
        "log_probs must be [groups, instances, classes], found shape [2, 2]; for groups of one instance pass ",
    ),
    "predictions of numpy": (lambda: em_loss(LOG_PROBS.numpy(), COUNTS), "log_probs must be a floating point tensor"),
    "a padding mask for lengths": (
        lambda: em_loss(LOG_PROBS, COUNTS, torch.ones(2, 3, dtype=torch.bool)),
        "lengths must be whole numbers, found torch.bool; for a padding mask pass mask.sum(1)",
    ),
    "counts instead of a kind": (
        lambda: infer(LOG_PROBS, [1, 2]),
        "group 0: expected an Automaton, found int; weak labels are a kind of glws.kinds, such as Proportions.of",
    ),
    # ------------------------------------------------------------ one instance
    "signs as labels": (
        lambda: check_learnable([Groups.singles(3)], [Labels.of([1, -1, 1], 2)]),
        "every weak label rules out class 0; add labels of it, or unlabeled data with a class prior",
    ),
    "one-hot labels": (
        lambda: Labels.of([[0, 1, 0], [1, 0, 0]], 3),
        "labels must have 1 axis, found shape [2, 3]; classes are numbered from 0, unknown is None; of a one-hot table",
    ),
    "labels from 1": (
        lambda: Labels.of([1, 2, 3], 3),
        "group 2: labels must be within -1..2, found 3; classes are numbered from 0",
    ),
    "names as labels": (lambda: Labels.of(["cat", "dog"], 2), "labels cannot be read as an array of numbers"),
    "names of classes for their number": (
        lambda: Labels.of([0, 1], ["cat", "dog"]),  # type: ignore[arg-type]
        "num_classes must be a whole number from 1 on, found ['cat', 'dog']",
    ),
    "labels without .of": (lambda: Labels([0, 1], 2), "Labels: labels must be a tensor, found list; Labels.of reads "),  # type: ignore[arg-type]
    "class numbers as candidates": (
        lambda: PartialLabels.of([[0, 2], [1, 2]]),
        "group 0: candidates must be true or false, found (0, 2); a row for each instance with true or false for each",
    ),
    "ragged candidates": (lambda: PartialLabels.of([[0, 2], [1]]), "candidates cannot be read as an array of numbers"),
    "signs as candidates": (lambda: PartialLabels.of([[1, -1]]), "group 0: candidates must be true or false, found (1"),
    "votes of -1": (
        lambda: NoisyCandidates.of([[1, -1]], [[0.9, 0.1], [0.2, 0.8]]),
        "group 0: candidates must be true or false, found (1, -1)",
    ),
    "an observed class that is missing": (
        lambda: NoisyLabels.of([0, -1], [[0.9, 0.1], [0.2, 0.8]]),
        "group 1: observed must be within 0..1, found -1; leave out instances without an observed class",
    ),
    "a transition matrix on its side": (
        lambda: NoisyLabels.of([0, 1], [[0.9, 0.2], [0.1, 0.8]]),
        "transition: the row of class 0 must sum to 1, found 1.1; its columns do: rows are true classes, pass the tran",
    ),
    "log-probabilities as scores": (
        lambda: SoftLabels.of([[-0.1, -2.4]]),
        "group 0: scores must be finite and >= 0; of logits pass softmax(-1), of log-probabilities exp()",
    ),
    "logits as confidences": (
        lambda: PositiveConfidence.of([2.5, -1.0]),
        "group 0: confidence must be within 0 and 1, found 2.5; the probability of class 1; of logits pass sigmoid()",
    ),
    # ------------------------------------------------------------ pairs and triplets
    "must-link 1 and cannot-link -1": (
        lambda: PairSimilarity.of([1, -1]),
        "group 1: same must be true or false, found -1; 1 is one class, 0 is different ones",
    ),
    "signs as winners": (
        lambda: PairComparison.of([1, -1]),
        "group 1: winner must be within 0..1, found -1; 0 where the first is higher, 1 where the second is",
    ),
    "winners counted from 1": (
        lambda: PairComparison.of([1, 2]),
        "group 1: winner must be within 0..1, found 2; 0 whe",
    ),
    "the closer one counted from 0": (
        lambda: Triplets.of([0, 1], 3),
        "group 0: closer must be within 1..2, found 0; 1 where the second is closer, 2 the third",
    ),
    "a similarity of -1": (lambda: SimilarityConfidence.of([0.5, -1]), "group 1: confidence must be within 0 and 1"),
    "a difference in percent": (
        lambda: ConfidenceDifference.of([30.0]),
        "group 0: a difference is within -1 and 1, found 30",
    ),
    # ------------------------------------------------------------ groups
    "signs of bags": (
        lambda: MultiInstance.of([1, -1, -1]),
        "present: found 1 and -1 but no 0, and -1 means unknown; write 0 for negatives, None for unknown",
    ),
    "signs of classes in bags": (lambda: PresentClasses.of([[1, -1], [1, 1]]), "present: found 1 and -1 but no 0"),
    "counts for presence": (
        lambda: MultiInstance.of([3, 0]),
        "group 0: present must be within -1..1, found 3; 1 is at least one, 0 none, None unknown; counts are Proportio",
    ),
    "probabilities of bags": (
        lambda: MultiInstance.of([0.9, 0.1]),
        "group 0: present must be whole numbers, found 0.9",
    ),
    "presence of all classes to one": (
        lambda: MultiInstance.of([[1, 0]]),
        "present must have 1 axis, found shape [1, 2]",
    ),
    "presence for counts": (
        lambda: Proportions.of([True, False]),
        "counts must be numbers, found true and false; whether a class occurs is MultiInstance.of",
    ),
    "shares for counts": (
        lambda: Proportions.of([0.3, 0.5]),
        "group 0: counts must be whole numbers, found 0.3; one whole count for each group; shares are Proportions.from",
    ),
    "an unknown count": (
        lambda: Proportions.of([2, UNKNOWN]),
        "group 1: counts must be >= 0, found -1; leave out groups of unknown counts",
    ),
    "a missing count": (lambda: Proportions.of([2, None]), "group 1: counts must be whole numbers, found nan"),
    "counts of all classes to one": (
        lambda: Proportions.of([[1, 2], [2, 1]]),
        "counts must have 1 axis, found shape [2, 2]; one whole count for each group; shares are Proportions.f",
    ),
    "percentages": (
        lambda: Proportions.from_shares([30.0], [10]),
        "group 0: proportions must be within 0 and 1, found 30; divide percentages by 100",
    ),
    "a name for the counted class": (
        lambda: Proportions.of([1], counted="dog"),  # type: ignore[arg-type]
        "classes are chosen by their numbers, found 'dog'",
    ),
    "shares of all classes for counts": (
        lambda: ClassCounts.of([[0.2, 0.8]]),
        "group 0: counts must be whole numbers, found (0.2, 0.8); a row of whole counts for each group; class shares t",
    ),
    "noisy shares": (
        lambda: NoisyProportions.of([0.3], 1.0),
        "group 0: observed must be whole numbers, found 0.3; obser",
    ),
    "sizes and priors": (
        lambda: Unlabeled.of([100], [0.3]),  # type: ignore[arg-type]
        "count must be one of expected, hard, floor, stochastic, binomial here, found [0.3]; the first argument is the",
    ),
    "a prior in percent": (
        lambda: Unlabeled.of([30]),
        "group 0: prior must be within 0 and 1, found 30; the share of the counted class in each group, percentages di",
    ),
    "priors of all classes to one": (
        lambda: Unlabeled.of([[0.3, 0.7]]),
        "prior must have 1 axis, found shape [1, 2]; the",
    ),
    "one prior for all classes": (
        lambda: UnlabeledClasses.of([0.3, 0.7]),
        "prior must have 2 axes, found shape [2]; a row for each group, the share of each class",
    ),
    "one text for all groups": (
        lambda: Constraints.of("any(1)", 2),
        "wanted has one constraint for each group; pass a list, also for one group",
    ),
    "a list of kinds together": (
        lambda: Together.of([COUNTS, COUNTS]),  # type: ignore[arg-type]
        "Together.of takes kinds of weak labels, found list; of a list pass *list",
    ),
    # ------------------------------------------------------------ groups of instances
    "names of groups as a list": (
        lambda: WeakDataset(X, [0, 0, 1, 1], Proportions.of([1, 1])),
        "groups: group 0 is a number, expected a list of instance numbers; for a column that names the group o",
    ),
    "names of groups as an array": (
        lambda: Groups.of(BAGS),
        "groups as an array are [groups, instances], found shape [60]; for a column that names the group of ea",
    ),
    "texts as groups": (
        lambda: Groups.of(["a", "b"]),
        "groups: group 0 is not a list of instance numbers; for a column that",
    ),
    "masks of groups": (
        lambda: Groups.of(np.array([[True, False], [False, True]])),
        "groups: an array is a mask, expected instance numbers; pass np.flatnonzero(mask)",
    ),
    "fractions as instances": (lambda: Groups.of([[0.5, 1.0]]), "groups: group 0 holds numbers that are not whole"),
    "groups padded with NaN": (
        lambda: Groups.of(np.array([[0, 1], [2, np.nan]])),
        "groups: an array holds numbers that are not whole; pass lists, without padding, for ragged groups",
    ),
    "groups padded with -1": (
        lambda: WeakDataset(X, np.array([[0, 1], [2, -1]]), Proportions.of([1, 1])),
        "group 1: instance -1 must be in 0..59",
    ),
    "a row of no group": (
        lambda: Groups.from_ids(["a", None, "b"]),
        "row 1: the name of its group is missing",
    ),
    "lists of instances as names": (
        lambda: Groups.from_ids([[0, 1], [2, 3]]),
        "ids must have a name for each instance, found shape [2, 2]; for lists of instance numbers write Groups.of",
    ),
    # ------------------------------------------------------------ the estimator
    "classes 1 and -1": (
        lambda: fit(SIGNS),
        "y has only the class 1; expected at least two classes (-1 is a row without",
    ),
    "positive and unlabeled, with classes": (
        lambda: fit(SIGNS, classes=[0, 1]),
        "y has only the class 1; expected at least two classes (-1 is a row without a label: write 0 for negatives; "
        'positive-unlabeled data are kind="positive_unlabeled", kind_options={"prior": ',
    ),
    "-1 named as a class": (
        lambda: fit(SIGNS, classes=[-1, 1]),
        "classes are named -1, 1, but -1 is a row without a label: number the classes from 0",
    ),
    "-1 as text named as a class": (
        lambda: fit(SIGNS.astype(str), classes=["-1", "1"]),
        "classes are named -1, 1, but -1",
    ),
    "ratings from -2 to 2": (
        lambda: fit(np.arange(60) % 5 - 2),
        "y has the labels -1 and -2, but -1 is a row without a label: number the classes from 0",
    ),
    "soft labels without a kind": (
        lambda: fit(np.column_stack([1 - 0.8 * TRUTH, 0.8 * TRUTH])),
        "y of shape [60, 2] is read as candidates; expected true or false, found other values (class probabilities are",
    ),
    "labels of kind labels": (
        lambda: fit(SIGNS, kind="labels", classes=[0, 1]),
        "y has only the class 1; expected at le",
    ),
    "signs of bags in the estimator": (
        lambda: fit(BAG_SIGNS, BAGS, kind="multi_instance"),
        "present: found 1 and -1 but no 0, and -1 means unknown; write 0 for negatives, None for unknown",
    ),
    "signs of pairs in the estimator": (
        lambda: fit(np.repeat(SIGNS[:30], 2), np.repeat(np.arange(30), 2), kind="pair_similarity"),
        "group ",
    ),
    "counts of -1 in the estimator": (
        lambda: fit(np.repeat([2, -1] * 6, 5), BAGS, kind="proportions"),
        "group 1: counts must be >= 0, found -1",
    ),
    "missing counts in the estimator": (
        lambda: fit(np.repeat([2, np.nan] * 6, 5), BAGS, kind="proportions"),
        'y of row 5 is missing; kind="proportions" has no unknown, leave such rows out',
    ),
    "noisy labels of -1": (
        lambda: fit(GAPS, kind="noisy_labels", kind_options={"rate": 0.1}),
        "group 0: observed must be within 0..1, found -1; leave out instances without an observed class",
    ),
    # ------------------------------------------------------------ tools of scikit-learn around it
    "calibration of gaps": (
        lambda: CalibratedClassifierCV(model(), cv=2).fit(X, GAPS),
        "CalibratedClassifierCV reads -1 in y as a class, but it is a row without a label: fit WeakClassifier by "
        "itself, then give CalibratedClassifierCV FrozenEstimator(model) and rows with labels only",
    ),
    "calibration of a fitted one by gaps": (
        lambda: CalibratedClassifierCV(FrozenEstimator(fit(GAPS))).fit(X, GAPS),
        "CalibratedClassifierCV reads -1 in y as a class",
    ),
    "calibration of counts": (
        lambda: CalibratedClassifierCV(model(kind="proportions"), cv=2).fit(X, TRUTH),
        "CalibratedClassifierCV reads y as class labels, but with kind='proportions' it holds weak labels: fit WeakCla",
    ),
    "a vote on gaps": (
        lambda: VotingClassifier([("a", model())]).fit(X, GAPS),
        "VotingClassifier reads -1 in y as a cl",
    ),
    "bagging of gaps": (
        lambda: BaggingClassifier(model(), 2).fit(X, GAPS),
        "BaggingClassifier reads -1 in y as a class",
    ),
    "stacking on gaps": (
        lambda: StackingClassifier([("a", model())]).fit(X, GAPS),
        "StackingClassifier reads -1 in y ",
    ),
    "one against the rest on gaps": (
        lambda: OneVsRestClassifier(model()).fit(X, GAPS),
        "OneVsRestClassifier reads -1 in",
    ),
    "accuracy of gaps": (
        lambda: cross_val_score(model(), X, GAPS, cv=2, scoring="accuracy", error_score="raise"),
        "a scorer of scikit-learn reads -1 in y as a class, but it is a row without a label: leave `scoring` o",
    ),
    "a search by accuracy of gaps": (
        lambda: GridSearchCV(model(), {"epochs": [1]}, cv=2, scoring="f1_macro", error_score="raise").fit(X, GAPS),
        "a scorer of scikit-learn reads -1 in y as a class",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_misreading_is_refused_in_one_line_that_says_what_to_write(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises(DataError) as caught:
        build()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def answers(weak: AbstractSupervision, lengths: list[int]) -> Tensor:
    table = random_log_probs(3, len(weak), max(lengths), weak.num_classes)
    return weak.infer(table, lengths).marginals


UNDERSTOOD: dict[str, tuple[Callable[[], AbstractSupervision], AbstractSupervision, list[int]]] = {
    "labels with None": (lambda: Labels.of([2, None, 0], 3), Labels.of([2, -1, 0], 3), [1] * 3),
    "labels with NaN": (lambda: Labels.of(np.array([2, np.nan, 0]), 3), Labels.of([2, -1, 0], 3), [1] * 3),
    "labels with NA": (lambda: Labels.of([2, MissingOfPandas(), 0], 3), Labels.of([2, -1, 0], 3), [1] * 3),
    "labels with UNKNOWN": (lambda: Labels.of([2, UNKNOWN, 0], 3), Labels.of([2, -1, 0], 3), [1] * 3),
    "labels as floats": (lambda: Labels.of([2.0, 1.0, 0.0], 3), Labels.of([2, 1, 0], 3), [1] * 3),
    "true and false as labels": (lambda: Labels.of([True, False], 2), Labels.of([1, 0], 2), [1] * 2),
    "positives among unlabeled rows": (lambda: Labels.of([1, UNKNOWN], 2), Labels(torch.tensor([1, -1]), 2), [1] * 2),
    "bags of unknown sign": (lambda: MultiInstance.of([1, None, 0]), MultiInstance.of([1, -1, 0]), [2, 3, 1]),
    "true and false bags": (lambda: MultiInstance.of([True, False]), MultiInstance.of([1, 0]), [2, 3]),
    "marks with None": (
        lambda: PresentClasses.of([[1, None, 0], [None, 1, 1]]),
        PresentClasses.of([[1, -1, 0], [-1, 1, 1]]),
        [2, 3],
    ),
    "the counted class as a number of numpy": (
        lambda: Proportions.of([1, 2], counted=np.int64(1)),
        Proportions.of([1, 2], counted=1),
        [2, 3],
    ),
    "counts as floats": (lambda: Proportions.of(np.array([1.0, 2.0])), Proportions.of([1, 2]), [2, 3]),
    "candidates as 1 and 0": (
        lambda: PartialLabels.of([[1, 0, 1]]),
        PartialLabels.of([[True, False, True]]),
        [1],
    ),
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_what_is_unambiguous_is_understood(name: str) -> None:
    build, meant, lengths = UNDERSTOOD[name]
    assert torch.equal(answers(build(), lengths), answers(meant, lengths))


def test_the_corpus_has_forty_mistakes() -> None:
    assert len(REFUSED) + len(UNDERSTOOD) >= 40


# ---------------------------------------------------------------- em_loss


def test_logits_are_taken_where_they_are_called_so() -> None:
    logits = LOGITS.clone().requires_grad_()
    plain = em_loss(logits.log_softmax(-1), COUNTS, [3, 2], e_log_probs=LOGITS[[1, 0]].log_softmax(-1))
    found = em_loss(logits, COUNTS, [3, 2], e_log_probs=LOGITS[[1, 0]], normalized=False)
    assert torch.equal(found.loss, plain.loss)
    assert torch.equal(*(torch.autograd.grad(answer.loss, logits)[0] for answer in (found, plain)))
    given = batch()
    assert torch.equal(
        batch_loss(given, LOGITS.flatten(0, 1), normalized=False), batch_loss(given, LOG_PROBS.flatten(0, 1))
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("classes", [1, 2, 10, 1000])
def test_every_log_softmax_is_taken(dtype: torch.dtype, classes: int) -> None:
    for scale in (0.0, 1.0, 30.0):
        logits = scale * torch.randn(3, 2, classes, generator=torch.Generator().manual_seed(1))
        em_loss(logits.to(dtype).log_softmax(-1), Labels.of([0, 0, 0], classes), [1, 1, 1])


def test_padding_may_hold_anything_and_certain_predictions_are_normalized() -> None:
    padded = LOG_PROBS.clone()
    padded[1, 2] = torch.tensor([7.0, torch.nan])
    padded[0, 0] = torch.tensor([0.0, -torch.inf])
    assert torch.equal(em_loss(padded, COUNTS, [3, 2]).loss.isfinite(), torch.tensor(True))


def test_not_a_number_keeps_its_own_message() -> None:
    broken = LOG_PROBS.clone()
    broken[1, 0, 1] = torch.nan
    with pytest.raises(DataError, match="group 1, instance 0, class 1: log-probability nan"):
        em_loss(broken, COUNTS)


def test_inference_takes_predictions_that_are_not_normalized() -> None:
    assert torch.allclose(infer(LOGITS, COUNTS).marginals, infer(LOG_PROBS, COUNTS).marginals)


IMPOSSIBLE = torch.tensor([[[0.0, -torch.inf], [0.0, -torch.inf]], [[0.5, 0.5], [0.3, 0.7]]]).log_softmax(-1)
NEVER = torch.where(torch.arange(2) == 0, 0.0, -torch.inf).expand(1, 2, 2)


def test_impossible_groups_in_a_loop_of_ones_own_are_warned_of_once_for_each_line() -> None:
    def losses(count: int) -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(count):
                em_loss(torch.cat([NEVER, LOG_PROBS[:, :2]]), Proportions.of([1, 1, 0]))
        for one in caught:
            assert str(one.message).startswith(
                "1 of 3 groups are impossible under the predictions and left out of the l"
            )
            assert one.filename == __file__
        return len(caught)

    assert losses(3) == 1
    assert losses(3) == 0
    with pytest.warns(UserWarning, match="1 of 1 groups are impossible"):  # another line of the same loop
        em_loss(NEVER, Proportions.of([1]))


def test_a_batch_warns_of_the_line_that_called_it() -> None:
    given = next(WeakDataset(torch.zeros(2, 1), [[0, 1]], Proportions.of([1])).batches(1))
    with pytest.warns(UserWarning, match="1 of 1 groups are impossible") as caught:
        batch_loss(given, NEVER[0])
    assert caught[0].filename == __file__


def test_methods_in_training_neither_check_nor_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("called in training")

    monkeypatch.setattr("glws._objective.check_normalized", refuse)
    monkeypatch.setattr("glws._objective.warn_impossible", refuse)
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], Proportions.of([1]))
    step = step_of(next(data.batches(1)), {"strong": torch.where(NEVER[0] == 0, 0.0, -torch.inf)})
    assert GLWS().loss(step) == 0
    assert step.notes["impossible_groups"] == 1


# ---------------------------------------------------------------- the estimator


@pytest.mark.parametrize("missing", [None, float("nan"), UNKNOWN, MissingOfPandas()])
@pytest.mark.parametrize("kind", [None, "labels"])
def test_rows_of_no_label_are_the_same_however_they_are_written(missing: Any, kind: str | None) -> None:
    written = np.array([missing if label == UNKNOWN else label for label in GAPS.tolist()], object)
    found = fit(written, kind=kind)
    assert found.classes_.tolist() == [0, 1]
    assert np.array_equal(found.posterior_, fit(GAPS).posterior_)


@pytest.mark.parametrize("missing", [None, float("nan"), UNKNOWN])
def test_bags_of_no_label_are_the_same_however_they_are_written(missing: Any) -> None:
    marks = [1, 0, UNKNOWN, 1] * 3
    written = np.repeat(np.array([missing if mark == UNKNOWN else mark for mark in marks], object), 5)
    plain = fit(MultiInstance.of(marks), BAGS).posterior_
    assert np.array_equal(fit(written, BAGS, kind="multi_instance").posterior_, plain)


def test_plus_and_minus_are_two_classes() -> None:
    names = np.array(["-", "+"])[TRUTH]
    found = fit(names)
    assert found.classes_.tolist() == ["+", "-"]
    assert np.array_equal(found.posterior_[:, 0], TRUTH)


def test_tools_that_know_gaps_never_make_a_class_of_them() -> None:
    assert model().fit(X, GAPS).classes_.tolist() == [0, 1]
    assert GridSearchCV(model(), {"epochs": [1, 2]}, cv=2).fit(X, GAPS).classes_.tolist() == [0, 1]
    assert np.isfinite(cross_val_score(model(), X, GAPS, cv=StratifiedKFold(2))).all()
    assert SelfTrainingClassifier(model(), max_iter=1).fit(X, GAPS).classes_.tolist() == [0, 1]
    labeled = GAPS != UNKNOWN
    for calibrated in (
        CalibratedClassifierCV(model(), cv=2).fit(X, TRUTH),
        CalibratedClassifierCV(FrozenEstimator(fit(GAPS))).fit(X[labeled], GAPS[labeled]),
    ):
        assert calibrated.classes_.tolist() == [0, 1]


def test_a_fold_of_one_class_can_be_scored() -> None:
    found = fit(TRUTH)
    assert found.score(X[TRUTH == 1], TRUTH[TRUTH == 1]) == (found.predict(X[TRUTH == 1]) == 1).mean()


# ---------------------------------------------------------------- what is printed

PRINTED: dict[str, tuple[AbstractSupervision, str]] = {
    "unlabeled": (
        Unlabeled.of(torch.tensor([0.25, 0.5])),
        "Unlabeled(prior=[0.25, 0.5], offset=[0.0, 0.0], population=[0.0, 0.0], rest=[[0.0, 0.0], [0.0, 0.0]], "
        "counted=[False, True], count='expected')",
    ),
    "counts": (
        Proportions.of(np.arange(8)),
        "Proportions(low=[0, 1, 2, 3, 4, 5, ... 2 more], high=[0, 1, 2, 3, 4, 5, ... 2 more], counted=[False, True])",
    ),
    "labels": (Labels.of([0, None, 2], 3), "Labels(labels=[0, -1, 2], num_classes=3)"),
    "share": (
        MultiInstance.of([1, 0], share=np.float64(0.25)),
        "MultiInstance(present=[1, 0], counted=[False, True], flip=[0.0, 0.0], share=0.25, reported=[0.5, 0.5])",
    ),
    "constraints": (Constraints.of(["any(1)"], 2), "Constraints(wanted=['any(1)'], classes=2)"),
    "together": (
        Together.of(Labels.of([1, 0], 2), PartialLabels.of([[1, 1], [1, 0]])),
        "Together(parts=[Labels(labels=[1, 0], num_classes=2), "
        "PartialLabels(candidates=[[True, True], [True, False]], miss_rate=[0.0])])",
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_weak_labels_print_plain_numbers(name: str) -> None:
    weak, text = PRINTED[name]
    assert repr(weak) == text


def test_unknown_is_public() -> None:
    assert glws.UNKNOWN == -1
    assert glws.kinds.UNKNOWN is glws.UNKNOWN
