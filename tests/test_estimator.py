"""`WeakClassifier`: what it may be told, what it answers, and how it fits into scikit-learn."""

import os
import pickle
import signal
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor, nn

import glws
from glws import WeakClassifier
from glws.data import Groups
from glws.errors import ConfigError, DataError
from glws.kinds import Labels, MultiInstance, Proportions, Unlabeled
from glws.methods import AbstractMethod, Step
from glws.models import MLP
from glws.training import _length as length

Array = NDArray[np.float64]
QUICK: dict[str, Any] = {"epochs": 10, "batch_size": 30, "learning_rate": 0.1, "random_state": 0, "device": "cpu"}


def quick(model: Any = "linear", *arguments: Any, **options: Any) -> WeakClassifier:
    return WeakClassifier(model, *arguments, **{**QUICK, **options})


@pytest.fixture(scope="module")
def rows() -> Array:
    return np.random.default_rng(0).normal(size=(240, 3)) * [1.0, 5.0, 0.2] + [0.0, 30.0, 0.0]


@pytest.fixture(scope="module")
def labels(rows: Array) -> NDArray[np.int64]:
    return (rows[:, 0] + rows[:, 2] > 0.3).astype(int)


@pytest.fixture(scope="module")
def bags() -> NDArray[np.int64]:
    """Ragged bags, named out of order, their rows apart from each other."""
    return 7 * (np.random.default_rng(1).permutation(240) % 50) % 101


def counts(labels: NDArray[np.int64], bags: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many positives each row's bag has."""
    return np.bincount(bags, labels).astype(int)[bags]


def right(model: WeakClassifier, rows: Array, labels: NDArray[Any]) -> float:
    return float((model.predict(rows) == labels).mean())


# ---------------------------------------------------------------- labels


def test_text_labels_come_back_as_text(rows: Array, labels: NDArray[np.int64]) -> None:
    names = np.array(["yes", "no"])[labels]
    model = quick().fit(rows, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert right(model, rows, names) > 0.95
    assert model.score(rows, names) == right(model, rows, names)
    positives = (names == "yes").astype(float)
    assert model.score(rows, names, sample_weight=positives) == right(model, rows[labels == 0], "yes")


@pytest.mark.parametrize("missing", [-1, None, float("nan")])
def test_rows_without_a_label_are_not_fitted_to(missing: Any, rows: Array, labels: NDArray[np.int64]) -> None:
    known = np.arange(240) % 3 > 0
    y = [("a", "b")[label] if there else missing for label, there in zip(labels, known, strict=True)]
    model = quick("mlp", LogisticRegression(max_iter=1000)).fit(rows, y)
    alone = LogisticRegression(max_iter=1000).fit(rows[known], labels[known])
    assert np.allclose(model.estimator_.coef_, alone.coef_, atol=1e-10)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.score(rows, y) == alone.score(rows[known], labels[known])
    assert np.allclose(model.posterior_[known], np.eye(2)[labels[known]])
    assert np.allclose(model.posterior_[~known], alone.predict_proba(rows[~known]), atol=0.01)


def test_numbers_may_have_gaps_too(rows: Array, labels: NDArray[np.int64]) -> None:
    gaps = np.where(np.arange(240) % 3 > 0, labels + 4.0, np.nan)
    assert quick(epochs=1).fit(rows, gaps).classes_.tolist() == [4.0, 5.0]


def test_classes_keep_the_order_they_are_named_in(rows: Array, labels: NDArray[np.int64]) -> None:
    names = np.array(["no", "yes"])[labels]
    model = quick(classes=["yes", "never", "no"]).fit(rows, names)
    assert model.classes_.tolist() == ["yes", "never", "no"]
    assert model.predict_proba(rows).shape == (240, 3)
    assert right(model, rows, names) > 0.95


@pytest.mark.parametrize("base", [None, LogisticRegression(max_iter=1000)])
def test_candidates_are_a_mask(base: Any, rows: Array) -> None:
    truth = np.digitize(rows[:, 0], [-0.5, 0.5])
    mask = np.eye(3, dtype=bool)[truth] | (np.random.default_rng(2).random((240, 3)) < 0.4)
    model = quick("linear", base, classes=["low", "middle", "high"]).fit(rows, mask)
    assert right(model, rows, np.array(["low", "middle", "high"])[truth]) > 0.9
    assert (model.posterior_[~mask] == 0).all()
    inside = np.log((model.predict_proba(rows) * mask).sum(1)).mean()
    assert model.score(rows, mask) == pytest.approx(inside, abs=0.01)  # the base is smoothed by one row in 240


# ---------------------------------------------------------------- groups


BASES = [LogisticRegression(max_iter=1000), RandomForestClassifier(20, min_samples_leaf=5)]


@pytest.mark.parametrize("base", [None, *(pytest.param(base, marks=pytest.mark.slow) for base in BASES)])
def test_counts_of_bags_are_enough(base: Any, rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]) -> None:
    y = counts(labels, bags)
    model = quick("linear", base, kind="proportions", epochs=20, batch_size=10).fit(rows, y, groups=bags)
    assert right(model, rows, labels) > 0.9
    totals = np.bincount(bags, model.posterior_[:, 1])
    assert np.allclose(totals[bags], y, atol=1e-6)
    assert len(model.loss_curve_) in ([20] if base is None else range(1, 6))  # rounds that change nothing are the last


def test_one_value_a_row_one_a_bag_a_function_and_a_kind_say_the_same(
    rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]
) -> None:
    y = counts(labels, bags)
    names, first = np.unique(bags, return_index=True)
    members = [np.flatnonzero(bags == name).tolist() for name in names]
    share = y / np.bincount(bags)[bags]
    answers = [
        quick(kind="proportions", epochs=2).fit(rows, y, groups=bags),
        quick(kind="proportions", epochs=2).fit(rows, y[first], groups=bags),
        quick(kind="proportions.share", epochs=2).fit(rows, share, groups=bags),
        quick(kind=Proportions.of, epochs=2).fit(rows, y, groups=bags),
        quick(epochs=2).fit(rows, Proportions.of(y[first]), groups=bags),
        quick(epochs=2).fit(rows, Proportions.of(y[first]), groups=members),
        quick(epochs=2).fit(rows, [Proportions.of(y[first])], groups=[Groups.of(members)]),
    ]
    for other in answers[1:]:
        assert np.array_equal(other.posterior_, answers[0].posterior_)


def test_class_counts_and_names_of_bags(rows: Array, labels: NDArray[np.int64]) -> None:
    bags = np.array(["x", "y", "z"])[np.arange(240) % 3]
    table = np.stack([counts(1 - labels, np.arange(240) % 3), counts(labels, np.arange(240) % 3)], 1)
    model = quick(kind="proportions", classes=["-", "+"], epochs=2).fit(rows, table, groups=bags)
    assert model.predict(rows).dtype.kind == "U"
    assert np.allclose(model.posterior_[bags == "y"].sum(0), table[1], atol=1e-5)
    present = quick(kind="multi_instance", kind_options={"counted": "+"}, classes=["+", "-"], epochs=1)
    found = present.fit(rows, bags == "x", groups=bags).posterior_[:, 0]
    assert found[bags != "x"].max() == 0 < found[bags == "x"].max()


@pytest.mark.parametrize(
    ("kind", "options", "known"),
    [
        ("pair_similarity", {}, lambda pair: pair[0] == pair[1]),
        ("proportions", {"counted": ["b", "c"]}, lambda pair: sum(label > 0 for label in pair)),
    ],
)
def test_kinds_of_three_named_classes(kind: str, options: dict[str, Any], known: Any, rows: Array) -> None:
    truth, pairs = np.digitize(rows[:, 0], [-0.5, 0.5]), np.repeat(np.arange(120), 2)
    y = np.repeat([int(known(pair)) for pair in truth.reshape(-1, 2)], 2)
    model = quick(kind=kind, kind_options=options, classes=["a", "b", "c"], epochs=1).fit(rows, y, groups=pairs)
    assert model.predict_proba(rows).shape == (240, 3)
    weak = model._reading().known(y, pairs, 240).weak[0]
    allowed = [known(labels) == y[0] for labels in product(range(3), repeat=2)]
    assert [weak.log_weight(0, labels) > -np.inf for labels in product(range(3), repeat=2)] == allowed


@pytest.mark.slow
def test_several_kinds_at_once(rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]) -> None:
    some = np.arange(0, 240, 8)
    weak = [Proportions.of(counts(labels, bags)[np.unique(bags, return_index=True)[1]]), Labels.of(labels[some], 2)]
    model = quick(epochs=20, batch_size=10).fit(rows, weak, groups=[bags, [[row] for row in some]])
    assert np.array_equal(model.posterior_[some].argmax(1), labels[some])
    assert model.posterior_[some].max(1).min() > 1 - 1e-12
    assert right(model, rows, labels) > 0.9


def test_the_weak_score_is_the_mean_log_likelihood(
    rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]
) -> None:
    small = np.argsort(bags, kind="stable")[:30]
    present = (counts(labels, bags) > 0).astype(int)
    model = quick(kind="multi_instance").fit(rows, present, groups=bags)
    probs = model.predict_proba(rows[small])
    expected = []
    for name in np.unique(bags[small]):
        table = probs[bags[small] == name]
        chance = sum(
            np.prod(table[np.arange(len(table)), list(labeling)])
            for labeling in product((0, 1), repeat=len(table))
            if (1 in labeling) == bool(present[bags == name][0])
        )
        expected.append(np.log(chance))
    assert model.score(rows[small], present[small], groups=bags[small]) == pytest.approx(np.mean(expected), abs=1e-9)


# ---------------------------------------------------------------- inside scikit-learn


@pytest.mark.slow
def test_cross_validation_cuts_between_groups(rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]) -> None:
    y, model = counts(labels, bags), quick(kind="proportions", epochs=3)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_score(model, rows, y, cv=GroupKFold(3), params={"groups": bags})
        piped = cross_val_score(
            make_pipeline(StandardScaler(), model), rows, y, cv=GroupKFold(3), params={"groups": bags}
        )
        search = GridSearchCV(model, {"epochs": np.array([1, 20])}, cv=GroupKFold(3)).fit(rows, y, groups=bags)
    for score, (train, test) in zip(found, GroupKFold(3).split(rows, y, bags), strict=True):
        one = clone(model).fit(rows[train], y[train], groups=bags[train])
        assert score == one.score(rows[test], y[test], groups=bags[test])
    assert np.allclose(found, piped, atol=1e-4)  # features standardized twice
    assert search.best_params_ == {"epochs": 20}


@pytest.mark.parametrize("base", [None, LogisticRegression(max_iter=1000)])
def test_a_pickled_one_answers_the_same(base: Any, rows: Array, labels: NDArray[np.int64]) -> None:
    model = quick("mlp", base, epochs=2).fit(rows, labels)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.score(rows, labels) == model.score(rows, labels)


def test_the_random_state_decides_everything(rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]) -> None:
    def answer(state: Any, base: Any = None) -> Array:
        model = quick("mlp", base, kind="proportions", epochs=2, rounds=1, learning_rate=1e-3, random_state=state)
        return model.fit(rows, counts(labels, bags), groups=bags).predict_proba(rows)

    assert np.array_equal(answer(3), answer(3))
    assert not np.array_equal(answer(3), answer(4))
    assert np.array_equal(answer(3, RandomForestClassifier(3)), answer(3, RandomForestClassifier(3)))
    assert np.array_equal(answer(np.random.RandomState(5)), answer(np.random.RandomState(5)))


def test_gaps_and_sparse_features_reach_a_base_estimator_that_takes_them(
    rows: Array, labels: NDArray[np.int64], bags: NDArray[np.int64]
) -> None:
    y = counts(labels, bags)
    gaps = np.where(np.random.default_rng(3).random(rows.shape) < 0.1, np.nan, rows)
    trees = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5)
    model = quick("linear", trees, kind="proportions", rounds=1).fit(gaps, y, groups=bags)
    assert right(model, gaps, labels) > 0.8
    with pytest.raises(ValueError, match="NaN"):
        quick(kind="proportions").fit(gaps, y, groups=bags)
    dense = quick("linear", LogisticRegression(max_iter=1000), kind="proportions", start="even", rounds=2).fit(
        rows, y, groups=bags
    )
    sparse = clone(dense).fit(csr_matrix(rows), y, groups=bags)
    assert np.allclose(sparse.predict_proba(csr_matrix(rows)), dense.predict_proba(rows), atol=1e-4)


def test_a_column_for_labels_is_taken_with_a_warning(rows: Array, labels: NDArray[np.int64]) -> None:
    with pytest.warns(DataConversionWarning):
        quick(epochs=1).fit(rows, labels[:, None])


# ---------------------------------------------------------------- networks of one's own


def test_any_network_will_do(rows: Array, labels: NDArray[np.int64]) -> None:
    made = partial(MLP, hidden=(4,))
    assert quick(made, epochs=1).fit(rows, labels).network_.model.hidden[0].out_features == 4
    assert (
        quick("mlp", model_options={"hidden": [5]}, epochs=1).fit(rows, labels).network_.model.hidden[0].out_features
        == 5
    )
    own = nn.Linear(3, 2)
    before = own.weight.detach().clone()
    model = quick(own, epochs=1).fit(rows, labels)
    assert torch.equal(own.weight, before)
    assert not torch.equal(model.network_.model.weight.float(), before)
    with pytest.raises(ConfigError, match=r"^`model` must give a torch module. Got a int.$"):
        quick(lambda shape, classes: 3).fit(rows, labels)


def test_a_network_is_made_without_touching_the_global_stream(rows: Array, labels: NDArray[np.int64]) -> None:
    before = torch.get_rng_state()
    answers = [quick(lambda s, k: nn.Linear(s[0], k), epochs=1).fit(rows, labels).predict_proba(rows) for _ in "ab"]
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(*answers)


def test_the_moving_average_is_what_answers_where_it_is_asked_for(rows: Array, labels: NDArray[np.int64]) -> None:
    plain = quick(epochs=2).fit(rows, labels)
    options = {"average": 0.9, "evaluate_average": True}
    averaged = quick(epochs=2, training_options=options).fit(rows, labels)
    assert averaged.loss_curve_ == plain.loss_curve_
    assert not np.allclose(averaged.predict_proba(rows), plain.predict_proba(rows))


def test_options_of_the_training_have_one_name_and_are_given_once(rows: Array, labels: NDArray[np.int64]) -> None:
    short = quick(epochs=2, weight_decay=0.5).fit(rows, labels)
    options = {"epochs": 2, "weight_decay": 0.5}
    long = quick(epochs=None, training_options=options)
    assert np.array_equal(short.predict_proba(rows), long.fit(rows, labels).predict_proba(rows))
    twice = quick(epochs=2, training_options={"epochs": 3})
    with pytest.raises(ConfigError, match=r"^`epochs` is given twice, also in `training_options`; leave one"):
        twice.fit(rows, labels)


def test_shares_of_classes_change_decisions_and_not_what_is_learned(rows: Array, labels: NDArray[np.int64]) -> None:
    plain = quick(epochs=2).fit(rows, labels)
    told = quick(epochs=2, training_options={"shares": [0.9, 0.1]}).fit(rows, labels)
    assert np.array_equal(told.predict_proba(rows), plain.predict_proba(rows))
    expected = told.predict_proba(rows)[:, 1] > 0.1
    assert np.array_equal(told.predict(rows) == 1, expected)
    assert (plain.predict(rows) == 1).sum() < expected.sum()
    assert told.score(rows, labels) == pytest.approx((expected == labels).mean())
    told.set_params(training_options=None)  # for the next fit
    assert np.array_equal(told.predict(rows) == 1, expected)


def test_a_method_reads_its_network_as_it_learned_to(rows: Array, labels: NDArray[np.int64]) -> None:
    positives = np.flatnonzero(labels)[:20]
    weak = [Labels.of([1] * 20, 2), Unlabeled.of([labels.mean()] * 6)]
    groups = [positives[:, None], np.arange(240).reshape(6, 40)]
    model = quick(method="vpu", epochs=3, batch_size=(20, 6)).fit(rows, weak, groups=groups)
    with torch.no_grad():
        logits = model.network_.model(torch.as_tensor(model.scaler_.transform(rows)))
    share = logits.softmax(1)[:, 1].numpy() / np.exp(model.network_.state["log_greatest"].item())
    assert np.allclose(model.predict_proba(rows)[:, 1], np.minimum(share, 1), atol=1e-6)
    assert share.max() > 0.99


class Interrupting(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            os.kill(os.getpid(), signal.SIGINT)
            self.eval()
        return super().forward(x)


@pytest.mark.filterwarnings("ignore:.* of the training instances are predicted")
def test_an_interrupt_keeps_what_was_learned(rows: Array, labels: NDArray[np.int64]) -> None:
    with pytest.warns(ConvergenceWarning, match="stopped by Ctrl-C after epoch 1; what was learned"):
        quick(Interrupting(3, 2), batch_size=240).fit(rows, labels)


@dataclass(frozen=True)
class Constant(AbstractMethod):
    """Learns to call everything class 1."""

    summary: ClassVar[str] = "a test"
    takes: ClassVar[str] = "anything"

    def loss(self, step: Step) -> Tensor:
        return -step.logits().log_softmax(1)[:, 1].mean()


def test_a_collapse_is_told(rows: Array, labels: NDArray[np.int64]) -> None:
    with pytest.warns(ConvergenceWarning, match="are predicted to be of class 1, the weak labels alone suggest"):
        quick(method=Constant(), epochs=25, batch_size=240, learning_rate=0.5).fit(rows, labels)


def test_few_groups_get_more_passes(rows: Array, labels: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length, "FEWEST_EPOCHS", 2)
    monkeypatch.setattr(length, "STEPS", 30)
    monkeypatch.setattr(length, "MOST_EPOCHS", 25)
    passes = [len(quick(epochs=None, batch_size=size).fit(rows, labels).loss_curve_) for size in (10, 80, 240)]
    assert passes == [2, 10, 25]


# ---------------------------------------------------------------- mistakes

WRONG: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({}, [1] * 6, None, "y has only the class 1; expected at least two classes (-1 is a row without a label"),
    ({}, [-1] * 6, None, "y has no label at all; -1, None and NaN are rows without one"),
    ({}, [0, 1], None, "X has 6 rows but y has 2"),
    ({}, [0, "a", 1, 1, 1, 1], None, "y has labels of different types; expected all of them texts, or all numbers"),
    ({"classes": [0, 1]}, [0, 1, 2, 0, 0, 0], None, "y has the label 2, which is not one of the classes 0, 1"),
    ({"classes": [0, 1, 2]}, np.ones((6, 2), bool), None, "3 classes are named, but the weak labels are over 2"),
    ({}, [[1, 2]] * 6, None, "y of shape [6, 2] is read as candidates; expected true or false, found other values"),
    ({}, [[True, False]] * 5, None, "X has 6 rows but y has 5"),
    ({}, [0, 1] * 3, [0] * 6, "groups were given, but y are plain labels; say what y tells of a group by kind="),
    ({}, Proportions.of([1]), None, "there are 6 rows and 1 weak labels; pass groups=, which rows each is about"),
    ({}, Proportions.of([1]), [0, 0], "there are 6 rows but the groups of 2"),
    ({}, Proportions.of([1]), [0, 0, 0, 1, 1, None], "row 5: the name of its group is missing"),
    ({}, Proportions.of([1]), [0, 0, 0, 1, 1, 1], "Proportions: there are 2 groups but 1 weak labels"),
    ({}, Proportions.of([9]), [0] * 6, "group 0: exactly 9 of class 1 cannot hold in a group of 6 instances"),
    ({}, MultiInstance.of([1]), [[0, 6]], "group 0: instance 6 must be in 0..5"),
    ({}, [MultiInstance.of([1])], [[0], [1]], "there are 1 kinds of weak labels but 2 lists of groups"),
    (
        {"kind": "proportions"},
        [1] * 6,
        None,
        'kind="proportions" tells something of groups; pass groups=, the name of ',
    ),
    ({"kind": "proportions"}, [1] * 5 + [2], [0] * 6, "rows 0 and 5 are of one group, but y is 1 and 2; expected the"),
    ({"kind": "proportions"}, [1, 2], [0] * 6, "X has 6 rows but y has 2"),
    ({"kind": "proportions"}, [1, 2], [[0, 1]], "there are 1 groups but y has 2 entries"),
    (
        {"kind": "proportion"},
        [1] * 6,
        [0] * 6,
        "no kind of weak label is called 'proportion'; did you mean 'proportions'?",
    ),
    ({"kind": "mine.kinds:Kind"}, [1] * 6, [0] * 6, "kind='mine.kinds:Kind' is the path of a class; import it and"),
    ({"kind": "proportions.sahre"}, [1] * 6, [0] * 6, "no such key `kind.proportions.sahre`; did you mean"),
    ({"kind": "soft_labels"}, [1] * 6, None, 'kind="soft_labels" is not told by a y of 1 axes'),
    ({"kind": "proportions", "kind_options": {"cuonted": 1}}, [1] * 6, [0] * 6, "no such key `kind_options.cuonted`"),
    ({"epochs": 0}, [0, 1] * 3, None, "`training.epochs` must be an integer >= 1, or null. Got 0."),
    ({"rounds": -1}, [0, 1] * 3, None, "`rounds` must be an integer >= 0. Got -1."),
    ({"folds": 1}, [0, 1] * 3, None, "`folds` must be an integer >= 2. Got 1."),
    ({"start": "warm"}, [0, 1] * 3, None, "`start` must be one of network, even. Got 'warm'."),
    ({"training_options": {"epoch": 3}}, [0, 1] * 3, None, "no such key `training_options.epoch`; did you mean"),
    ({"base_estimator": LinearSVC()}, [0, 1] * 3, None, "`base_estimator` must have predict_proba and take sample_we"),
    (
        {"base_estimator": LogisticRegression(max_iter=1000)},
        np.ones((6, 2), bool),
        None,
        "every weak label allows every class: the",
    ),
]


@pytest.mark.parametrize(("options", "y", "groups", "message"), WRONG, ids=[case[3][:60] for case in WRONG])
def test_a_mistake_is_one_clear_line(options: dict[str, Any], y: Any, groups: Any, message: str) -> None:
    with pytest.raises((DataError, ConfigError)) as caught:
        quick(**options).fit(np.arange(12.0).reshape(6, 2), y, groups=groups)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_it_is_imported_from_the_package_when_asked_for() -> None:
    assert glws.WeakClassifier is WeakClassifier
    with pytest.raises(AttributeError, match="no attribute 'StrongClassifier'"):
        glws.StrongClassifier  # noqa: B018


@pytest.mark.parametrize("offset", [1.7e9, -3e12])
def test_a_column_far_from_zero_trains_as_well_as_the_same_column_at_zero(offset: float) -> None:
    near = np.random.default_rng(0).permutation(1200)[:, None] / 8  # exact at both offsets
    truth, wards = (near[:, 0] > 80).astype(int), np.arange(1200) // 5
    counts = np.bincount(wards, truth)[wards].astype(int)
    there, here = (quick(kind="proportions").fit(x, counts, groups=wards) for x in (offset + near, near))
    assert (here.predict(near) == truth).mean() > 0.95
    assert np.abs(there.predict_proba(offset + near) - here.predict_proba(near)).max() < 1e-4


def test_a_column_far_from_zero_is_not_constant_however_many_rows_there_are() -> None:
    """The variance of 200,000 rows around 1.7e12 is below what rounding in float64 can make of a constant."""
    near = np.random.default_rng(0).integers(-60, 60, 200_000)[:, None].astype(float)
    model = quick(epochs=1, batch_size=20_000).fit(1.7e12 + near, (near[:, 0] > 5).astype(int))
    assert model.scaler_.transform(1.7e12 + near).std() == pytest.approx(1)


def test_columns_that_lose_distinct_values_are_named(rows: Array, labels: NDArray[np.int64]) -> None:
    far = np.column_stack([rows, 1.7e9 + np.arange(len(rows)) / 10])
    quick(epochs=1).fit(far, labels)
    with pytest.warns(
        UserWarning, match="^column x3 keeps 1 of its 240 distinct values when rounded to float32: stand"
    ):
        quick(epochs=1, standardize=False).fit(far, labels)
