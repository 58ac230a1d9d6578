"""Positive-unlabeled data, two unlabeled sets, and pairs beside unlabeled rows, as one kind each."""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glws import WeakClassifier
from glws.data import Groups, WeakDataset, read_table, training_sets
from glws.errors import DataError
from glws.kinds import Labels, PairSimilarity, PositiveUnlabeled, SimilarDissimilarUnlabeled, Unlabeled
from glws.kinds import UnlabeledUnlabeled as TwoSets
from glws.methods import GLWS, METHODS, build_method
from glws.selection import resolve_priors

MARKS = [True, False, False, True, False, False, False]


def log_probs(rows: int, seed: int = 0) -> torch.Tensor:
    positive = torch.rand(rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.stack([1 - positive, positive], 1).log()[:, None]


def blobs(
    seed: int = 0, rows: int = 500, labeled: int = 50, share: float = 0.4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, true classes with a share of positives, and marks of some positives."""
    random = np.random.default_rng(seed)
    true = (random.random(rows) < share).astype(int)
    features = random.normal(size=(rows, 2)) + np.where(true[:, None] == 1, [2.0, 1.0], [-1.0, 0.0])
    marks = np.zeros(rows, int)
    marks[random.choice(np.flatnonzero(true), labeled, replace=False)] = 1
    return features, true, marks


def estimator(**options: object) -> WeakClassifier:
    kind_options = {"prior": 0.4, "unlabeled": 0, **options}
    return WeakClassifier(
        "linear", kind="positive_unlabeled", kind_options=kind_options, epochs=15, learning_rate=0.05, random_state=0
    )


# ------------------------------------------------------------ the two likelihoods


def test_a_single_training_set_has_the_likelihood_of_labels_that_miss_positives_at_random() -> None:
    weak, predictions, prior = PositiveUnlabeled.of(MARKS, 0.6), log_probs(7), 0.6
    frequency = 2 / (7 * prior)
    positive = predictions[:, 0, 1].exp()
    expected = torch.where(torch.tensor(MARKS), frequency * positive, 1 - frequency * positive).log()
    assert torch.allclose(weak.infer(predictions).log_likelihood, expected, atol=1e-12)


def test_a_case_control_sample_has_the_likelihood_of_rows_that_were_drawn() -> None:
    """By Bayes on a small population: labeled rows are drawn from positives, unlabeled ones from everybody."""
    prior, numbers = 0.3, (2, 5)
    in_population = {0: 1 - prior, 1: prior}
    points = itertools.product(range(3), (0, 1))
    density = dict(zip(points, (0.5, 0.1, 0.3, 0.3, 0.2, 0.6), strict=True))
    weak = PositiveUnlabeled.of([True] * 2 + [False] * 5, prior, "case_control")
    for x in range(3):
        unlabeled = numbers[1] * sum(in_population[y] * density[x, y] for y in (0, 1))
        labeled = numbers[0] * density[x, 1]
        posterior = in_population[1] * density[x, 1] / (unlabeled / numbers[1])
        predictions = torch.tensor([[[1 - posterior, posterior]]], dtype=torch.float64).log()
        found = [float(weak[[row]].infer(predictions).log_likelihood.exp()) for row in (0, 6)]
        assert found == pytest.approx([labeled / (labeled + unlabeled), unlabeled / (labeled + unlabeled)], abs=1e-12)


def test_the_scenarios_give_the_unlabeled_rows_their_own_prior() -> None:
    assert PositiveUnlabeled.of(MARKS, 0.6).unlabeled_prior() == pytest.approx((0.6 * 7 - 2) / 5)
    assert PositiveUnlabeled.of(MARKS, 0.6, "case_control").unlabeled_prior() == 0.6
    for scenario in ("single_training_set", "case_control"):
        weak = PositiveUnlabeled.of(MARKS, 0.6, scenario)
        assert weak.population_prior(weak.unlabeled_prior()) == pytest.approx(0.6)


def test_a_part_of_the_rows_keeps_the_numbers_of_all() -> None:
    weak = PositiveUnlabeled.of(MARKS, 0.6)
    assert torch.equal(weak[[1, 3]].log_table(), weak.log_table()[[1, 3]])


# ------------------------------------------------------------ as existing kinds, for networks and other methods


def test_networks_learn_from_labels_and_unlabeled_sets() -> None:
    data = WeakDataset(torch.zeros(7, 1), Groups.singles(7), PositiveUnlabeled.of(MARKS, 0.6))
    sets, owner, share = training_sets(data)
    assert (owner, share) == ((0, 0), (2 / 7, 5 / 7))
    assert [type(weak) for weak in sets.weak] == [Labels, Unlabeled]
    assert sorted(sets.groups[0].indices.tolist()) == [0, 3]
    assert sorted(sets.groups[1].indices.tolist()) == [1, 2, 4, 5, 6]
    assert float(sets.weak[1].prior[0]) == pytest.approx((0.6 * 7 - 2) / 5)  # type: ignore[union-attr]


def test_every_row_counts_once_in_the_loss() -> None:
    assert GLWS().with_shares((0, 0, 1), (0.2, 0.8, 1.0)).weights == (0.2, 0.8, 1.0)
    assert GLWS(weights=(3.0, 2.0)).with_shares((0, 0, 1), (0.25, 0.75, 1.0)).weights == (0.75, 2.25, 2.0)
    assert GLWS().with_shares((0, 1), (1.0, 1.0)).weights is None


def test_pairs_and_unlabeled_rows_become_pairs_and_unlabeled_sets() -> None:
    weak = SimilarDissimilarUnlabeled.of([1, None, 0, None], 0.3)
    data = WeakDataset(torch.zeros(6, 1), [[5, 0], [1], [2, 3], [4]], weak)
    sets = training_sets(data).data
    assert [type(one) for one in sets.weak] == [PairSimilarity, Unlabeled]
    assert sets.groups[0].indices.tolist() == [5, 0, 2, 3]
    assert sorted(sets.groups[1].indices.tolist()) == [1, 4]


def test_two_sets_stay_rows_unless_a_method_needs_sets() -> None:
    data = WeakDataset(torch.zeros(5, 1), Groups.singles(5), TwoSets.of([0, 0, 1, 1, 1], [0.8, 0.2]))
    assert training_sets(data).data is data
    sets = training_sets(data, build_method("uu_abs", {"prior": 0.5}).kinds).data
    assert [float(weak.prior[0]) for weak in sets.weak] == [0.8, 0.2]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["upu", "nnpu", "cvir", "vpu", "dist_pu", "count_loss"])
def test_methods_for_positive_unlabeled_data_take_the_kind(name: str) -> None:
    data = WeakDataset(torch.zeros(7, 1), Groups.singles(7), PositiveUnlabeled.of(MARKS, 0.6))
    assert name in METHODS
    method = build_method(name, {})
    method.check(training_sets(data, method.kinds).data)


# ------------------------------------------------------------ the prior


def test_an_estimate_is_near_the_share_and_stays_in_its_range() -> None:
    features, true, marks = blobs(1, 800, 80)
    free = PositiveUnlabeled.of(marks)
    (found,) = resolve_priors(WeakDataset(torch.from_numpy(features), Groups.singles(800), free)).weak
    assert found.prior == pytest.approx(true.mean(), abs=0.08)  # type: ignore[union-attr]
    data = WeakDataset(torch.from_numpy(features), Groups.singles(800), PositiveUnlabeled.of(marks, [0.1, 0.2]))
    (found,) = resolve_priors(data).weak
    assert found.prior == 0.2  # type: ignore[union-attr]


def test_data_without_a_prior_to_estimate_stay_as_they_are() -> None:
    data = WeakDataset(torch.zeros(7, 1), Groups.singles(7), PositiveUnlabeled.of(MARKS, 0.6))
    assert resolve_priors(data) is data


# ------------------------------------------------------------ scikit-learn


def test_it_survives_the_tools_of_scikit_learn() -> None:
    features, true, marks = blobs()
    model = estimator().set_params(epochs=8)
    scores = cross_val_score(model, features, marks, cv=3, error_score="raise")
    assert (scores > math.log(0.5)).all()
    search = GridSearchCV(model, {"learning_rate": [1e-6, 0.05]}, scoring="roc_auc", cv=3, error_score="raise")
    assert search.fit(features, marks).best_params_ == {"learning_rate": 0.05}
    assert (search.predict(features) == true).mean() > 0.9
    with pytest.warns(UserWarning, match=r"its probabilities are p\(labeled \| x\)"):
        calibrated = CalibratedClassifierCV(model, cv=2).fit(features, marks)
    assert calibrated.predict_proba(features)[:, 1].mean() == pytest.approx(marks.mean(), abs=0.03)
    pipeline = make_pipeline(StandardScaler(), model.set_params(kind_options={"unlabeled": 0})).fit(features, marks)
    assert pipeline[-1].prior_ == pytest.approx(0.4, abs=0.1)


def test_signs_nan_and_names_are_marks_too() -> None:
    features, true, marks = blobs()
    by_sign = estimator(unlabeled=-1).fit(features, np.where(marks == 1, 1, -1))
    assert by_sign.classes_.tolist() == [-1, 1]
    assert ((by_sign.predict(features) == 1) == true).mean() > 0.9
    by_gap = estimator(unlabeled=None).fit(features, np.where(marks == 1, 1.0, np.nan))
    assert by_gap.classes_.tolist() == [0, 1]
    assert by_gap.posterior_[marks == 1, 1].min() == 1
    named = estimator(unlabeled=None).set_params(classes=["legit", "fraud"])
    named.fit(features, np.where(marks == 1, "fraud", None))
    assert set(named.predict(features)) == {"legit", "fraud"}


def test_a_classifier_of_scikit_learn_learns_from_the_rows() -> None:
    features, true, marks = blobs()
    model = WeakClassifier(
        base_estimator=LogisticRegression(), kind="positive_unlabeled", kind_options={"prior": 0.4, "unlabeled": 0},
        start="even", rounds=20, random_state=0,
    )  # fmt: skip
    assert (model.fit(features, marks).predict(features) == true).mean() > 0.9


def test_two_sets_and_pairs_are_one_y_each() -> None:
    features, true, _ = blobs(3, share=0.25)
    random = np.random.default_rng(0)
    ward = np.where(random.random(500) < np.where(true == 1, 0.8, 0.2), "A", "B")
    priors = {name: true[ward == name].mean() for name in "AB"}
    options = {"epochs": 15, "learning_rate": 0.05, "random_state": 0}
    model = WeakClassifier("linear", kind="unlabeled_unlabeled", kind_options={"priors": priors}, **options)
    assert (model.fit(features, ward).predict(features) == true).mean() > 0.9

    pair = np.where(np.arange(500) < 200, np.arange(500) // 2, np.nan)
    same = np.where(np.arange(500) < 200, np.repeat(true[::2] == true[1::2], 2), np.nan)
    model = WeakClassifier("linear", kind="similar_dissimilar_unlabeled", kind_options={"prior": 0.25}, **options)
    assert (model.fit(features, same, groups=pair).predict(features) == true).mean() > 0.9


# ------------------------------------------------------------ tables, and mistakes


def described(tmp_path, cells, options, kind="positive_unlabeled"):  # type: ignore[no-untyped-def]
    rows = [f"{number}.5,{cell}" for number, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join(["f,w", *rows]))
    weak = {"positive_unlabeled": "positive", "unlabeled_unlabeled": "set", "similar_dissimilar_unlabeled": "same"}
    about = {"data": str(tmp_path / "t.csv"), "features": "f", "classes": ["legit", "fraud"], "kind": kind}
    return read_table({**about, "weak": {weak[kind]: "w"}, "options": options}).supervision()


@pytest.mark.parametrize("cells", [["1", "", ""], ["fraud", "", ""]])
def test_a_column_with_gaps_is_enough(tmp_path, cells: list[str]) -> None:  # type: ignore[no-untyped-def]
    weak = described(tmp_path, cells, {"prior": [0.35, 0.5]})
    assert (weak.labeled.tolist(), weak.prior, weak.limits) == ([True, False, False], None, (0.35, 0.5))


@pytest.mark.parametrize("mark", [0, -1])
def test_marks_of_unlabeled_rows_are_said_in_tables(tmp_path, mark: int) -> None:  # type: ignore[no-untyped-def]
    weak = described(tmp_path, ["1", str(mark), str(mark)], {"prior": 0.5, "unlabeled": mark})
    assert weak.labeled.tolist() == [True, False, False]


def test_a_row_without_a_pair_is_unlabeled(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "t.csv").write_text("f,pair,w\n1,a,1\n2,,\n3,a,1\n4,,\n")
    about = {"data": str(tmp_path / "t.csv"), "features": "f", "classes": 2, "group": "pair", "weak": {"same": "w"}}
    table = read_table({**about, "kind": "similar_dissimilar_unlabeled", "options": {"prior": 0.3}})
    assert table.supervision().same.tolist() == [1, -1, -1]
    assert table.blocks[0].lengths.tolist() == [2, 1, 1]


MISTAKES = {
    "0 without a word": (["1", "0", "0"], {}, "found 0; positive_unlabeled knows 1 and empty cells: if 0 means"),
    "-1 without a word": (["1", "-1", ""], {}, "found -1; positive_unlabeled knows 1 and empty cells: if -1 means unl"),
    "a prior in percent": (["1", ""], {"prior": 30}, "found 30; divide percentages by 100"),
    "a prior in words": (["1", ""], {"prior": "auto"}, 'a range [low, high], or "estimate", found \'auto\''),
    "a range upside down": (["1", ""], {"prior": [0.4, 0.1]}, "found the range [0.4, 0.1]"),
    "a prior below the labeled share": (["1", "1", "", ""], {"prior": 0.2}, "prior 0.2 is below 0.5, the share of"),
    "everything labeled": (["1", "1"], {"prior": 0.2}, "every row is labeled"),
    "nothing labeled": (["", ""], {"prior": 0.2}, "no row is labeled"),
    "an unknown scenario": (["1", ""], {"scenario": "two"}, "scenario must be one of single_training_set"),
    "a strange mark for unlabeled": (["1", ""], {"unlabeled": 2}, "an unlabeled row: 0 or -1; found 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_line_that_says_what_to_write(tmp_path, name: str) -> None:  # type: ignore[no-untyped-def]
    cells, options, message = MISTAKES[name]
    with pytest.raises(DataError) as caught:
        described(tmp_path, cells, options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


OTHER_MISTAKES = {
    "priors of other sets": ("unlabeled_unlabeled", ["A", "B"], {"priors": {"A": 0.2, "C": 0.3}}, "the sets A, B"),
    "priors as a list": ("unlabeled_unlabeled", ["A", "B"], {"priors": [0.2, 0.3]}, "{priors: {A: 0.8, B: 0.2}}"),
    "equal priors": ("unlabeled_unlabeled", ["A", "B"], {"priors": {"A": 0.2, "B": 0.2}}, "two priors that differ"),
    "a prior of one half": ("similar_dissimilar_unlabeled", ["", ""], {"prior": 0.5}, "other than 0.5"),
    "no prior": ("similar_dissimilar_unlabeled", ["", ""], {}, "needs the share of positives, options: {prior: 0.3}"),
    "a mark without a pair": ("similar_dissimilar_unlabeled", ["1", ""], {"prior": 0.3}, "it has 1 rows"),
}


@pytest.mark.parametrize("name", OTHER_MISTAKES)
def test_a_mistake_with_sets_or_pairs_gets_one_line(tmp_path, name: str) -> None:  # type: ignore[no-untyped-def]
    kind, cells, options, message = OTHER_MISTAKES[name]
    with pytest.raises(DataError) as caught:
        described(tmp_path, cells, options, kind)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_accuracy_on_unlabeled_rows_is_refused() -> None:
    features, _, marks = blobs()
    with pytest.raises(DataError, match="accuracy_score reads unlabeled rows as negatives: search with scoring='roc"):
        cross_val_score(estimator(), features, marks, cv=3, scoring="accuracy", error_score="raise")


def test_too_few_labeled_positives_are_no_ground_for_an_estimate() -> None:
    features, _, marks = blobs(labeled=5)
    with pytest.raises(DataError, match="5 labeled positives are too few to estimate the prior from; expected at lea"):
        estimator(prior="estimate").fit(features, marks)


def test_a_mark_that_is_neither_says_its_row() -> None:
    features, _, _ = blobs()
    with pytest.raises(DataError, match='y of row 0 is 7; kind="positive_unlabeled" expects 1, and None or NaN'):
        estimator().fit(features, np.full(500, 7))
