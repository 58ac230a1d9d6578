"""The published numbers: as many as the paper prints, the same ones, with what is known to be wrong about them."""

from collections import Counter

import pytest

from glws.data.sources import SOURCES
from glws.errors import DataError
from reproduction import DATASETS, METHODS, SETTINGS, TABLES, Cell, cell, cells, settings

CELLS_OF_TABLES = {
    "tab:partial-label": 8,
    "tab:aggregate": 16,
    "tab:pairwise-comp-sim": 12,
    "tab:pairwise-conf": 12,
    "tab:pu": 6,
    "tab:appendix-partial": 20,
    "tab:appendix-aggregate": 24,
    "tab:appendix-pcomp": 15,
    "tab:appendix-psim": 15,
    "tab:appendix-simconf": 20,
    "tab:appendix-confdiff": 20,
    "tab:appendix-pu": 15,
    "tab:appendix-uulearn": 15,
    "tab:appendix-simdsimulb": 15,
    "tab:appendix-posconf": 12,
}
SUMS = {  # of each table: how many numbers, and the sums of the means and of the deviations in the paper's source
    "tab:partial-label": (48, 3744.78, 22.26),
    "tab:appendix-partial": (120, 10331.17, 37.08),
    "tab:aggregate": (52, 3099.98, 51.07),
    "tab:appendix-aggregate": (73, 5827.64, 76.74),
    "tab:pairwise-comp-sim": (54, 4400.49, 42.11),
    "tab:appendix-pcomp": (90, 7661.59, 56.32),
    "tab:appendix-psim": (45, 4060.93, 27.68),
    "tab:pairwise-conf": (54, 4420.94, 72.62),
    "tab:appendix-simconf": (100, 8513.92, 53.26),
    "tab:appendix-confdiff": (80, 7084.04, 88.64),
    "tab:pu": (42, 3293.17, 41.94),
    "tab:appendix-pu": (105, 8726.91, 90.26),
    "tab:appendix-uulearn": (30, 2658.86, 26.15),
    "tab:appendix-simdsimulb": (30, 2449.90, 33.27),
    "tab:appendix-posconf": (24, 2084.89, 10.51),
}
CELLS_OF_SETTINGS = {
    "partial_labels": 20,
    "multi_instance": 20,
    "proportions": 20,
    "pair_comparison": 15,
    "pair_similarity": 15,
    "similarity_confidence": 20,
    "confidence_difference": 20,
    "positive_confidence": 12,
    "positive_unlabeled": 15,
    "unlabeled_unlabeled": 15,
    "similar_dissimilar_unlabeled": 15,
}
PRINTED = {  # what a person read in the tables
    "tab:partial-label": """
        partial_labels cifar10 ratio=0.5 cc 92.51 0.04
        partial_labels cifar100 ratio=0.2 lws 43.51 0.32
        partial_labels stl10 ratio=0.3 proden 73.19 1.05
        partial_labels imagenet100 ratio=0.05 pico 78.74 1.34
    """,
    "tab:appendix-partial": """
        partial_labels mnist ratio=0.7 rcr 99.01 0.05
        partial_labels fashion_mnist ratio=0.1 cc 91.44 0.16
        partial_labels fashion_mnist ratio=0.3 proden 91.96 0.70
        partial_labels cifar10 ratio=0.1 pico 95.37 0.12
        partial_labels cifar100 ratio=0.01 glws 80.06 0.17
        partial_labels stl10 ratio=0.1 proden 77.74 0.52
    """,
    "tab:aggregate": """
        multi_instance cifar10 classes=10,mean=20 count_loss 65.97 0.94
        multi_instance cifar100 classes=100,mean=10 glws 52.29 2.93
        multi_instance imagenet100 classes=100,mean=3 uum 1.33 0.17
        proportions cifar100 classes=100,mean=5 llp_vat 51.95 2.74
        proportions stl10 classes=10,mean=5 uum 77.26 0.67
        proportions imagenet100 classes=100,mean=5 count_loss 72.21 0.91
    """,
    "tab:appendix-aggregate": """
        multi_instance mnist classes=2,mean=50 uum 74.00 0.53
        multi_instance fashion_mnist classes=10,mean=20 glws 82.05 0.20
        multi_instance stl10 classes=2,mean=5 count_loss 57.90 6.11
        proportions mnist classes=10,mean=20 llp_vat 98.41 0.10
        proportions cifar10 classes=2,mean=20 glws 68.03 2.41
        proportions stl10 classes=2,mean=5 uum 61.54 2.16
    """,
    "tab:pairwise-comp-sim": """
        pair_comparison cifar100 prior=0.8 pcomp_teacher 67.43 3.09
        pair_comparison stl10 prior=0.5 pcomp_abs 79.07 0.40
        pair_similarity cifar10 prior=0.4 risk_sd 85.78 1.70
        pair_similarity stl10 prior=0.6 glws 85.19 0.26
    """,
    "tab:appendix-pcomp": """
        pair_comparison fashion_mnist prior=0.8 pcomp_relu 98.41 0.41
        pair_comparison mnist prior=0.2 pcomp_unbiased 76.23 1.56
        pair_comparison mnist prior=0.5 rank_pruning 91.59 1.31
        pair_comparison cifar10 prior=0.2 glws 93.46 0.32
    """,
    "tab:appendix-psim": """
        pair_similarity mnist prior=0.6 uum 99.04 0.13
        pair_similarity cifar100 prior=0.2 risk_sd 69.56 3.00
    """,
    "tab:pairwise-conf": """
        similarity_confidence cifar100 prior=0.4,model=clip_vit_b_16 sconf_relu 69.67 1.51
        confidence_difference cifar10 prior=0.4,model=clip_vit_b_16 confdiff_unbiased 87.91 9.03
    """,
    "tab:appendix-simconf": """
        similarity_confidence fashion_mnist prior=0.7,model=clip_vit_b_16 sconf_nn_abs 99.19 0.25
        similarity_confidence mnist prior=0.5,model=clip_vit_b_16 sconf_abs 75.28 0.91
        similarity_confidence cifar10 prior=0.6,model=wrn_28_2 sconf_unbiased 87.90 0.47
        similarity_confidence stl10 prior=0.6,model=clip_vit_b_16 glws 78.69 0.08
    """,
    "tab:appendix-confdiff": """
        confidence_difference mnist prior=0.7,model=lenet5 confdiff_abs 92.11 3.31
        confidence_difference cifar100 prior=0.6,model=resnet18 confdiff_relu 82.64 1.05
        confidence_difference stl10 prior=0.6,model=clip_vit_b_16 confdiff_unbiased 77.81 0.40
    """,
    "tab:pu": """
        positive_unlabeled cifar10 positives=500 dist_pu 83.61 4.52
        positive_unlabeled stl10 positives=1000 vpu 62.37 1.44
    """,
    "tab:appendix-pu": """
        positive_unlabeled fashion_mnist positives=100 nnpu 95.27 1.40
        positive_unlabeled mnist positives=100 cvir 74.67 1.83
        positive_unlabeled cifar100 positives=4000 count_loss 78.17 2.49
        positive_unlabeled stl10 positives=2000 upu 79.08 0.76
    """,
    "tab:appendix-uulearn": """
        unlabeled_unlabeled fashion_mnist size=30000,priors=0.4-0.6 glws 96.10 0.75
        unlabeled_unlabeled cifar100 size=10000,priors=0.4-0.6 uu_unbiased 66.23 1.59
        unlabeled_unlabeled stl10 size=5000,priors=0.8-0.2 glws 88.27 0.96
    """,
    "tab:appendix-simdsimulb": """
        similar_dissimilar_unlabeled mnist similar=10000,dissimilar=0 sdu 83.02 1.24
        similar_dissimilar_unlabeled cifar10 similar=0,dissimilar=10000 glws 93.12 0.28
        similar_dissimilar_unlabeled stl10 similar=1000,dissimilar=1000 glws 75.93 1.69
    """,
    "tab:appendix-posconf": """
        positive_confidence mnist instances=15000,model=lenet5 pconf 79.61 0.65
        positive_confidence fashion_mnist instances=30000,model=clip_vit_b_16 glws 92.05 0.09
        positive_confidence cifar100 instances=25000,model=resnet18 pconf 79.39 0.50
    """,
}


def tables_of(one: Cell) -> set[str]:
    return {number.table for numbers in one.published.values() for number in numbers}


@pytest.mark.parametrize("table", PRINTED)
def test_numbers_are_the_printed_ones(table: str) -> None:
    for line in PRINTED[table].strip().splitlines():
        setting, dataset, name, method, mean, std = line.split()
        found = [number for number in cell(setting, dataset, name).published[method] if number.table == table]
        assert [(number.mean, number.std) for number in found] == [(float(mean), float(std))], line


def test_every_table_of_results_has_all_its_cells() -> None:
    found = Counter(table for one in cells() for table in tables_of(one))
    assert found == CELLS_OF_TABLES
    assert {table for table, known in TABLES.items() if known.place == "main text"} <= set(found)


def test_every_setting_has_all_its_cells_and_each_its_own_name() -> None:
    assert {setting: len(cells(setting)) for setting in settings()} == CELLS_OF_SETTINGS
    assert len({(one.setting, one.dataset, one.name) for one in cells()}) == len(cells()) == 187


def test_all_printed_numbers_are_there() -> None:
    """947 is the number of ± in the source of the paper."""
    numbers = [number for one in cells() for found in one.published.values() for number in found]
    assert len(numbers) == 947
    for table, (count, means, deviations) in SUMS.items():
        own = [number for number in numbers if number.table == table]
        sums = round(sum(number.mean for number in own), 2), round(sum(number.std for number in own), 2)
        assert (len(own), *sums) == (count, means, deviations), table


def test_all_methods_of_a_table_are_in_each_of_its_cells_but_those_not_run() -> None:
    for setting in settings():
        sets = {frozenset(one.published) for one in cells(setting)}
        whole = max(sets, key=len)
        assert sets <= {whole, whole - {"uum"}}
        assert (len(sets) > 1) == (setting == "proportions")
    assert sum("uum" in one.published for one in cells("proportions")) == 5


@pytest.mark.parametrize("setting", settings())
def test_every_cell_has_hyper_parameters_a_metric_and_the_number_of_glws(setting: str) -> None:
    for one in cells(setting):
        ours = one.value("glws")
        assert ours is not None, one
        assert 50 < ours.mean < 100, one
        assert one.metric in ("accuracy", "balanced_accuracy", "matched_accuracy")
        assert all(one.hyper_parameters(says).epochs > 0 for says in ("paper", "code")), one
        assert len(one.published) >= 2, one
        assert one.dataset in SOURCES


def test_metric_is_that_of_the_released_evaluation() -> None:
    metrics = {setting: known.metric for setting, known in SETTINGS.items()}
    balanced = [setting for setting, metric in metrics.items() if metric == "balanced_accuracy"]
    matched = [setting for setting, metric in metrics.items() if metric == "matched_accuracy"]
    assert balanced == ["multi_instance", "proportions"]
    assert matched == [
        "pair_similarity",
        "similarity_confidence",
        "confidence_difference",
        "similar_dissimilar_unlabeled",
    ]


def test_main_text_comes_first_and_agrees_with_the_appendix_but_where_noted() -> None:
    for one in cells():
        for method, numbers in one.published.items():
            assert [number.place for number in numbers] in (["main text"], ["appendix"], ["main text", "appendix"])
            differ = len({str(number) for number in numbers}) > 1
            noted = any(note.kind == "print" and method in note.methods for note in one.notes)
            assert noted or not differ, (one, method)


def test_proden_and_pico_are_exchanged_exactly_where_the_note_says() -> None:
    text = "The main text and the appendix have the numbers of PRODEN and PiCO exchanged"
    for one in cells("partial_labels"):
        proden, pico = ([str(number) for number in one.published[name]] for name in ("proden", "pico"))
        exchanged = len(proden) == 2 and proden == pico[::-1]
        assert exchanged == any(note.text.startswith(text) for note in one.notes)


def test_binary_proportions_of_cifar10_repeat_those_of_ten_classes() -> None:
    binary, many = (cell("proportions", "cifar10", f"classes={number},mean=10") for number in (2, 10))
    assert {name: str(binary.value(name)) for name in many.published} == {
        name: str(many.value(name)) for name in many.published
    }
    assert any("repeated" in note.text for note in binary.notes)
    assert not any("repeated" in note.text for note in many.notes)


@pytest.mark.parametrize("dataset", ["mnist", "fashion_mnist"])
def test_sconf_at_prior_one_half_is_noted(dataset: str) -> None:
    for one in cells("similarity_confidence", dataset):
        noted = any("2 prior - 1" in note.text and "sconf_unbiased" in note.methods for note in one.notes)
        assert noted == (one.configuration["prior"] == 0.5)


def test_claimed_gain_on_cifar100_is_that_over_another_method() -> None:
    one = cell("positive_unlabeled", "cifar100", "positives=1000")
    ours, nnpu = one.value("glws"), one.value("nnpu")
    name, best = one.best_baseline()
    assert ours is not None
    assert nnpu is not None
    assert name == "cvir"
    assert round(ours.mean - nnpu.mean, 2) == 4.81
    assert round(ours.mean - best.mean, 2) == 1.74
    assert any("4.81" in note.text and "1.74" in note.text for note in one.notes)


def test_notes_name_methods_of_their_cells() -> None:
    for one in cells():
        for note in one.notes:
            assert set(note.methods) <= set(one.published), (one, note)


def test_class_split_is_noted_where_it_is_odd() -> None:
    texts = " ".join(note.text for note in cell("similar_dissimilar_unlabeled", "fashion_mnist", SDU).notes)
    assert "sandal" in texts
    assert "authors' code takes {0, 1, 2, 3, 4}" in texts


SDU = "similar=5000,dissimilar=5000"


@pytest.mark.parametrize(
    ("setting", "dataset", "name", "positive"),
    [
        ("multi_instance", "cifar10", "classes=2,mean=10", (3,)),
        ("multi_instance", "cifar10", "classes=10,mean=10", ()),
        ("partial_labels", "mnist", "ratio=0.1", ()),
        ("pair_similarity", "fashion_mnist", "prior=0.4", (5, 7, 9)),
        ("positive_unlabeled", "stl10", "positives=500", (0, 2, 8, 9)),
    ],
)
def test_positive_classes_are_those_of_the_paper(
    setting: str, dataset: str, name: str, positive: tuple[int, ...]
) -> None:
    assert cell(setting, dataset, name).positive == positive


def test_cifar100_has_forty_positive_classes() -> None:
    assert len(cells("positive_confidence", "cifar100")[0].positive) == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("proportion", None), "no setting of the paper is called 'proportion'; did you mean proportions?"),
        (
            ("proportions", "cifar-10"),
            "no data set of the paper is called 'cifar-10'; did you mean cifar10 or cifar100?",
        ),
    ],
)
def test_unknown_name_gets_the_nearest(arguments: tuple[str, str | None], message: str) -> None:
    with pytest.raises(DataError) as caught:
        cells(*arguments)
    assert str(caught.value) == message


def test_unknown_cell_gets_those_there_are() -> None:
    with pytest.raises(DataError, match=r"on stl10 is called 'x'; there are ratio=0\.1, ratio=0\.3$"):
        cell("partial_labels", "stl10", "x")
    with pytest.raises(DataError, match="no cell of pair_similarity on imagenet100 is called 'x'; there are none"):
        cell("pair_similarity", "imagenet100", "x")


def test_method_without_a_number_is_none_and_an_unknown_one_an_error() -> None:
    one = cell("proportions", "mnist", "classes=2,mean=10")
    assert one.value("uum") is None
    with pytest.raises(DataError, match="no method of the paper is called 'coun_loss'; did you mean count_loss"):
        one.value("coun_loss")


def test_cells_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        cells("partial_labels")[0].configuration["ratio"] = 0.2  # type: ignore[index]


def test_names_are_fit_for_file_names() -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789_=.,-")
    assert all(set(one.name) <= allowed for one in cells())


def test_sizes_of_data_sets_are_those_of_the_paper() -> None:
    found = [(known.num_classes, known.num_train, known.num_test, known.num_unlabeled) for known in DATASETS.values()]
    assert found == [
        (10, 60_000, 10_000, 0),
        (10, 60_000, 10_000, 0),
        (10, 50_000, 10_000, 0),
        (100, 50_000, 10_000, 0),
        (10, 5_000, 8_000, 100_000),
        (100, 130_000, 5_000, 0),
    ]


def test_every_method_with_a_name_has_numbers() -> None:
    assert {name for one in cells() for name in one.published} == set(METHODS)
