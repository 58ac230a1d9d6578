"""The estimator learns from tables as people have them: DataFrames with categories and empty cells, sparse matrices."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, csr_matrix
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from glws import WeakClassifier
from glws.data import WeakDataset
from glws.errors import DataError
from glws.kinds import Labels

pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
BAG = np.arange(320) // 8


def people(seed: int = 0) -> tuple[Any, Any]:
    """A DataFrame in which categories, and empty cells, decide about the class; and the class."""
    rng = np.random.default_rng(seed)
    work = rng.choice(["state", "private", "self"], 320)
    age = rng.normal(50, 9, 320)
    age[rng.random(320) < 0.3] = np.nan
    label = ((work == "state") | ((work == "self") & np.isnan(age))).astype(int)
    seen = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, 320), unit="D")
    frame = pandas.DataFrame({"person": [f"P{row:04d}" for row in range(320)], "age": age, "work": work, "seen": seen})
    return frame, label


def quick(base: Any = None, **options: Any) -> WeakClassifier:
    network: dict[str, Any] = {"model_options": {"hidden": [16]}, "epochs": 30, "learning_rate": 0.02, "batch_size": 10}
    return WeakClassifier("mlp", base, rounds=2, random_state=0, device="cpu", **{**network, **options})


def counts(label: Any) -> Any:
    return np.bincount(BAG, label)[BAG]


BASES = [
    None,
    HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5),
    LogisticRegression(C=100.0),
    RandomForestClassifier(20),
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_a_data_frame_with_words_and_gaps_is_learned_from_as_it_is(base: Any) -> None:
    frame, label = people()
    model = quick(base, kind="proportions").fit(frame, counts(label), groups=BAG)
    new, truth = people(1)
    least = 0.8 if isinstance(base, LogisticRegression) else 0.9  # "self and no age" is no sum of columns
    assert (model.predict(new) == truth).mean() > least
    assert model.feature_names_in_.tolist() == ["age", "work", "seen"]
    assert {column.name: column.type for column in model.schema_.columns}["person"] == "id"


def test_every_kind_of_data_frame_gets_the_same_predictions() -> None:
    frame, label = people()
    model = quick(epochs=3).fit(frame, label)
    expected = model.predict_proba(frame)
    for other in (
        polars.from_pandas(frame),
        arrow.Table.from_pandas(frame),
        frame.to_dict("list"),
        frame[frame.columns[::-1]],
    ):
        assert np.array_equal(model.predict_proba(other), expected)
    names = list(model.feature_names_in_)
    assert np.allclose(model.predict_proba(frame[names].astype(object).to_numpy()), expected)


def test_trees_get_codes_of_categories_and_empty_cells() -> None:
    frame, label = people()
    model = quick(HistGradientBoostingClassifier(max_iter=5)).fit(frame, label)
    assert model.estimator_.is_categorical_.tolist() == [False, True, False]
    assert model.estimator_.n_features_in_ == 3
    assert model.base_estimator.categorical_features == "from_dtype", "the user's estimator is left as it was"


def test_a_column_may_be_given_a_type_or_an_encoder() -> None:
    frame, label = people()
    frame["zip"] = np.arange(320) % 7
    frame["note"] = np.where(label == 1, "yes it is so", "no it is not")
    model = quick(
        epochs=3, columns={"zip": "category", "note": lambda texts: [[float("yes" in text)] for text in texts]}
    )
    model.fit(frame, label)
    types = {column.name: column.type for column in model.schema_.columns}
    assert (types["zip"], types["note"]) == ("category", "number")
    assert model.score(frame, label) > 0.95


def test_numbers_are_learned_from_as_before() -> None:
    rng = np.random.default_rng(0)
    values, label = rng.normal(size=(320, 3)), rng.integers(0, 2, 320)
    plain = quick(epochs=2).fit(values, label).predict_proba(values)
    frame = pandas.DataFrame(values, columns=["a", "b", "c"])
    model = quick(epochs=2).fit(frame, label)
    assert model.schema_ is None
    assert np.allclose(model.predict_proba(frame), plain, atol=1e-12)  # another order of sums


@pytest.mark.parametrize("sparse", [csr_array, csr_matrix])
def test_sparse_matrices_are_learned_from_row_by_row(sparse: Any) -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((320, 40)) * (rng.random((320, 40)) < 0.1)
    label = (dense[:, 0] + dense[:, 1] > 0).astype(int)
    model = quick(learning_rate=0.05).fit(sparse(dense), label)
    assert model.score(sparse(dense), label) > 0.95
    assert np.allclose(model.predict_proba(sparse(dense)), model.predict_proba(dense))


def test_a_weak_data_set_takes_a_sparse_matrix() -> None:
    rows = csr_array(np.eye(4))
    data = WeakDataset(rows, [[0], [3]], Labels.of([0, 1], 2))
    assert torch.equal(data.batch([torch.tensor([1])]).instances, torch.eye(4, dtype=torch.float64)[3:])


def test_an_estimator_of_a_table_survives_pickling() -> None:
    frame, label = people()
    model = quick(epochs=2).fit(frame, label)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(frame), model.predict_proba(frame))


def test_a_missing_column_and_a_wrong_array_get_one_line() -> None:
    frame, label = people()
    model = quick(epochs=1).fit(frame, label)
    with pytest.raises(DataError, match=r"there is no column 'work', which the model was trained with"):
        model.predict(frame.drop(columns="work"))
    with pytest.raises(DataError, match=r"X must have the 3 columns that were learned from, found shape \(2, 2\)"):
        model.predict(np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"column age must be a number, found 'old'"):
        model.predict({"age": ["old"], "work": ["state"], "seen": ["2020-01-01"]})


def test_the_mixture_of_models_learns_from_a_table() -> None:
    frame, label = people()
    model = WeakClassifier("auto", random_state=0, device="cpu").fit(frame[:120], label[:120])
    assert model.schema_ is not None
    assert (model.predict(frame[120:]) == label[120:]).mean() > 0.9
