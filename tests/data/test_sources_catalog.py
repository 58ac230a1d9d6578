"""Sources by name, the sets bundled with scikit-learn, and the paper's binary problems."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from glws import _optional as packages
from glws.data import SOURCES, Source, Split, class_split, load
from glws.data.sources import CLASS_SPLITS
from glws.data.sources._class_names import CIFAR10, CIFAR100, FASHION, STL10
from glws.errors import DataError


@pytest.mark.parametrize(
    ("name", "train", "test", "columns", "classes"),
    [
        ("digits", 1442, 355, 64, 10),
        ("breast_cancer", 456, 113, 30, 2),
        ("wine", 144, 34, 13, 3),
        ("iris", 120, 30, 4, 3),
    ],
)
def test_bundled_sets_have_fixed_parts_in_proportion(name, train, test, columns, classes):
    source = load(name)
    assert (source.train.inputs.shape, source.test.inputs.shape) == ((train, columns), (test, columns))
    assert source.train.inputs.dtype == np.float32
    assert len(source.columns) == columns
    assert source.num_classes == classes
    rates = [np.bincount(split.labels, minlength=classes) / len(split) for split in (source.train, source.test)]
    np.testing.assert_allclose(*rates, atol=0.02)  # at most one instance of a class out of step
    np.testing.assert_array_equal(load(name).test.inputs, source.test.inputs)


def test_digits_are_scaled_to_one_and_labeled_right():
    source = load("digits")
    assert source.train.inputs.max() == 1.0
    zero, one = (source.train.inputs[source.train.labels == number].mean(0).reshape(8, 8) for number in (0, 1))
    assert zero[3:5, 3:5].mean() < 0.2 < one[3:5, 3:5].mean(), "a zero is hollow, a one is not"


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(DataError, match="no data set is called 'fashionmnist'; did you mean 'fashion_mnist'"):
        load("fashionmnist")
    with pytest.raises(DataError, match="no data set is called 'CIFAR-10'; did you mean 'cifar10'"):
        load("CIFAR-10")
    with pytest.raises(DataError, match=f"there is {', '.join(SOURCES)}; code of your own is"):
        load("zzz")


def test_a_missing_package_is_asked_for(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(packages, "import_module", refuse)
    with pytest.raises(DataError, match="the data set digits needs the package scikit-learn: pip install scikit-learn"):
        load("digits")


@pytest.mark.slow
def test_importing_the_data_layer_loads_nothing_heavy():
    heavy = ("pandas", "pyarrow", "sklearn", "yaml", "h5py", "PIL", "rich")
    code = f"import sys, glws.data; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_binary_keeps_the_inputs_and_refuses_other_classes():
    split = Split(np.zeros((4, 1), np.float32), np.array([3, 0, 1, 2]))
    source = Source("toy", ("a", "b", "c", "d"), split, split)
    assert source.binary((0, 2)).test.labels.tolist() == [0, 1, 0, 1]
    assert source.binary((0, 2)).classes == ("negative", "positive")
    for wrong in ((4,), (-1,), ()):
        with pytest.raises(DataError, match=r"positive classes must be among 0..3"):
            source.binary(wrong)


@pytest.mark.parametrize(
    ("name", "classes", "setting", "positive"),
    [
        ("mnist", tuple("0123456789"), "pair_comparison", tuple("01234")),
        ("mnist", tuple("0123456789"), "multi_instance", ("9",)),
        ("fashion_mnist", FASHION, "unlabeled_unlabeled", ("sandal", "sneaker", "ankle boot")),
        ("fashion_mnist", FASHION, "proportions", ("ankle boot",)),
        ("cifar10", CIFAR10, "positive_unlabeled", ("airplane", "automobile", "ship", "truck")),
        ("stl10", STL10, "positive_unlabeled", ("airplane", "car", "ship", "truck")),
        ("cifar10", CIFAR10, "multi_instance", ("cat",)),
        ("stl10", STL10, "proportions", ("cat",)),
    ],
)
def test_the_positive_classes_are_those_of_the_paper(name, classes, setting, positive):
    assert tuple(classes[number] for number in class_split(name, setting).positive) == positive


def test_forty_animals_of_cifar100_are_positive():
    names = {CIFAR100[number] for number in class_split("cifar100", "pair_similarity").positive}
    assert len(names) == 40
    assert {"beaver", "shark", "wolf", "worm", "turtle", "shrew"} <= names
    assert not names & {"bee", "butterfly", "boy", "woman", "rose", "tank"}


def test_where_the_released_code_differs_is_said():
    assert class_split("stl10", "positive_confidence").released_code == (0, 1, 8, 9)
    assert class_split("fashion_mnist", "similar_dissimilar_unlabeled").released_code == (0, 1, 2, 3, 4)
    assert all(split.note for split in CLASS_SPLITS.values() if split.released_code != split.positive)


def test_a_problem_the_paper_does_not_have_is_refused():
    with pytest.raises(DataError, match="no binary problem of 'cifar100' for 'proportions'; it has pair_comparison"):
        class_split("cifar100", "proportions")
