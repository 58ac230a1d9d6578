"""How the paper trained, next to what the released configurations say."""

import pytest

from glws.errors import DataError
from glws.models import MODELS
from reproduction import TABLES, cell, cells, differences, hyper_parameters
from reproduction.recipes import Says

PAIRS = ["pair_comparison", "pair_similarity", "similarity_confidence", "confidence_difference", "positive_confidence"]
UNLABELED = ["positive_unlabeled", "unlabeled_unlabeled", "similar_dissimilar_unlabeled"]
PRINTED = {  # image size, model, batch size, optimizer, rate, weight decay, schedule, epochs
    ("partial_labels", "mnist"): (28, "lenet5", 64, "sgd", 0.1, 1e-4, "multi_step", 200),
    ("partial_labels", "cifar100"): (32, "wrn_34_10", 64, "sgd", 0.1, 1e-4, "multi_step", 200),
    ("partial_labels", "stl10"): (96, "resnet18", 64, "adamw", 1e-3, 1e-4, "cosine", 200),
    ("partial_labels", "imagenet100"): (224, "resnet34", 32, "adamw", 1e-3, 1e-4, "cosine", 200),
    ("multi_instance", "fashion_mnist"): (28, "lenet5", 4, "adamw", 5e-4, 1e-4, "cosine", 100),
    ("proportions", "cifar10"): (32, "wrn_28_2", 4, "adamw", 1e-3, 5e-4, "cosine", 100),
    ("proportions", "imagenet100"): (224, "resnet34", 8, "adamw", 1e-3, 1e-4, "cosine", 100),
    **{(setting, "mnist"): (28, "lenet5", 64, "adamw", 5e-4, 1e-4, "cosine", 100) for setting in PAIRS},
    **{(setting, "cifar100"): (32, "resnet18", 64, "adamw", 1e-3, 1e-3, "cosine", 100) for setting in PAIRS},
    ("pair_similarity", "stl10"): (96, "resnet18", 32, "adamw", 1e-3, 1e-3, "cosine", 100),
    **{(setting, "cifar10"): (32, "wrn_28_2", 64, "adamw", 1e-3, 1e-3, "cosine", 50) for setting in UNLABELED},
    **{(setting, "stl10"): (96, "resnet18", 32, "adamw", 1e-3, 1e-3, "cosine", 50) for setting in UNLABELED},
}
FIELDS = (
    "image_size",
    "model",
    "batch_size",
    "optimizer",
    "learning_rate",
    "weight_decay",
    "schedule",
    "epochs",
)


def test_hyper_parameters_are_the_printed_ones() -> None:
    for where, printed in PRINTED.items():
        found = hyper_parameters(*where)
        assert tuple(getattr(found, field) for field in FIELDS) == printed, where
        assert not set(FIELDS) & set(found.completed), where


@pytest.mark.parametrize(
    ("setting", "dataset", "expected"),
    [
        ("partial_labels", "mnist", {"schedule": ("multi_step", "cosine")}),
        ("partial_labels", "cifar10", {}),
        ("multi_instance", "mnist", {"batch_size": (4, 2), "weight_decay": (1e-4, 1e-5), "epochs": (100, 50)}),
        ("multi_instance", "stl10", {"batch_size": (4, 2)}),
        ("proportions", "fashion_mnist", {"batch_size": (4, 2), "epochs": (100, 30)}),
        ("proportions", "cifar100", {"weight_decay": (5e-4, 1e-4)}),
        ("pair_comparison", "cifar100", {}),
        ("pair_comparison", "mnist", {"epochs": (100, 30)}),
        ("pair_similarity", "stl10", {"weight_decay": (1e-3, 5e-4), "epochs": (100, 50)}),
        ("positive_confidence", "cifar10", {"epochs": (100, 50)}),
        ("similar_dissimilar_unlabeled", "mnist", {"batch_size": (64, 32), "epochs": (50, 30)}),
        ("unlabeled_unlabeled", "mnist", {}),
    ],
)
def test_released_configurations_differ_where_the_specification_says(
    setting: str, dataset: str, expected: dict[str, tuple[object, object]]
) -> None:
    assert differences(setting, dataset) == expected
    paper, code = (hyper_parameters(setting, dataset, says=says) for says in ("paper", "code"))
    for field, values in expected.items():
        assert (getattr(paper, field), getattr(code, field)) == values


def test_long_bags_are_trained_one_by_one_in_the_released_code() -> None:
    long, short = (cell("multi_instance", "mnist", f"classes=2,mean={mean}") for mean in (50, 10))
    assert [one.hyper_parameters("code").batch_size for one in (long, short)] == [1, 2]
    assert [one.hyper_parameters("paper").batch_size for one in (long, short)] == [4, 4]


@pytest.mark.parametrize("says", ["code"])
def test_hyper_parameters_can_be_trained_with(says: Says) -> None:
    for one in cells():
        found = one.hyper_parameters(says)
        assert found.model in MODELS, one
        assert found.table in TABLES, one
        assert (found.momentum is None) == (found.optimizer == "adamw"), one
        assert bool(found.milestones) == (found.schedule == "multi_step"), one
        assert (found.final_learning_rate is None) == (found.schedule == "multi_step"), one
        assert found.final_learning_rate is None or found.final_learning_rate < found.learning_rate, one
        assert (found.unlabeled_batch_size is None) == ("unlabeled" not in one.setting), one


def test_steps_are_counted_only_by_the_released_code() -> None:
    paper, code = (hyper_parameters("positive_unlabeled", "cifar100", says=says) for says in ("paper", "code"))
    assert (paper.iterations, code.iterations) == (None, 100_000)


def test_what_the_paper_does_not_print_is_marked() -> None:
    assert set(hyper_parameters("partial_labels", "cifar10").completed) == {
        "momentum",
        "milestones",
        "gradient_clip",
        "strong_augmentation",
    }
    assert hyper_parameters("partial_labels", "cifar10", says="code").completed == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("partial_label", "mnist"), "no setting of the paper is called 'partial_label'; did you mean partial_labels?"),
        (("positive_confidence", "stl10"), "no table of hyper-parameters is called 'positive_confidence on stl10'"),
    ],
)
def test_unknown_names_are_one_line(arguments: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError, match=r"^[^\n]*$") as caught:
        hyper_parameters(*arguments)
    assert str(caught.value).startswith(message)


def test_unknown_source_is_an_error() -> None:
    with pytest.raises(DataError, match="no source of hyper-parameters is called 'config'; there are paper, code"):
        hyper_parameters("partial_labels", "mnist", says="config")  # type: ignore[arg-type]
